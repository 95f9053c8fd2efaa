//! A viewer's position in a track: the group, the frame, the packet. It advances as packets leave,
//! and asks for the next group in time.
//!
//! The next packets are determined once, when the cursor reaches them ([`Head`]): a visit needs
//! them up to eight times, and would go through the plan's memory each time, which other viewers'
//! plans have evicted from the processor's cache.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::Arc;

use reelway_hint as prefetch;
use reelway_media::Nanos;
use reelway_rtp::{Packet, Plan};

use crate::again::PacketPlace;
use crate::error::StreamError;
use crate::group::{Group, InMemory};
use crate::outline::Outline;
use crate::pacing::Pace;

/// A position in a track of an outline. The fields that a turn reads and writes come first.
#[repr(C)]
pub struct Cursor<B> {
    /// The packets at this position; `None` if the plan is not in memory.
    head: Option<Head>,
    current: Option<Arc<Group<B>>>,
    /// When the group to be requested next is due; [`NEVER`], or [`UNKNOWN`] if anything that it
    /// depends on has changed.
    asks: Nanos,
    /// Packets of the preface sent so far; `None` if it has been sent, is not wanted, or
    /// does not exist.
    preface: Option<u32>,
    /// The next frame to be sent within the group, and the next packet within the frame.
    frame: u32,
    packet: u32,
    done: bool,

    /// The outline's track.
    pub track: usize,
    /// The number of groups of the track.
    groups: usize,
    /// The number of packets of the track's preface.
    preface_packets: u32,
    /// The most packets that may leave within a millisecond.
    burst: u16,
    /// Whether frames leave ahead of their time as the plan says, so that the film is sent evenly.
    even: bool,
    group: usize,
    /// Set after the cursor was placed or released its memory, until a frame is found: frames due
    /// before this are left out, except the one that contains it (several audio access units share
    /// a packet).
    from: Option<Nanos>,
    /// Frames due at or after this are left out.
    end: Nanos,
    next: Option<Result<Arc<Group<B>>, StreamError>>,
    /// The last group requested.
    asked: Option<usize>,
}

/// Nothing is to be requested until something changes.
const NEVER: Nanos = Nanos::MAX;
/// Whether something is to be requested has to be determined.
const UNKNOWN: Nanos = Nanos::MIN;

/// The next packets, which leave together.
#[derive(Clone, Debug)]
pub struct Head {
    /// Their numbers within the current unit.
    pub packets: Range<u32>,
    /// When they are due on the film's timeline.
    pub due: Nanos,
    /// The most packets that may leave within their millisecond.
    pub cap: u32,
    /// The number of the first of them in the plan.
    first: u32,
    /// When their frame is due.
    frame_due: Nanos,
    /// Whether the frame can be left out: no packet of it was sent, and no other frame is decoded
    /// from it.
    droppable: bool,
}

/// What is sent next: a frame, or the parameter sets before the first one.
pub struct Unit<'a, B> {
    /// The plan to which the packets belong.
    pub plan: &'a Plan,
    /// The film's bytes in memory.
    pub bytes: &'a Group<B>,
    /// All packets of the unit.
    pub packets: &'a [Packet],
    /// When it is due on the film's timeline, and how long it lasts, ns.
    pub due: Nanos,
    /// See `due`.
    pub duration: Nanos,
    /// RTP timestamp minus the viewer's base.
    pub rtp_time: u32,
}

impl<B: InMemory> Cursor<B> {
    /// The number of bytes that a turn touches.
    pub const HOT: usize = offset_of!(Cursor<B>, track);

    /// Creates a cursor without a position, for an outline's track whose preface has
    /// `preface_packets` packets.
    pub fn new(
        track: usize,
        groups: usize,
        preface_packets: u32,
        burst: u16,
        even: bool,
    ) -> Cursor<B> {
        Cursor {
            head: None,
            current: None,
            asks: UNKNOWN,
            preface: None,
            frame: 0,
            packet: 0,
            done: true,
            track,
            groups,
            preface_packets,
            burst,
            even,
            group: 0,
            from: None,
            end: Nanos::MAX,
            next: None,
            asked: None,
        }
    }

    /// Moves to the frame that is due at `from`, or that contains this time, in `group` or later;
    /// the previous position is discarded. `None`: the track has nothing there.
    pub fn place(&mut self, at: Option<(usize, Nanos)>, end: Nanos) {
        *self = Cursor::new(
            self.track,
            self.groups,
            self.preface_packets,
            self.burst,
            self.even,
        );
        if let Some((group, from)) = at {
            self.group = group;
            self.from = Some(from);
            self.preface = (self.preface_packets > 0).then_some(0);
            self.done = group >= self.groups;
        }
        self.end = end;
    }

    /// Releases all memory but keeps the position.
    pub fn let_go(&mut self) {
        if let Some(head) = &self.head {
            self.from = Some(head.frame_due);
        }
        self.current = None;
        self.head = None;
        self.next = None;
        self.asked = None;
        self.asks = UNKNOWN;
    }

    /// Returns the groups that it holds: the current one, and the next.
    pub fn held(&self) -> impl Iterator<Item = &Arc<Group<B>>> {
        let next = self.next.as_ref().and_then(|next| next.as_ref().ok());
        self.current.iter().chain(next)
    }

    /// Returns the number of blocks that it keeps in memory.
    pub fn blocks(&self) -> usize {
        self.held().map(|group| group.bytes.blocks()).sum()
    }

    /// Forgets pending requests: the answers would go to a thread that the track has left.
    pub fn ask_again(&mut self) {
        self.asked = None;
        self.asks = UNKNOWN;
    }

    /// Returns whether nothing is left to send.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Returns whether the next packet is known, or is known not to exist.
    pub fn is_ready(&self) -> bool {
        self.done || self.current.is_some()
    }

    /// Prefetches into the processor's cache what sending the next packets will read. Call it with
    /// each `step` from 0 to [`Cursor::STEPS`]: each needs what the previous one has fetched.
    pub fn prefetch(&self, step: u32) {
        let (Some(bytes), Some(head)) = (&self.current, &self.head) else {
            return;
        };
        let packets = || {
            let first = head.first as usize;
            let last = first + (head.packets.end - head.packets.start) as usize;
            bytes.plan.packets.get(first..last).unwrap_or(&[])
        };
        let span = &bytes.bytes;
        let film = |packet: &Packet| packet.run().map_or(span.start(), |(_, film)| film.start);
        match step {
            0 => prefetch::value(&**bytes),
            1 => {
                prefetch::value(&*bytes.plan);
                span.prefetch(0, 0);
            }
            2 => {
                prefetch::slice(packets());
                if let Some(frame) = bytes.plan.frames.get(self.frame as usize) {
                    prefetch::value(frame);
                }
            }
            step => {
                if let Some(first) = packets().first() {
                    span.prefetch(film(first), step - 2);
                }
            }
        }
    }

    /// The number of steps of [`Cursor::prefetch`].
    pub const STEPS: u32 = 5;

    /// Returns the packets that leave next, if known.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    fn find_head(&mut self) {
        let here = self
            .current
            .as_deref()
            .and_then(|here| Some((here.plan.frames.get(self.frame as usize)?, here)));
        self.head = here.map(|(frame, here)| {
            let (at, of) = match self.preface {
                Some(sent) => (sent, self.preface_packets),
                None => (self.packet, frame.packets.len() as u32),
            };
            let takes = |time| if self.preface.is_some() { 0 } else { time };
            let leaving = here.leaving.get(self.frame as usize);
            let (due, pace) = match leaving.filter(|_| self.even) {
                Some(sent) => {
                    let time = takes(sent.last - sent.first);
                    (sent.first, Pace::over(of, time, self.burst))
                }
                None => (frame.due, Pace::new(of, takes(frame.duration), self.burst)),
            };
            let slice = pace.slice_at(at);
            Head {
                first: frame.packets.start + slice.packets.start,
                packets: slice.packets,
                due: due.saturating_add(slice.after),
                cap: pace.cap,
                frame_due: frame.due,
                droppable: frame.droppable && self.packet == 0 && self.preface.is_none(),
            }
        });
    }

    /// Returns what is sent next, if it is in memory; `preface` returns the track's preface.
    pub fn unit<'a>(&'a self, preface: impl FnOnce() -> Option<&'a Plan>) -> Option<Unit<'a, B>> {
        let bytes = self.current.as_deref()?;
        let frame = bytes.plan.frames.get(self.frame as usize)?;
        let (plan, packets, duration) = match self.preface.and_then(|_| preface()) {
            Some(plan) => (plan, &*plan.packets, 0),
            None => (&*bytes.plan, bytes.plan.packets_of(frame), frame.duration),
        };
        Some(Unit {
            plan,
            bytes,
            packets,
            due: frame.due,
            duration,
            rtp_time: frame.rtp_time,
        })
    }

    /// Returns the position of the next packet, and the number of packets in the preface before it.
    pub fn at(&self) -> Option<(PacketPlace, u16)> {
        let frame = self
            .current
            .as_deref()?
            .plan
            .frames
            .get(self.frame as usize)?;
        let place = PacketPlace {
            group: self.group as u32,
            packet: frame.packets.start + self.packet,
            preface: self.preface.map(|sent| sent as u16),
        };
        let before = self.preface.map_or(0, |_| self.preface_packets as u16);
        Some((place, before))
    }

    /// Returns a group's plan and bytes, if it is the current one.
    pub fn group(&self, group: usize) -> Option<&Arc<Group<B>>> {
        self.current.as_ref().filter(|_| group == self.group)
    }

    /// Advances by `packets` of the current unit. An error is that of the group that comes next.
    pub fn advance(&mut self, packets: u32) -> Result<(), StreamError> {
        if let Some(sent) = self.preface {
            self.preface = Some(sent + packets).filter(|sent| *sent < self.preface_packets);
            self.find_head();
            return Ok(());
        }
        self.packet += packets;
        let frame = self
            .current
            .as_deref()
            .and_then(|current| current.plan.frames.get(self.frame as usize));
        if frame.is_some_and(|frame| self.packet < frame.packets.len() as u32) {
            self.find_head();
            return Ok(());
        }
        self.packet = 0;
        self.frame += 1;
        self.settle()
    }

    /// Returns when the current frame is due, if it can be left out: no packet of it was sent, and
    /// no other frame is decoded from it.
    pub fn droppable(&self) -> Option<Nanos> {
        let head = self.head.as_ref().filter(|head| head.droppable)?;
        Some(head.frame_due)
    }

    /// Returns when the current frame is due, if no packet of it was sent.
    pub fn untouched(&self) -> Option<Nanos> {
        let head = self.head.as_ref()?;
        (self.packet == 0 && self.preface.is_none()).then_some(head.frame_due)
    }

    /// Returns when the next sync sample after the current frame is due, as far as plans
    /// are in memory.
    pub fn next_sync(&self) -> Option<Nanos> {
        let here = self
            .current
            .as_deref()?
            .plan
            .frames
            .get(self.frame as usize + 1..)?;
        let next = self.next.as_ref().and_then(|next| next.as_ref().ok());
        let mut later = here
            .iter()
            .chain(next.into_iter().flat_map(|next| &next.plan.frames));
        let sync = later.find(|frame| frame.sync)?;
        (sync.due < self.end).then_some(sync.due)
    }

    /// Leaves out the current frame.
    pub fn skip(&mut self) -> Result<(), StreamError> {
        self.frame += 1;
        self.settle()
    }

    /// Moves on to a frame to be sent, across the ends of groups.
    fn settle(&mut self) -> Result<(), StreamError> {
        let settled = self.find_frame();
        self.find_head();
        settled
    }

    fn find_frame(&mut self) -> Result<(), StreamError> {
        while let Some(current) = self.current.as_deref() {
            let frames = &current.plan.frames;
            if let Some(from) = self.from {
                let passed = frames[(self.frame as usize).min(frames.len())..]
                    .iter()
                    .take_while(|frame| frame.due < from && frame.due + frame.duration <= from)
                    .count();
                self.frame += passed as u32;
            }
            if let Some(frame) = frames.get(self.frame as usize) {
                self.from = None;
                if frame.due >= self.end {
                    self.finish();
                }
                return Ok(());
            }
            self.group += 1;
            self.frame = 0;
            self.asks = UNKNOWN;
            if self.group >= self.groups {
                self.finish();
                return Ok(());
            }
            self.current = self.next.take().transpose()?;
        }
        Ok(())
    }

    fn finish(&mut self) {
        self.done = true;
        self.let_go();
    }

    /// Accepts a group that was requested. Fails if it is the current group and is not available.
    pub fn give(
        &mut self,
        group: usize,
        planned: Result<Arc<Group<B>>, StreamError>,
    ) -> Result<(), StreamError> {
        if self.done {
            return Ok(());
        }
        self.asks = UNKNOWN;
        if group == self.group && self.current.is_none() {
            self.current = Some(planned?);
            return self.settle();
        }
        if group == self.group + 1 {
            self.next = Some(planned);
        }
        Ok(())
    }

    /// Returns the group to request now, and when it is due on the film's timeline: the current one
    /// immediately, the next one if it is due before `ahead`. It counts as requested.
    pub fn want(&mut self, outline: &Outline, ahead: Nanos) -> Option<(usize, Nanos)> {
        if self.asks == UNKNOWN {
            self.asks = self.lacking(outline).map_or(NEVER, |(_, due)| due);
        }
        if self.asks == NEVER || self.current.is_some() && self.asks >= ahead {
            return None;
        }
        let (group, due) = self.lacking(outline)?;
        self.asked = Some(group);
        self.asks = UNKNOWN;
        Some((group, due))
    }

    /// Returns when the next group is due that is neither in memory nor requested.
    pub fn asks(&self, outline: &Outline) -> Option<Nanos> {
        match self.asks {
            UNKNOWN => self.lacking(outline).map(|(_, due)| due),
            NEVER => None,
            due => Some(due),
        }
    }

    /// Returns when the cursor's position is due, if its group is not in memory.
    pub fn missing(&self, outline: &Outline) -> Option<Nanos> {
        let misses = !self.done && self.current.is_none();
        misses.then(|| {
            outline
                .group_due(self.track, self.group)
                .max(self.from.unwrap_or(Nanos::MIN))
        })
    }

    /// Returns the next group that is neither in memory nor requested, and when it is due.
    fn lacking(&self, outline: &Outline) -> Option<(usize, Nanos)> {
        let group = match (&self.current, &self.next) {
            _ if self.done => return None,
            (None, _) => self.group,
            (Some(_), None) => self.group + 1,
            (Some(_), Some(_)) => return None,
        };
        if group >= self.groups || self.asked == Some(group) {
            return None;
        }
        let due = outline.group_due(self.track, group);
        (group == self.group || due < self.end).then_some((group, due))
    }
}
