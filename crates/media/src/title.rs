//! A title: what a film is once its container is understood.

use serde::{Deserialize, Serialize};

use crate::entry_points::EntryPoints;
use crate::packets::Packets;
use crate::places::{Move, Places, View};
use crate::{
    Chapter, Codec, Nanos, Paged, Record, Sample, Samples, SamplesError, TextTrack, TimedSample,
    WORDS, ticks_to_nanos,
};

/// A film without its sample records, which are kept apart ([`Samples`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Title {
    /// How the file is laid out.
    pub container: Container,
    /// What samples' offsets count, where that is not the file.
    pub view: Option<View>,
    /// The title the file itself carries (`©nam`), if any.
    pub name: Option<String>,
    /// Tracks that can be played by at least one protocol, in file order.
    pub tracks: Vec<Track>,
    /// Presentation length: the end of the longest track.
    pub duration: Nanos,
    /// When its beginning was recorded, as the container tells: ns since 1970.
    pub recorded_at: Option<Nanos>,
    /// Its chapters, in their order.
    pub chapters: Vec<Chapter>,
    /// Subtitles inside the file, in file order.
    pub texts: Vec<TextTrack>,
    /// What was passed over or put right, in words for people: cover art, tracks of text, oddities.
    pub notes: Vec<String>,
    /// All packets of a transport stream as they lie in the file, as one track more: what is sent to those who want the stream as
    /// it is. See [`Title::as_transport_stream`].
    pub multiplex: Option<Box<Track>>,
    /// What its samples' offsets count, where something lies between the packets in the file.
    pub multiplex_view: Option<View>,
    /// Where it may be cut into slices, and what players need before each of them.
    pub entry_points: Option<Box<EntryPoints>>,
}

impl Title {
    /// An MP4 film of these tracks, without a name. It is as long as the longest track's samples, if they are presented as
    /// they are decoded.
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

    /// All tracks that have sample records, in the order of these.
    pub fn recorded(&self) -> impl Iterator<Item = &Track> {
        self.tracks.iter().chain(self.multiplex.as_deref())
    }

    /// The same, to change them.
    pub fn recorded_mut(&mut self) -> impl Iterator<Item = &mut Track> {
        self.tracks.iter_mut().chain(self.multiplex.as_deref_mut())
    }
}

/// Container layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Container {
    /// MP4 with all its samples in `moov`.
    Mp4,
    /// MP4 with movie fragments (`moof`).
    FragmentedMp4,
    /// Matroska or WebM.
    Matroska,
    /// MPEG transport stream.
    TransportStream,
    /// MPEG program stream, or system stream of MPEG-1.
    ProgramStream,
    /// A stream of H.264, H.265, MPEG-1 or MPEG-2 picture by itself.
    ElementaryStream,
}

/// Picture or sound.
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
/// sample at or before the start that the edit list asks for. Sound decoded only to prime its
/// decoder lies before 0. Where sound begins earlier than that (0.1 s or five frames before the
/// first picture), or there is no picture, 0 is where the sound begins, and the first picture may
/// come late. A sample is presented at `dts + cts + shift` ticks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Track {
    /// track_ID in the file.
    pub id: u32,
    /// Picture or sound.
    pub kind: Kind,
    /// Codec and its configuration.
    pub codec: Codec,
    /// Ticks a second of all tick values of this track.
    pub timescale: u32,
    /// Ticks from media to presentation time: edit lists and the film's zero in one number.
    pub shift: i64,
    /// ISO 639-2/T or BCP 47 language, `None` for undetermined.
    pub language: Option<String>,
    /// The track's own name (`hdlr` or `©nam` of the track), if it says something.
    pub name: Option<String>,
    /// tkhd's "enabled" flag: the track players should take without being asked.
    pub enabled: bool,
    /// Number of samples.
    pub samples: u32,
    /// Media bytes of all samples.
    pub bytes: u64,
    /// Ticks of all samples together.
    pub duration: u64,
    /// GOPs, or parts of such as are too long to be held at once; see [`Group`].
    pub groups: Groups,
    /// What its groups become over RTP, once that was counted.
    pub packets: Packets,
    /// Where its samples are found in the file, where they lie in a view.
    pub places: Places,
    /// What each of its samples begins with that is not in the file (header stripping of Matroska).
    pub stripped: Vec<u8>,
    /// From where on packets with other numbers than [`Track::id`] carry it, in the order of the file.
    pub moves: Vec<Move>,
    /// For video.
    pub picture: Option<Picture>,
    /// For audio.
    pub sound: Option<Sound>,
    /// The `stsd` sample entry, a whole box, verbatim: initialisation segments carry it on.
    pub sample_entry: Vec<u8>,
}

impl Track {
    /// A track without samples, of which nothing else is known: enabled, and its presentation time is its media time.
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

/// A run of samples that is planned and held in memory at once: a GOP, or a part of a long one, or
/// for sound the frames that lie beside each other.
///
/// A group ends before the next sync sample, and wherever [`Group::MAX_SAMPLES`] or
/// [`Group::MAX_SPAN`] is reached. Where most samples are sync samples, it ends before the first
/// that comes half a second (sound: a second) or more after its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// First sample.
    pub first: u32,
    /// Number of samples.
    pub count: u32,
    /// Decode time of the first sample, in ticks.
    pub dts: i64,
    /// Composition offset of the first sample, in ticks.
    pub cts: i32,
    /// Media bytes of the samples.
    pub bytes: u32,
    /// Whether the first sample is a sync sample.
    pub sync: bool,
}

/// A track's groups in the order of their samples.
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
    /// Most samples of a group.
    pub const MAX_SAMPLES: u32 = 256;
    /// Most bytes of the file from a group's lowest to its highest, unless one sample is longer.
    pub const MAX_SPAN: u64 = 256 * 1024;
}

/// How a picture is to be shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Coded width in pixels, from the sample entry.
    pub width: u16,
    /// Coded height in pixels.
    pub height: u16,
    /// Pixel aspect ratio (`pasp`), 1:1 where the film says nothing.
    pub pixel_aspect: (u32, u32),
    /// tkhd's transformation matrix (rotation), as in the file: 16.16, last column 2.30.
    pub matrix: [i32; 9],
    /// tkhd's width and height, 16.16.
    pub display: (u32, u32),
}

/// How sound is to be heard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sound {
    /// Sampling rate in Hz.
    pub rate: u32,
    /// Output channels.
    pub channels: u16,
}

impl Track {
    /// Presentation time of a sample with this decode time and composition offset.
    pub fn presentation(&self, dts: i64, cts: i32) -> Nanos {
        let shown = dts.saturating_add(cts.into()).saturating_add(self.shift);
        ticks_to_nanos(shown, self.timescale)
    }

    /// Decode time on the presentation timeline: when the sample should leave, not before.
    pub fn decode(&self, dts: i64) -> Nanos {
        ticks_to_nanos(dts.saturating_add(self.shift), self.timescale)
    }

    /// The samples of group number `group` with their decode times; `track` is this track's index
    /// in its title.
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

    /// The last group that begins with a sync sample presented at or before `at`; the first such
    /// group where none does. This is where a decoder starts to show `at`.
    pub fn sync_group_at(&self, at: Nanos) -> usize {
        // Only sync samples are shown in the order they are stored: the first sample of any other
        // group may be a B-picture, shown before what the group ahead of it begins with. So the
        // search asks of each group which sync group it belongs to.
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

    /// The last group whose first sample leaves at or before `at` by [`Track::decode`]; group 0
    /// where none does.
    pub fn group_at(&self, at: Nanos) -> usize {
        self.groups
            .partition_point(|group| self.decode(group.dts) <= at)
            .saturating_sub(1)
    }

    /// The group that holds sample number `sample`, if there is such a sample.
    pub fn group_of_sample(&self, sample: u32) -> Option<usize> {
        let after = self.groups.partition_point(|group| group.first <= sample);
        let number = after.checked_sub(1)?;
        let group = self.groups.get(number)?;
        (sample - group.first < group.count).then_some(number)
    }

    /// The last sync sample presented at or before `at`; the first one of the track where none is.
    ///
    /// For a picture this is where a decoder starts to show `at`; for sound, and for picture that is
    /// all sync samples, the sample that is heard or seen at `at`. `track` is this track's index in
    /// its title. The answer's group is where the sample lies.
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

/// Where playing starts; see [`Track::sync_sample_at`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncSample {
    /// Index into [`Track::groups`].
    pub group: usize,
    /// The sample's number in its track, from 0.
    pub number: u32,
    /// The sample and its decode time.
    pub timed: TimedSample,
}

impl Title {
    /// The picture's track, and its index: the first enabled one, else the first.
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

    /// Sound tracks with their indices, in file order.
    pub fn audio(&self) -> impl Iterator<Item = (usize, &Track)> {
        self.tracks
            .iter()
            .enumerate()
            .filter(|(_, track)| track.kind == Kind::Audio)
    }
}
