//! Writes a body to blocks on the disk: while one mebibyte is written the next is received, and no
//! more than these are held.

use std::io;
use std::path::Path;
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use reelway_catalogue::judge_beginning;
use reelway_session::in_patience;
use reelway_store::Draft;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::refused::{Refused, disk_error, refuse};

/// Number of bytes written to the disk at once.
const GATHERED: usize = 1 << 20;
/// Number of bytes by which a film is first judged.
const BEGINNING: usize = 64 << 10;
/// How long a sender may be silent.
const SILENCE: Duration = Duration::from_secs(60);
/// Maximum number of bytes read of an unwanted body, so that its sender gets to read the answer.
const DISCARDED: usize = 16 << 20;

/// Why an upload ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReceiveError {
    #[error("the connection broke: {0}")]
    Lost(hyper::Error),
    #[error("nothing came for {} s", SILENCE.as_secs())]
    Silent,
    #[error("it cannot be written: {0}")]
    Disk(io::Error),
    #[error("{0}")]
    NoFilm(String),
}

impl ReceiveError {
    /// Whether the received data is of use.
    pub fn may_be_resumed(&self) -> bool {
        matches!(self, ReceiveError::Lost(_) | ReceiveError::Silent)
    }

    pub fn answer(&self, path: &Path) -> Refused {
        match self {
            ReceiveError::Lost(_) | ReceiveError::Silent => {
                refuse(StatusCode::REQUEST_TIMEOUT, self)
            }
            ReceiveError::Disk(error) => disk_error(path, error),
            ReceiveError::NoFilm(_) => refuse(StatusCode::UNPROCESSABLE_ENTITY, self),
        }
    }
}

type Written = (Draft, Result<(), ReceiveError>);

/// Appends a body to a draft.
pub(super) async fn receive(draft: Draft, mut body: Incoming) -> Written {
    // The beginning of a file shows whether it can be a film: nobody should send gigabytes in vain.
    let (gathered, mut end) = gather(&mut body, BEGINNING).await;
    let (mut draft, mut written) = done(hand_over(draft, gathered)).await;
    let mut next = Vec::new();
    while written.is_ok() {
        // While this is written, the next bytes are received.
        let writing = hand_over(draft, std::mem::take(&mut next));
        if end.is_none() {
            (next, end) = gather(&mut body, GATHERED).await;
        }
        (draft, written) = done(writing).await;
        if next.is_empty()
            && let Some(end) = end.take()
        {
            return (draft, written.and(end));
        }
    }
    discard(body);
    (draft, written)
}

async fn done(writing: JoinHandle<Written>) -> Written {
    writing
        .await
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

/// Reads some of the body. Returns its end as well, if reached.
async fn gather(
    body: &mut Incoming,
    most: usize,
) -> (Vec<Bytes>, Option<Result<(), ReceiveError>>) {
    let mut gathered = Vec::new();
    let mut len = 0;
    while len < most {
        match in_patience(SILENCE, body.frame()).await {
            Some(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    len += data.len();
                    gathered.push(data);
                }
            }
            Some(Some(Err(error))) => return (gathered, Some(Err(ReceiveError::Lost(error)))),
            Some(None) => return (gathered, Some(Ok(()))),
            None => return (gathered, Some(Err(ReceiveError::Silent))),
        }
    }
    (gathered, None)
}

fn hand_over(mut draft: Draft, pieces: Vec<Bytes>) -> JoinHandle<Written> {
    tokio::task::spawn_blocking(move || {
        let written = write(&mut draft, &pieces);
        (draft, written)
    })
}

fn write(draft: &mut Draft, pieces: &[Bytes]) -> Result<(), ReceiveError> {
    let is_first = draft.received() == 0;
    for piece in pieces {
        draft.write(piece).map_err(ReceiveError::Disk)?;
    }
    if is_first && draft.received() > 0 {
        let read = |offset, into: &mut [u8]| draft.read_at(offset, into);
        judge_beginning(draft.len(), read)
            .map_err(|error| ReceiveError::NoFilm(error.to_string()))?;
    }
    Ok(())
}

/// Reads and discards data for a while: closing a connection while its sender still sends would
/// reset it and lose the answer.
pub(super) fn discard(mut body: Incoming) {
    tokio::spawn(timeout(Duration::from_secs(5), async move {
        let mut len = 0;
        while len < DISCARDED
            && let Some(Ok(frame)) = body.frame().await
        {
            len += frame.into_data().map_or(0, |data| data.len());
        }
    }));
}
