//! Values as JSON.

use serde::Serialize;

/// A value as JSON.
pub(super) fn to_text(value: &impl Serialize) -> String {
    // Our own types have no map keys and no numbers that JSON cannot say.
    let text = serde_json::to_string(value).unwrap_or_else(|_| "null".into());
    reelway_clock::reactor::worked_on(text.len());
    text
}

/// Nanoseconds as seconds, to the millisecond.
pub(super) fn seconds(nanos: i64) -> f64 {
    (nanos as f64 / 1e6).round() / 1e3
}
