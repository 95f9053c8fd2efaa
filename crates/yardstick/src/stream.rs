//! Judgement of one RTP stream during reception, in constant memory, for viewers of thousands of
//! streams over hours, who do not look into the packets.

use std::collections::VecDeque;
use std::time::Duration;

use crate::histogram::Histogram;
use crate::media_clock::MediaClock;
use crate::meter::{REORDER, begins};
use crate::packet::Header;
use crate::unit::ReceivedUnit;

/// Number of access units that are judged together.
const BLOCK: usize = 64;
/// Share of a block's access units that may be earlier than the base of lateness, as servers may
/// begin with a burst.
const EARLY: f64 = 0.1;
/// How many packets back a missing one may still arrive.
const WINDOW: u32 = 128;

/// Counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub packets: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Packets that did not arrive (late arrivals are subtracted again).
    pub lost: u64,
    /// Packets that arrived after a later one.
    pub reordered: u64,
    pub repeated: u64,
    /// Lateness of access units: the first packet against its time, the last against the end of its
    /// frame; see [`StreamMeter::flush`].
    pub late: Histogram,
}

/// An access unit of which more packets may arrive.
#[derive(Debug)]
struct Open {
    rtp_time: u32,
    unit: ReceivedUnit,
    /// Sequence number of its last packet so far.
    end: u16,
    /// Number of missing packets in it and before it.
    missing: u32,
}

/// The state of a stream.
#[derive(Debug)]
pub(crate) struct StreamMeter {
    is_video: bool,
    clock: MediaClock,
    /// The next sequence number (16 bits).
    expected: Option<u16>,
    /// Whether nothing has arrived since the place was announced.
    fresh: bool,
    /// Bit map of the packets before `expected` that have arrived; bit 0 is the one just before.
    came: u128,
    /// Access units of which more packets may arrive: the newest, and earlier ones with gaps.
    open: VecDeque<Open>,
    /// Access units that are complete or count as broken, in order of arrival.
    done: VecDeque<ReceivedUnit>,
    /// Access units whose lateness is not judged yet, in order of arrival.
    waiting: Vec<ReceivedUnit>,
    /// Base of lateness: arrival minus time in the film, in nanoseconds.
    base: Option<i64>,
    /// Arrivals of the last millisecond.
    recent: VecDeque<(u64, u32)>,
    within: u32,
}

impl StreamMeter {
    /// Creates the meter of a stream whose clock has `rate` ticks per second.
    pub fn new(is_video: bool, rate: u32) -> StreamMeter {
        StreamMeter {
            is_video,
            clock: MediaClock::new(rate),
            expected: None,
            fresh: true,
            came: 0,
            open: VecDeque::new(),
            done: VecDeque::new(),
            waiting: Vec::new(),
            base: None,
            recent: VecDeque::new(),
            within: 0,
        }
    }

    /// Announces a new place: `seq` is its first packet, `rtp_time` the timestamp of the film's
    /// time `from`, if the server announced them.
    pub fn announce(
        &mut self,
        seq: Option<u16>,
        rtp_time: Option<u32>,
        from: i64,
        tally: &mut Tally,
    ) {
        self.finish(tally);
        self.base = None;
        self.clock.begin(rtp_time, from);
        self.expected = seq;
        self.fresh = true;
        self.came = u128::MAX;
    }

    /// Takes a packet with `bytes` of payload that arrived at `at` (ns since 1970). Returns the
    /// film's time (ns) of the access unit that it closes. [`next`](Self::next) returns the unit
    /// itself when no more of it can arrive.
    pub fn packet(
        &mut self,
        header: &Header,
        bytes: usize,
        at: u64,
        tally: &mut Tally,
    ) -> Option<i64> {
        self.clock.came(header.rtp_time);
        if std::mem::take(&mut self.fresh) {
            self.came = u128::MAX;
            let (newest, from) = (self.clock.newest(), self.clock.from());
            if begins(self.is_video, newest, from) {
                self.expected = None;
            }
        }
        let expected = *self.expected.get_or_insert(header.seq);
        let ahead = header.seq.wrapping_sub(expected);
        tally.packets += 1;
        tally.bytes += bytes as u64;
        self.count_within(at);
        if ahead >= 0x8000 {
            let bit = u32::from(ahead.wrapping_neg()) - 1;
            if bit < WINDOW && self.came >> bit & 1 == 0 {
                self.came |= 1 << bit;
                tally.lost = tally.lost.saturating_sub(1);
                tally.reordered += 1;
                self.came_after_all(header.seq, at);
                self.close(tally);
            } else {
                tally.repeated += 1;
            }
            return None;
        }
        self.came = self
            .came
            .checked_shl(u32::from(ahead) + 1)
            .unwrap_or_default()
            | 1;
        self.expected = Some(header.seq.wrapping_add(1));
        tally.lost += u64::from(ahead);
        if let Some(open) = self.open.back_mut()
            && open.rtp_time == header.rtp_time
        {
            open.unit.last = open.unit.last.max(at);
            open.unit.packets += 1;
            open.end = header.seq;
            open.missing += u32::from(ahead);
            return None;
        }
        let closed = self.open.back().map(|open| open.unit.media);
        let unit = ReceivedUnit {
            media: self.clock.newest(),
            first: at,
            last: at,
            packets: 1,
            broken: false,
        };
        self.open.push_back(Open {
            rtp_time: header.rtp_time,
            unit,
            end: header.seq,
            missing: u32::from(ahead),
        });
        self.close(tally);
        closed
    }

    /// Enters a missing packet that arrived late; a player would have waited for it.
    fn came_after_all(&mut self, seq: u16, at: u64) {
        let mut of = self.open.iter_mut();
        // Missing packets are counted with the access unit that arrived after them.
        if let Some(open) = of.find(|open| open.end.wrapping_sub(seq) < 0x8000) {
            open.missing = open.missing.saturating_sub(1);
            open.unit.last = open.unit.last.max(at);
        }
    }

    /// Judges the access units of which no more can arrive, up to the first of which more can.
    fn close(&mut self, tally: &mut Tally) {
        let newest = self.expected.unwrap_or_default();
        while self.open.len() > 1
            && let Some(open) = self.open.pop_front_if(|open| {
                open.missing == 0 || u32::from(newest.wrapping_sub(open.end)) > WINDOW
            })
        {
            self.judge(open, tally);
        }
    }

    fn judge(&mut self, open: Open, tally: &mut Tally) {
        let unit = ReceivedUnit {
            broken: open.missing > 0,
            ..open.unit
        };
        self.done.push_back(unit);
        self.waiting.push(unit);
        if self.waiting.len() >= BLOCK + REORDER {
            self.flush(BLOCK, tally);
        }
    }

    /// Returns the next access unit of which no more can arrive.
    pub fn next(&mut self) -> Option<ReceivedUnit> {
        self.done.pop_front()
    }

    /// Ends the current place: no more packets of it arrive.
    pub fn finish(&mut self, tally: &mut Tally) {
        while let Some(open) = self.open.pop_front() {
            self.judge(open, tally);
        }
        self.flush(self.waiting.len(), tally);
    }

    /// Discards access units that have not been judged.
    pub fn forget(&mut self) {
        self.waiting.clear();
        self.done.clear();
        self.base = None;
    }

    /// Judges the first `count` waiting units in order of arrival.
    ///
    /// Decode times count, as servers send by them: the i-th arrival gets the i-th presentation
    /// time, which is its decode time but for a constant. Lateness is measured from the tenth
    /// earliest of a hundred.
    fn flush(&mut self, count: usize, tally: &mut Tally) {
        if count == 0 {
            return;
        }
        let mut times: Vec<i64> = self.waiting.iter().map(|unit| unit.media).collect();
        times.sort_unstable();
        let frame = crate::playback::usual_step(times.iter().copied());
        let judged = self.waiting[..count].iter().zip(&times);
        let mut offsets: Vec<i64> = judged
            .clone()
            .map(|(unit, decode)| unit.first as i64 - decode)
            .collect();
        offsets.sort_unstable();
        let early = offsets[(offsets.len() as f64 * EARLY) as usize];
        let base = self.base.map_or(early, |base| base.min(early));
        self.base = Some(base);
        for (unit, decode) in judged {
            let due = decode + base;
            let spread = if unit.packets > 1 { frame } else { 0 };
            let late = (unit.first as i64 - due).max(unit.last as i64 - due - spread);
            tally.late.add(Duration::from_nanos(late.max(0) as u64));
        }
        // The remaining units are paired with the remaining times.
        self.waiting.drain(..count);
        for (unit, media) in self.waiting.iter_mut().zip(&times[count..]) {
            unit.media = *media;
        }
    }

    fn count_within(&mut self, at: u64) {
        while let Some((_, count)) = self
            .recent
            .pop_front_if(|(then, _)| at.saturating_sub(*then) >= 1_000_000)
        {
            self.within -= count;
        }
        match self.recent.back_mut() {
            Some((then, count)) if *then == at => *count += 1,
            _ => self.recent.push_back((at, 1)),
        }
        self.within += 1;
    }

    /// Returns the number of packets within the millisecond that ends with the latest.
    pub fn within(&self) -> u32 {
        self.within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(seq: u16, rtp_time: u32) -> Header {
        Header {
            seq,
            rtp_time,
            marker: false,
            payload_type: 96,
            ssrc: 7,
        }
    }

    /// Pictures of 40 ms, given by their positions in presentation order, each sent at its decode
    /// time.
    fn play(order: impl Iterator<Item = u32>, late: impl Fn(u32) -> u64) -> Tally {
        let (mut meter, mut tally) = (StreamMeter::new(true, 90_000), Tally::default());
        for (number, frame) in order.enumerate() {
            let at = 1_000_000_000 + number as u64 * 40_000_000 + late(number as u32);
            meter.packet(&header(number as u16, frame * 3600), 100, at, &mut tally);
        }
        meter.finish(&mut tally);
        tally
    }

    #[test]
    fn pictures_that_leave_in_another_order_than_they_are_shown_are_not_late() {
        // I B B P …: decoded as 0 3 1 2 6 4 5 …
        let order = (0..900).map(|n: u32| match n % 3 {
            _ if n == 0 => 0,
            1 => n + 2,
            _ => n - 1,
        });
        let tally = play(order, |_| 0);
        assert_eq!(
            (tally.late.count(), tally.late.max()),
            (900, Duration::ZERO)
        );
    }

    #[test]
    fn what_is_late_is_late_by_that_much() {
        let tally = play(0..1000, |frame| if frame == 500 { 9_000_000 } else { 0 });
        assert_eq!(tally.late.max(), Duration::from_millis(9));
        assert_eq!(tally.late.percentile(0.99), Duration::from_micros(1));
    }

    #[test]
    fn a_missing_packet_that_comes_late_is_out_of_order_and_not_lost() {
        let (mut meter, mut tally) = (StreamMeter::new(true, 90_000), Tally::default());
        for seq in [65_534, 65_535, 1, 0, 0, 5, 4] {
            meter.packet(&header(seq, 0), 1, 0, &mut tally);
        }
        assert_eq!(
            (tally.lost, tally.reordered, tally.repeated, tally.packets),
            (2, 2, 1, 7)
        );
    }

    #[test]
    fn an_access_unit_whose_packets_come_in_another_order_is_whole_and_as_late_as_the_last_of_them()
    {
        let (mut meter, mut tally) = (StreamMeter::new(true, 90_000), Tally::default());
        // Pictures of two packets each; 3 arrives after 4, and 6 never.
        for (at, seq) in [0, 1, 2, 4, 3, 5, 7, 8, 9].into_iter().enumerate() {
            let picture = u32::from(seq) / 2;
            meter.packet(&header(seq, picture * 3600), 1, at as u64, &mut tally);
        }
        let came: Vec<ReceivedUnit> = std::iter::from_fn(|| meter.next()).collect();
        let whole = |unit: &ReceivedUnit| (unit.packets, unit.last, unit.broken);
        // The second picture's last packet was counted as missing with the third.
        let all: Vec<_> = came.iter().map(whole).collect();
        assert_eq!(all, [(2, 1, false), (1, 2, false), (2, 5, false)]);
        meter.finish(&mut tally);
        assert_eq!(whole(&meter.next().unwrap()), (1, 6, true));
        assert_eq!((tally.lost, tally.reordered), (1, 1));
    }

    #[test]
    fn a_missing_packet_is_waited_for_as_long_as_it_may_come() {
        let (mut meter, mut tally) = (StreamMeter::new(true, 90_000), Tally::default());
        let mut closed = Vec::new();
        for seq in (0..400).filter(|seq| *seq != 100) {
            meter.packet(&header(seq, u32::from(seq) * 3600), 1, 0, &mut tally);
            closed.extend(std::iter::from_fn(|| meter.next()).map(|unit| (seq, unit.broken)));
            assert!(meter.open.len() <= WINDOW as usize + 1);
        }
        let broken: Vec<u16> = closed
            .iter()
            .filter(|(_, broken)| *broken)
            .map(|(seq, _)| *seq)
            .collect();
        assert_eq!(broken, [101 + WINDOW as u16]);
        assert_eq!(closed.len(), 398);
    }

    #[test]
    fn what_was_lost_before_the_first_packet_is_lost_where_it_was_announced() {
        let (mut meter, mut tally) = (StreamMeter::new(true, 90_000), Tally::default());
        meter.announce(Some(10), Some(0), 0, &mut tally);
        let _ = meter.packet(&header(13, 3600), 1, 0, &mut tally);
        meter.finish(&mut tally);
        let unit = meter.next().unwrap();
        assert_eq!((tally.lost, unit.media, unit.broken), (3, 40_000_000, true));
    }

    #[test]
    fn sound_that_is_cut_off_before_the_beginning_is_not_missed() {
        let (mut meter, mut tally) = (StreamMeter::new(false, 48_000), Tally::default());
        meter.announce(Some(10), Some(0), 0, &mut tally);
        let _ = meter.packet(&header(11, 0), 1, 0, &mut tally);
        assert_eq!(tally.lost, 0);
        meter.announce(Some(20), Some(0), 0, &mut tally);
        let _ = meter.packet(&header(21, 1024), 1, 0, &mut tally);
        assert_eq!(tally.lost, 1);
    }
}
