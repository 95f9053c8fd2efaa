//! What `reelway serve --calibrate` found here, kept in the state directory.

use std::path::{Path, PathBuf};

use anyhow::Context;
use reelway_http::Calibrated;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::config::Config;

/// Where what was found is kept.
const CALIBRATION: &str = "calibration.json";
const CHART: &str = "calibration.svg";

/// What was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// When, RFC 3339.
    pub when: String,
    /// Bytes a second that all cores together send; none in a file of an older version that could not serve a single viewer.
    pub cpu: Option<u64>,
    /// Bytes a second that the disks give; none where the films are too small to tell.
    pub disk: Option<u64>,
    /// What was tried, by viewers.
    pub tried: Vec<Tried>,
}

/// One try.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tried {
    /// Viewers of 4 Mbit/s.
    pub viewers: u32,
    /// Whether all of them were kept up with.
    pub well: bool,
    /// 99.9th percentile of their frames' lateness, ms.
    pub late_ms: f64,
}

/// Keeps what was found, and its chart. Where.
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

/// What was found here, as it was written.
pub(crate) fn calibrated(state: &Path) -> Option<Calibrated> {
    let read = |name| std::fs::read_to_string(state.join(name)).ok();
    Some(Calibrated {
        report: read(CALIBRATION)?,
        chart: read(CHART)?,
    })
}

/// What `reelway serve --calibrate` found, if it was run here.
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
