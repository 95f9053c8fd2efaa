//! The contents of a track's segments: whether they agree with the playlist, are contiguous, and
//! equal the film.

use super::playlist::{Rendition, Segment};
use crate::mp4::{Track, fragments, initialisation};
use crate::reference::{Match, Reference};
use crate::story::TrackStory;
use crate::verdict::{Fault, Finding};

/// Gap or overlap between segments above which it is reported, in nanoseconds; tracks' clocks are
/// rounded.
const HOLE: i64 = 2_000_000;
/// The sync byte of transport stream packets, and their length (ISO/IEC 13818-1).
const SYNC: u8 = 0x47;
const TS_PACKET: usize = 188;

/// A rendition during playback. It may contain both video and audio.
#[derive(Debug)]
pub(super) struct Played {
    pub rendition: Rendition,
    /// Number of segments that have been fetched.
    pub fetched: usize,
    /// Tracks of the initialisation segment.
    tracks: Vec<Track>,
    /// One for each track of the initialisation segment; empty if there is none.
    pub stories: Vec<TrackStory>,
    /// End of the previous segment for each track, in nanoseconds.
    ends: Vec<Option<i64>>,
    /// Findings; the first case of each fault.
    pub findings: Vec<Finding>,
}

impl Played {
    pub fn new(rendition: Rendition) -> Played {
        Played {
            rendition,
            fetched: 0,
            tracks: Vec::new(),
            stories: Vec::new(),
            ends: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Returns the start of the next segment according to the playlist, in nanoseconds; after the
    /// last, the end of the film.
    pub fn buffered(&self) -> i64 {
        let segments = &self.rendition.segments;
        match segments.get(self.fetched) {
            Some(next) => next.start,
            None => segments.last().map_or(0, |last| last.start + last.duration),
        }
    }

    /// Returns the next segment.
    pub fn next(&self) -> Option<&Segment> {
        self.rendition.segments.get(self.fetched)
    }

    fn find(&mut self, finding: Finding) {
        if !self
            .findings
            .iter()
            .any(|other| other.fault == finding.fault)
        {
            self.findings.push(finding);
        }
    }

    fn malformed(&mut self, why: &str) {
        self.find(Finding::seen(
            Fault::Malformed,
            format!("segment {}: {why}", self.fetched + 1),
        ));
    }

    /// Parses the initialisation segment.
    pub fn begin(&mut self, init: &[u8]) {
        match initialisation(init) {
            Ok(said) => {
                let story = |track: &Track| TrackStory {
                    is_video: track.is_video,
                    ..TrackStory::default()
                };
                self.stories = said.tracks.iter().map(story).collect();
                self.ends = vec![None; said.tracks.len()];
                self.tracks = said.tracks;
            }
            Err(why) => self.find(Finding::seen(
                Fault::Malformed,
                format!("the initialisation segment: {why}"),
            )),
        }
    }

    /// Checks the next segment, which has arrived.
    pub fn look(&mut self, bytes: &[u8], reference: Option<&Reference>) {
        if self.rendition.init.is_none() {
            let is_ts = bytes.chunks(TS_PACKET).all(|packet| packet[0] == SYNC);
            if bytes.is_empty() || !is_ts || !bytes.len().is_multiple_of(TS_PACKET) {
                self.malformed("neither fragmented MP4 nor an MPEG transport stream");
            }
            return;
        }
        if self.tracks.is_empty() {
            return;
        }
        if let Err(why) = self.fragments(bytes, reference) {
            self.malformed(&why);
        }
    }

    fn fragments(&mut self, bytes: &[u8], reference: Option<&Reference>) -> Result<(), String> {
        let said = self.next().map_or(0, |segment| segment.duration);
        let mut spans = vec![0_i64; self.tracks.len()];
        for fragment in fragments(bytes, &self.tracks)? {
            let Some(number) = self
                .tracks
                .iter()
                .position(|track| track.id == fragment.track)
            else {
                continue;
            };
            let track = self.tracks[number].clone();
            let nanos = |ticks: i128| {
                i64::try_from(ticks * 1_000_000_000 / i128::from(track.timescale))
                    .map_err(|_| "a time beyond all films".to_owned())
            };
            let (Some(first), Some(last)) = (fragment.units.first(), fragment.units.last()) else {
                continue;
            };
            let begin = nanos(first.dts.into())?;
            let end = nanos(i128::from(last.dts) + i128::from(last.duration))?;
            if let Some(before) = self.ends[number]
                && (begin - before).abs() > HOLE
            {
                let by = (begin - before) / 1_000_000;
                self.find(Finding::seen(
                    Fault::Timeline,
                    format!(
                        "segment {} of the {} begins {} ms {} the end of the one before",
                        self.fetched + 1,
                        self.stories[number].kind(),
                        by.abs(),
                        if by > 0 { "after" } else { "before" }
                    ),
                ));
            }
            self.ends[number] = Some(end);
            spans[number] += end - begin;
            let story = &mut self.stories[number];
            let nth = self.tracks[..number]
                .iter()
                .filter(|other| other.is_video == track.is_video)
                .count();
            let film = reference.and_then(|reference| reference.track(track.is_video, nth));
            for unit in &fragment.units {
                let from = usize::try_from(unit.offset).map_err(|_| "data far outside")?;
                let data = bytes
                    .get(from..from.saturating_add(unit.size as usize))
                    .ok_or("a frame that is not in the segment")?;
                story.units += 1;
                let Some(film) = film else {
                    continue;
                };
                let time =
                    nanos(i128::from(unit.dts) + i128::from(unit.cts) - i128::from(track.edit.0))?
                        + track.edit.1;
                match film.judge(time, track.coding.hash(data)) {
                    Match::Same => {}
                    Match::Elsewhere(by) => {
                        story.displaced += 1;
                        story.displaced_by.get_or_insert(by);
                    }
                    Match::Different => story.different += 1,
                    Match::Unknown => story.unknown += 1,
                }
            }
        }
        // With video and audio in one segment, the playlist's duration is that of one of them.
        let off = spans.iter().map(|span| span - said);
        let off = off.min_by_key(|off| off.abs()).unwrap_or(0);
        if off.abs() > self.rendition.tolerance {
            self.find(Finding::noticed(
                Fault::Timeline,
                format!(
                    "segment {} is {} ms {} than the playlist says",
                    self.fetched + 1,
                    off.abs() / 1_000_000,
                    if off > 0 { "longer" } else { "shorter" }
                ),
            ));
        }
        Ok(())
    }
}
