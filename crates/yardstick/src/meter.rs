//! Measurements of a viewer: whether all packets arrive, in order, in time, in bursts no larger
//! than agreed, and equal to the film.

use std::net::SocketAddr;
use std::time::Duration;

use crate::course::Course;
use crate::depacketise::{Depacketiser, Format};
use crate::media_clock::MediaClock;
use crate::order::{Arrival, Order, Out};
use crate::packet::parse;
use crate::playback::{Arrived, usual_step};
use crate::reference::{Match, ReferenceTrack};
use crate::repair::{self, Repair};
use crate::reports::{Reports, parse as parse_rtcp};
use crate::story::TrackStory;
use crate::verdict::{Fault, Finding};

/// Measures one track.
#[derive(Debug)]
pub(crate) struct TrackMeter {
    pub story: TrackStory,
    clock: MediaClock,
    pub reports: Reports,
    depacketiser: Option<Depacketiser>,
    /// Whether a missing packet makes the access unit after it incomplete.
    in_fragments: bool,
    announced_seq: Option<u16>,
    /// Position in order of arrival, from 1, of the announced packet.
    announced_came: Option<u64>,
    /// Packets are counted from here: the first arrival, or the number announced shortly before it.
    first_seq: u16,
    /// Sequence number of the first arrival.
    came_first: u16,
    ssrc: Option<u32>,
    order: Order<Packet>,
    /// Access units that arrived.
    pub arrivals: Vec<Arrived>,
    /// The film's times of those that are in the film, in nanoseconds.
    compared: Vec<i64>,
    pub course: Course,
    current: Option<(u32, Arrived)>,
    /// Whether packets are missing before the next.
    gap: bool,
    /// The payload type of retransmissions.
    rtx: Option<u8>,
    repair: Repair,
    /// Complete access units for a player; `None` without one.
    pub kept: Option<Vec<Kept>>,
}

/// An access unit for a player.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// The film's time in nanoseconds.
    pub media: i64,
    pub parameters: Vec<Vec<u8>>,
    pub parts: Vec<Vec<u8>>,
}

/// A packet that waits for earlier ones.
#[derive(Debug)]
struct Packet {
    rtp_time: u32,
    marker: bool,
    at: u64,
    /// Empty if nothing is compared.
    payload: Vec<u8>,
}

impl TrackMeter {
    /// `patience`: how long the buffer waits for a missing packet, in nanoseconds.
    pub fn new(
        is_video: bool,
        clock_rate: u32,
        format: Format,
        compare: bool,
        patience: u64,
    ) -> Self {
        TrackMeter {
            story: TrackStory {
                is_video,
                ..TrackStory::default()
            },
            clock: MediaClock::new(clock_rate),
            reports: Reports::default(),
            depacketiser: compare.then(|| Depacketiser::new(format)),
            in_fragments: matches!(format, Format::H264 | Format::H265),
            announced_seq: None,
            announced_came: None,
            first_seq: 0,
            came_first: 0,
            ssrc: None,
            order: Order::new(patience),
            arrivals: Vec::new(),
            compared: Vec::new(),
            course: Course::default(),
            current: None,
            gap: false,
            rtx: None,
            repair: Repair::default(),
            kept: None,
        }
    }

    /// Enables requests for lost packets, whose retransmissions have this payload type.
    pub fn repairs(&mut self, rtx: u8) {
        self.rtx = Some(rtx);
    }

    /// Returns the RTCP that requests missing packets, if there are any to request.
    pub fn ask(&mut self) -> Option<Vec<u8>> {
        let (_, media) = self.rtx.zip(self.ssrc)?;
        let lost = self.repair.ask(self.order.missing());
        (!lost.is_empty()).then(|| repair::nack(!media, media, &lost))
    }

    /// Keeps complete access units from now on, in [`TrackMeter::kept`].
    pub fn keep(&mut self, format: Format) {
        self.depacketiser
            .get_or_insert_with(|| Depacketiser::new(format));
        self.kept = Some(Vec::new());
    }

    /// Sets what RTP-Info announces about the packets that follow.
    pub fn announce(&mut self, seq: Option<u16>, rtp_time: Option<u32>, from: i64) {
        self.announced_seq = seq;
        self.story.announced_time = rtp_time.is_some();
        self.clock.begin(rtp_time, from);
    }

    fn wrong(&mut self, words: impl Into<String>) {
        self.story.wrong.get_or_insert_with(|| words.into());
    }

    /// Counts packets from this sender.
    pub fn sent_by(&mut self, from: SocketAddr, packets: u64) {
        let room = self.story.senders.len() < MOST_SENDERS;
        if room || self.story.senders.contains_key(&from) {
            *self.story.senders.entry(from).or_default() += packets;
        }
    }

    /// Takes a packet that the kernel received at `at` (ns).
    pub fn packet(&mut self, packet: &[u8], at: u64, reference: Option<&ReferenceTrack>) {
        let Some((mut header, mut payload)) = parse(packet) else {
            return self.wrong("a packet that is not RTP");
        };
        let again = self.rtx == Some(header.payload_type);
        if again {
            let (Some((seq, original)), Some(ssrc)) = (repair::original(payload), self.ssrc) else {
                // Empty, or a retransmission before the first packet.
                return;
            };
            (header.seq, header.ssrc, payload) = (seq, ssrc, original);
        }
        if *self.ssrc.get_or_insert(header.ssrc) != header.ssrc {
            return self.wrong("packets of two sources (SSRC) in one stream");
        }
        self.story.packets += 1;
        self.story.bytes += payload.len() as u64;
        self.course.came(at, payload.len() as u64);
        if self.announced_seq == Some(header.seq) {
            self.announced_came.get_or_insert(self.story.packets);
        }
        self.clock.came(header.rtp_time);
        if self.story.packets == 1 {
            let media = self.clock.newest();
            self.came_first = header.seq;
            self.story.announced = self.announced_seq.map(|seq| seq == header.seq);
            // Packets lost before the first arrival count as lost, unless the announced number is
            // too far away to be of this stream.
            let begins = begins(self.story.is_video, media, self.clock.from());
            let first = self
                .announced_seq
                .filter(|seq| !begins && header.seq.wrapping_sub(*seq) < MOST_MISSING_FIRST);
            self.first_seq = first.unwrap_or(header.seq);
            self.order.begin(self.first_seq);
            self.story.first_media = media;
        }
        let waiting = Packet {
            rtp_time: header.rtp_time,
            marker: header.marker,
            at,
            payload: self
                .depacketiser
                .as_ref()
                .map_or_else(Vec::new, |_| payload.to_vec()),
        };
        match self.order.push(header.seq, at, waiting) {
            Arrival::Ahead(missing) => self.missed(at, i64::from(missing)),
            Arrival::Reordered => {
                self.missed(at, -1);
                if again {
                    self.story.repaired += 1;
                } else {
                    self.story.reordered += 1;
                }
            }
            // It was requested twice, or the original arrived after all.
            Arrival::Repeated if again => {}
            Arrival::TooLate => {
                self.missed(at, -1);
                self.story.reordered += 1;
                self.story.too_late += 1;
            }
            Arrival::Repeated => self.story.repeated += 1,
        }
        self.drain(at, reference);
    }

    /// Adds to the number of missing packets, or subtracts from it.
    fn missed(&mut self, at: u64, packets: i64) {
        if packets != 0 {
            self.story.lost = self.story.lost.saturating_add_signed(packets);
            self.course.lost(at, packets);
        }
    }

    /// Takes an RTCP datagram.
    pub fn report(&mut self, datagram: &[u8]) {
        match parse_rtcp(datagram) {
            Ok(compound) => {
                self.story.bye |= compound.bye;
                let Some(report) = compound.report else {
                    return;
                };
                self.story.sender_reports += 1;
                if self.story.packets > 0 {
                    let media = self.clock.media(report.rtp_time);
                    let sent = self.order.span(self.first_seq);
                    self.reports.add(report, media, self.clock.newest(), sent);
                }
            }
            Err(wrong) => self.wrong(wrong),
        }
    }

    /// Processes the remaining packets at the end.
    pub fn finish(&mut self, reference: Option<&ReferenceTrack>) {
        self.drain(u64::MAX, reference);
        self.arrivals
            .extend(self.current.take().map(|(_, unit)| unit));
        let Some(reference) = reference.filter(|_| self.depacketiser.is_some()) else {
            return;
        };
        let times = |units: &[Arrived]| {
            let times = units.iter().map(|unit| unit.media);
            times.clone().min().zip(times.max())
        };
        let is_whole = times(&self.arrivals).is_some_and(|(_, last)| reference.ends_at(last));
        let settled = match is_whole {
            true => &self.arrivals[..],
            false => self.settled(),
        };
        if let Some((first, last)) = times(settled) {
            self.story.missing = reference.missing(first, last, &self.compared);
        }
    }

    /// Returns the access units that no later arrival would have preceded, had the play continued.
    fn settled(&self) -> &[Arrived] {
        &self.arrivals[..self.arrivals.len().saturating_sub(REORDER)]
    }

    fn drain(&mut self, now: u64, reference: Option<&ReferenceTrack>) {
        while let Some(out) = self.order.pop(now) {
            match out {
                Out::Gap(packets) => {
                    self.gap = true;
                    if let Some((_, unit)) = &mut self.current {
                        unit.whole &= !self.in_fragments;
                    }
                    if let Some(depacketiser) = &mut self.depacketiser {
                        depacketiser.gap(packets);
                    }
                }
                Out::Packet(packet) => {
                    self.time(&packet);
                    self.compare(&packet, reference);
                }
            }
        }
    }

    fn compare(&mut self, packet: &Packet, reference: Option<&ReferenceTrack>) {
        let clock = self.clock;
        let (story, kept, compared) = (&mut self.story, &mut self.kept, &mut self.compared);
        let Some(depacketiser) = &mut self.depacketiser else {
            return;
        };
        let mut judge = |unit: crate::depacketise::WholeUnit<'_>| {
            let nanos = clock.media(unit.rtp_time);
            if let Some(kept) = kept {
                kept.push(Kept {
                    media: nanos,
                    parameters: unit.parameters.to_vec(),
                    parts: unit.parts.iter().map(|part| part.to_vec()).collect(),
                });
            }
            let Some(reference) = reference else {
                return;
            };
            story.units += 1;
            let judged = reference.judge(nanos, unit.hash());
            if judged != Match::Unknown {
                compared.push(nanos);
            }
            match judged {
                Match::Same => {}
                Match::Elsewhere(by) => {
                    story.displaced += 1;
                    story.displaced_by.get_or_insert(by);
                }
                Match::Different => story.different += 1,
                Match::Unknown => story.unknown += 1,
            }
        };
        let pushed = depacketiser.push(&packet.payload, packet.rtp_time, packet.marker, &mut judge);
        if let Err(wrong) = pushed {
            self.wrong(wrong);
        }
    }

    /// Records the arrival times of an access unit's packets.
    fn time(&mut self, packet: &Packet) {
        let gap = std::mem::take(&mut self.gap);
        match &mut self.current {
            Some((time, unit)) if *time == packet.rtp_time => {
                unit.first = unit.first.min(packet.at);
                unit.last = unit.last.max(packet.at);
                unit.packets += 1;
            }
            _ => {
                let next = Arrived {
                    media: self.clock.media(packet.rtp_time),
                    first: packet.at,
                    last: packet.at,
                    packets: 1,
                    whole: !(gap && self.in_fragments),
                    after_gap: gap,
                };
                let done = self.current.replace((packet.rtp_time, next));
                self.arrivals.extend(done.map(|(_, unit)| unit));
            }
        }
    }

    /// Returns the film's time of the newest packet in nanoseconds.
    pub fn newest(&self) -> i64 {
        self.clock.newest()
    }

    /// Returns the contradictions between RTP-Info and the packets.
    pub fn judge_announcement(&self) -> Vec<Finding> {
        let (story, name) = (&self.story, self.story.kind());
        let mut findings = Vec::new();
        let mut lie = |words| findings.push(Finding::noticed(Fault::RtpInfo, words));
        if story.packets == 0 {
            return findings;
        }
        if let (Some(false), Some(announced)) = (story.announced, self.announced_seq) {
            // Packets missing before the first arrival are lost; the announcement is right.
            if self.first_seq != announced {
                let came = self.came_first;
                let off = came.wrapping_sub(announced) as i16;
                let far = if off > 0 { "later" } else { "earlier" };
                let far = match u64::from(off.unsigned_abs()) {
                    off if off < u64::from(MOST_MISSING_FIRST) => format!(" ({off} {far})"),
                    _ => String::new(),
                };
                let announced_itself = match self.announced_came {
                    Some(number) => format!("{announced} came as packet {number}"),
                    None => format!("{announced} did not come"),
                };
                lie(format!(
                    "RTP-Info announces sequence number {announced} as the first of the {name}; the first that came is {came}{far}, and {announced_itself}"
                ));
            }
        }
        let off = (story.first_media - self.clock.from()) / 1_000_000;
        if story.announced_time && off.abs() > BESIDE_MS {
            lie(format!(
                "RTP-Info puts the beginning of the {name} {} ms {} where the server said it would play from",
                off.abs(),
                if off > 0 { "after" } else { "before" }
            ));
        }
        findings
    }

    /// Judges all arrivals against the earliest. The first packet of an access unit is due at its
    /// time, the last of several at most the frame's duration later.
    ///
    /// Decode times count, as servers send by them: the i-th arrival gets the i-th presentation
    /// time, which is its decode time but for a constant. Pictures shown before the last arrivals
    /// of an aborted play have not arrived, so the constant is not taken from those.
    pub fn judge(&mut self) {
        let from = self.clock.from();
        let frame = usual_step(self.arrivals.iter().map(|unit| unit.media));
        let mut decode: Vec<i64> = self.arrivals.iter().map(|unit| unit.media).collect();
        decode.sort_unstable();
        let due = self.arrivals.iter().zip(decode);
        let settled = match self.settled().len() {
            0 => self.arrivals.len(),
            settled => settled,
        };
        let base = due
            .clone()
            .take(settled)
            .map(|(unit, decode)| unit.first as i64 - decode.max(from))
            .min()
            .unwrap_or(0);
        for (unit, decode) in due {
            // Audio in a packet that begins before the start is due at the start.
            let due = decode.max(from) + base;
            let spread = if unit.packets > 1 { frame } else { 0 };
            let late = (unit.first as i64 - due).max(unit.last as i64 - due - spread);
            let late = late.max(0) as u64;
            self.story.late.add(Duration::from_nanos(late));
            self.course.late(unit.last, late);
        }
    }
}

/// Whether a first packet at the film's time `media` is where the play begins, so that earlier ones
/// hold nothing to show. GStreamer's server counts audio that it cuts off there.
pub(crate) fn begins(is_video: bool, media: i64, from: i64) -> bool {
    !is_video && media <= from + ROUNDING
}

/// Maximum reordering of pictures: more than any codec's reference frames.
pub(crate) const REORDER: usize = 16;
/// Times closer than this are equal but for the rounding of clocks, in nanoseconds.
const ROUNDING: i64 = 1_000_000;
/// Maximum distance of the first packet from the announced place, in milliseconds: an audio packet
/// or a picture that is shown for long.
const BESIDE_MS: i64 = 500;
/// Maximum number of senders of a track that are counted separately.
const MOST_SENDERS: usize = 64;
/// Maximum number of packets missing before the first arrival.
const MOST_MISSING_FIRST: u16 = 2000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::access_unit_hash;

    /// The findings about RTP-Info that announces `announced` when these packets arrive.
    fn said(is_video: bool, announced: u16, came: &[u16]) -> Vec<String> {
        let mut meter = TrackMeter::new(is_video, 90_000, Format::H264, false, 0);
        meter.announce(Some(announced), Some(0), 0);
        for (at, seq) in came.iter().enumerate() {
            let mut packet = vec![0x80, 96];
            packet.extend(seq.to_be_bytes());
            packet.extend([0; 8]);
            meter.packet(&packet, at as u64, None);
        }
        let findings = meter.judge_announcement();
        findings.into_iter().map(|finding| finding.words).collect()
    }

    #[test]
    fn what_is_said_of_a_wrong_number_is_true_of_the_packets_that_came() {
        let came: Vec<u16> = (41_281..41_300).collect();
        assert_eq!(
            said(true, 41_288, &came),
            [
                "RTP-Info announces sequence number 41288 as the first of the picture; the first that came is 41281 (7 earlier), and 41288 came as packet 8"
            ]
        );
        // Across the wrap of sequence numbers, and far away.
        assert_eq!(
            said(true, 2, &[65_534, 65_535]),
            [
                "RTP-Info announces sequence number 2 as the first of the picture; the first that came is 65534 (4 earlier), and 2 did not come"
            ]
        );
        assert_eq!(
            said(true, 10, &[5010, 5011]),
            [
                "RTP-Info announces sequence number 10 as the first of the picture; the first that came is 5010, and 10 did not come"
            ]
        );
        // Audio that begins at the right place has lost nothing before it.
        assert_eq!(
            said(false, 10, &[12, 13]),
            [
                "RTP-Info announces sequence number 10 as the first of the sound; the first that came is 12 (2 later), and 10 did not come"
            ]
        );
    }

    #[test]
    fn packets_that_are_missing_or_late_at_the_beginning_make_no_announcement_wrong() {
        assert!(said(true, 10, &[10, 11]).is_empty());
        assert!(said(true, 10, &[13, 14]).is_empty(), "three are lost");
        assert!(said(true, 10, &[11, 10, 12]).is_empty());
    }

    /// Missing pictures and maximum lateness (ms) for a film of `film` pictures (40 ms each), of
    /// which `came` (numbers in presentation order) arrive in this order, 40 ms apart.
    fn missing(film: u32, came: &[u32]) -> (u64, u64) {
        let mut reference = ReferenceTrack::default();
        let slice = |number: u32| [&[0x41][..], &number.to_be_bytes()].concat();
        for number in 0..film {
            let hash = access_unit_hash([&slice(number)[..]]);
            reference.units.push((i64::from(number) * 40_000_000, hash));
        }
        let mut meter = TrackMeter::new(true, 90_000, Format::H264, true, 0);
        meter.announce(Some(0), Some(0), 0);
        for (seq, number) in came.iter().enumerate() {
            let mut packet = vec![0x80, 0x80 | 96];
            packet.extend((seq as u16).to_be_bytes());
            packet.extend((number * 3600).to_be_bytes());
            packet.extend([0; 4]);
            packet.extend(slice(*number));
            meter.packet(&packet, seq as u64 * 40_000_000, Some(&reference));
        }
        meter.finish(Some(&reference));
        meter.judge();
        assert_eq!(meter.story.units as usize, came.len());
        let late = meter.story.late.max().as_millis();
        (meter.story.missing, late as u64)
    }

    #[test]
    fn pictures_that_a_viewer_did_not_wait_for_are_not_missing() {
        // P B B, P B B, …: each P is shown after the two that follow it.
        let order = |count: u32| (0..count).flat_map(|nth| [3 * nth + 2, 3 * nth, 3 * nth + 1]);
        let all: Vec<u32> = order(30).collect();
        for left_at in [30, 31, 32, 60, 87, 90] {
            assert_eq!(missing(90, &all[..left_at]), (0, 0), "left after {left_at}");
        }
        let without = |gone: u32| all.iter().copied().filter(move |number| *number != gone);
        let left_out: Vec<u32> = without(40).collect();
        assert_eq!(missing(90, &left_out).0, 1);
        assert_eq!(missing(90, &left_out[..80]).0, 1);
        let last: Vec<u32> = without(87).collect();
        assert_eq!(missing(90, &last).0, 1, "the film came to its end");
    }
}
