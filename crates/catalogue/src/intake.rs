//! Where films are put and taken away: which file a title is, or would be.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;

use reelway_sys::FileIdentity;
use reelway_sys::parts;

use crate::below::Below;
use crate::indexing::IndexingError;
use crate::intake_error::IntakeError;

/// Where films come and go by request. What lies elsewhere is not among it.
pub trait Intake: Send + Sync {
    /// The file of a film that is there and can be taken away.
    fn present(&self, title: &str) -> Option<Destination>;

    /// The file of a title, which may be put there. Reads the file system.
    fn place(&self, title: &str) -> Result<Destination, IntakeError>;

    /// Whether a whole file, to become `place`, is a film; keeps what was learnt of it. Reads it.
    fn judge(
        &self,
        title: &str,
        file: &File,
        place: &Destination,
    ) -> Result<FileIdentity, IndexingError>;

    /// Something was put or taken away: look again, soon.
    fn look_again(&self);

    /// All folders in which films may lie; links are among what leads to them. Reads the file system.
    fn folders(&self) -> Vec<Below>;
}

/// The file of a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The folder in which it lies, or would lie.
    pub folder: Below,
    /// Its name there.
    pub name: OsString,
    /// Which file is there; `None`: none.
    pub present: Option<FileIdentity>,
}

impl Destination {
    /// Its path.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    /// Checks that the film there is one file, which can be replaced and deleted.
    ///
    /// # Errors
    /// It is several.
    pub fn check_is_one_file(&self) -> Result<(), IntakeError> {
        let path = self.path();
        match parts::are_at(&path) {
            false => Ok(()),
            true => Err(IntakeError::Taken {
                path,
                reason: "this film is several files: change or delete them where they lie".into(),
            }),
        }
    }
}
