//! A whole file becomes a film of the catalogue; films are taken away.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{StatusCode, header, request::Parts};
use reelway_catalogue::{IntakeError, Place, State};
use reelway_store::Draft;
use reelway_sys::FileIdentity;
use serde_json::json;

use super::{Refused, blocking, disk_error, intake_error, refuse};
use crate::answer::{self, Answer};
use crate::app::App;
use crate::conditional;
use crate::route;

/// How long to wait for the catalogue to notice.
const NOTICED: Duration = Duration::from_secs(5);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(20);

/// The file of a title.
pub(super) async fn place(app: &Arc<App>, title: &str) -> Result<Place, Refused> {
    let (app, title) = (Arc::clone(app), title.to_owned());
    blocking(move || match app.catalogue.intake() {
        Some(intake) => intake.place(&title).map_err(intake_error),
        None => Err(intake_error(IntakeError::NoFolder)),
    })
    .await
}

/// Judges a whole file, and gives it its name.
pub(super) async fn shelve(
    app: &Arc<App>,
    title: &str,
    place: Place,
    mut draft: Draft,
) -> Result<Answer, Refused> {
    let len = draft.len();
    let replaces = place.present;
    let work = {
        let (app, title) = (Arc::clone(app), title.to_owned());
        move || -> Result<FileIdentity, Refused> {
            let path = &place.path();
            let file = draft.complete().map_err(|error| disk_error(path, &error))?;
            let intake = app.catalogue.intake();
            let intake = intake.ok_or_else(|| intake_error(IntakeError::NoFolder))?;
            let identity = intake.judge(&title, file, &place).map_err(|error| {
                tracing::info!(%title, "the upload is not a film: {}", error.reason());
                refuse(StatusCode::UNPROCESSABLE_ENTITY, error.reason())
            })?;
            // Where that folder's name leads elsewhere by now, the film would not be found there.
            let folder = place.folder.open().map_err(intake_error)?;
            if !folder
                .is_same_as(draft.folder())
                .map_err(|error| disk_error(path, &error))?
            {
                let words = "its folder was moved or replaced during the upload; put it again";
                return Err(refuse(StatusCode::CONFLICT, words));
            }
            draft
                .publish(place.present.is_some())
                .map_err(|error| disk_error(path, &error))?;
            // After the catalogue looked again nobody begins the old one.
            intake.look_again();
            if let Some(old) = place.present {
                app.store.forget(old);
            }
            Ok(identity)
        }
    };
    let identity = blocking(work).await?;
    wait_until(|| {
        let entry = app.catalogue.entry(title);
        entry.is_some_and(|entry| {
            entry.identity == identity && !matches!(entry.state, State::Indexing)
        })
    })
    .await;
    if let Some(old) = replaces {
        // What was read of it meanwhile.
        app.films.forget(title, &old);
        app.store.forget(old);
    }
    tracing::info!(%title, bytes = len, replaced = replaces.is_some(), "film uploaded");
    let address = format!("/{}/file", route::encode(title));
    let status = match replaces {
        Some(_) => StatusCode::OK,
        None => StatusCode::CREATED,
    };
    let value = json!({ "title": title, "bytes": len, "replaced": replaces.is_some() });
    let mut answer = answer::with(status, "application/json", value.to_string());
    answer::set(&mut answer, header::LOCATION, &address);
    answer::set(&mut answer, header::ETAG, &app.films.etag(&identity));
    Ok(answer)
}

/// `DELETE`: takes a film away.
pub(super) async fn delete(
    app: &Arc<App>,
    title: &str,
    request: &Parts,
) -> Result<Answer, Refused> {
    let entry = app.catalogue.entry(title).ok_or_else(|| {
        refuse(
            StatusCode::NOT_FOUND,
            format!("there is no film '{title}' (names are case-sensitive)"),
        )
    })?;
    let intake = app.catalogue.intake();
    let Some(place) = intake.and_then(|intake| intake.present(title)) else {
        let words = format!("'{title}' is a remote film: delete it at its origin");
        return Err(refuse(StatusCode::CONFLICT, words));
    };
    conditional::allows_change(&request.headers, Some(&app.films.etag(&entry.identity)))
        .map_err(|words| refuse(StatusCode::PRECONDITION_FAILED, words))?;
    // Nobody puts it meanwhile.
    let _turn = app.uploads.take(&place.path())?;
    let viewers = app
        .sessions
        .list()
        .iter()
        .filter(|session| session.title == title)
        .count();
    let work = {
        let (app, entry) = (Arc::clone(app), Arc::clone(&entry));
        move || {
            let disk = |error| disk_error(&entry.path, &error);
            let folder = place.folder.open().map_err(intake_error)?;
            if folder.identity(&place.name).map_err(disk)? != Some(entry.identity) {
                let words = "the file has just changed; check it and try again";
                return Err(refuse(StatusCode::CONFLICT, words));
            }
            folder.remove(&place.name).map_err(disk)?;
            folder.sync().map_err(disk)?;
            if let Some(intake) = app.catalogue.intake() {
                intake.look_again();
            }
            app.store.forget(entry.identity);
            Ok(())
        }
    };
    blocking(work).await?;
    let gone = |app: &App| {
        let now = app.catalogue.entry(title);
        now.is_none_or(|now| now.identity != entry.identity)
    };
    wait_until(|| gone(app)).await;
    app.films.forget(title, &entry.identity);
    tracing::info!(%title, viewers, "film deleted");
    let value = json!({ "title": title, "bytes": entry.identity.size, "viewers": viewers });
    Ok(answer::with(
        StatusCode::OK,
        "application/json",
        value.to_string(),
    ))
}

async fn wait_until(noticed: impl Fn() -> bool) {
    let waiting = async {
        while !noticed() {
            tokio::time::sleep(LOOK).await;
        }
    };
    // It will be noticed later; what was asked for has been done.
    let _ = tokio::time::timeout(NOTICED, waiting).await;
}
