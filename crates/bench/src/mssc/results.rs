//! All results of the experiment.

use serde::Serialize;

use super::{count, film, toy};

/// All results.
#[derive(Debug, Default, Serialize)]
pub struct Results {
    /// Other load on the machine.
    pub disturbance: String,
    /// The paper's sessions.
    pub sessions: Vec<toy::Row>,
    /// The programs that overloaded the machine.
    pub load: Vec<String>,
    /// System calls per packet.
    pub calls: Vec<count::Calls>,
    /// Sources that work.
    pub sources: Vec<count::Sources>,
    /// Film traffic.
    pub films: Option<film::Films>,
}
