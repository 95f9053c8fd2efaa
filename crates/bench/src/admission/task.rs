//! What a process of this experiment is told to do.

use serde::{Deserialize, Serialize};

use super::{storm, watch};

/// What a process of this experiment does.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// Newcomers come.
    Storm(storm::Task),
    /// Somebody looks on.
    Watch(watch::Task),
}
