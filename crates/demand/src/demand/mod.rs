//! The needs of a film's tracks, from the sample table alone: known as soon as the film is indexed.

mod held;
mod shares;

use std::sync::Arc;

use reelway_media::{Kind, Nanos, Paged, Samples, SamplesError, Title};
use reelway_rtp::{Bytes, Payload, PayloadOptions};

use self::held::{HeldMemory, SideBySide};
use self::shares::shares;
use crate::curve::{BIN, Counted, Curve, runs};

pub use self::held::Reading;

/// What a frame of Ethernet takes in addition to the IP packet: header 14, check sequence 4,
/// preamble 8, and the gap to the next, 12 (IEEE 802.3). Counted so that a link of 100 Mbit/s is
/// full at 100 Mbit/s.
pub const ETHERNET: u32 = 14 + 4 + 8 + 12;

/// How media reaches the viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carriage {
    /// RTP over UDP and IPv4.
    UdpV4,
    /// RTP over UDP and IPv6.
    UdpV6,
    /// RTP interleaved in RTSP's TCP connection.
    Tcp,
    /// Segments or files over HTTP.
    Http,
}

impl Carriage {
    /// Bytes on the wire for `bytes` of media in `packets` RTP packets, with the headers of RTP,
    /// UDP or TCP, IP and Ethernet.
    pub fn wire(self, bytes: u32, packets: u32) -> u32 {
        const RTP: u32 = 12;
        const UDP: u32 = 8;
        // TCP with timestamps over IPv6, which has the longer header: 1428 bytes of a packet of
        // 1500.
        const TCP: u64 = 1500 + ETHERNET as u64;
        const OF_TCP: u64 = 1500 - 40 - 32;
        let in_tcp = |bytes: u64| u32::try_from((bytes * TCP).div_ceil(OF_TCP)).unwrap_or(u32::MAX);
        let datagram = |ip: u32| {
            let each = RTP + UDP + ip + ETHERNET;
            bytes.saturating_add(packets.saturating_mul(each))
        };
        match self {
            Carriage::UdpV4 => datagram(20),
            Carriage::UdpV6 => datagram(40),
            // Four bytes of RTSP's framing (RFC 2326 section 10.12).
            Carriage::Tcp => in_tcp(u64::from(bytes) + u64::from(packets) * u64::from(RTP + 4)),
            // The boxes of a fragment take about 12 bytes per sample.
            Carriage::Http => in_tcp(u64::from(bytes) + u64::from(packets) * 4),
        }
    }
}

/// Media bytes and RTP packets of a track in each quarter second of its decode times.
#[derive(Clone, Debug, Default)]
struct TrackDemand {
    bytes: Vec<u32>,
    packets: Vec<u32>,
}

/// The same in its stored form.
#[derive(Debug)]
struct Kept {
    bytes: Packed,
    packets: Packed,
}

/// Numbers in as few bytes each as the largest takes.
#[derive(Debug)]
struct Packed {
    width: usize,
    bytes: Vec<u8>,
    _counted: Counted,
}

impl Packed {
    fn of(numbers: &[u32]) -> Packed {
        let most = numbers.iter().copied().max().unwrap_or(0);
        let width = (4 - most.leading_zeros() as usize / 8).max(1);
        let few = |number: &u32| number.to_le_bytes().into_iter().take(width);
        let bytes: Vec<u8> = numbers.iter().flat_map(few).collect();
        Packed {
            width,
            _counted: Counted::new(bytes.capacity()),
            bytes,
        }
    }

    fn numbers(&self) -> impl Iterator<Item = u32> {
        self.bytes.chunks_exact(self.width).map(|few| {
            let mut number = [0; 4];
            number[..few.len()].copy_from_slice(few);
            u32::from_le_bytes(number)
        })
    }
}

/// The needs of a film, computed once by one pass over its sample table.
#[derive(Debug)]
pub struct Demand {
    tracks: Vec<Kept>,
    /// Number of quarter seconds of the film.
    bins: usize,
    /// Quarter seconds per number of the tracks.
    span: usize,
    /// Bytes of memory held, a quarter of them in each quarter second, so that a second's sum is
    /// their mean.
    held: Arc<Curve>,
    /// Bytes of the largest GOP.
    largest: u32,
    /// Bytes of the file and of the tracks, if they are not stored in it as they are played: all of
    /// it is read for them.
    of_file: Option<(u64, u64)>,
    /// The tracks that a player takes by default: the first picture, the first sound.
    usual: Vec<usize>,
    /// Bytes of the file that must be read.
    read: Arc<Curve>,
}

/// Sound is planned from sizes alone.
struct NoBytes;

impl Bytes for NoBytes {
    fn read_at(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
}

impl Demand {
    /// The needs of `title`; `payload` gives the size of its packets.
    ///
    /// If the packets of a film's groups have been counted, the counts are used. If not, packets of
    /// pictures are estimated from the samples' sizes, as if each were a single NAL unit, with one
    /// packet more at a sync sample (parameter sets), so that the film's bytes need not be read.
    /// That is exact except for pictures of several slices.
    ///
    /// # Errors
    /// The sample table cannot be read.
    pub fn of(
        title: &Title,
        samples: &dyn Samples,
        payload: PayloadOptions,
        reading: Reading,
    ) -> Result<Demand, SamplesError> {
        let bins = usize::try_from(title.duration.max(0) / BIN).unwrap_or(0) + 1;
        let mut tracks = Vec::with_capacity(title.tracks.len());
        let mut held = HeldMemory::new(bins, reading);
        for (index, track) in title.tracks.iter().enumerate() {
            let mut needs = TrackDemand {
                bytes: vec![0; bins],
                packets: vec![0; bins],
            };
            let sound = match track.kind {
                Kind::Audio => Payload::new(track, payload).ok(),
                Kind::Video => None,
            };
            let begins = begins(track);
            let counted = track.packets.of_payload(payload.max_payload);
            let mut counted = counted.map(Paged::iter);
            for group in 0..begins.len() {
                let counted = counted.as_mut().and_then(Iterator::next);
                let read = track.read_group(index, group, samples)?;
                held.group(&begins, group, &read);
                let planned = sound
                    .as_ref()
                    .and_then(|sound| sound.plan(&read, &NoBytes).ok());
                match planned {
                    Some(plan) => {
                        for frame in &plan.frames {
                            let bytes = plan.payload_bytes(frame);
                            needs.add(frame.due, bytes, frame.packets.len() as u64);
                        }
                    }
                    None => {
                        for (sample, share) in read.iter().zip(shares(&read, payload, counted)) {
                            needs.add(track.decode(sample.dts), share.bytes, share.packets);
                        }
                    }
                }
            }
            tracks.push(needs);
        }
        Ok(Demand::new(title, tracks, &mut held))
    }

    /// The same from the table of groups alone, which is in memory: each group's bytes are spread
    /// evenly over its time. Used while a film is open and its samples have not been read yet.
    pub fn rough(title: &Title, payload: PayloadOptions, reading: Reading) -> Demand {
        let bins = usize::try_from(title.duration.max(0) / BIN).unwrap_or(0) + 1;
        let mut held = HeldMemory::new(bins, reading);
        let side_by_side = SideBySide::of(title);
        let of_track = |track: &reelway_media::Track| {
            let mut needs = TrackDemand {
                bytes: vec![0; bins],
                packets: vec![0; bins],
            };
            let begins = begins(track);
            let counted = track.packets.of_payload(payload.max_payload);
            let mut counted = counted.map(Paged::iter);
            for (number, group) in track.groups.iter().enumerate() {
                let counted = counted.as_mut().and_then(Iterator::next);
                let start = track.decode(group.dts);
                let end = begins.get(number + 1).map_or(title.duration, |next| *next);
                let room = (payload.max_payload as u64).max(1);
                let bytes = u64::from(group.bytes);
                let packets = match track.kind {
                    Kind::Video => bytes / room + u64::from(group.count),
                    // A packet holds several frames of sound.
                    Kind::Audio => (bytes / room + 1).max(u64::from(group.count) / 4),
                };
                let counted = counted.filter(|counted| counted.packets > 0);
                let (sent, packets) = counted.map_or((bytes, packets), |counted| {
                    (counted.bytes.into(), counted.packets.into())
                });
                needs.spread(start, end, sent, packets);
                let low = side_by_side.before(start);
                let high = side_by_side.before(end).max(low + bytes);
                held.hold(&begins, number, (low, high));
            }
            needs
        };
        let tracks = title.tracks.iter().map(of_track).collect();
        Demand::new(title, tracks, &mut held)
    }

    fn new(title: &Title, tracks: Vec<TrackDemand>, held: &mut HeldMemory) -> Demand {
        let largest = title.video().map_or(0, |(_, track)| largest_gop(track));
        let first = |kind| title.tracks.iter().position(|track| track.kind == kind);
        let usual = [title.video().map(|(index, _)| index), first(Kind::Audio)];
        let keep = |track: &TrackDemand| Kept {
            bytes: Packed::of(&track.bytes),
            packets: Packed::of(&track.packets),
        };
        Demand {
            bins: held.bins,
            span: 1,
            tracks: tracks.iter().map(keep).collect(),
            usual: usual.into_iter().flatten().collect(),
            read: Arc::new(Curve::new(Vec::new())),
            held: Arc::new(held.curve()),
            largest,
            of_file: title.view.map(|view| {
                let bytes = title.tracks.iter().map(|track| track.bytes);
                (view.file, bytes.sum::<u64>().max(1))
            }),
        }
        .with_read()
    }

    /// The same in little memory (some 30 KB for a film of two hours, instead of some 600): the
    /// need of each run of `span` quarter seconds, which is never less.
    ///
    /// # Panics
    /// It is coarse already, or `span` is 0.
    pub fn coarse(&self, span: usize) -> Demand {
        assert_eq!(self.span, 1, "a coarse demand");
        let few = |numbers: &Packed| Packed::of(&runs(numbers.numbers(), span));
        let keep = |track: &Kept| Kept {
            bytes: few(&track.bytes),
            packets: few(&track.packets),
        };
        let held = runs(self.held.bins().into_iter(), span);
        Demand {
            tracks: self.tracks.iter().map(keep).collect(),
            bins: self.bins,
            span,
            held: Arc::new(Curve::of_runs(held, span, self.bins)),
            largest: self.largest,
            of_file: self.of_file,
            usual: self.usual.clone(),
            read: Arc::new(Curve::new(Vec::new())),
        }
        .with_read()
    }

    /// Bytes of memory that a viewer holds who shares none of it: for all tracks, the blocks of the
    /// group that is being sent and, once it is read, of the next one. A block that several of them
    /// need is held once.
    pub fn memory(&self) -> Arc<Curve> {
        self.held.clone()
    }

    /// Two buffers of the film's largest GOP, by the VODCA paper's rule.
    pub fn two_groups(&self) -> Arc<Curve> {
        Arc::new(self.held.flattened(self.largest.saturating_mul(2)))
    }

    /// The tracks that a player takes by default: picture and the first sound.
    pub fn usual_tracks(&self) -> &[usize] {
        &self.usual
    }

    /// Bytes on the wire of these tracks (indices in `Title::tracks`) along the film's time.
    /// Computed anew on each call, in time proportional to the film's length.
    pub fn wire(&self, tracks: &[usize], carriage: Carriage) -> Curve {
        let mut tracks = tracks.to_vec();
        tracks.sort_unstable();
        tracks.dedup();
        let need = |bytes, packets| carriage.wire(bytes, packets);
        self.curve(self.sums(tracks.into_iter(), need))
    }

    /// Bytes of the file that must be read: of all tracks, which lie side by side in its blocks.
    pub fn disk(&self) -> Arc<Curve> {
        self.read.clone()
    }

    /// Sets what must be read.
    fn with_read(mut self) -> Demand {
        let mut sums = self.sums(0..self.tracks.len(), |bytes, _| bytes);
        if let Some((file, bytes)) = self.of_file {
            for sum in &mut sums {
                let read = u128::from(*sum) * u128::from(file) / u128::from(bytes);
                *sum = u32::try_from(read).unwrap_or(u32::MAX);
            }
        }
        self.read = Arc::new(self.curve(sums));
        self
    }

    /// The sum of these tracks' needs.
    fn sums(
        &self,
        tracks: impl Iterator<Item = usize>,
        need: impl Fn(u32, u32) -> u32,
    ) -> Vec<u32> {
        let mut sums = vec![0u32; self.bins.div_ceil(self.span)];
        for track in tracks.filter_map(|track| self.tracks.get(track)) {
            let needs = track.bytes.numbers().zip(track.packets.numbers());
            for (sum, (bytes, packets)) in sums.iter_mut().zip(needs) {
                *sum = sum.saturating_add(need(bytes, packets));
            }
        }
        sums
    }

    fn curve(&self, sums: Vec<u32>) -> Curve {
        match self.span {
            1 => Curve::new(sums),
            span => Curve::of_runs(sums, span, self.bins),
        }
    }
}

/// When each group of a track begins.
fn begins(track: &reelway_media::Track) -> Vec<Nanos> {
    let groups = track.groups.iter();
    groups.map(|group| track.decode(group.dts)).collect()
}

/// Bytes of the longest run of groups from one that begins with a sync sample to before the next.
fn largest_gop(track: &reelway_media::Track) -> u32 {
    let (mut largest, mut sum) = (0u32, 0u32);
    for group in &track.groups {
        sum = if group.sync {
            group.bytes
        } else {
            sum.saturating_add(group.bytes)
        };
        largest = largest.max(sum);
    }
    largest
}

impl TrackDemand {
    /// Spreads bytes and packets evenly over the quarter seconds from `start` to `end`, each of
    /// them once.
    fn spread(&mut self, start: Nanos, end: Nanos, bytes: u64, packets: u64) {
        let count = ((end - start) / BIN).max(1);
        let part = |all: u64, nth: i64| (u128::from(all) * nth as u128 / count as u128) as u64;
        for nth in 0..count {
            let of = |all| part(all, nth + 1) - part(all, nth);
            self.add(start.saturating_add(nth * BIN), of(bytes), of(packets));
        }
    }

    fn add(&mut self, due: Nanos, bytes: u64, packets: u64) {
        // Times beyond the film's ends count at its ends.
        let last = self.bytes.len().saturating_sub(1);
        let bin = usize::try_from(due.max(0) / BIN).unwrap_or(last).min(last);
        let grow = |to: Option<&mut u32>, by: u64| {
            if let Some(to) = to {
                *to = to.saturating_add(u32::try_from(by).unwrap_or(u32::MAX));
            }
        };
        grow(self.bytes.get_mut(bin), bytes);
        grow(self.packets.get_mut(bin), packets);
    }
}

#[cfg(test)]
mod tests;
