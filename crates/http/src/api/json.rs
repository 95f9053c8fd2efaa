//! JSON values.

use serde::Serialize;

/// Serialises a value to JSON.
pub(super) fn to_text(value: &impl Serialize) -> String {
    // The API's own types have no map keys or numbers that JSON cannot represent.
    let text = serde_json::to_string(value).unwrap_or_else(|_| "null".into());
    reelway_clock::reactor::worked_on(text.len());
    text
}

/// Converts nanoseconds to seconds, rounded to milliseconds.
pub(super) fn seconds(nanos: i64) -> f64 {
    (nanos as f64 / 1e6).round() / 1e3
}
