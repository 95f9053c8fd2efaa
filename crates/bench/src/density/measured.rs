//! The results of a server.

use serde::Serialize;

use super::servers::Peer;
use super::trial::Trial;
use crate::stats::Spread;

/// Lateness above which a server no longer keeps up, ms.
pub const LATE_MS: f64 = 20.0;

/// The results of a server.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The server.
    pub peer: Peer,
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: String,
    /// Trials with the compared number of viewers, with receivers.
    pub received: Vec<Trial>,
    /// The same, with UDP dropped on arrival.
    pub dropped: Vec<Trial>,
    /// Trials of the search.
    pub search: Vec<Trial>,
    /// The largest number of viewers that it kept up with, and the smallest that it did not.
    pub most: Option<(u32, Option<u32>)>,
    /// Why it was not measured, or not completely.
    pub trouble: Option<String>,
}

impl Measured {
    /// Returns the CPU time per stream-second of some trials, ms; `None` without trials.
    pub fn cost(trials: &[Trial]) -> Option<Spread> {
        (!trials.is_empty()).then(|| Spread::of(trials.iter().map(Trial::cost).collect()))
    }
}
