//! Growing recordings: a file that has become longer is still the same film, and plays as far as it
//! has been indexed.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reelway_clock::{Monotonic, Real};
use reelway_media::{Container, Index, Nanos, WITH_HEADS};
use reelway_sys::{FileIdentity, Mark};

/// How a film's file may grow, and has grown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// The mark by which the file is recognised after it has grown. `None`: the file must not
    /// change.
    pub mark: Option<Mark>,
    /// The recording as it was first indexed. `None`: it has not grown since then.
    pub first: Option<First>,
}

/// A recording as it was first indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// Its file.
    pub identity: FileIdentity,
    /// When its first picture was recorded, as far as is known.
    pub began: Real,
}

/// What another server reports about a recording there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingReport {
    /// When the first picture was recorded, if the server knows.
    pub began: Option<Real>,
    /// Whether the recording is growing.
    pub grows: bool,
}

impl First {
    /// Returns the beginning of a recording with this duration. It assumes that the last picture
    /// was recorded when the file was last changed.
    pub fn of(identity: FileIdentity, duration: Nanos) -> First {
        let began = identity.mtime_ns.saturating_sub(duration).max(0);
        First {
            identity,
            began: Real::from_nanos(began as u64),
        }
    }

    /// Returns the beginning of a film that may be a recording on another server. Such a recording
    /// keeps its identity while it grows, and its server reports when it began. For other films,
    /// returns `known`.
    pub fn of_any(
        identity: FileIdentity,
        duration: Nanos,
        report: Option<RecordingReport>,
        known: Option<First>,
    ) -> Option<First> {
        let Some(lasting) = identity.of_recording() else {
            return known;
        };
        let began = report.and_then(|report| report.began);
        let began = began.or(known.map(|first| first.began));
        Some(First {
            identity: lasting,
            began: began.unwrap_or_else(|| First::of(identity, duration).began),
        })
    }
}

/// The state of a film whose file was seen to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growing {
    /// When growth was last seen, or the film was last indexed again.
    pub seen: Monotonic,
    /// Whether the file has more than has been indexed.
    pub is_behind: bool,
    /// Whether the file did not grow, but only its beginning has been indexed so far.
    pub is_begun: bool,
    /// When the program that kept the file open while writing closed it, if the kernel reported
    /// this.
    pub closed: Option<Monotonic>,
}

impl Growing {
    /// Returns whether the file is still growing: it has more than has been indexed, was closed
    /// only a moment ago, or, if it has not been closed, last grew less than `rest` ago.
    pub fn still(&self, now: Monotonic, rest: Duration) -> bool {
        let may_go_on = match self.closed {
            Some(at) => now.since(at) < rest.min(OPENED_AGAIN),
            None => now.since(self.seen) < rest,
        };
        self.is_behind || may_go_on
    }
}

/// A program that closes a file and reopens it to continue writing does so within this time.
const OPENED_AGAIN: Duration = Duration::from_secs(2);
/// Shortest time between two indexings of a film that grows, unless its shelf specifies another.
pub(crate) const REINDEX_INTERVAL: Duration = Duration::from_secs(5);
/// Indexing such a film takes at most 1/`PART` of the time.
const PART: u32 = 20;

/// Returns the mark by which a film's file, which has this index, is recognised after it has grown.
/// `None`: the format does not grow, or the file has been replaced. For a recording on another
/// server, that server vouches for it, and the sum is 0.
pub fn mark(path: &Path, identity: &FileIdentity, index: &Index) -> Option<Mark> {
    let title = &index.title;
    let is_growing = match title.container {
        Container::TransportStream | Container::ProgramStream => true,
        // Their tables lie before or after the media data, or their last picture would be cut.
        Container::Mp4 | Container::ElementaryStream => false,
        Container::FragmentedMp4 | Container::Matroska => true,
    };
    let is_elsewhere = identity.is_remote();
    if !is_growing || (is_elsewhere && identity.of_recording().is_none()) {
        return None;
    }
    // Programs rewrite the header when they finish, so the mark covers the first media data.
    let firsts = index.tables.iter().filter_map(|table| table.iter().next());
    let from = match title.view {
        // In a Matroska view, nothing is inserted before the first frame except its own head.
        Some(view) if view.packet != WITH_HEADS => 0,
        _ => firsts.map(|sample| sample.offset).min().unwrap_or(0),
    };
    if is_elsewhere {
        return Some(Mark { from, sum: 0 });
    }
    let file = File::open(path).ok()?;
    let now = FileIdentity::from(&file.metadata().ok()?);
    let is_it = identity.may_have_grown_into(&now);
    Mark::of(&file, from, identity.size).ok().filter(|_| is_it)
}

/// Returns whether the file at `path` is the `known` one with this mark and has only grown. For a
/// recording on another server, the identity suffices.
pub fn has_grown(path: &Path, known: &FileIdentity, mark: &Mark) -> bool {
    if known.is_remote() {
        return true;
    }
    let Ok(file) = File::open(path) else {
        return false;
    };
    let now = file
        .metadata()
        .map(|metadata| FileIdentity::from(&metadata));
    now.is_ok_and(|now| known.may_have_grown_into(&now)) && mark.is_of(&file, known.size)
}

/// When growing files were last indexed, and how long that took.
#[derive(Debug, Default)]
pub struct Pace(HashMap<PathBuf, (Monotonic, Duration)>);

impl Pace {
    /// Records that indexing a file ended now and took `time`.
    pub fn took(&mut self, path: &Path, now: Monotonic, time: Duration) {
        self.0.insert(path.to_owned(), (now, time));
    }

    /// Returns whether a grown file is due to be indexed again, at most once per `every`.
    pub fn is_due(&self, path: &Path, now: Monotonic, every: Duration) -> bool {
        let last = self.0.get(path);
        last.is_none_or(|(ended, took)| now.since(*ended) >= every.max(*took * PART))
    }

    /// Forgets the files that no longer exist.
    pub fn retain(&mut self, is_there: impl Fn(&Path) -> bool) {
        self.0.retain(|path, _| is_there(path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_grows_until_it_has_rested_and_all_of_it_is_indexed() {
        let seconds = |seconds: u64| Monotonic::from_nanos(seconds * 1_000_000_000);
        let rest = Duration::from_secs(18);
        let growing = |is_behind, closed| Growing {
            seen: seconds(100),
            is_behind,
            is_begun: false,
            closed,
        };
        assert!(growing(false, None).still(seconds(117), rest));
        assert!(!growing(false, None).still(seconds(118), rest));
        assert!(growing(true, None).still(seconds(500), rest));
        // The program that wrote it has closed it.
        let closed = Some(seconds(99));
        assert!(growing(false, closed).still(seconds(100), rest));
        assert!(!growing(false, closed).still(seconds(101), rest));
        assert!(growing(true, closed).still(seconds(500), rest));
    }

    #[test]
    fn a_recording_began_its_length_before_its_file_was_changed_last() {
        let identity = FileIdentity {
            device: 1,
            inode: 2,
            size: 3,
            mtime_ns: 60_000_000_000,
        };
        let began = |duration| First::of(identity, duration).began.nanos();
        assert_eq!(began(10_000_000_000), 50_000_000_000);
        assert_eq!(began(90_000_000_000), 0);
    }

    #[test]
    fn a_file_that_grows_is_indexed_the_less_often_the_longer_that_takes() {
        let mut pace = Pace::default();
        let path = Path::new("/films/recording.ts");
        let at = |seconds: u64| Monotonic::from_nanos(seconds * 1_000_000_000);
        assert!(pace.is_due(path, at(100), REINDEX_INTERVAL));
        pace.took(path, at(100), Duration::from_millis(10));
        assert!(!pace.is_due(path, at(104), REINDEX_INTERVAL));
        assert!(pace.is_due(path, at(105), REINDEX_INTERVAL));
        assert!(pace.is_due(path, at(102), Duration::from_secs(2)));
        pace.took(path, at(105), Duration::from_secs(3));
        assert!(!pace.is_due(path, at(164), REINDEX_INTERVAL));
        assert!(pace.is_due(path, at(165), REINDEX_INTERVAL));
        pace.retain(|_| false);
        assert!(pace.is_due(path, at(105), REINDEX_INTERVAL));
    }
}
