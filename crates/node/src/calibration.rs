//! Results of `reelway serve --calibrate`, kept in the state directory.

use std::path::{Path, PathBuf};

use anyhow::Context;
use reelway_http::Calibrated;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::config::Config;

/// File names of the report and the chart.
const CALIBRATION: &str = "calibration.json";
const CHART: &str = "calibration.svg";

/// The results of a calibration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// Time of the calibration (RFC 3339).
    pub when: String,
    /// Bytes per second that all cores together can send; `None` in a file of an older version that
    /// could not serve a single viewer.
    pub cpu: Option<u64>,
    /// Bytes per second that the disks deliver; `None` if the films are too small to measure it.
    pub disk: Option<u64>,
    /// The tries, by number of viewers.
    pub tried: Vec<Tried>,
}

/// One try.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tried {
    /// Number of viewers of 4 Mbit/s.
    pub viewers: u32,
    /// Whether the server kept up with all of them.
    pub well: bool,
    /// 99.9th percentile of their frames' lateness, ms.
    pub late_ms: f64,
}

/// Writes the report and its chart, and returns their paths.
///
/// # Errors
/// The files cannot be written.
pub fn keep(state: &Path, report: &str, chart: &str) -> anyhow::Result<[PathBuf; 2]> {
    let path = || state.display().to_string();
    std::fs::create_dir_all(state).with_context(path)?;
    let paths = [CALIBRATION, CHART].map(|name| state.join(name));
    for (path, text) in paths.iter().zip([report, chart]) {
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(paths)
}

/// Returns the stored report and chart, verbatim.
pub(crate) fn calibrated(state: &Path) -> Option<Calibrated> {
    let read = |name| std::fs::read_to_string(state.join(name)).ok();
    Some(Calibrated {
        report: read(CALIBRATION)?,
        chart: read(CHART)?,
    })
}

/// Returns the stored results, if there was a calibration here.
pub(crate) fn calibration(config: &Config) -> anyhow::Result<Option<Calibration>> {
    let path = config.state_directory()?.join(CALIBRATION);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            warn!("{}: {error}: the calibration is not used", path.display());
            return Ok(None);
        }
    };
    let read = serde_json::from_str(&text);
    read.map(Some).with_context(|| {
        format!(
            "{}: delete it, or run reelway serve --calibrate again",
            path.display()
        )
    })
}
