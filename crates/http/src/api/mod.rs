//! The control API: docs/reference/api.md, put into practice.

mod admission;
mod cache;
mod events;
mod feed;
mod films;
mod node;
mod sessions;
mod tracks;

pub(crate) use admission::{admission, calibration, calibration_chart, interface};
pub(crate) use cache::cache;
pub(crate) use events::{Events, events, tell};
pub(crate) use films::{film, films};
pub(crate) use node::node;
pub(crate) use sessions::{end_session, sessions};

use std::sync::Arc;

use axum::http::header;
use reelway_session::Protocol;
use serde::Serialize;

use crate::answer::{self, Answer};
use crate::app::App;
use crate::desk::{Asker, Text};

/// Answers with what `make` finds, as JSON that is not kept; or with what it says instead. `make` runs off the reactor,
/// and may take its time.
async fn json<T: Serialize>(
    app: &Arc<App>,
    asker: &Asker,
    make: impl FnOnce(&App) -> Result<T, Box<Answer>> + Send + 'static,
) -> Answer {
    let of = app.clone();
    let make = move || -> Result<Text, Box<Answer>> {
        Ok(Text {
            media_type: "application/json",
            text: to_text(&make(&of)?),
        })
    };
    let mut answer = app.desk.answer(asker, make).await;
    answer::set(&mut answer, header::CACHE_CONTROL, "no-store");
    answer
}

/// A value as JSON.
fn to_text(value: &impl Serialize) -> String {
    // Our own types have no map keys and no numbers that JSON cannot say.
    let text = serde_json::to_string(value).unwrap_or_else(|_| "null".into());
    reelway_clock::reactor::worked_on(text.len());
    text
}

/// The protocol of this name.
fn protocol(name: &str) -> Result<Protocol, &'static str> {
    match name {
        "rtsp/udp" => Ok(Protocol::RtspUdp),
        "rtsp/tcp" => Ok(Protocol::RtspTcp),
        "hls" => Ok(Protocol::Hls),
        "dash" => Ok(Protocol::Dash),
        "file" => Ok(Protocol::File),
        _ => Err("protocol: must be rtsp/udp, rtsp/tcp, hls, dash or file"),
    }
}

/// Nanoseconds as seconds, to the millisecond.
fn seconds(nanos: i64) -> f64 {
    (nanos as f64 / 1e6).round() / 1e3
}
