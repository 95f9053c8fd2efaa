//! The thread that counts the packets of a library's films, one film at a time, when the library
//! has nothing else to do.
//!
//! Counting reads each film completely. Viewers come first: the thread rests three times as long as
//! it works, and a hundred times as long while there are viewers. It therefore takes less of a disk
//! than is kept free of bookings (`capacity.headroom`). A busy disk takes longer to read and is
//! therefore left alone for longer, too.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_media::Title;
use reelway_rtp::PayloadOptions;
use reelway_supervise as supervise;
use reelway_sys::FileIdentity;
use tracing::{debug, info, warn};

use crate::counting::{self, CountError};
use crate::entry::{Entry, State};
use crate::index_file::{IndexFile, IndexFileError};
use crate::library::Shared;

/// How long the thread rests, as a multiple of the time it has worked: without and with viewers.
const REST: u32 = 3;
const REST_BESIDE_VIEWERS: u32 = 100;
/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(120);
/// After this time without film being sent, there are no viewers any more.
const UNWATCHED: Duration = Duration::from_secs(10);

/// How packets are counted in the background.
#[derive(Clone)]
pub struct CountConfig {
    /// The packets to be counted.
    pub payload: PayloadOptions,
    /// Delay after the library's start, and after each look that found nothing to count. A film
    /// changed more recently than this may still be being written.
    pub after: Duration,
    /// Returns how much film has been sent to viewers so far, in any unit.
    pub given: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl fmt::Debug for CountConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CountConfig({:?}, {:?})", self.payload, self.after)
    }
}

/// Counts the packets of a library's films.
pub(crate) struct Counter {
    shared: Arc<Shared>,
    config: CountConfig,
    /// Films that have been counted or cannot be.
    done: HashSet<FileIdentity>,
}

/// The library has been dropped.
struct Stop;

impl Counter {
    pub fn new(shared: Arc<Shared>, config: CountConfig) -> Counter {
        Counter {
            shared,
            config,
            done: HashSet::new(),
        }
    }

    /// Counts until the other end of `stop` is dropped.
    pub fn run(&mut self, stop: &Receiver<()>) {
        while rest(stop, self.config.after).is_ok() {
            while let Some(entry) = self.next() {
                self.done.insert(entry.identity);
                match self.count(&entry, stop) {
                    Ok(()) => {}
                    Err(Problem::Count(CountError::Stopped)) => return,
                    Err(Problem::Count(CountError::Changed)) => {
                        debug!(film = entry.name, "changed while its packets were counted");
                    }
                    Err(problem) => warn!(
                        film = entry.name,
                        "its RTP packets were not counted, so its rate is estimated: {problem}"
                    ),
                }
            }
        }
    }

    /// Returns a film whose packets have not been counted; none while films are still being
    /// indexed.
    fn next(&mut self) -> Option<Arc<Entry>> {
        let directory = self.shared.index.as_ref()?;
        let entries = self.shared.list();
        let is_indexing =
            |entry: &Arc<Entry>| matches!(entry.state, State::Indexing) || entry.is_begun();
        if entries.iter().any(is_indexing) {
            return None;
        }
        self.done
            .retain(|identity| entries.iter().any(|entry| entry.identity == *identity));
        let now = reelway_clock::real().nanos();
        entries.into_iter().find(|entry| {
            let age = i128::from(now) - i128::from(entry.identity.mtime_ns);
            if !matches!(entry.state, State::Ready(_))
                || age < self.config.after.as_nanos() as i128
                || self.done.contains(&entry.identity)
            {
                return false;
            }
            let path = IndexFile::path_for(directory, &entry.identity);
            let counted = IndexFile::counted(&path, &entry.identity);
            let is_counted = counted.ok() == Some(self.config.payload.max_payload as u32);
            if is_counted {
                self.done.insert(entry.identity);
            }
            !is_counted
        })
    }

    fn count(&self, entry: &Entry, stop: &Receiver<()>) -> Result<(), Problem> {
        let Some(directory) = &self.shared.index else {
            return Ok(());
        };
        supervise::inject("library.count");
        let path = IndexFile::path_for(directory, &entry.identity);
        let (mut title, samples) = IndexFile::open(&path, &entry.identity)?;
        let began = reelway_clock::now();
        let film = counting::Uncounted {
            title: &title,
            samples: &samples,
            path: &entry.path,
            identity: entry.identity,
        };
        let given = &self.config.given;
        let (mut restraint, mut since) = (Restraint::new(given()), began);
        let mut go_on = || {
            let now = reelway_clock::now();
            let is_stopped = rest(stop, restraint.rest(now, now.since(since), given())).is_err();
            since = reelway_clock::now();
            !is_stopped
        };
        let counted = film.count(self.config.payload, &mut go_on)?;
        counting::put(&mut title, counted);
        self.shared.write_again(entry, |path| {
            samples.write_again(path, &entry.identity, &title)
        })?;
        info!(
            film = entry.name,
            packets = packets(&title),
            "its RTP packets were counted in {:.1} s",
            reelway_clock::now().since(began).as_secs_f64()
        );
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error(transparent)]
    Count(#[from] CountError),
    #[error("index file: {0}")]
    Index(#[from] IndexFileError),
}

fn packets(title: &Title) -> u64 {
    let groups = title.tracks.iter().flat_map(|track| &track.packets.groups);
    groups.map(|group| u64::from(group.packets)).sum()
}

/// Decides how long the thread rests.
struct Restraint {
    /// What viewers had been sent when this was last checked.
    given: u64,
    /// When viewers were last seen to receive something.
    watched: Option<Monotonic>,
}

impl Restraint {
    fn new(given: u64) -> Restraint {
        let watched = None;
        Restraint { given, watched }
    }

    /// Returns how long to rest after `worked`, when viewers have been sent `given` in all.
    fn rest(&mut self, now: Monotonic, worked: Duration, given: u64) -> Duration {
        if given != self.given {
            (self.given, self.watched) = (given, Some(now));
        }
        let is_watched = self.watched.is_some_and(|at| now.since(at) < UNWATCHED);
        let times = if is_watched {
            REST_BESIDE_VIEWERS
        } else {
            REST
        };
        (worked * times).min(LONGEST_REST)
    }
}

fn rest(stop: &Receiver<()>, time: Duration) -> Result<(), Stop> {
    match stop.recv_timeout(time) {
        Err(RecvTimeoutError::Timeout) => Ok(()),
        Ok(()) | Err(RecvTimeoutError::Disconnected) => Err(Stop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rests_much_longer_while_somebody_watches() {
        let at = |seconds: u64| Monotonic::from_nanos(seconds * 1_000_000_000);
        let worked = Duration::from_millis(10);
        let mut restraint = Restraint::new(7);
        assert_eq!(restraint.rest(at(1), worked, 7), 3 * worked);
        assert_eq!(restraint.rest(at(2), worked, 8), 100 * worked);
        assert_eq!(restraint.rest(at(11), worked, 8), 100 * worked);
        assert_eq!(restraint.rest(at(12), worked, 8), 3 * worked);
        assert_eq!(restraint.rest(at(13), worked, 9), 100 * worked);
        assert_eq!(restraint.rest(at(14), 1000 * worked, 9), LONGEST_REST);
    }
}
