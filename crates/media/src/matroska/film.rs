//! Turns tracks and frames into the drafts from which the timeline is built.

use std::collections::BTreeMap;
use std::ops::Range;

use super::entry;
use super::text::{self, Text};
use super::times::{self, Heard, Times};
use super::tracks::{Info, Shape, Stated};
use super::view;
use crate::index::Index;
use crate::index_error::{IndexError, IndexErrorKind};
use crate::mp4::{Draft, Entry, Gathered, Movie, lay_out};
use crate::samples::{Sample, SampleTable};
use crate::scratch::Scratch;
use crate::texts::{Cue, Texts};
use crate::time::{SECOND, rescale};
use crate::title::{Container, Kind};
use crate::{Chapter, Codec, Sound};

/// The timescale in ticks per second if the file's own ticks do not divide a second evenly.
const MICROSECONDS: u32 = 1_000_000;
/// The longest that a picture waits for pictures that are presented before it, in seconds.
const MOST_REORDERED: u32 = 10;
/// The identity matrix: no rotation, no scaling (ISO/IEC 14496-12 8.3.2).
const AS_IT_IS: [i32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];
/// The time of a frame that follows another one in its block and so has no time of its own.
const FOLLOWS: i64 = i64::MIN;

/// The frames of a track, in file order.
#[derive(Debug, Default)]
pub struct Frames {
    /// The positions of the frames and their presentation times in ticks of the file, or
    /// [`FOLLOWS`]; see [`shown`].
    table: SampleTable,
    /// The duration of the last frame in ticks, if its block states it.
    last: Option<i64>,
}

/// Returns a frame's presentation time, which is stored in its duration and composition offset
/// until all frames are known.
fn shown(frame: Sample) -> i64 {
    i64::from(frame.cts) << 32 | i64::from(frame.duration)
}

impl Frames {
    /// Creates an empty list that stores its frames in scratch space.
    pub fn new(scratch: &Scratch) -> Frames {
        Frames {
            table: SampleTable::new(scratch),
            last: None,
        }
    }

    /// Returns the byte range of the first frame.
    pub fn first(&self) -> Option<Range<u64>> {
        self.table.iter().next().map(|sample| sample.bytes())
    }

    /// Adds a block's frames. The first is presented at `at`; the block lasts `last` ticks.
    pub fn add(&mut self, frames: &[Range<u64>], at: i64, sync: bool, last: Option<i64>) {
        for (number, frame) in frames.iter().enumerate() {
            let at = if number == 0 { at } else { FOLLOWS };
            self.table.push(Sample {
                offset: frame.start,
                size: (frame.end - frame.start) as u32,
                duration: at as u32,
                cts: (at >> 32) as i32,
                sync,
            });
        }
        self.last = last.filter(|_| frames.len() == 1);
    }

    /// Returns the samples with these times, each lengthened by the bytes stripped from it.
    fn timed(&self, times: &Times, sound: bool, stripped: u32) -> SampleTable {
        let mut table = SampleTable::new(self.table.scratch());
        for (sample, (duration, cts)) in self.table.iter().zip(times.steps()) {
            table.push(Sample {
                // Blocks are shorter than 2^31 bytes by more than the stripped bytes.
                size: sample.size + stripped,
                duration,
                cts,
                sync: sample.sync || sound,
                ..sample
            });
        }
        table
    }
}

/// A conversion from ticks of a file to a timescale.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    scale: u64,
    timescale: u32,
}

impl Ticks {
    /// Creates a conversion for ticks of this many nanoseconds.
    fn of(scale: u64) -> Ticks {
        let whole = (SECOND as u64).is_multiple_of(scale);
        let timescale = if whole {
            SECOND as u64 / scale
        } else {
            MICROSECONDS.into()
        };
        Ticks {
            scale,
            timescale: timescale as u32,
        }
    }

    fn count(self, ticks: i64) -> i64 {
        match (SECOND as u64).is_multiple_of(self.scale) {
            true => ticks,
            false => (i128::from(ticks) * i128::from(self.scale) / 1000) as i64,
        }
    }
}

/// Everything read from a file.
#[derive(Debug, Default)]
pub struct Film {
    pub info: Info,
    /// The offset of `Tracks`.
    pub tracks_at: u64,
    pub tracks: Vec<Stated>,
    pub chapters: Vec<Chapter>,
    /// The frames by track number.
    pub frames: BTreeMap<u64, Frames>,
    /// Subtitles.
    pub texts: Texts,
    /// For the number of a text track: its index among the tracks and among the texts.
    pub text_of: BTreeMap<u64, (usize, usize)>,
    /// The beginnings of first frames by track number, for codecs that require them.
    pub heads: BTreeMap<u64, Vec<u8>>,
    pub notes: Vec<String>,
    /// The scratch space for data that grows with the file.
    pub scratch: Scratch,
}

impl Film {
    /// Creates an empty film.
    pub fn new(scratch: &Scratch) -> Film {
        Film {
            scratch: scratch.clone(),
            ..Film::default()
        }
    }

    /// Takes the tracks described at byte `at`, unless there already are some: writers repeat them,
    /// and frames refer to the first ones.
    pub fn take_tracks(&mut self, at: u64, tracks: Vec<Stated>) {
        if !self.tracks.is_empty() {
            return;
        }
        (self.tracks_at, self.tracks) = (at, tracks);
        for (place, track) in self.tracks.iter().enumerate() {
            if track.shape == Shape::Other
                && let Some(found) = text::track(track)
                && let Some(number) = self.texts.add_track(found)
            {
                self.text_of.entry(track.number).or_insert((place, number));
            }
        }
    }

    /// Adds the cue in a frame, which is presented at `shown` for `duration` ticks.
    pub fn add_cue(&mut self, track: u64, frame: &Text, shown: i64, duration: Option<i64>) {
        let Some((place, number)) = self.text_of.get(&track) else {
            return;
        };
        let stated = &self.tracks[*place];
        let nanos = |ticks: i64| ticks.saturating_mul(self.info.scale as i64);
        let start = nanos(shown).saturating_sub(stated.delay as i64);
        let Some((settings, text)) = text::cue(stated, &frame.frame) else {
            return;
        };
        let own = Some(settings).filter(|settings| !settings.is_empty());
        let cue = Cue {
            start,
            end: duration.map(|duration| start.saturating_add(nanos(duration))),
            settings: own.unwrap_or_else(|| frame.settings.clone()),
            text,
        };
        self.texts.add(*number, cue);
    }

    /// Builds the index of the file, which has `len` bytes.
    pub fn index(mut self, len: u64) -> Result<Index, IndexError> {
        let mut movie = Movie {
            timescale: 1000,
            name: self.info.name.take(),
            date: self.info.date,
            ..Movie::default()
        };
        movie.chapters.set(std::mem::take(&mut self.chapters));
        movie.subtitles.set(std::mem::take(&mut self.texts));
        for note in std::mem::take(&mut self.notes) {
            movie.note(note);
        }
        for track in std::mem::take(&mut self.tracks) {
            if self.text_of.contains_key(&track.number) {
                continue;
            }
            // A second track of the same number has no frames.
            let frames = self.frames.remove(&track.number).unwrap_or_default();
            match self.draft(&track, &frames) {
                Ok(draft) => movie.tracks.push(draft),
                Err(Passed::Over(reason)) => {
                    movie.note(format!("track {} ({reason}) skipped", track.number));
                }
                Err(Passed::Wrong(error)) => return Err(*error),
            }
        }
        let mut index = lay_out(movie, Container::Matroska)?;
        view::put_heads(&mut index, len)?;
        Ok(index)
    }

    fn draft(&self, track: &Stated, frames: &Frames) -> Result<Draft, Passed> {
        let (kind, display) = match track.shape {
            Shape::Picture { display, .. } => (Kind::Video, display),
            Shape::Sound { .. } => (Kind::Audio, (0, 0)),
            Shape::Other => return Err(Passed::Over(other(&track.codec))),
        };
        let stripped = track.kept.stripped().map_err(Passed::over)?;
        let head = self.heads.get(&track.number).map_or(&[][..], Vec::as_slice);
        let head = [stripped, head].concat();
        let entry = entry::make(track, &head).map_err(Passed::Over)?;
        let (timescale, times) = self.times(track, &entry, frames, stripped.len() as u32)?;
        let delay = rescale(track.delay as i64, SECOND as u32, timescale);
        Ok(Draft {
            path: format!("Segment/Tracks (track {})", track.number),
            offset: self.tracks_at,
            id: u32::try_from(track.number).unwrap_or(u32::MAX),
            kind,
            enabled: track.enabled,
            timescale,
            language: track.language.clone(),
            name: track.name.clone(),
            matrix: AS_IT_IS,
            display,
            edit: Default::default(),
            entries: vec![Ok(entry)],
            gathered: Gathered {
                samples: frames.timed(&times, kind == Kind::Audio, stripped.len() as u32),
                first_dts: times.first - delay,
                end_dts: times.end - delay,
                description: 1,
                ..Gathered::default()
            },
            stripped: stripped.to_vec(),
        })
    }

    /// Returns a track's ticks per second and its times; `stripped` bytes are missing in each
    /// stored frame.
    fn times(
        &self,
        track: &Stated,
        entry: &Entry,
        frames: &Frames,
        stripped: u32,
    ) -> Result<(u32, Times), Passed> {
        let ticks = Ticks::of(self.info.scale);
        let Some(Sound { rate, .. }) = entry.sound.clone().filter(|sound| sound.rate > 0) else {
            let shown = shown_pictures(frames, ticks);
            let last = frames.last.map(|last| ticks.count(last));
            let own = track.frame.map(|frame| (frame as i64).min(SECOND * 60));
            let last = last.or(own.map(|own| rescale(own, SECOND as u32, ticks.timescale)));
            let most = i64::from(MOST_REORDERED) * i64::from(ticks.timescale);
            let times = times::pictures(shown, last, most, &self.scratch);
            return times.map(|times| (ticks.timescale, times)).ok_or_else(|| {
                Passed::Wrong(Box::new(IndexError {
                    path: format!("Segment/Cluster (track {})", track.number),
                    offset: frames.first().map_or(0, |first| first.start),
                    problem: format!("its times go back by more than {MOST_REORDERED} s"),
                    kind: IndexErrorKind::Damaged,
                }))
            });
        };
        let (rate, frame) = match &entry.codec {
            Codec::Aac(config) => (config.rate, Some(u32::from(config.frame_length))),
            Codec::Ac3 => (rate, Some(1536)),
            // Layers II and III; layer I does not occur in Matroska.
            Codec::MpegAudio(audio) if audio.object_type == 0x6b => (rate, Some(1152)),
            _ => (rate, None),
        };
        let own = track
            .frame
            .map(|own| rescale((own as i64).min(SECOND), SECOND as u32, rate) as u32);
        let frame = frame.or(own).filter(|frame| *frame > 0);
        let length = |sample: &Sample| match &entry.codec {
            Codec::Pcm(config) => Some((sample.size + stripped) / config.frame_bytes()),
            _ => frame,
        };
        let heard = frames.table.iter().map(|sample| Heard {
            start: Some(shown(sample))
                .filter(|at| *at != FOLLOWS)
                .map(|at| ticks.count(at)),
            length: length(&sample),
        });
        let times = times::sound(heard, ticks.timescale, rate, &self.scratch);
        Ok((rate, times))
    }
}

/// Returns the presentation times of pictures; those of a block all have that of the first.
fn shown_pictures(frames: &Frames, ticks: Ticks) -> impl Iterator<Item = i64> + Clone + '_ {
    let mut latest = 0;
    frames.table.iter().map(move |frame| {
        let shown = shown(frame);
        if shown != FOLLOWS {
            latest = ticks.count(shown);
        }
        latest
    })
}

/// Describes a track that is neither video nor audio nor supported text, for users.
fn other(codec: &str) -> String {
    match codec {
        "S_VOBSUB" | "S_HDMV/PGS" | "S_DVBSUB" | "S_IMAGE/BMP" => {
            format!("subtitles as pictures, {codec}")
        }
        _ if codec.starts_with("S_") => format!("subtitles, {codec}"),
        _ => "no picture and no sound".to_owned(),
    }
}

/// The reason why a track is not part of the film.
enum Passed {
    /// It cannot be played: the reason as text for users.
    Over(String),
    /// The whole film cannot be played.
    Wrong(Box<IndexError>),
}

impl Passed {
    fn over(reason: &str) -> Passed {
        Passed::Over(reason.to_owned())
    }
}
