//! Refusals to players, as answers.

use std::time::Duration;

use axum::http::{StatusCode, request::Parts};
use reelway_catalogue::CatalogueError;
use reelway_library::OpenError;
use reelway_package::NoSlices;
use reelway_store::ReadError;
use reelway_viewing::Denied as NoViewer;

use crate::answer::{self, Answer};
use crate::films::{Show, ShowError};
use crate::flow::MediaError;
use crate::route::query;
use crate::viewers::Denied;

/// An answer, or the one that refuses the request.
pub(super) type Answered = Result<Answer, Box<Answer>>;

/// Makes the answer for a missing part of a film.
pub(super) fn not_here(words: String) -> Box<Answer> {
    Box::new(answer::error(StatusCode::NOT_FOUND, words))
}

/// Makes the answer for a missing track.
pub(super) fn no_track(title: &str, id: u32) -> Box<Answer> {
    not_here(format!("film '{title}' has no track {id}"))
}

/// Refuses segments of a film that was replaced (410), so that they are not mixed with the new
/// film's.
pub(super) fn check_edition(show: &Show, request: &Parts) -> Result<(), Box<Answer>> {
    match query(request, "v") {
        Some(edition) if edition != show.edition => {
            let words = format!(
                "film '{}' was replaced since its playlist was fetched; open it again",
                show.film.name
            );
            Err(Box::new(answer::error(StatusCode::GONE, words)))
        }
        _ => Ok(()),
    }
}

/// Makes the answer for a viewer who may not begin or continue.
pub(super) fn denied(denied: Denied) -> Box<Answer> {
    Box::new(match denied {
        Denied::Refused(refusal) => {
            let status = match refusal.retry_after {
                Some(_) => StatusCode::SERVICE_UNAVAILABLE,
                None => StatusCode::FORBIDDEN,
            };
            let mut answer = answer::error(status, refusal.reason);
            if let Some(after) = refusal.retry_after {
                answer::retry_after(&mut answer, after);
            }
            answer
        }
        Denied::NoViewer(NoViewer::Forbidden(words)) => answer::error(StatusCode::FORBIDDEN, words),
        Denied::NoViewer(NoViewer::Gone(words)) => answer::error(StatusCode::GONE, words),
    })
}

/// Makes the answer for a film that cannot be served.
pub(super) fn no_film(error: &ShowError) -> Answer {
    use CatalogueError::{NotReady, Unknown, Unplayable};
    use OpenError::{Catalogue, Fault, Open, Replaced};
    let (status, later) = match error {
        ShowError::NoSlices(_, NoSlices::Samples(_)) => (StatusCode::INTERNAL_SERVER_ERROR, None),
        ShowError::NoSlices(..) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, None),
        ShowError::Package(..) => (StatusCode::UNPROCESSABLE_ENTITY, None),
        ShowError::Open(error) => match error {
            Catalogue(Unknown(_)) => (StatusCode::NOT_FOUND, None),
            Catalogue(NotReady { .. }) | Replaced(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                Some(Duration::from_secs(5)),
            ),
            Catalogue(Unplayable { .. }) => (StatusCode::UNPROCESSABLE_ENTITY, None),
            Open(..) | Fault(..) => (StatusCode::INTERNAL_SERVER_ERROR, None),
        },
    };
    let mut answer = answer::error(status, error);
    if let Some(later) = later {
        answer::retry_after(&mut answer, later);
    }
    answer
}

/// Makes the answer for media that cannot be sent.
pub(super) fn no_media(title: &str, error: &MediaError) -> Box<Answer> {
    let (status, words) = match error {
        MediaError::Ended => (
            StatusCode::GONE,
            "this viewer's session was ended".to_owned(),
        ),
        MediaError::Read(ReadError::Changed { .. }) => (
            StatusCode::GONE,
            format!("film '{title}' was replaced while it was watched; open it again"),
        ),
        error => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("film '{title}' cannot be read: {error}"),
        ),
    };
    Box::new(answer::error(status, words))
}
