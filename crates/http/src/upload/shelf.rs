//! Turns a complete file into a film of the catalogue; deletes films.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{StatusCode, header, request::Parts};
use reelway_catalogue::{Catalogue, Destination, IntakeError, State};
use reelway_session::Sessions;
use reelway_store::Draft;
use reelway_sys::FileIdentity;
use serde_json::json;

use super::refused::{Refused, disk_error, intake_error, refuse};
use super::slots::Uploads;
use crate::answer::{self, Answer};
use crate::blocking::blocking;
use crate::conditional;
use crate::films::Films;
use crate::route;

/// How long to wait for the catalogue to notice a change.
const NOTICED: Duration = Duration::from_secs(5);
/// Interval between checks whether it has.
const LOOK: Duration = Duration::from_millis(20);

/// Adds uploaded films to the catalogue, and deletes films.
pub(crate) struct Shelf {
    catalogue: Arc<dyn Catalogue>,
    films: Arc<Films>,
    sessions: Sessions,
}

impl Shelf {
    pub fn new(catalogue: Arc<dyn Catalogue>, films: Arc<Films>, sessions: Sessions) -> Shelf {
        Shelf {
            catalogue,
            films,
            sessions,
        }
    }

    /// Whether there is a directory for uploaded films.
    pub fn takes_films(&self) -> bool {
        self.catalogue.intake().is_some()
    }

    /// Returns the entity tag of the film in a place.
    pub fn etag(&self, place: &Destination) -> Option<String> {
        place.present.map(|file| self.films.etag(&file))
    }

    /// Returns the place of a title's file.
    pub async fn place(&self, title: &str) -> Result<Destination, Refused> {
        let (catalogue, title) = (self.catalogue.clone(), title.to_owned());
        blocking(move || match catalogue.intake() {
            Some(intake) => intake.place(&title).map_err(intake_error),
            None => Err(intake_error(IntakeError::NoFolder)),
        })
        .await
    }

    /// Judges a complete file, and gives it its name.
    pub async fn shelve(
        &self,
        title: &str,
        place: Destination,
        mut draft: Draft,
    ) -> Result<Answer, Refused> {
        let len = draft.len();
        let replaces = place.present;
        let work = {
            let (catalogue, films) = (self.catalogue.clone(), self.films.clone());
            let title = title.to_owned();
            move || -> Result<FileIdentity, Refused> {
                let path = &place.path();
                let file = draft.complete().map_err(|error| disk_error(path, &error))?;
                let intake = catalogue.intake();
                let intake = intake.ok_or_else(|| intake_error(IntakeError::NoFolder))?;
                let identity = intake.judge(&title, file, &place).map_err(|error| {
                    tracing::info!(%title, "the upload is not a film: {}", error.reason());
                    refuse(StatusCode::UNPROCESSABLE_ENTITY, error.reason())
                })?;
                // If the folder's name leads elsewhere by now, the film would not be found there.
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
                // Once the catalogue has looked again, no new session begins with the old film.
                intake.look_again();
                if let Some(old) = place.present {
                    films.forget_blocks(old);
                }
                Ok(identity)
            }
        };
        let identity = blocking(work).await?;
        wait_until(|| {
            let entry = self.catalogue.entry(title);
            entry.is_some_and(|entry| {
                entry.identity == identity && !matches!(entry.state, State::Indexing)
            })
        })
        .await;
        if let Some(old) = replaces {
            // Blocks that were read of it meanwhile.
            self.films.forget(title, &old);
            self.films.forget_blocks(old);
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
        answer::set(&mut answer, header::ETAG, &self.films.etag(&identity));
        Ok(answer)
    }

    /// `DELETE`: deletes a film.
    pub async fn delete(
        &self,
        title: &str,
        request: &Parts,
        uploads: &Arc<Uploads>,
    ) -> Result<Answer, Refused> {
        let entry = self.catalogue.entry(title).ok_or_else(|| {
            refuse(
                StatusCode::NOT_FOUND,
                format!("there is no film '{title}' (names are case-sensitive)"),
            )
        })?;
        let intake = self.catalogue.intake();
        let Some(place) = intake.and_then(|intake| intake.present(title)) else {
            let words = format!("'{title}' is a remote film: delete it at its origin");
            return Err(refuse(StatusCode::CONFLICT, words));
        };
        conditional::allows_change(&request.headers, Some(&self.films.etag(&entry.identity)))
            .map_err(|words| refuse(StatusCode::PRECONDITION_FAILED, words))?;
        place.check_is_one_file().map_err(intake_error)?;
        // Nobody can upload it meanwhile.
        let _turn = uploads.take(&place.path())?;
        let viewers = self
            .sessions
            .list()
            .iter()
            .filter(|session| session.title == title)
            .count();
        let work = {
            let (catalogue, films) = (self.catalogue.clone(), self.films.clone());
            let entry = Arc::clone(&entry);
            move || {
                let disk = |error| disk_error(&entry.path, &error);
                let folder = place.folder.open().map_err(intake_error)?;
                if folder.identity(&place.name).map_err(disk)? != Some(entry.identity) {
                    let words = "the file has just changed; check it and try again";
                    return Err(refuse(StatusCode::CONFLICT, words));
                }
                folder.remove(&place.name).map_err(disk)?;
                folder.sync().map_err(disk)?;
                if let Some(intake) = catalogue.intake() {
                    intake.look_again();
                }
                films.forget_blocks(entry.identity);
                Ok(())
            }
        };
        blocking(work).await?;
        wait_until(|| {
            let now = self.catalogue.entry(title);
            now.is_none_or(|now| now.identity != entry.identity)
        })
        .await;
        self.films.forget(title, &entry.identity);
        tracing::info!(%title, viewers, "film deleted");
        let value = json!({ "title": title, "bytes": entry.identity.size, "viewers": viewers });
        Ok(answer::with(
            StatusCode::OK,
            "application/json",
            value.to_string(),
        ))
    }
}

async fn wait_until(noticed: impl Fn() -> bool) {
    let waiting = async {
        while !noticed() {
            tokio::time::sleep(LOOK).await;
        }
    };
    // The change will be noticed later; the request itself has been carried out.
    let _ = tokio::time::timeout(NOTICED, waiting).await;
}
