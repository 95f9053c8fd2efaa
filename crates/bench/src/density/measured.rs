//! What was measured of a server.

use serde::Serialize;

use super::servers::Peer;
use super::trial::Trial;
use crate::stats::Spread;

/// Lateness at which a server no longer keeps up.
pub const LATE_MS: f64 = 20.0;

/// What was measured of a server.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Which.
    pub peer: Peer,
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: String,
    /// Trials at the number compared, with receivers.
    pub received: Vec<Trial>,
    /// The same with UDP dropped where it arrives.
    pub dropped: Vec<Trial>,
    /// Trials of the search.
    pub search: Vec<Trial>,
    /// The largest number that was kept up with, and the smallest that was not.
    pub most: Option<(u32, Option<u32>)>,
    /// Why it was not measured, or not to the end.
    pub trouble: Option<String>,
}

impl Measured {
    /// CPU ms a stream-second of some trials.
    pub fn cost(trials: &[Trial]) -> Option<Spread> {
        (!trials.is_empty()).then(|| Spread::of(trials.iter().map(Trial::cost).collect()))
    }
}
