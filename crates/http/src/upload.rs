//! Films that are put and deleted: `PUT` and `DELETE` of `/TITLE/file`.
//!
//! Off unless configured, and only with the token. A film arrives whole or in parts (`Content-Range`);
//! what has come of it is kept for an hour when the connection breaks. It takes its name only when
//! all of it is on the disk and it is a film: whoever looks sees the old film, or the new one.
//!
//! | file | what lives there |
//! |---|---|
//! | `part.rs` | which part of a film a request brings |
//! | `receive.rs` | a body becomes blocks on the disk |
//! | `shelve.rs` | a whole file becomes a film of the catalogue; films are taken away |

mod part;
mod receive;
mod shelve;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::http::{Method, StatusCode, header, request::Parts};
use hyper::body::Incoming;
use reelway_catalogue::{Intake, IntakeError, Place};
use reelway_clock::Monotonic;
use reelway_store::Draft;
use reelway_supervise as supervise;
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::answer::{self, Answer};
use crate::app::App;
use crate::conditional;
use crate::guard;
use part::Part;

/// Uploads at once, under way or interrupted.
const MOST: usize = 8;
/// How long an interrupted upload can be resumed.
const KEPT: Duration = Duration::from_secs(3600);
/// Blocks in which drafts are written.
const BLOCK: u32 = 1 << 20;

/// What cannot be done, as its answer.
type Refused = Box<Answer>;

/// Uploads under way, by the file each is to become.
#[derive(Default)]
pub(crate) struct Uploads(Mutex<HashMap<PathBuf, Slot>>);

enum Slot {
    /// Somebody sends.
    Busy,
    /// Interrupted.
    Kept { draft: Draft, since: Monotonic },
}

impl Uploads {
    fn slots(&self) -> MutexGuard<'_, HashMap<PathBuf, Slot>> {
        supervise::whole(self.0.lock())
    }

    /// Gives up what nobody went on with.
    fn expire(&self) {
        let now = reelway_clock::now();
        let expired =
            |slot: &Slot| matches!(slot, Slot::Kept { since, .. } if now.since(*since) > KEPT);
        self.slots().retain(|_, slot| !expired(slot));
    }

    /// Takes the turn to write `path`, and what has come of it.
    fn take(self: &Arc<Self>, path: &Path) -> Result<Turn, Refused> {
        self.expire();
        let mut slots = self.slots();
        let kept = match slots.get(path) {
            Some(Slot::Busy) => {
                return Err(refuse(
                    StatusCode::CONFLICT,
                    "this film is being uploaded already; if that upload is interrupted, it can be resumed",
                ));
            }
            None if slots.len() >= MOST => {
                let words = "too many uploads are in progress; try again later";
                let mut answer = refuse(StatusCode::SERVICE_UNAVAILABLE, words);
                answer::retry_after(&mut answer, Duration::from_secs(60));
                return Err(answer);
            }
            _ => slots.insert(path.to_owned(), Slot::Busy),
        };
        let kept = match kept {
            Some(Slot::Kept { draft, .. }) => Some(draft),
            _ => None,
        };
        Ok(Turn {
            uploads: Arc::clone(self),
            path: path.to_owned(),
            draft: kept,
        })
    }
}

/// The turn to write a film. What is in `draft` when it is dropped can be resumed.
struct Turn {
    uploads: Arc<Uploads>,
    path: PathBuf,
    draft: Option<Draft>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut slots = self.uploads.slots();
        match self.draft.take() {
            Some(draft) => {
                let since = reelway_clock::now();
                slots.insert(self.path.clone(), Slot::Kept { draft, since });
            }
            None => {
                slots.remove(&self.path);
            }
        }
    }
}

/// Gives up interrupted uploads that nobody goes on with.
pub(crate) async fn expire(app: Arc<App>) {
    loop {
        tokio::time::sleep(Duration::from_secs(60)).await;
        app.uploads.expire();
    }
}

/// Cleans up what a server that died left behind. Reads the film directories.
pub(crate) fn clean_up(intake: &dyn Intake) {
    for folder in intake.folders() {
        let path = folder.path();
        let removed = match folder.open() {
            Ok(folder) => reelway_store::remove_abandoned_drafts(&folder),
            // Behind a link nothing was put, so nothing was left.
            Err(IntakeError::Link { .. }) => continue,
            Err(error) => {
                tracing::warn!("unfinished uploads cannot be removed: {error}");
                continue;
            }
        };
        match removed {
            Ok(0) => {}
            Ok(count) => {
                tracing::info!("{}: removed {count} unfinished uploads", path.display());
            }
            Err(error) => tracing::warn!(
                "{}: unfinished uploads cannot be removed: {error}",
                path.display()
            ),
        }
    }
}

/// Answers `PUT` and `DELETE` of a film's file.
pub(crate) async fn answer(app: &Arc<App>, title: &str, request: &Parts, body: Incoming) -> Answer {
    if let Err(refused) = check(app, request) {
        receive::discard(body);
        return *refused;
    }
    let answered = match request.method {
        Method::DELETE => shelve::delete(app, title, request).await,
        _ => put(app, title, request, body).await,
    };
    answered.unwrap_or_else(|refused| *refused)
}

fn check(app: &App, request: &Parts) -> Result<(), Refused> {
    if !app.config.uploads || app.catalogue.intake().is_none() {
        let words = "films only allow GET and HEAD; see `http.uploads` in the configuration";
        let mut answer = refuse(StatusCode::METHOD_NOT_ALLOWED, words);
        answer::set(&mut answer, header::ALLOW, "GET, HEAD, OPTIONS");
        return Err(answer);
    }
    guard::check_change(&app.config, request).map_err(|(status, words)| refuse(status, words))?;
    if app.sessions.is_draining() {
        return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, "stopping"));
    }
    Ok(())
}

async fn put(
    app: &Arc<App>,
    title: &str,
    request: &Parts,
    body: Incoming,
) -> Result<Answer, Refused> {
    let prepared = prepare(app, title, request).await;
    let (part, place, turn) = match prepared {
        Ok(prepared) => prepared,
        Err(refused) => {
            receive::discard(body);
            return Err(refused);
        }
    };
    if let Part::Question { len } = part {
        return Ok(progress(StatusCode::ACCEPTED, turn.draft.as_ref(), len));
    }
    let (app, title) = (Arc::clone(app), title.to_owned());
    // A task of its own: when the connection breaks, this goes on to keep what has come.
    let upload = tokio::spawn(async move { upload(&app, &title, part, place, turn, body).await });
    upload
        .await
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

/// Everything that can be said before a byte of the body is read.
async fn prepare(
    app: &Arc<App>,
    title: &str,
    request: &Parts,
) -> Result<(Part, Place, Turn), Refused> {
    let part = part::of(&request.headers)?;
    if part.len() > app.config.max_upload {
        let words = format!(
            "a film may have at most {} bytes (`http.max_upload`), not {}",
            app.config.max_upload,
            part.len()
        );
        return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, words));
    }
    let place = shelve::place(app, title).await?;
    conditional::allows_change(
        &request.headers,
        place.present.map(|file| app.films.etag(&file)).as_deref(),
    )
    .map_err(|words| refuse(StatusCode::PRECONDITION_FAILED, words))?;
    let turn = app.uploads.take(&place.path())?;
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

/// How far an upload is: `Range` and the numbers.
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

async fn upload(
    app: &Arc<App>,
    title: &str,
    part: Part,
    place: Place,
    mut turn: Turn,
    body: Incoming,
) -> Result<Answer, Refused> {
    let draft = match (turn.draft.take(), part.start()) {
        (Some(draft), Some(1..)) => draft,
        _ => begin(&place, part.len()).await?,
    };
    let (draft, outcome) = receive::receive(draft, body).await;
    match outcome {
        Ok(()) if draft.received() == draft.len() => shelve::shelve(app, title, place, draft).await,
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

/// A new draft.
async fn begin(place: &Place, len: u64) -> Result<Draft, Refused> {
    let place = place.clone();
    blocking(move || {
        let folder = place.folder.make().map_err(intake_error)?;
        Draft::create_in(folder, &place.name, len, BLOCK)
            .map_err(|error| disk_error(&place.path(), &error))
    })
    .await
}

/// Runs what waits for a disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

fn refuse(status: StatusCode, words: impl std::fmt::Display) -> Refused {
    Box::new(answer::error(status, words))
}

fn intake_error(error: IntakeError) -> Refused {
    match &error {
        IntakeError::Title { .. } => refuse(StatusCode::BAD_REQUEST, error),
        IntakeError::Taken { .. } => refuse(StatusCode::CONFLICT, error),
        IntakeError::Link { .. } | IntakeError::NoFolder => refuse(StatusCode::FORBIDDEN, error),
        IntakeError::Io { path, error } => disk_error(path, error),
    }
}

/// What the disk has against it.
fn disk_error(path: &Path, error: &io::Error) -> Refused {
    use io::ErrorKind;
    let path = path.display();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => refuse(
            StatusCode::INSUFFICIENT_STORAGE,
            format!("{path}: there is not enough space on the disk; delete films or add a disk"),
        ),
        ErrorKind::FileTooLarge => refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("{path}: the file is too large for the file system"),
        ),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => refuse(
            StatusCode::FORBIDDEN,
            format!("{path}: the server may not write there: {error}"),
        ),
        ErrorKind::AlreadyExists => refuse(
            StatusCode::CONFLICT,
            format!("{path}: another file has this name by now"),
        ),
        _ => {
            tracing::warn!("{path}: {error}");
            refuse(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("{path}: {error}"),
            )
        }
    }
}
