//! The package of a film: small, made once, and used for all playlists and segments.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use reelway_media::{
    Codec, Kind, Nanos, SECOND, Samples, SamplesError, Title, Track, ticks_to_nanos,
};

use crate::cuts::{self, CutTime, Cuts, MOST_SEGMENTS, Table};
use crate::fragment::Fragment;
use crate::init;
use crate::rate::BitRate;
use crate::segment::{Part, Segment};
use crate::timeline::Timeline;

/// How films are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Target length of segments, which end at sync samples. 100 ms to 60 s.
    pub target: Nanos,
}

impl Default for Options {
    /// Six seconds, as recommended by Apple's authoring guide.
    fn default() -> Self {
        Options { target: 6 * SECOND }
    }
}

/// Why a film could not be packaged.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// The sample tables could not be read.
    #[error(transparent)]
    Samples(#[from] SamplesError),
    /// No track has a sample at or after the film's beginning.
    #[error("the film has no sample to show or play at or after its beginning")]
    Empty,
    /// A track would have too many segments.
    #[error(
        "track {0} would have more than {MOST_SEGMENTS} segments; longer ones (`http.segment`) are fewer"
    )]
    Segments(u32),
}

/// A film cut into segments.
#[derive(Debug)]
pub struct Package {
    title: Arc<Title>,
    tracks: Vec<PackagedTrack>,
    duration: Nanos,
}

/// A track cut into segments.
#[derive(Debug)]
pub struct PackagedTrack {
    /// Index in [`Title::tracks`].
    pub index: usize,
    /// The track_ID, which addresses contain.
    pub id: u32,
    /// Picture or sound.
    pub kind: Kind,
    /// Ticks per second for all tick values of the track.
    pub timescale: u32,
    /// Measured bit rates, including headers.
    pub rate: BitRate,
    /// Target length of segments.
    pub(crate) target: Nanos,
    init: Bytes,
    timeline: Timeline,
    table: Table,
}

/// Maximum number of pictures that are decoded after a picture and shown before it (H.264, A.3.1,
/// and H.265, A.4.2).
const DEPTH: u32 = 16;

/// `styp`: the segment's brands (ISO/IEC 23009-1 6.3.4.2, CMAF 7.3.3.1).
const STYP: &[u8; 24] = b"\0\0\0\x18stypmsdh\0\0\0\0msdhcmfs";

impl Package {
    /// Cuts a film. Reads its sample tables once from beginning to end, a few thousand samples at a
    /// time.
    pub fn new(
        title: Arc<Title>,
        samples: &dyn Samples,
        options: Options,
    ) -> Result<Package, PackageError> {
        let target = options.target.clamp(SECOND / 10, 60 * SECOND);
        let mut timelines = Vec::with_capacity(title.tracks.len());
        for (index, track) in title.tracks.iter().enumerate() {
            timelines.push(Timeline::of(track, index, samples)?);
        }
        let mut tables: Vec<Option<Table>> = title.tracks.iter().map(|_| None).collect();
        for (index, track) in title.tracks.iter().enumerate() {
            if track.kind == Kind::Video
                && let Some(timeline) = &mut timelines[index]
            {
                let cuts = cuts::survey_picture(track, index, timeline, samples, target)?;
                tables[index] = Some(cuts::build(
                    track,
                    index,
                    timeline,
                    samples,
                    &Cuts::At(&cuts),
                )?);
            }
        }
        // Sound is cut where the main picture is.
        let picture = title
            .video()
            .and_then(|(index, track)| Some((track, tables[index].as_ref()?)));
        let times: Option<Vec<CutTime>> = picture.map(|(track, table)| {
            let later = table.cuts.iter().skip(1);
            later
                .map(|cut| CutTime {
                    ticks: cut.start,
                    timescale: track.timescale,
                })
                .collect()
        });
        let cuts = times.as_deref().map_or(Cuts::Every(target), Cuts::Beside);
        let mut tracks = Vec::with_capacity(title.tracks.len());
        for (index, track) in title.tracks.iter().enumerate() {
            let Some(timeline) = timelines[index] else {
                continue;
            };
            let table = match tables[index].take() {
                Some(table) => table,
                None => cuts::build(track, index, &timeline, samples, &cuts)?,
            };
            if table.cuts.len() > MOST_SEGMENTS {
                return Err(PackageError::Segments(track.id));
            }
            tracks.push(PackagedTrack::new((index, track), target, timeline, table));
        }
        if tracks.is_empty() {
            return Err(PackageError::Empty);
        }
        let duration = tracks.iter().map(PackagedTrack::end).max().unwrap_or(0);
        Ok(Package {
            title,
            tracks,
            duration,
        })
    }

    /// Returns the film's title.
    pub fn title(&self) -> &Arc<Title> {
        &self.title
    }

    /// Returns the presentation end of the longest track.
    pub fn duration(&self) -> Nanos {
        self.duration
    }

    /// Returns the tracks that are served, in file order.
    pub fn tracks(&self) -> &[PackagedTrack] {
        &self.tracks
    }

    /// Returns the track with this track_ID.
    pub fn track(&self, id: u32) -> Option<&PackagedTrack> {
        self.tracks.iter().find(|track| track.id == id)
    }

    /// Returns the title's track for one of this package.
    pub(crate) fn media(&self, track: &PackagedTrack) -> &Track {
        &self.title.tracks[track.index]
    }

    /// Returns the picture that plays unless another is selected.
    pub(crate) fn picture(&self) -> Option<&PackagedTrack> {
        let main = self.title.video().map(|(index, _)| index);
        let mut pictures = self.tracks.iter().filter(|track| track.kind == Kind::Video);
        pictures
            .clone()
            .find(|track| Some(track.index) == main)
            .or_else(|| pictures.next())
    }

    /// Returns the sound tracks, in file order.
    pub(crate) fn sound(&self) -> impl Iterator<Item = &PackagedTrack> {
        self.tracks.iter().filter(|track| track.kind == Kind::Audio)
    }

    /// Returns which of these sound tracks plays unless another is selected: preferably one that
    /// all browsers play and that is enabled.
    pub(crate) fn main_of<'a>(&self, sound: &[&'a PackagedTrack]) -> Option<&'a PackagedTrack> {
        let is_taken = |track: &PackagedTrack| match &self.media(track).codec {
            Codec::Aac(aac) => aac.channel_configuration() > 0,
            _ => true,
        };
        let order = |track: &PackagedTrack| (!is_taken(track), !self.media(track).enabled);
        sound.iter().copied().min_by_key(|track| order(track))
    }

    /// Returns the memory taken by the tables in bytes: about 20 per segment and track.
    pub fn memory(&self) -> usize {
        let of = |track: &PackagedTrack| {
            track.table.fragments.memory() + track.table.cuts.memory() + track.init.len()
        };
        self.tracks.iter().map(of).sum()
    }
}

impl PackagedTrack {
    fn new(
        (index, track): (usize, &Track),
        target: Nanos,
        timeline: Timeline,
        table: Table,
    ) -> PackagedTrack {
        let init = init::init(track, &timeline, table.end).into();
        let mut packaged = PackagedTrack {
            index,
            id: track.id,
            kind: track.kind,
            timescale: track.timescale,
            rate: BitRate::default(),
            target,
            init,
            timeline,
            table,
        };
        let segments: Vec<(u64, Nanos)> = packaged
            .numbers()
            .filter_map(|n| Some((packaged.segment_len(n)?, packaged.duration(n)?)))
            .collect();
        packaged.rate = BitRate::measure(&segments);
        packaged
    }

    /// Returns the initialisation segment.
    pub fn init(&self) -> &Bytes {
        &self.init
    }

    /// Returns the numbers of the track's segments, from 1.
    pub fn numbers(&self) -> std::ops::RangeInclusive<u32> {
        1..=self.table.cuts.len() as u32
    }

    /// Returns how many segments, from the first, are final even if the film grows and keeps its
    /// tracks. The end of the last one is unknown. The end of the one before it is known only when
    /// no picture can follow that is shown before the last one's first.
    pub fn settled(&self) -> u32 {
        let last = *self.numbers().end();
        let count = |index: u32| Some(self.table.fragments.get(index as usize)?.count);
        let samples: u32 = self
            .fragments(last)
            .into_iter()
            .flatten()
            .filter_map(count)
            .sum();
        last.saturating_sub(if samples > DEPTH { 1 } else { 2 })
    }

    /// Returns the presentation end of the track.
    pub fn end(&self) -> Nanos {
        ticks_to_nanos(self.table.end, self.timescale)
    }

    /// Returns whether every segment can be decoded by itself: none but the first has pictures
    /// shown before its sync sample (open GOPs), which may refer to the segment before.
    pub fn independent(&self) -> bool {
        self.table.independent
    }

    /// Returns the beginning of segment `number` on the presentation timeline: 0 for the first,
    /// otherwise the presentation time of its first sample.
    pub fn start(&self, number: u32) -> Option<Nanos> {
        Some(ticks_to_nanos(self.start_ticks(number)?, self.timescale))
    }

    /// Like `start`, in ticks.
    pub(crate) fn start_ticks(&self, number: u32) -> Option<i64> {
        let cut = self.table.cuts.get(number.checked_sub(1)? as usize)?;
        Some(cut.start)
    }

    /// Returns the beginnings of all segments; see [`PackagedTrack::start`].
    pub(crate) fn starts(&self) -> impl Iterator<Item = Nanos> {
        let cuts = self.table.cuts.iter();
        cuts.map(|cut| ticks_to_nanos(cut.start, self.timescale))
    }

    /// Returns the time from a segment's beginning to the next one's. The durations of all segments
    /// add up exactly to the track's end.
    pub fn duration(&self, number: u32) -> Option<Nanos> {
        let start = self.start(number)?;
        Some(self.start(number + 1).unwrap_or_else(|| self.end()) - start)
    }

    /// Returns the number of the segment in which `at` is shown.
    pub fn number_at(&self, at: Nanos) -> u32 {
        let after = self
            .table
            .cuts
            .partition_point(|cut| ticks_to_nanos(cut.start, self.timescale) <= at);
        after.max(1) as u32
    }

    /// Returns the longest segment's duration.
    pub fn longest(&self) -> Nanos {
        self.numbers()
            .filter_map(|n| self.duration(n))
            .max()
            .unwrap_or(0)
    }

    /// Returns the decode time of a segment's first sample (`tfdt`) and the segment's length on
    /// that timeline, in ticks.
    pub fn decode_times(&self, number: u32) -> Option<(u64, u64)> {
        let range = self.fragments(number)?;
        let start = self.table.fragments.get(range.start as usize)?.tfdt;
        let end = self.table.fragment_end(range.end - 1);
        Some((start.max(0) as u64, (end - start).max(0) as u64))
    }

    /// Returns the ticks of sound before presentation time 0 (the edit list's `media_time`).
    pub fn priming(&self) -> u64 {
        self.timeline.priming as u64
    }

    /// Returns the number of a segment's first sample.
    pub(crate) fn first_sample(&self, number: u32) -> Option<u32> {
        let fragment = self.fragments(number)?.start;
        Some(self.table.fragments.get(fragment as usize)?.first)
    }

    /// Returns when a sample of `track`, from which this track is made, is shown, in ticks on the
    /// presentation timeline.
    pub(crate) fn shown_at(
        &self,
        track: &Track,
        sample: u32,
        samples: &dyn Samples,
    ) -> Result<Option<i64>, SamplesError> {
        let Some(group) = track.group_of_sample(sample) else {
            return Ok(None);
        };
        let first = track.groups.get(group).map_or(0, |group| group.first);
        let read = track.read_group(self.index, group, samples)?;
        let own = read.get((sample - first) as usize);
        Ok(own.map(|own| self.timeline.shown(own.dts, own.sample.cts) - self.timeline.priming))
    }

    /// Returns the indices of a segment's fragments.
    fn fragments(&self, number: u32) -> Option<Range<u32>> {
        let index = number.checked_sub(1)? as usize;
        let start = self.table.cuts.get(index)?.fragment;
        let end = self.table.cuts.get(index + 1).map(|cut| cut.fragment);
        Some(start..end.unwrap_or(self.table.fragments.len() as u32))
    }

    /// Returns the exact size of a segment from the table alone. `None`: there is no such segment.
    pub fn segment_len(&self, number: u32) -> Option<u64> {
        let fragments = self.fragments(number)?;
        let len = |index: u32| Some(self.table.fragments.get(index as usize)?.len());
        Some(STYP.len() as u64 + fragments.filter_map(len).sum::<u64>())
    }

    /// Returns the bytes `range` of a segment, fragment by fragment: see [`Slices`].
    pub fn slices(&self, number: u32, range: Range<u64>) -> Option<Slices> {
        let fragments = self.fragments(number)?;
        Some(Slices {
            fragments,
            at: 0,
            styp: true,
            range,
        })
    }

    /// Returns a whole segment at once.
    pub fn segment(
        &self,
        number: u32,
        samples: &dyn Samples,
    ) -> Result<Option<Segment>, SamplesError> {
        let Some(mut slices) = self.slices(number, 0..u64::MAX) else {
            return Ok(None);
        };
        let mut whole = Segment::default();
        while let Some(piece) = slices.next(self, samples)? {
            piece.parts.into_iter().for_each(|part| whole.push(part));
        }
        Ok(Some(whole))
    }

    /// Returns the pieces of one fragment.
    fn fragment(&self, index: u32, samples: &dyn Samples) -> Result<Segment, SamplesError> {
        let Some(fragment) = self.table.fragments.get(index as usize) else {
            return Ok(Segment::default());
        };
        let mut read = Vec::with_capacity(fragment.span as usize);
        samples.read(
            self.index,
            fragment.first..fragment.first + fragment.span,
            &mut read,
        )?;
        let end = self.table.fragment_end(index);
        let is_last = index as usize + 1 == self.table.fragments.len();
        let last_shown = is_last.then(|| self.table.end + self.timeline.priming);
        let timed = fragment.time(&read, self.kind, &self.timeline, (end, last_shown));
        let header = fragment.header(self.id, index + 1, &timed);
        let mut out = Segment::default();
        out.push(Part::Inline(header.into()));
        Fragment::film(&timed).for_each(|part| out.push(part));
        Ok(out)
    }
}

/// A byte range of a segment, delivered fragment by fragment. A long segment is never described all
/// at once, and fragments outside the range are not read.
#[derive(Clone, Debug)]
pub struct Slices {
    fragments: Range<u32>,
    /// Offset in the segment of the next piece.
    at: u64,
    /// Whether the segment's `styp` comes next.
    styp: bool,
    range: Range<u64>,
}

impl Slices {
    /// Returns the next pieces, never empty. `track` is the track that made this iterator.
    pub fn next(
        &mut self,
        track: &PackagedTrack,
        samples: &dyn Samples,
    ) -> Result<Option<Segment>, SamplesError> {
        if self.range.is_empty() {
            return Ok(None);
        }
        let mut out = Segment::default();
        if std::mem::take(&mut self.styp) {
            let mut styp = Segment::default();
            styp.push(Part::Inline(Bytes::from_static(STYP)));
            for part in styp.slice(self.range.clone()).parts {
                out.push(part);
            }
            self.at = STYP.len() as u64;
        }
        for index in self.fragments.by_ref() {
            let start = self.at;
            let Some(fragment) = track.table.fragments.get(index as usize) else {
                break;
            };
            self.at += fragment.len();
            if start >= self.range.end {
                break;
            }
            if self.at <= self.range.start {
                continue;
            }
            let fragment = track.fragment(index, samples)?;
            debug_assert_eq!(fragment.len, self.at - start);
            let range = self.range.start.saturating_sub(start)..self.range.end - start;
            fragment
                .slice(range)
                .parts
                .into_iter()
                .for_each(|part| out.push(part));
            return Ok(Some(out));
        }
        Ok((out.len > 0).then_some(out))
    }
}

/// Keeps the box writer and the constant above consistent.
#[cfg(test)]
#[test]
fn styp_is_a_box() {
    let mut b = crate::boxes::Boxes::default();
    b.put(b"styp", |b| {
        b.bytes(b"msdh");
        b.u32(0);
        b.bytes(b"msdhcmfs");
    });
    assert_eq!(b.into_vec(), STYP);
}
