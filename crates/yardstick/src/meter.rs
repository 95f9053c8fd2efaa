//! What a viewer measures: every packet there, in order, in time, at once no more than agreed, and
//! equal to the film.

use std::collections::VecDeque;
use std::time::Duration;

use crate::depacketise::{Depacketiser, Format};
use crate::histogram::Histogram;
use crate::reference::ReferenceTrack;

/// What one track of one viewer was like.
#[derive(Clone, Debug, Default)]
pub struct TrackStory {
    /// Whether it is picture.
    pub is_video: bool,
    /// Packets that came.
    pub packets: u64,
    /// Payload bytes that came.
    pub bytes: u64,
    /// Packets that never came.
    pub lost: u64,
    /// Packets that came after a later one.
    pub reordered: u64,
    /// Packets that came twice.
    pub repeated: u64,
    /// Access units that came whole.
    pub units: u64,
    /// Access units whose bytes are not the film's.
    pub different: u64,
    /// Access units for which the film has nothing at that time.
    pub unknown: u64,
    /// How late the access units came; see `TrackMeter::judge`.
    pub late: Histogram,
    /// What was against an RFC, the first case in words.
    pub wrong: Option<String>,
    /// The first sequence number was the one announced in RTP-Info.
    pub announced: Option<bool>,
    /// A sender report was seen.
    pub sender_reports: u64,
    /// RTCP BYE was seen.
    pub bye: bool,
}

/// What one viewer's play was like.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// Tracks as in the session description.
    pub tracks: Vec<TrackStory>,
    /// From the PLAY request to the first packet.
    pub start: Option<Duration>,
    /// Most packets of all tracks together within any millisecond.
    pub burst: u32,
    /// How many milliseconds held more packets than agreed.
    pub bursts_over: u64,
    /// The film's place where it began, in ns, as the server said.
    pub from: i64,
    /// Whether the film came to its end.
    pub ended: bool,
}

impl Story {
    /// Packets that never came, of all tracks.
    pub fn lost(&self) -> u64 {
        self.tracks.iter().map(|track| track.lost).sum()
    }

    /// Whether every packet came, once, in order, and each access unit equal to the film's.
    pub fn is_whole(&self) -> bool {
        self.tracks.iter().all(|track| {
            track.lost + track.reordered + track.repeated + track.different + track.unknown == 0
                && track.wrong.is_none()
                && track.packets > 0
        })
    }

    /// Lateness of all tracks.
    pub fn late(&self) -> Histogram {
        let mut all = Histogram::default();
        for track in &self.tracks {
            all.merge(&track.late);
        }
        all
    }
}

/// Measures one track.
#[derive(Debug)]
pub(crate) struct TrackMeter {
    pub story: TrackStory,
    pub clock_rate: u32,
    /// RTP timestamp of the place `from`, from RTP-Info.
    pub rtp_from: u32,
    /// Where in the film the play began, ns.
    pub from: i64,
    depacketiser: Option<Depacketiser>,
    /// Extended sequence number expected next.
    expected: Option<u16>,
    announced_seq: Option<u16>,
    /// Sequence numbers of the last gaps, for packets that come late.
    gaps: VecDeque<u16>,
    /// Access units that came, until judged.
    arrivals: Vec<Arrival>,
    current: Option<(u32, Arrival)>,
}

/// When the packets of an access unit came.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// Presentation time in ns.
    media: i64,
    first: u64,
    last: u64,
    packets: u32,
}

/// Most gaps remembered; beyond that a late packet counts as lost and repeated.
const GAPS: usize = 1024;

impl TrackMeter {
    pub fn new(is_video: bool, clock_rate: u32, format: Format, compare: bool) -> Self {
        TrackMeter {
            story: TrackStory {
                is_video,
                ..TrackStory::default()
            },
            clock_rate,
            rtp_from: 0,
            from: 0,
            depacketiser: compare.then(|| Depacketiser::new(format)),
            expected: None,
            announced_seq: None,
            gaps: VecDeque::new(),
            arrivals: Vec::new(),
            current: None,
        }
    }

    /// What RTP-Info says of the packets that follow.
    pub fn announce(&mut self, seq: Option<u16>, rtp_time: Option<u32>, from: i64) {
        self.announced_seq = seq;
        self.rtp_from = rtp_time.unwrap_or(0);
        self.from = from;
    }

    /// Takes a packet that the kernel got at `at` (ns).
    pub fn packet(&mut self, packet: &[u8], at: u64, reference: Option<&ReferenceTrack>) {
        let Some((header, payload)) = parse(packet) else {
            self.story
                .wrong
                .get_or_insert_with(|| "a packet that is not RTP".into());
            return;
        };
        self.story.packets += 1;
        self.story.bytes += payload.len() as u64;
        if self.story.announced.is_none() {
            self.story.announced = self.announced_seq.map(|seq| seq == header.seq);
            // What was lost before the first packet that came is lost all the same.
            self.expected = self.announced_seq.or(Some(header.seq));
        }
        if !self.in_order(header.seq) {
            return;
        }
        self.time(header.rtp_time, at);
        let Some(depacketiser) = &mut self.depacketiser else {
            return;
        };
        let (story, from, rtp_from, rate) =
            (&mut self.story, self.from, self.rtp_from, self.clock_rate);
        let mut judge = |unit: crate::depacketise::Unit| {
            story.units += 1;
            let ticks = i64::from(unit.rtp_time.wrapping_sub(rtp_from) as i32);
            let nanos = from + ticks * 1_000_000_000 / i64::from(rate);
            match reference.map(|reference| reference.at(nanos)) {
                Some(Some(hash)) if hash != unit.hash => story.different += 1,
                Some(None) => story.unknown += 1,
                _ => {}
            }
        };
        if let Err(wrong) = depacketiser.push(payload, header.rtp_time, header.marker, &mut judge) {
            self.story.wrong.get_or_insert(wrong);
        }
    }

    /// Counts gaps, late and repeated packets; true for a packet that is the next or later.
    fn in_order(&mut self, seq: u16) -> bool {
        let expected = self.expected.unwrap_or(seq);
        let ahead = seq.wrapping_sub(expected);
        if ahead < 0x8000 {
            for missing in 0..ahead.min(GAPS as u16) {
                self.gaps.push_back(expected.wrapping_add(missing));
            }
            while self.gaps.len() > GAPS {
                self.gaps.pop_front();
            }
            if ahead > 0 {
                self.story.lost += u64::from(ahead);
                if let Some(depacketiser) = &mut self.depacketiser {
                    depacketiser.gap();
                }
            }
            self.expected = Some(seq.wrapping_add(1));
            return true;
        }
        if let Some(place) = self.gaps.iter().position(|gap| *gap == seq) {
            self.gaps.remove(place);
            self.story.lost -= 1;
            self.story.reordered += 1;
        } else {
            self.story.repeated += 1;
        }
        false
    }

    /// Notes when the packets of an access unit came.
    fn time(&mut self, rtp_time: u32, at: u64) {
        match &mut self.current {
            Some((time, arrival)) if *time == rtp_time => {
                arrival.last = at;
                arrival.packets += 1;
            }
            current => {
                let ticks = i64::from(rtp_time.wrapping_sub(self.rtp_from) as i32);
                let media = self.from + ticks * 1_000_000_000 / i64::from(self.clock_rate);
                let next = Arrival {
                    media,
                    first: at,
                    last: at,
                    packets: 1,
                };
                self.arrivals
                    .extend(current.replace((rtp_time, next)).map(|(_, done)| done));
            }
        }
    }

    /// The smallest distance of arrival and media time: what "in time" is measured from.
    pub fn earliest(&self) -> Option<i64> {
        self.arrivals
            .iter()
            .map(|unit| unit.first as i64 - unit.media)
            .min()
    }

    /// Judges all arrivals against `base` (ns): the first packet of an access unit is due at its
    /// time, the last of several at most the frame's duration later.
    pub fn judge(&mut self, base: i64) {
        let frame = self.frame();
        for unit in self.arrivals.drain(..) {
            // Sound that is packed with what comes before the beginning is due at the beginning.
            let due = unit.media.max(self.from) + base;
            let spread = if unit.packets > 1 { frame } else { 0 };
            let late = (unit.first as i64 - due).max(unit.last as i64 - due - spread);
            self.story
                .late
                .add(Duration::from_nanos(late.max(0) as u64));
        }
    }

    /// The usual distance of two access units in ns: the median.
    fn frame(&self) -> i64 {
        let mut steps: Vec<i64> = self
            .arrivals
            .windows(2)
            .map(|pair| (pair[1].media - pair[0].media).abs())
            .collect();
        steps.sort_unstable();
        steps.get(steps.len() / 2).copied().unwrap_or(0)
    }
}

/// Counts packets in every window of a millisecond.
///
/// Pictures and sound come over sockets of their own, each of which is read when its turn comes: a
/// packet may be handed in after others that came later. It is counted once nothing earlier can be
/// waiting any more.
#[derive(Debug, Default)]
pub(crate) struct BurstMeter {
    /// Arrivals and their packets, in order of time, not yet counted.
    waiting: VecDeque<(u64, u32)>,
    recent: VecDeque<(u64, u32)>,
    within: u32,
    pub most: u32,
    pub over: u64,
    agreed: u32,
}

/// How much later than another that came after it a packet may be handed in, in ns.
const UNSETTLED: u64 = 2_000_000_000;

impl BurstMeter {
    /// Judges against `agreed` packets; 0: only counts.
    pub fn new(agreed: u32) -> Self {
        BurstMeter {
            agreed,
            ..BurstMeter::default()
        }
    }

    /// Takes `packets` that came at `at` (ns).
    pub fn add(&mut self, at: u64, packets: u32) {
        let place = self.waiting.partition_point(|(then, _)| *then <= at);
        self.waiting.insert(place, (at, packets));
        let newest = self.waiting.back().map_or(at, |(then, _)| *then);
        self.count_before(newest.saturating_sub(UNSETTLED));
    }

    /// Counts what still waits: nothing comes any more.
    pub fn finish(&mut self) {
        self.count_before(u64::MAX);
    }

    fn count_before(&mut self, settled: u64) {
        while let Some((at, packets)) = self.waiting.pop_front_if(|(at, _)| *at < settled) {
            while let Some((_, count)) = self
                .recent
                .pop_front_if(|(then, _)| at.saturating_sub(*then) >= 1_000_000)
            {
                self.within -= count;
            }
            self.recent.push_back((at, packets));
            self.within += packets;
            self.most = self.most.max(self.within);
            if self.agreed > 0 && self.within > self.agreed {
                self.over += 1;
            }
        }
    }
}

/// What of an RTP header is looked at.
pub(crate) struct Header {
    pub seq: u16,
    pub rtp_time: u32,
    pub marker: bool,
}

/// Header and payload of an RTP packet.
pub(crate) fn parse(packet: &[u8]) -> Option<(Header, &[u8])> {
    let [
        first,
        second,
        seq_high,
        seq_low,
        t0,
        t1,
        t2,
        t3,
        _,
        _,
        _,
        _,
        ..,
    ] = *packet
    else {
        return None;
    };
    if first >> 6 != 2 {
        return None;
    }
    let mut start = 12 + 4 * usize::from(first & 15);
    if first & 0x10 != 0 {
        let words = packet.get(start + 2..start + 4)?;
        start += 4 + 4 * usize::from(u16::from_be_bytes([words[0], words[1]]));
    }
    let mut end = packet.len();
    if first & 0x20 != 0 {
        end = end.checked_sub(usize::from(*packet.last()?))?;
    }
    let header = Header {
        seq: u16::from_be_bytes([seq_high, seq_low]),
        rtp_time: u32::from_be_bytes([t0, t1, t2, t3]),
        marker: second & 0x80 != 0,
    };
    packet.get(start..end).map(|payload| (header, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_are_read_late_are_counted_when_they_came() {
        let mut bursts = BurstMeter::new(8);
        // Eight packets of a picture a millisecond after one of sound, whose socket is read later.
        bursts.add(5_000_000, 8);
        bursts.add(4_000_000, 1);
        bursts.finish();
        assert_eq!((bursts.most, bursts.over), (8, 0));
    }

    #[test]
    fn a_burst_is_found_whatever_the_order_of_reading() {
        let mut bursts = BurstMeter::new(8);
        bursts.add(5_000_000, 8);
        bursts.add(9_000_000, 1);
        bursts.add(4_000_001, 1);
        bursts.finish();
        assert_eq!((bursts.most, bursts.over), (9, 1));
    }
}
