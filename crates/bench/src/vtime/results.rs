//! All results of the experiment.

use serde::Serialize;

use super::{cost, drift, error, lab, programs, steps};

/// All results.
#[derive(Debug, Serialize)]
pub struct Results {
    /// The time source of this process's clock.
    pub source: String,
    /// Costs in a C program, ordered.
    pub ordered: cost::Costs,
    /// Costs in a C program, unordered.
    pub unordered: cost::Costs,
    /// Costs of library calls.
    pub library: cost::Costs,
    /// Backward steps.
    pub steps: steps::Steps,
    /// Deviation from the kernel's clock.
    pub error: error::Errors,
    /// Drift over minutes.
    pub drift: drift::Drift,
    /// Real programs.
    pub programs: Vec<programs::Program>,
    /// Clock sources without a vDSO, in the lab.
    pub lab: Vec<lab::Source>,
    /// Deviation while the kernel's clock is slewed, in the lab.
    pub slewed: Vec<lab::Slewed>,
}
