//! Adding and deleting films: which file a title has, or would have.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;

use reelway_sys::FileIdentity;
use reelway_sys::parts;

use crate::below::Below;
use crate::indexing::IndexingError;
use crate::intake_error::IntakeError;

/// Where films are added and deleted on request. Does not include remote films.
pub trait Intake: Send + Sync {
    /// Returns the file of a present film that can be deleted.
    fn present(&self, title: &str) -> Option<Destination>;

    /// Returns the file that an upload of this title is to become. Reads the file system.
    fn place(&self, title: &str) -> Result<Destination, IntakeError>;

    /// Checks whether a complete file that will become `place` is a film, and keeps its index.
    /// Reads the file.
    fn judge(
        &self,
        title: &str,
        file: &File,
        place: &Destination,
    ) -> Result<FileIdentity, IndexingError>;

    /// Makes the library look again soon, because a film was added or deleted.
    fn look_again(&self);

    /// Returns all folders in which films may lie, including those behind links. Reads the file
    /// system.
    fn folders(&self) -> Vec<Below>;
}

/// The file of a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The folder that contains the file, or would contain it.
    pub folder: Below,
    /// The file's name in the folder.
    pub name: OsString,
    /// The identity of the present file. `None`: there is no file.
    pub present: Option<FileIdentity>,
}

impl Destination {
    /// Returns the file's path.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    /// Checks that the film is a single file, which can be replaced and deleted.
    ///
    /// # Errors
    /// The film consists of several files.
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
