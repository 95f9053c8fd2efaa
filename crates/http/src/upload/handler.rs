//! `PUT` and `DELETE` of a film's file.

use std::sync::Arc;

use axum::http::{Method, StatusCode, header, request::Parts};
use hyper::body::Incoming;
use reelway_catalogue::Destination;
use reelway_session::Sessions;
use reelway_store::Draft;
use serde_json::json;

use super::part::{self, Part};
use super::receive;
use super::refused::{Refused, disk_error, intake_error, refuse};
use super::shelf::Shelf;
use super::slots::{Turn, Uploads};
use crate::answer::{self, Answer};
use crate::blocking::blocking;
use crate::conditional;
use crate::config::HttpConfig;
use crate::guard;

/// Size of the blocks in which drafts are written.
const BLOCK: u32 = 1 << 20;

/// Handles uploads and deletions of films.
pub(crate) struct Upload {
    config: Arc<HttpConfig>,
    sessions: Sessions,
    uploads: Arc<Uploads>,
    shelf: Shelf,
}

impl Upload {
    pub fn new(
        config: Arc<HttpConfig>,
        sessions: Sessions,
        uploads: Arc<Uploads>,
        shelf: Shelf,
    ) -> Upload {
        Upload {
            config,
            sessions,
            uploads,
            shelf,
        }
    }

    /// Answers `PUT` and `DELETE` of a film's file.
    pub async fn answer(self: &Arc<Self>, title: &str, request: &Parts, body: Incoming) -> Answer {
        if let Err(refused) = self.check(request) {
            receive::discard(body);
            return *refused;
        }
        let answered = match request.method {
            Method::DELETE => self.shelf.delete(title, request, &self.uploads).await,
            _ => self.put(title, request, body).await,
        };
        answered.unwrap_or_else(|refused| *refused)
    }

    fn check(&self, request: &Parts) -> Result<(), Refused> {
        if !self.config.uploads || !self.shelf.takes_films() {
            let words = "films only allow GET and HEAD; see `http.uploads` in the configuration";
            let mut answer = refuse(StatusCode::METHOD_NOT_ALLOWED, words);
            answer::set(&mut answer, header::ALLOW, "GET, HEAD, OPTIONS");
            return Err(answer);
        }
        guard::check_change(&self.config, request)
            .map_err(|(status, words)| refuse(status, words))?;
        if self.sessions.is_draining() {
            return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, "stopping"));
        }
        Ok(())
    }

    async fn put(
        self: &Arc<Self>,
        title: &str,
        request: &Parts,
        body: Incoming,
    ) -> Result<Answer, Refused> {
        let (part, place, turn) = match self.prepare(title, request).await {
            Ok(prepared) => prepared,
            Err(refused) => {
                receive::discard(body);
                return Err(refused);
            }
        };
        if let Part::Question { len } = part {
            return Ok(progress(StatusCode::ACCEPTED, turn.draft.as_ref(), len));
        }
        let (upload, title) = (Arc::clone(self), title.to_owned());
        // A task of its own, so that received data is kept if the connection breaks.
        let receiving =
            tokio::spawn(async move { upload.receive(&title, part, place, turn, body).await });
        receiving
            .await
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    /// Checks everything that can be checked before the body is read.
    async fn prepare(
        &self,
        title: &str,
        request: &Parts,
    ) -> Result<(Part, Destination, Turn), Refused> {
        let part = part::of(&request.headers)?;
        if part.len() > self.config.max_upload {
            let words = format!(
                "a film may have at most {} bytes (`http.max_upload`), not {}",
                self.config.max_upload,
                part.len()
            );
            return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, words));
        }
        let place = self.shelf.place(title).await?;
        conditional::allows_change(&request.headers, self.shelf.etag(&place).as_deref())
            .map_err(|words| refuse(StatusCode::PRECONDITION_FAILED, words))?;
        let turn = self.uploads.take(&place.path())?;
        if let Part::Piece {
            start: 1.., len, ..
        } = part
        {
            let goes_on = turn
                .draft
                .as_ref()
                .is_some_and(|draft| draft.len() == len && Some(draft.received()) == part.start());
            if !goes_on {
                return Err(Box::new(progress(
                    StatusCode::CONFLICT,
                    turn.draft.as_ref(),
                    len,
                )));
            }
        }
        Ok((part, place, turn))
    }

    /// Receives the part of a film that a request carries.
    async fn receive(
        &self,
        title: &str,
        part: Part,
        place: Destination,
        mut turn: Turn,
        body: Incoming,
    ) -> Result<Answer, Refused> {
        let draft = match (turn.draft.take(), part.start()) {
            (Some(draft), Some(1..)) => draft,
            _ => begin(&place, part.len()).await?,
        };
        let (draft, outcome) = receive::receive(draft, body).await;
        match outcome {
            Ok(()) if draft.received() == draft.len() => {
                self.shelf.shelve(title, place, draft).await
            }
            Ok(()) => {
                let answer = progress(StatusCode::ACCEPTED, Some(&draft), part.len());
                turn.draft = Some(draft);
                Ok(answer)
            }
            Err(trouble) => {
                tracing::info!(%title, "an upload ended after {} of {} bytes: {trouble}", draft.received(), draft.len());
                if trouble.may_be_resumed() {
                    turn.draft = Some(draft);
                }
                Err(trouble.answer(&place.path()))
            }
        }
    }
}

/// Reports the progress of an upload: `Range` and the numbers.
fn progress(status: StatusCode, draft: Option<&Draft>, len: u64) -> Answer {
    let received = draft.map_or(0, Draft::received);
    let len = draft.map_or(len, Draft::len);
    let value = json!({ "received": received, "bytes": len });
    let mut answer = answer::with(status, "application/json", value.to_string());
    if received > 0 {
        let range = format!("bytes=0-{}", received - 1);
        answer::set(&mut answer, header::RANGE, &range);
    }
    answer::set(&mut answer, header::CACHE_CONTROL, "no-store");
    answer
}

/// Creates a draft.
async fn begin(place: &Destination, len: u64) -> Result<Draft, Refused> {
    let place = place.clone();
    blocking(move || {
        let folder = place.folder.make().map_err(intake_error)?;
        Draft::create_in(folder, &place.name, len, BLOCK)
            .map_err(|error| disk_error(&place.path(), &error))
    })
    .await
}
