//! Recordings that grow: a file that has become longer is still the same film, and is played as far as it was indexed.

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
    /// By what the file is known to be the same when it has grown; `None`: it must not change.
    pub mark: Option<Mark>,
    /// The recording as it was first indexed; `None`: it has not grown since.
    pub first: Option<First>,
}

/// A recording as it was first indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// Its file.
    pub identity: FileIdentity,
    /// When its first picture was recorded, as far as can be told.
    pub began: Real,
}

/// What another server says of a recording there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// When its first picture was recorded, as far as it knows.
    pub began: Option<Real>,
    /// It grows.
    pub grows: bool,
}

impl First {
    /// Of so long a recording: its last picture was recorded when the file was changed last.
    pub fn of(identity: FileIdentity, duration: Nanos) -> First {
        let began = identity.mtime_ns.saturating_sub(duration).max(0);
        First {
            identity,
            began: Real::from_nanos(began as u64),
        }
    }

    /// Of a film that may be a recording on another server: that keeps an identity while it grows, and its server says when it
    /// began. Of any other, what is `known`.
    pub fn of_any(
        identity: FileIdentity,
        duration: Nanos,
        said: Option<Said>,
        known: Option<First>,
    ) -> Option<First> {
        let Some(lasting) = identity.of_recording() else {
            return known;
        };
        let began = said.and_then(|said| said.began);
        let began = began.or(known.map(|first| first.began));
        Some(First {
            identity: lasting,
            began: began.unwrap_or_else(|| First::of(identity, duration).began),
        })
    }
}

/// That a file was seen to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growing {
    /// When that was, or when it was last indexed anew.
    pub seen: Monotonic,
    /// There is more of it than was indexed.
    pub is_behind: bool,
    /// It did not grow: its file has more than was indexed first.
    pub is_begun: bool,
    /// When the program that had kept its file open while it wrote has closed it, if the kernel told.
    pub closed: Option<Monotonic>,
}

impl Growing {
    /// Whether it still grows: it has not rested for so long, or was closed a moment ago.
    pub fn still(&self, now: Monotonic, rest: Duration) -> bool {
        let may_go_on = match self.closed {
            Some(at) => now.since(at) < rest.min(OPENED_AGAIN),
            None => now.since(self.seen) < rest,
        };
        self.is_behind || may_go_on
    }
}

/// A program that closes a file and opens it again, to go on with it, does so within this.
const OPENED_AGAIN: Duration = Duration::from_secs(2);
/// A film that grows is not indexed anew more often than this, unless its shelf says otherwise.
pub(crate) const ANEW_EVERY: Duration = Duration::from_secs(5);
/// Nor does indexing it take more than this part of the time.
const PART: u32 = 20;

/// By what a film's file, of which this is the index, is known to be the same when it has grown. `None`: it is of a kind that
/// does not grow, or is another file by now. Of a recording on another server, that one says so, and the sum is 0.
pub fn mark(path: &Path, identity: &FileIdentity, index: &Index) -> Option<Mark> {
    let title = &index.title;
    let is_growing = match title.container {
        Container::TransportStream | Container::ProgramStream => true,
        // Its tables lie behind the film, or before it; or its last picture would be cut.
        Container::Mp4 | Container::ElementaryStream => false,
        Container::FragmentedMp4 | Container::Matroska => true,
    };
    let is_elsewhere = identity.is_remote();
    if !is_growing || (is_elsewhere && identity.of_recording().is_none()) {
        return None;
    }
    // Programs that end write the head again: what counts is the first media.
    let firsts = index.tables.iter().filter_map(|table| table.iter().next());
    let from = match title.view {
        // Nothing is put before the first frame of Matroska but its own beginning.
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

/// Whether the file at `path` is the one that was `known` and had this mark, and has only grown. Of a recording on another
/// server, its identity says so.
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

/// When files that may grow were indexed, and how long that took.
#[derive(Debug, Default)]
pub struct Pace(HashMap<PathBuf, (Monotonic, Duration)>);

impl Pace {
    /// Indexing a file has ended now, after so long.
    pub fn took(&mut self, path: &Path, now: Monotonic, time: Duration) {
        self.0.insert(path.to_owned(), (now, time));
    }

    /// Whether it is time to index a file again that has grown, which is not done more often than `every`.
    pub fn is_due(&self, path: &Path, now: Monotonic, every: Duration) -> bool {
        let last = self.0.get(path);
        last.is_none_or(|(ended, took)| now.since(*ended) >= every.max(*took * PART))
    }

    /// Forgets the files that are not there any more.
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
        assert!(pace.is_due(path, at(100), ANEW_EVERY));
        pace.took(path, at(100), Duration::from_millis(10));
        assert!(!pace.is_due(path, at(104), ANEW_EVERY));
        assert!(pace.is_due(path, at(105), ANEW_EVERY));
        assert!(pace.is_due(path, at(102), Duration::from_secs(2)));
        pace.took(path, at(105), Duration::from_secs(3));
        assert!(!pace.is_due(path, at(164), ANEW_EVERY));
        assert!(pace.is_due(path, at(165), ANEW_EVERY));
        pace.retain(|_| false);
        assert!(pace.is_due(path, at(105), ANEW_EVERY));
    }
}
