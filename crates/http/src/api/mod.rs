//! The control API: docs/reference/api.md, put into practice.

mod admission;
mod cache;
mod events;
mod films;
mod node;
mod sessions;
mod tracks;

pub(crate) use admission::{Peer, admission, calibration, calibration_chart, interface};
pub(crate) use cache::cache;
pub(crate) use events::{Events, events, tell};
pub(crate) use films::{film, films};
pub(crate) use node::node;
pub(crate) use sessions::{end_session, sessions};

use axum::http::{HeaderMap, header};
use serde::Serialize;

use crate::answer::{self, Answer};

/// A JSON answer that is not kept.
fn json(headers: &HeaderMap, value: &impl Serialize) -> Answer {
    // Our own types have no map keys and no numbers that JSON cannot say.
    let text = serde_json::to_string(value).unwrap_or_else(|_| "null".into());
    let mut answer = answer::text(headers, "application/json", text);
    answer::set(&mut answer, header::CACHE_CONTROL, "no-store");
    answer
}

/// Nanoseconds as seconds, to the millisecond.
fn seconds(nanos: i64) -> f64 {
    (nanos as f64 / 1e6).round() / 1e3
}
