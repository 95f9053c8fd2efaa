//! Programs that write films, as far as the kernel reports them (inotify). When a program that kept
//! a film's file open while writing closes it, the film is complete.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reelway_clock::Monotonic;

/// A program that has been writing for this long without closing the file keeps it open until
/// everything is written. Other programs open and close the file for each piece; their closing it
/// means nothing.
const KEPT_OPEN: Duration = Duration::from_secs(5);

/// Files that are being written, and those that their writers have closed.
#[derive(Debug, Default)]
pub(crate) struct Writers(HashMap<PathBuf, Writer>);

#[derive(Clone, Copy, Debug)]
enum Writer {
    /// A program has been writing the file since this time.
    Writes(Monotonic),
    /// The program had kept the file open, and closed it at this time.
    HasClosed(Monotonic),
}

impl Writers {
    /// Records that a file was changed.
    pub fn changed(&mut self, path: &Path, now: Monotonic) {
        match self.0.get_mut(path) {
            Some(Writer::Writes(_)) => {}
            Some(writer) => *writer = Writer::Writes(now),
            None => {
                self.0.insert(path.to_owned(), Writer::Writes(now));
            }
        }
    }

    /// Records that a program that may have changed a file has closed it.
    pub fn closed(&mut self, path: &Path, now: Monotonic) {
        // Otherwise it was opened without being written.
        let Some(Writer::Writes(since)) = self.0.get(path) else {
            return;
        };
        if now.since(*since) >= KEPT_OPEN {
            self.0.insert(path.to_owned(), Writer::HasClosed(now));
        } else {
            self.0.remove(path);
        }
    }

    /// Returns when the program that kept the file open while writing closed it. `None`: none did,
    /// or the file was written again since.
    pub fn has_closed(&self, path: &Path) -> Option<Monotonic> {
        match self.0.get(path)? {
            Writer::HasClosed(at) => Some(*at),
            Writer::Writes(_) => None,
        }
    }

    /// Forgets the files that no longer exist.
    pub fn retain(&mut self, is_there: impl Fn(&Path) -> bool) {
        self.0.retain(|path, _| is_there(path));
    }

    /// Forgets everything, because events were lost.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_program_that_keeps_a_file_open_has_made_all_of_it_when_it_closes_it() {
        let (mut writers, path) = (Writers::default(), Path::new("/films/recording.ts"));
        for second in 100..160 {
            writers.changed(path, at(second));
            assert_eq!(writers.has_closed(path), None);
        }
        writers.closed(path, at(160));
        assert_eq!(writers.has_closed(path), Some(at(160)));
        // Opened and closed without a change, for example by a program that only reads it.
        writers.closed(path, at(170));
        assert_eq!(writers.has_closed(path), Some(at(160)));
        // Written again.
        writers.changed(path, at(171));
        assert_eq!(writers.has_closed(path), None);
        writers.closed(path, at(180));
        assert_eq!(writers.has_closed(path), Some(at(180)));
    }

    #[test]
    fn closing_a_file_after_each_piece_tells_nothing() {
        let (mut writers, path) = (Writers::default(), Path::new("/films/recording.ts"));
        for second in 100..160 {
            writers.changed(path, at(second));
            writers.closed(path, at(second));
            assert_eq!(writers.has_closed(path), None);
        }
        assert!(writers.0.is_empty());
    }

    #[test]
    fn what_has_gone_or_was_not_told_is_forgotten() {
        let (mut writers, path) = (Writers::default(), Path::new("/films/recording.ts"));
        for forget in [
            |writers: &mut Writers| writers.retain(|_| false),
            Writers::clear,
        ] {
            writers.changed(path, at(100));
            writers.closed(path, at(160));
            assert!(writers.has_closed(path).is_some());
            writers.retain(|there| there == path);
            assert!(writers.has_closed(path).is_some());
            forget(&mut writers);
            assert_eq!(writers.has_closed(path), None);
        }
    }
}
