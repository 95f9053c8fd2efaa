//! Removal of unfinished uploads of a server that crashed.

use reelway_catalogue::{Intake, IntakeError};

/// Removes unfinished uploads of a server that crashed. Reads the film directories.
pub(crate) fn clean_up(intake: &dyn Intake) {
    for folder in intake.folders() {
        let path = folder.path();
        let removed = match folder.open() {
            Ok(folder) => reelway_store::remove_abandoned_drafts(&folder),
            // Uploads are never written behind links, so none were left there.
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
