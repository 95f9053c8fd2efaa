//! Updates the entries of films after a look at the shelf.

use std::sync::Arc;

use reelway_clock::Monotonic;

use crate::entry::{Entry, State};
use crate::growth::{First, Growing};
use crate::sets::Set;
use crate::shelf::FoundFilm;

/// Returns the entry of a film in this state.
pub(crate) fn new_entry(name: &str, found: &FoundFilm, state: State) -> Entry {
    Entry {
        name: name.to_owned(),
        path: found.path.clone(),
        file: found.file.clone(),
        identity: found.identity,
        via: found.via.clone(),
        subtitles: found.subtitles.clone(),
        set: Set::default(),
        state,
        first: None,
        growing: None,
        progress: Arc::default(),
    }
}

/// Returns the entry of a film whose file is unchanged, and whether lists show anything different.
pub(crate) fn same(
    old: Arc<Entry>,
    found: &FoundFilm,
    set: Set,
    now: Monotonic,
) -> (Arc<Entry>, bool) {
    let shows_else = old.subtitles != found.subtitles || old.set != set;
    // For a recording on another server, that server reports whether it grows.
    let (first, growing) = match (&old.state, found.report) {
        (State::Ready(summary), Some(report)) => (
            First::of_any(old.identity, summary.duration, Some(report), old.first),
            report.grows.then_some(Growing {
                seen: now,
                is_behind: false,
                is_begun: false,
                closed: None,
            }),
        ),
        _ => {
            let closed = found.closed;
            let growing = old.growing.map(|growing| Growing { closed, ..growing });
            (old.first, growing)
        }
    };
    let is_same =
        !shows_else && old.via == found.via && (first, growing) == (old.first, old.growing);
    let entry = match is_same {
        true => old,
        false => Arc::new(Entry {
            via: found.via.clone(),
            subtitles: found.subtitles.clone(),
            set,
            first,
            growing,
            ..(*old).clone()
        }),
    };
    (entry, shows_else)
}

/// Returns the entry of a film that has grown, and that plays as far as it was indexed.
pub(crate) fn grown(old: &Entry, found: &FoundFilm, set: Set, now: Monotonic) -> Entry {
    let first = match &old.state {
        State::Ready(summary) => {
            let first = First::of(old.identity, summary.duration);
            let known = old.first.or(Some(first));
            First::of_any(old.identity, summary.duration, found.report, known)
        }
        _ => old.first,
    };
    Entry {
        subtitles: found.subtitles.clone(),
        set,
        first,
        growing: Some(Growing {
            seen: now,
            is_behind: true,
            is_begun: old.is_begun(),
            closed: found.closed,
        }),
        ..old.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use reelway_clock::Real;
    use reelway_media::Title;
    use reelway_sys::FileIdentity;

    use super::*;
    use crate::entry::Summary;
    use crate::growth::RecordingReport;

    fn found(size: u64, report: Option<RecordingReport>) -> FoundFilm {
        FoundFilm {
            path: PathBuf::from("http://afar/film"),
            file: "film.ts".into(),
            identity: FileIdentity::remote_recording(7, size, size as i64),
            via: Vec::new(),
            subtitles: Vec::new(),
            report,
            problem: None,
            closed: None,
        }
    }

    fn report(grows: bool) -> Option<RecordingReport> {
        Some(RecordingReport {
            began: grows.then(|| Real::from_nanos(5)),
            grows,
        })
    }

    fn entry(found: &FoundFilm) -> Arc<Entry> {
        let summary = Summary::of(&Title::new(Vec::new()));
        Arc::new(new_entry("film", found, State::Ready(Arc::new(summary))))
    }

    #[test]
    fn a_recording_elsewhere_grows_as_long_as_its_server_says_so() {
        let now = Monotonic::from_nanos(1);
        let grows = found(10, report(true));
        let (first, shows_else) = same(entry(&grows), &grows, Set::default(), now);
        assert!(!shows_else);
        assert_eq!(first.growing.unwrap().seen, now);
        let began = first.first.unwrap();
        assert_eq!(began.began, Real::from_nanos(5));
        assert_eq!(Some(began.identity), grows.identity.of_recording());

        let longer = found(20, report(true));
        let behind = grown(&first, &longer, Set::default(), now);
        assert_eq!(
            (behind.identity, behind.first),
            (grows.identity, first.first)
        );
        assert!(behind.growing.unwrap().is_behind);

        // When it stops growing, its beginning remains known.
        let rests = found(10, report(false));
        let (last, _) = same(first.clone(), &rests, Set::default(), now);
        assert_eq!((last.growing, last.first), (None, first.first));
        let (again, _) = same(last.clone(), &rests, Set::default(), now);
        assert!(Arc::ptr_eq(&again, &last), "nothing has changed");
    }

    #[test]
    fn that_a_recording_was_closed_counts_until_it_is_written_again() {
        let now = Monotonic::from_nanos(1);
        let short = found(10, None);
        let longer = found(20, None);
        let growing = Arc::new(grown(&entry(&short), &longer, Set::default(), now));
        assert_eq!(growing.growing.unwrap().closed, None);
        let closed = FoundFilm {
            closed: Some(now),
            ..longer.clone()
        };
        let (ended, _) = same(growing, &closed, Set::default(), now);
        assert_eq!(ended.growing.unwrap().closed, Some(now));
        let (opened, _) = same(ended, &longer, Set::default(), now);
        assert_eq!(opened.growing.unwrap().closed, None);
    }

    #[test]
    fn of_a_film_of_which_nothing_is_said_everything_stays() {
        let film = found(10, None);
        let entry = entry(&film);
        let (same, _) = same(entry.clone(), &film, Set::default(), Monotonic::ZERO);
        assert!(Arc::ptr_eq(&same, &entry));
    }
}
