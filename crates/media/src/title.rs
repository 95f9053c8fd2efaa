//! A title: the description of a film after indexing.

use serde::{Deserialize, Serialize};

use crate::entry_points::EntryPoints;
use crate::packets::Packets;
use crate::places::{Move, Places, View};
use crate::{
    Chapter, Codec, Nanos, Paged, Record, Sample, Samples, SamplesError, TextTrack, TimedSample,
    WORDS, ticks_to_nanos,
};

/// A film without its sample records, which are stored separately ([`Samples`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title {
    /// The container format.
    pub container: Container,
    /// The view that sample offsets refer to, if they do not refer to the file itself.
    pub view: Option<View>,
    /// The title stored in the file (`©nam`), if any.
    pub name: Option<String>,
    /// The tracks that at least one protocol can play, in file order.
    pub tracks: Vec<Track>,
    /// The presentation duration: the end of the longest track.
    pub duration: Nanos,
    /// When the recording began, according to the container, in ns since 1970.
    pub recorded_at: Option<Nanos>,
    /// The chapters in order.
    pub chapters: Vec<Chapter>,
    /// The subtitles inside the file, in file order.
    pub texts: Vec<TextTrack>,
    /// What was skipped or corrected, as text for people: cover art, text tracks, irregularities.
    pub notes: Vec<String>,
    /// All packets of a transport stream as they lie in the file, as an additional track for
    /// clients that want the unmodified stream. See [`Title::as_transport_stream`].
    pub multiplex: Option<Box<Track>>,
    /// The view that its sample offsets refer to, if the file has other bytes between the packets.
    pub multiplex_view: Option<View>,
    /// Where it may be cut into slices, and the tables that players need before each slice.
    pub entry_points: Option<Box<EntryPoints>>,
}

impl Title {
    /// Creates an MP4 film of these tracks, without a name. It ends with the longest track's
    /// samples, assuming that they are presented when they are decoded.
    pub fn new(tracks: Vec<Track>) -> Title {
        let ends = tracks
            .iter()
            .map(|track| track.decode(track.duration as i64));
        Title {
            container: Container::Mp4,
            view: None,
            name: None,
            duration: ends.max().unwrap_or(0).max(0),
            recorded_at: None,
            tracks,
            chapters: Vec::new(),
            texts: Vec::new(),
            notes: Vec::new(),
            multiplex: None,
            multiplex_view: None,
            entry_points: None,
        }
    }

    /// Returns all tracks that have sample records, in the order of the records.
    pub fn recorded(&self) -> impl Iterator<Item = &Track> {
        self.tracks.iter().chain(self.multiplex.as_deref())
    }

    /// Like `recorded`, for modification.
    pub fn recorded_mut(&mut self) -> impl Iterator<Item = &mut Track> {
        self.tracks.iter_mut().chain(self.multiplex.as_deref_mut())
    }
}

/// Container formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Container {
    /// MP4 with all samples in `moov`.
    Mp4,
    /// MP4 with movie fragments (`moof`).
    FragmentedMp4,
    /// Matroska or WebM.
    Matroska,
    /// MPEG transport stream.
    TransportStream,
    /// MPEG program stream, or MPEG-1 system stream.
    ProgramStream,
    /// An elementary stream of H.264, H.265, MPEG-1 or MPEG-2 video.
    ElementaryStream,
}

/// The kind of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Video.
    Video,
    /// Audio.
    Audio,
}

/// One track of a title.
///
/// The film's presentation timeline begins with 0 at the first picture that can be shown: the sync
/// sample at or before the start given by the edit list. Audio that only primes its decoder lies
/// before 0. If audio begins earlier than that (0.1 s or five frames before the first picture), or
/// there is no video, 0 is the beginning of the audio, and the first picture may come later. A
/// sample is presented at `dts + cts + shift` ticks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Track {
    /// The track_ID in the file.
    pub id: u32,
    /// Video or audio.
    pub kind: Kind,
    /// Codec and its configuration.
    pub codec: Codec,
    /// Ticks per second for all tick values of this track.
    pub timescale: u32,
    /// Offset in ticks from media to presentation time, combining edit lists and the film's zero.
    pub shift: i64,
    /// The language (ISO 639-2/T or BCP 47), `None` if undetermined.
    pub language: Option<String>,
    /// The track's own name (`hdlr` or `©nam` of the track), if it is meaningful.
    pub name: Option<String>,
    /// The "enabled" flag of tkhd, which marks the track that players should choose by default.
    pub enabled: bool,
    /// Number of samples.
    pub samples: u32,
    /// The bytes of all samples.
    pub bytes: u64,
    /// The total duration of all samples, in ticks.
    pub duration: u64,
    /// GOPs, or parts of GOPs that are too long to be held at once; see [`Group`].
    pub groups: Groups,
    /// What its groups become over RTP, once that has been counted.
    pub packets: Packets,
    /// The positions of its samples in the file, if they lie in a view.
    pub places: Places,
    /// The bytes stripped from each sample's beginning in the file (Matroska header stripping).
    pub stripped: Vec<u8>,
    /// Changes of its packets' identifier from [`Track::id`] to others, in file order.
    pub moves: Vec<Move>,
    /// Present for video.
    pub picture: Option<Picture>,
    /// Present for audio.
    pub sound: Option<Sound>,
    /// The whole `stsd` sample entry box, copied unchanged into initialisation segments.
    pub sample_entry: Vec<u8>,
}

impl Track {
    /// Creates an enabled track without samples, whose presentation time equals its media time.
    pub fn new(id: u32, kind: Kind, codec: Codec, timescale: u32) -> Track {
        Track {
            id,
            kind,
            codec,
            timescale,
            shift: 0,
            language: None,
            name: None,
            enabled: true,
            samples: 0,
            bytes: 0,
            duration: 0,
            groups: Groups::default(),
            packets: Packets::default(),
            places: Places::default(),
            stripped: Vec::new(),
            moves: Vec::new(),
            picture: None,
            sound: None,
            sample_entry: Vec::new(),
        }
    }
}

/// A run of samples that is planned and held in memory at once: a GOP, a part of a long GOP, or for
/// audio, adjacent frames.
///
/// A group ends before the next sync sample, and when [`Group::MAX_SAMPLES`] or [`Group::MAX_SPAN`]
/// is reached. If most samples are sync samples, it ends before the first one that comes half a
/// second (audio: one second) or more after its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The number of the first sample.
    pub first: u32,
    /// Number of samples.
    pub count: u32,
    /// The decode time of the first sample, in ticks.
    pub dts: i64,
    /// The composition offset of the first sample, in ticks.
    pub cts: i32,
    /// The bytes of the samples.
    pub bytes: u32,
    /// Whether the first sample is a sync sample.
    pub sync: bool,
}

/// A track's groups, in the order of their samples.
pub type Groups = Paged<Group>;

impl Record for Group {
    const USED: usize = 6;

    fn words(&self) -> [i64; WORDS] {
        [
            self.first.into(),
            self.count.into(),
            self.dts,
            self.cts.into(),
            self.bytes.into(),
            self.sync.into(),
            0,
            0,
        ]
    }

    fn of(words: &[i64; WORDS]) -> Group {
        Group {
            first: words[0] as u32,
            count: words[1] as u32,
            dts: words[2],
            cts: words[3] as i32,
            bytes: words[4] as u32,
            sync: words[5] != 0,
        }
    }
}

impl Group {
    /// The maximum number of samples in a group.
    pub const MAX_SAMPLES: u32 = 256;
    /// The maximum span of a group's bytes in the file, unless a single sample is longer.
    pub const MAX_SPAN: u64 = 256 * 1024;
}

/// The display properties of video.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Coded width in pixels, from the sample entry.
    pub width: u16,
    /// Coded height in pixels.
    pub height: u16,
    /// Pixel aspect ratio (`pasp`), 1:1 if the film does not state it.
    pub pixel_aspect: (u32, u32),
    /// The transformation matrix of tkhd (rotation) as stored in the file: 16.16, last column 2.30.
    pub matrix: [i32; 9],
    /// The width and height of tkhd, 16.16.
    pub display: (u32, u32),
}

/// The playback properties of audio.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sound {
    /// Sampling rate in Hz.
    pub rate: u32,
    /// Output channels.
    pub channels: u16,
}

impl Track {
    /// Returns the presentation time of a sample with this decode time and composition offset.
    pub fn presentation(&self, dts: i64, cts: i32) -> Nanos {
        let shown = dts.saturating_add(cts.into()).saturating_add(self.shift);
        ticks_to_nanos(shown, self.timescale)
    }

    /// Returns the decode time on the presentation timeline: when the sample should leave, not
    /// before.
    pub fn decode(&self, dts: i64) -> Nanos {
        ticks_to_nanos(dts.saturating_add(self.shift), self.timescale)
    }

    /// Returns the samples of group number `group` with their decode times. `track` is this track's
    /// index in its title.
    pub fn read_group(
        &self,
        track: usize,
        group: usize,
        from: &dyn Samples,
    ) -> Result<Vec<TimedSample>, SamplesError> {
        let found = self.groups.get(group).and_then(|group| {
            let range = group.first..group.first.checked_add(group.count)?;
            (range.end <= self.samples).then_some((range, group.dts))
        });
        let Some((range, mut dts)) = found else {
            return Err(SamplesError::OutOfRange {
                track,
                range: 0..0,
                count: self.samples,
            });
        };
        let mut samples: Vec<Sample> = Vec::with_capacity(range.len());
        from.read(track, range, &mut samples)?;
        Ok(samples
            .into_iter()
            .map(|sample| {
                let timed = TimedSample { sample, dts };
                dts = dts.saturating_add(sample.duration.into());
                timed
            })
            .collect())
    }

    /// Returns the last group that begins with a sync sample presented at or before `at`; if there
    /// is none, the first group that begins with a sync sample. A decoder starts here to show `at`.
    pub fn sync_group_at(&self, at: Nanos) -> usize {
        // Only sync samples are presented in storage order: the first sample of any other group may
        // be a B-picture, presented before the first sample of the previous group. So the search
        // asks which sync group each group belongs to.
        let head = |group: usize| self.groups.last_up_to(group, |group| group.sync);
        let (mut low, mut high) = (0, self.groups.len());
        let mut found = None;
        while low < high {
            let middle = low.midpoint(high);
            match head(middle) {
                Some((sync, group)) if self.presentation(group.dts, group.cts) > at => {
                    high = sync;
                }
                Some((sync, _)) => {
                    found = Some(sync);
                    low = middle + 1;
                }
                None => low = middle + 1,
            }
        }
        found
            .or_else(|| self.groups.iter().position(|group| group.sync))
            .unwrap_or(0)
    }

    /// Returns the last group whose first sample leaves at or before `at` by [`Track::decode`], or
    /// group 0 if there is none.
    pub fn group_at(&self, at: Nanos) -> usize {
        self.groups
            .partition_point(|group| self.decode(group.dts) <= at)
            .saturating_sub(1)
    }

    /// Returns the group that contains sample number `sample`, if that sample exists.
    pub fn group_of_sample(&self, sample: u32) -> Option<usize> {
        let after = self.groups.partition_point(|group| group.first <= sample);
        let number = after.checked_sub(1)?;
        let group = self.groups.get(number)?;
        (sample - group.first < group.count).then_some(number)
    }

    /// Returns the last sync sample presented at or before `at`, or the track's first one if there
    /// is none.
    ///
    /// For video, a decoder starts here to show `at`. For audio, and for video that consists of
    /// sync samples only, it is the sample that is heard or seen at `at`. `track` is this track's
    /// index in its title. The result's group contains the sample.
    pub fn sync_sample_at(
        &self,
        track: usize,
        at: Nanos,
        from: &dyn Samples,
    ) -> Result<SyncSample, SamplesError> {
        let group = self.sync_group_at(at);
        let samples = self.read_group(track, group, from)?;
        let starts_by = |timed: &TimedSample| self.presentation(timed.dts, timed.sample.cts) <= at;
        let within = (samples
            .iter()
            .rposition(|timed| timed.sample.sync && starts_by(timed)))
        .or_else(|| samples.iter().position(|timed| timed.sample.sync))
        .unwrap_or(0);
        let (Some(&timed), Some(first)) = (samples.get(within), self.groups.get(group)) else {
            return Err(SamplesError::OutOfRange {
                track,
                range: 0..1,
                count: self.samples,
            });
        };
        Ok(SyncSample {
            group,
            number: first.first + within as u32,
            timed,
        })
    }
}

/// The sample at which playback starts; see [`Track::sync_sample_at`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncSample {
    /// The index into [`Track::groups`].
    pub group: usize,
    /// The sample's number in its track, counted from 0.
    pub number: u32,
    /// The sample and its decode time.
    pub timed: TimedSample,
}

impl Title {
    /// Returns the video track and its index: the first enabled one, otherwise the first.
    pub fn video(&self) -> Option<(usize, &Track)> {
        let mut all = self
            .tracks
            .iter()
            .enumerate()
            .filter(|(_, track)| track.kind == Kind::Video);
        all.clone()
            .find(|(_, track)| track.enabled)
            .or_else(|| all.next())
    }

    /// Returns the audio tracks and their indices, in file order.
    pub fn audio(&self) -> impl Iterator<Item = (usize, &Track)> {
        self.tracks
            .iter()
            .enumerate()
            .filter(|(_, track)| track.kind == Kind::Audio)
    }
}
