//! Makes parts of a view from the file.

use std::ops::Range;

use super::carrier::Carrier;
use super::lpcm::Lpcm;
use super::nal::{Family, LENGTH, Units};
use super::pes::Stream;
use super::ps;
use super::sounds::{Frames, Framing, GAP};
use super::ts::{self, Walker};
use crate::places::{Filled, Move, Place, STEP, View};
use crate::samples::{Sample, Samples, SamplesError};
use crate::title::{Title, Track};
use crate::{Codec, Kind};

/// The number of samples read at once.
const AT_ONCE: u32 = 64;
/// The maximum size of a packet in bytes.
const LONGEST_PACKET: u64 = 128 << 10;
/// Bytes of the file requested beyond the beginning of the next part.
const MORE: u64 = 64 << 10;

/// The form of samples in their stream.
#[derive(Clone, Debug)]
enum How {
    Units(Family),
    Bytes,
    /// Frames of AAC with this configuration. The first one of each part determines the framing.
    Aac(Vec<u8>),
    Frames(Framing),
}

impl How {
    fn of(track: &Track, carrier: Carrier) -> Option<How> {
        Some(match (&track.codec, track.kind) {
            (Codec::H264(_), _) => How::Units(Family::H264),
            (Codec::H265(_), _) => How::Units(Family::H265),
            (Codec::MpegVideo(_) | Codec::Mpeg4Visual(_), _) => How::Bytes,
            (Codec::MpegAudio(_), _) => How::Frames(Framing::Mpeg),
            (Codec::Aac(config), _) => How::Aac(config.config.clone()),
            (Codec::Ac3 | Codec::Eac3, _) => How::Frames(Framing::Dolby),
            (Codec::Opus(config), _) => How::Frames(Framing::Opus(config.channels)),
            (Codec::Pcm(config), _) => How::Frames(match carrier {
                Carrier::Transport(_) => Framing::Hdmv,
                _ => Framing::Dvd(Lpcm {
                    config: *config,
                    rate: track.sound.as_ref()?.rate,
                }),
            }),
            (_, Kind::Video | Kind::Audio) => return None,
        })
    }
}

/// The part of one stream to be extracted.
#[derive(Debug)]
struct Part {
    /// The PID of its packets, and the changes of it.
    pid: u16,
    moves: Vec<Move>,
    how: How,
    from: Place,
    samples: Vec<Sample>,
}

impl Part {
    /// Returns how often the PID has changed before byte `at` of the file, and the PID there.
    fn carried_at(&self, at: u64) -> (usize, u16) {
        let moved = self.moves.partition_point(|to| to.file <= at);
        let last = moved.checked_sub(1).and_then(|last| self.moves.get(last));
        (moved, last.map_or(self.pid, |to| to.pid))
    }
}

/// The process of making some bytes of a view of streams.
#[derive(Debug)]
pub struct Filling {
    carrier: Carrier,
    len: u64,
    range: Range<u64>,
    parts: Vec<Part>,
    wanted: Range<u64>,
}

impl Filling {
    /// Starts making the bytes `range` of the view of a film whose file has `len` bytes.
    ///
    /// # Errors
    /// The film's sample records cannot be read.
    pub fn new(
        title: &Title,
        view: View,
        samples: &dyn Samples,
        len: u64,
        range: Range<u64>,
    ) -> Result<Filling, SamplesError> {
        let carrier = Carrier::of_view(view.packet);
        let place = |track: &Track, at: u64| track.places.get(usize::try_from(at).ok()?);
        let mut parts = Vec::new();
        let mut wanted = len..0;
        for (number, track) in title.tracks.iter().enumerate() {
            let (Some(how), Ok(pid)) = (How::of(track, carrier), u16::try_from(track.id)) else {
                continue;
            };
            let Some(from) = place(track, range.start / STEP) else {
                continue;
            };
            let samples = overlapping(track, number, samples, &from, &range)?;
            let Some(last) = samples.last() else {
                continue;
            };
            let next = place(track, range.end.div_ceil(STEP));
            // Streams that end here are searched as far as their bytes reach, others to `next`.
            let next = next.filter(|next| next.sample < track.samples);
            let bytes: u64 = samples.iter().map(|sample| u64::from(sample.size)).sum();
            let near = from.file.saturating_add(bytes).saturating_add(GAP);
            let end = next.map_or(near, |next| next.file.saturating_add(last.size.into()));
            // It may continue long after the end of the requested part.
            let end = end.min(near);
            wanted.start = wanted.start.min(from.file);
            wanted.end = wanted.end.max(end);
            parts.push(Part {
                pid,
                moves: track.moves.clone(),
                how,
                from,
                samples,
            });
        }
        wanted.end = wanted.end.saturating_add(MORE).min(len);
        wanted.start = wanted.start.min(wanted.end);
        Ok(Filling {
            carrier,
            len,
            range,
            parts,
            wanted,
        })
    }

    /// Returns the byte range of the file that is needed.
    pub fn wanted(&self) -> Range<u64> {
        self.wanted.clone()
    }

    /// Makes the bytes from the requested bytes of the file. `room` holds intermediate data;
    /// callers should reuse it for the next part.
    pub fn fill(&mut self, file: &[u8], into: &mut [u8], room: &mut Vec<Vec<u8>>) -> Filled {
        let size = self.wanted.end - self.wanted.start;
        if file.len() as u64 != size || into.len() as u64 != self.range.end - self.range.start {
            return Filled::Different;
        }
        // Bytes that belong to no track must not expose earlier contents of the memory.
        into.fill(0);
        let mut streams: Vec<Gathered> = self
            .parts
            .iter()
            .map(|part| {
                let sizes = part.samples.iter().map(|sample| u64::from(sample.size));
                // The index may come from elsewhere: do not reserve more than the file can contain.
                let most = size.min(sizes.sum());
                let mut bytes = room.pop().unwrap_or_default();
                bytes.clear();
                bytes.reserve(most as usize);
                Gathered {
                    stream: Stream::default(),
                    bytes,
                    ends: Vec::new(),
                    latest: part.from.file,
                    moved: part.carried_at(part.from.file).0,
                }
            })
            .collect();
        self.gather(file, &mut streams);
        let filled = self.put(into, &streams);
        // In reverse, because the next part takes the last one first.
        room.extend(streams.into_iter().rev().map(|gathered| gathered.bytes));
        if filled == Filled::More {
            // Doubling the range keeps the number of attempts small.
            let more = size.max(STEP);
            self.wanted.end = self.wanted.end.saturating_add(more).min(self.len);
        }
        filled
    }
}

impl Filling {
    /// Collects the data of each stream in the file.
    fn gather(&self, file: &[u8], streams: &mut [Gathered]) {
        let is_end = self.wanted.end == self.len;
        let start = self.wanted.start;
        match self.carrier {
            Carrier::Transport(layout) => {
                Walker::new(layout).walk(file, is_end, |within, packet| {
                    self.take(start + within as u64, &packet, streams);
                });
            }
            Carrier::Program => {
                ps::walk(file, is_end, |within, packet| {
                    self.take_program(start + within as u64, &packet, streams);
                });
            }
            Carrier::Nothing => {
                for (part, gathered) in self.parts.iter().zip(streams) {
                    let within = usize::try_from(part.from.file.saturating_sub(start));
                    let bytes = within.ok().and_then(|within| file.get(within..));
                    gathered.add(part.from.file, bytes.unwrap_or_default());
                }
            }
        }
    }

    /// Copies the collected data to its destination.
    fn put(&self, into: &mut [u8], streams: &[Gathered]) -> Filled {
        let is_end = self.wanted.end == self.len;
        for (part, gathered) in self.parts.iter().zip(streams) {
            let bytes = &gathered.bytes[..];
            let mut out = Out {
                range: &self.range,
                into,
                samples: part.samples.iter(),
                left: 0..0,
            };
            let whole = match &part.how {
                How::Units(family) => out.units(*family, bytes, is_end),
                How::Bytes => Some(out.bytes(bytes)),
                How::Aac(config) => {
                    let framing = Framing::of_aac(bytes);
                    let mut frames = Frames::new(framing);
                    frames.only(Some(framing.said_of(config).to_vec()));
                    out.frames(&frames, gathered, self.wanted.end, is_end)
                }
                How::Frames(framing) => {
                    let frames = Frames::new(*framing);
                    out.frames(&frames, gathered, self.wanted.end, is_end)
                }
            };
            match whole {
                Some(true) => {}
                Some(false) if !is_end => return Filled::More,
                _ => return Filled::Different,
            }
        }
        Filled::Whole
    }

    /// Takes the packet of a transport stream at byte `at` of the file.
    fn take(&self, at: u64, packet: &ts::Packet, streams: &mut [Gathered]) {
        for (part, gathered) in self.parts.iter().zip(streams) {
            let (moved, pid) = part.carried_at(at);
            if pid != packet.pid || at < part.from.file || packet.scrambled {
                continue;
            }
            if gathered.moved != moved {
                (gathered.moved, gathered.stream) = (moved, Stream::that_begins());
            }
            let fresh = if at == part.from.file {
                gathered.stream = Stream::after(packet);
                packet.payload.get(part.from.skip as usize..)
            } else {
                gathered.stream.take(packet).map(|carried| carried.bytes)
            };
            gathered.add(at, fresh.unwrap_or_default());
        }
    }

    /// Takes the packet of a program stream at byte `at` of the file.
    fn take_program(&self, at: u64, packet: &ps::Packet, streams: &mut [Gathered]) {
        for (part, gathered) in self.parts.iter().zip(streams) {
            if part.pid != packet.stream || at < part.from.file || packet.scrambled {
                continue;
            }
            if matches!(part.how, How::Frames(Framing::Dvd(sound)) if packet.is_other(sound)) {
                continue;
            }
            let skip = match at == part.from.file {
                true => part.from.skip as usize,
                false => packet.head,
            };
            gathered.add(at, packet.whole.get(skip..).unwrap_or_default());
        }
    }
}

/// Returns the samples of a track from this place on that have bytes before the end of the range.
fn overlapping(
    track: &Track,
    number: usize,
    from: &dyn Samples,
    place: &Place,
    range: &Range<u64>,
) -> Result<Vec<Sample>, SamplesError> {
    let mut samples = Vec::new();
    let mut next = place.sample;
    while next < track.samples {
        let end = (next + AT_ONCE).min(track.samples);
        from.read(number, next..end, &mut samples)?;
        next = end;
        if samples.last().is_some_and(|last| last.offset >= range.end) {
            break;
        }
    }
    samples.retain(|sample| sample.offset < range.end);
    Ok(samples)
}

/// The data collected from a stream.
struct Gathered {
    stream: Stream,
    bytes: Vec<u8>,
    /// The positions at which it started anew after a gap.
    ends: Vec<usize>,
    /// The offset in the file of the last packet that carried anything.
    latest: u64,
    /// How often its PID had changed by then.
    moved: usize,
}

impl Gathered {
    /// Adds the payload of a packet at byte `at` of the file.
    fn add(&mut self, at: u64, fresh: &[u8]) {
        if fresh.is_empty() {
            return;
        }
        if at > self.latest + GAP && !self.bytes.is_empty() {
            self.ends.push(self.bytes.len());
        }
        self.latest = at;
        self.bytes.extend_from_slice(fresh);
    }
}

/// The destination of a stream's samples.
struct Out<'a> {
    range: &'a Range<u64>,
    into: &'a mut [u8],
    samples: std::slice::Iter<'a, Sample>,
    /// The missing part of the current sample.
    left: Range<u64>,
}

impl Out<'_> {
    /// Moves past a complete sample to the next one; `false` if no wanted one is left.
    fn has_more(&mut self) -> bool {
        while self.left.is_empty() {
            match self.samples.next() {
                Some(sample) => self.left = sample.bytes(),
                None => return false,
            }
        }
        self.left.start < self.range.end
    }

    /// Copies bytes to their destination; `false` if the sample has no room for them.
    fn put(&mut self, bytes: &[u8]) -> bool {
        let at = self.left.start;
        let end = at + bytes.len() as u64;
        if end > self.left.end {
            return false;
        }
        self.left.start = end;
        let (from, to) = (at.max(self.range.start), end.min(self.range.end));
        if from < to {
            let within = |offset: u64| (offset - self.range.start) as usize;
            let bytes = &bytes[(from - at) as usize..(to - at) as usize];
            self.into[within(from)..within(to)].copy_from_slice(bytes);
        }
        true
    }

    /// Takes NAL units, with their lengths. Returns whether all are there; `None` if they do not
    /// match the index.
    fn units(&mut self, family: Family, bytes: &[u8], is_end: bool) -> Option<bool> {
        let mut units = Units::default();
        while self.has_more() {
            let Some(range) = units.next(bytes, is_end) else {
                return Some(false);
            };
            let unit = &bytes[range];
            if !family.keeps(unit) {
                continue;
            }
            let length: [u8; LENGTH] = (unit.len() as u32).to_be_bytes();
            if !self.put(&length) || !self.put(unit) {
                return None;
            }
        }
        Some(true)
    }

    /// Takes bytes unchanged. Returns whether all are there.
    fn bytes(&mut self, mut bytes: &[u8]) -> bool {
        while self.has_more() {
            let size = self.left.end - self.left.start;
            let Some((sample, rest)) = bytes.split_at_checked(size as usize) else {
                // A part of the sample may be enough.
                let wanted = self.range.end.saturating_sub(self.left.start);
                return bytes.len() as u64 >= wanted && self.put(bytes);
            };
            self.put(sample);
            bytes = rest;
        }
        true
    }

    /// Takes frames of this kind, without headers, of the data up to byte `now` of the file.
    fn frames(
        &mut self,
        such: &Frames,
        gathered: &Gathered,
        now: u64,
        is_end: bool,
    ) -> Option<bool> {
        let mut start = 0;
        let rests = is_end || now > gathered.latest + GAP + LONGEST_PACKET;
        let runs = gathered.ends.iter().map(|end| (*end, true));
        for (end, is_whole) in runs.chain([(gathered.bytes.len(), rests)]) {
            let bytes = &gathered.bytes[start..end];
            let mut frames = such.anew();
            start = end;
            while self.has_more() {
                let Some(frame) = frames.next(bytes, is_whole) else {
                    break;
                };
                if frame.other {
                    continue;
                }
                let is_it = frame.size as u64 == self.left.end - self.left.start;
                let payload = frames.payload(&bytes[frame.start..frame.end])?;
                if !is_it || !self.put(&payload) {
                    return None;
                }
            }
        }
        Some(!self.has_more())
    }
}
