//! The films of this server, and where their parts are.
//!
//! This crate contains the [`Catalogue`] trait, which the protocols query; [`Directory`], watched
//! directories of film files or films on another [`Shelf`]; [`Several`] of them as one; the naming
//! of films by their paths; sets of renditions; the index files, which keep the results of
//! indexing; and the [`Placement`] trait, which decides whether a film's viewers are sent to
//! another server. `media` does the indexing itself; this crate supplies the bytes.
#![forbid(unsafe_code)]

mod below;
mod catalogue;
mod config;
mod counter;
mod counting;
mod directory;
mod entry;
mod growth;
mod index_file;
mod index_part;
mod indexing;
mod intake;
mod intake_error;
mod keeper;
mod large;
mod library;
mod local;
mod naming;
mod placement;
mod progress;
mod reading;
mod recordings;
mod scan;
mod scratch;
mod seen;
mod sets;
mod several;
mod shelf;
mod subtitles;
mod unsaved;
mod uploads;
mod writers;

pub use below::Below;
pub use catalogue::{Catalogue, Tally};
pub use config::DirectoryConfig;
pub use counter::CountConfig;
pub use counting::count_packets;
pub use directory::Directory;
pub use entry::{CatalogueError, Entry, Film, Protocols, State, Summary, TrackSummary};
pub use growth::{First, Growing, Growth, RecordingReport};
pub use index_file::{IndexFile, IndexFileError};
pub use indexing::{IndexingError, index_path, index_path_with_scratch};
pub use intake::{Destination, Intake};
pub use intake_error::IntakeError;
pub use library::Change;
pub use naming::is_film;
pub use placement::{Alone, MOST_WATCHED, Place, Placement, Soon, Watched};
pub use progress::Progress;
pub use sets::Set;
pub use several::Several;
pub use shelf::{FoundFilm, Shelf};
pub use subtitles::{
    MOST_SUBTITLE_BYTES, MOST_SUBTITLE_FILES, SubtitleFile, SubtitlePlace, SubtitleSource,
    SubtitleTrack, SubtitleTrackError,
};
pub use unsaved::{IndexMemory, IndexProblem};
pub use uploads::judge_beginning;
