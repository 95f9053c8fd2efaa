//! Everything that the experiment measures.

use serde::Serialize;

use super::{count, film, toy};

/// Everything measured.
#[derive(Debug, Default, Serialize)]
pub struct Results {
    /// What else the machine did.
    pub disturbance: String,
    /// The paper's sessions.
    pub sessions: Vec<toy::Row>,
    /// What overloaded the machine.
    pub load: Vec<String>,
    /// System calls a packet.
    pub calls: Vec<count::Calls>,
    /// Sources that work.
    pub sources: Vec<count::Sources>,
    /// Film traffic.
    pub films: Option<film::Films>,
}
