//! Everything that the experiment measures.

use serde::Serialize;

use super::{cost, drift, error, lab, programs, steps};

/// Everything measured.
#[derive(Debug, Serialize)]
pub struct Results {
    /// From where the clock of this process comes.
    pub source: String,
    /// Costs in a C program, ordered.
    pub ordered: cost::Costs,
    /// Costs in a C program, unordered.
    pub unordered: cost::Costs,
    /// Costs of library calls.
    pub library: cost::Costs,
    /// Backward steps.
    pub steps: steps::Steps,
    /// Distance from the kernel's clock.
    pub error: error::Errors,
    /// Drift over minutes.
    pub drift: drift::Drift,
    /// Real programs.
    pub programs: Vec<programs::Program>,
    /// In the lab.
    pub lab: Vec<lab::Source>,
    /// While the kernel's clock is slewed, in the lab.
    pub slewed: Vec<lab::Slewed>,
}
