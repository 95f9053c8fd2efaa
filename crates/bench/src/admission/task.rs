//! The tasks of this experiment's processes.

use serde::{Deserialize, Serialize};

use super::{storm, watch};

/// The task of a process of this experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// A storm of newcomers.
    Storm(storm::Task),
    /// Watching the server's admission.
    Watch(watch::Task),
}
