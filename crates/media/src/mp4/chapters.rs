//! Chapters from Nero's list (`udta/chpl`) or from a text track that other tracks reference
//! (QuickTime's `chap`).

use std::collections::VecDeque;
use std::ops::Range;

use super::edits::Edit;
use super::kept::KeptBox;
use super::timed_text::text;
use crate::chapters::{Chapter, MAX_CHAPTERS};
use crate::samples::SampleTable;
use crate::{Nanos, ticks_to_nanos};

/// The maximum bytes read per text.
const MAX_TEXT: u64 = 1024;
/// The maximum number of texts read: they may lie anywhere in the file. Later chapters remain
/// unnamed.
const MAX_TEXTS: usize = 200;
/// The maximum number of chapters in Nero's list.
const MAX_LISTED: usize = 255;
/// Its maximum size in bytes: a header, and per chapter a time, a length byte and a name.
const MAX_LIST: usize = 9 + MAX_LISTED * (8 + 1 + 255);

/// The chapters of a film found so far, on the movie's timeline.
#[derive(Debug, Default)]
pub struct Chapters {
    found: Vec<Chapter>,
    /// The texts still to be read: the start times of their chapters and their byte ranges.
    texts: VecDeque<(Nanos, Range<u64>)>,
}

impl Chapters {
    /// Returns the chapters of Nero's list. Films play without: unreadable parts are skipped.
    pub fn listed(moov: &KeptBox) -> Chapters {
        let list = || {
            let udta = moov.find(b"udta").ok()??;
            let chpl = udta.find(b"chpl").ok()??;
            let mut bytes = Vec::new();
            Some(nero(chpl.first(MAX_LIST, &mut bytes).ok()?.body))
        };
        Chapters {
            found: list()
                .filter(|found| found.iter().any(|chapter| chapter.name.is_some()))
                .unwrap_or_default(),
            texts: VecDeque::new(),
        }
    }

    /// Takes the samples of a text track that begins after `delay`. Nero's list has priority unless
    /// it is full: it cannot have more than 255 chapters.
    pub fn of_track(
        &mut self,
        samples: &SampleTable,
        timescale: u32,
        (delay, edit): (Nanos, &Edit),
    ) {
        let is_listed = !self.found.is_empty() && self.found.len() < MAX_LISTED;
        if is_listed || !self.texts.is_empty() {
            return;
        }
        self.found.clear();
        let mut at = -edit.start;
        for sample in samples.iter().take(MAX_CHAPTERS) {
            let bytes = sample.bytes();
            let text = bytes.start..bytes.end.min(bytes.start + MAX_TEXT);
            let start = ticks_to_nanos(at, timescale).saturating_add(delay);
            match text.is_empty() {
                true => {}
                false if self.texts.len() < MAX_TEXTS => self.texts.push_back((start, text)),
                false => self.found.push(Chapter::new(start, "")),
            }
            at += i64::from(sample.duration);
        }
    }

    /// Returns whether no chapters have been found so far.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty() && self.texts.is_empty()
    }

    /// Returns the byte range of the next text.
    pub fn wanted(&self) -> Option<Range<u64>> {
        self.texts.front().map(|(_, bytes)| bytes.clone())
    }

    /// Takes the bytes of the next text.
    pub fn feed(&mut self, bytes: &[u8]) {
        if let Some((start, _)) = self.texts.pop_front() {
            self.found.push(Chapter::new(start, &text(bytes).0));
        }
    }

    /// Sets chapters that the file describes in another way.
    pub fn set(&mut self, found: Vec<Chapter>) {
        self.found = found;
    }

    /// Takes all chapters.
    pub fn take(&mut self) -> Vec<Chapter> {
        std::mem::take(&mut self.found)
    }
}

/// Parses Nero's list: a count, then per chapter a time in 100 ns, a length byte and a name.
fn nero(body: &[u8]) -> Vec<Chapter> {
    let version = body.first().copied().unwrap_or(0);
    let skipped = if version == 0 { 4 } else { 8 };
    let Some((count, mut rest)) = body.get(skipped..).and_then(|rest| rest.split_first()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for _ in 0..*count {
        let Some((time, after)) = rest.split_first_chunk::<8>() else {
            break;
        };
        let Some((length, after)) = after.split_first() else {
            break;
        };
        let Some((name, after)) = after.split_at_checked((*length).into()) else {
            break;
        };
        let time = i64::try_from(u64::from_be_bytes(*time)).unwrap_or(i64::MAX);
        found.push(Chapter::new(
            time.saturating_mul(100),
            &String::from_utf8_lossy(name),
        ));
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neros_list_is_read_as_far_as_it_goes() {
        let one = |time: u64, name: &str| {
            [
                &time.to_be_bytes()[..],
                &[name.len() as u8],
                name.as_bytes(),
            ]
            .concat()
        };
        let list = [
            &[1, 0, 0, 0, 0, 0, 0, 0, 3][..],
            &one(0, "Anfang"),
            &one(25_000_000, "Mitte"),
            &[0, 0],
        ]
        .concat();
        let expected = [
            Chapter::new(0, "Anfang"),
            Chapter::new(2_500_000_000, "Mitte"),
        ];
        assert_eq!(nero(&list), expected);
        assert!(nero(&[]).is_empty() && nero(&[1, 0, 0, 0]).is_empty());
        assert_eq!(
            nero(&[&[0, 0, 0, 0, 1][..], &one(10, "x")].concat()).len(),
            1
        );
    }

    #[test]
    fn a_text_track_begins_when_its_edit_list_says_and_names_no_more_than_it_may() {
        let mut samples = SampleTable::default();
        for number in 0..MAX_TEXTS as u64 + 5 {
            samples.push(crate::Sample {
                offset: 10_000 * number,
                size: 5000,
                duration: 1000,
                cts: 0,
                sync: true,
            });
        }
        let edit = Edit {
            start: 500,
            ..Edit::default()
        };
        let mut chapters = Chapters::default();
        chapters.of_track(&samples, 1000, (3_000_000_000, &edit));
        assert_eq!(chapters.wanted(), Some(0..MAX_TEXT), "as much as is read");
        while chapters.wanted().is_some() {
            chapters.feed(b"\0\x01x");
        }
        let mut found = chapters.take();
        found.sort_by_key(|chapter| chapter.start);
        assert_eq!(found.len(), samples.len() as usize);
        assert_eq!(found[0], Chapter::new(2_500_000_000, "x"));
        assert_eq!(found[1].start, 3_500_000_000);
        assert_eq!(found[MAX_TEXTS].name, None);
    }
}
