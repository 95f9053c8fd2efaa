//! Unfinished uploads of a server that died.

use reelway_catalogue::{Intake, IntakeError};

/// Cleans up what a server that died left behind. Reads the film directories.
pub(crate) fn clean_up(intake: &dyn Intake) {
    for folder in intake.folders() {
        let path = folder.path();
        let removed = match folder.open() {
            Ok(folder) => reelway_store::remove_abandoned_drafts(&folder),
            // Behind a link nothing was put, so nothing was left.
            Err(IntakeError::Link { .. }) => continue,
            Err(error) => {
                tracing::warn!("unfinished uploads cannot be removed: {error}");
                continue;
            }
        };
        match removed {
            Ok(0) => {}
            Ok(count) => {
                tracing::info!("{}: removed {count} unfinished uploads", path.display());
            }
            Err(error) => tracing::warn!(
                "{}: unfinished uploads cannot be removed: {error}",
                path.display()
            ),
        }
    }
}
