//! Where a viewer stands in a track: the group, the frame, the packet. It moves on as packets leave,
//! and asks for the next group in time.
//!
//! Which packets are next is worked out once, when the cursor comes to them ([`Head`]): a visit asks for it
//! up to eight times, and each time would go through the plan's memory, which other viewers' plans have
//! pushed out of the processor's cache.

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

/// A place in a track of an outline. What a turn reads and writes comes first.
#[repr(C)]
pub struct Cursor<B> {
    /// What the place says; `None`: the plan is not here.
    head: Option<Head>,
    current: Option<Arc<Group<B>>>,
    /// When the group that is to be asked for next is due; [`NEVER`], or [`UNKNOWN`] when anything that it hangs
    /// on has changed.
    asks: Nanos,
    /// Packets of the preface sent; `None`: it has been sent, or is not wanted, or there is none.
    preface: Option<u32>,
    /// Frame within the group, and packet within the frame: the next to be sent.
    frame: u32,
    packet: u32,
    done: bool,

    /// The outline's track.
    pub track: usize,
    /// Groups of the track.
    groups: usize,
    /// Packets of the track's preface.
    preface_packets: u32,
    /// Packets that may leave within a millisecond.
    burst: u16,
    /// Whether frames leave ahead of their time as the plan says, so that the film is sent evenly.
    even: bool,
    group: usize,
    /// Until a frame is found, after it was placed or let go: frames due before this are left out, but for the one it lies
    /// in (several access units of sound share a packet).
    from: Option<Nanos>,
    /// Frames due from here on are left out.
    end: Nanos,
    next: Option<Result<Arc<Group<B>>, StreamError>>,
    /// The last group asked for.
    asked: Option<usize>,
}

/// Nothing is to be asked for until something changes.
const NEVER: Nanos = Nanos::MAX;
/// It is to be found out whether something is to be asked for.
const UNKNOWN: Nanos = Nanos::MIN;

/// The packets that leave next together.
#[derive(Clone, Debug)]
pub struct Head {
    /// Their numbers within the unit at hand.
    pub packets: Range<u32>,
    /// When they are due on the film's timeline.
    pub due: Nanos,
    /// Packets that may leave within their millisecond.
    pub cap: u32,
    /// The first of them in the plan.
    first: u32,
    /// When their frame is due.
    frame_due: Nanos,
    /// The frame can be left out: nothing of it was sent, and no other frame is decoded from it.
    droppable: bool,
}

/// What is to be sent next: a frame, or the parameter sets before the first one.
pub struct Unit<'a, B> {
    /// The plan the packets are of.
    pub plan: &'a Plan,
    /// Its bytes in memory.
    pub bytes: &'a Group<B>,
    /// All packets of the unit.
    pub packets: &'a [Packet],
    /// When it is due on the film's timeline, and how long it lasts, ns.
    pub due: Nanos,
    /// See `due`.
    pub duration: Nanos,
    /// RTP timestamp less the viewer's base.
    pub rtp_time: u32,
}

impl<B: InMemory> Cursor<B> {
    /// Bytes that a turn touches.
    pub const HOT: usize = offset_of!(Cursor<B>, track);

    /// A place that is nowhere yet, in an outline's track whose preface has so many packets.
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

    /// Moves to the frame due at `from`, or that it lies in, in `group` or later; nothing is left of the
    /// place before. `None`: the track has nothing there.
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

    /// Lets go of all memory, keeping the place.
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

    /// Groups that it holds: the one at hand, and the next.
    pub fn held(&self) -> impl Iterator<Item = &Arc<Group<B>>> {
        let next = self.next.as_ref().and_then(|next| next.as_ref().ok());
        self.current.iter().chain(next)
    }

    /// Blocks that it keeps in memory.
    pub fn blocks(&self) -> usize {
        self.held().map(|group| group.bytes.blocks()).sum()
    }

    /// Forgets what was asked for: the answer would come to a thread that the track has left.
    pub fn ask_again(&mut self) {
        self.asked = None;
        self.asks = UNKNOWN;
    }

    /// Whether there is nothing left to send.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the next packet is known, or it is known that there is none.
    pub fn is_ready(&self) -> bool {
        self.done || self.current.is_some()
    }

    /// Fetches into the processor's cache what sending the next packets will read, a step further with each
    /// `step`, from 0 to [`Cursor::STEPS`]: each needs what the one before has fetched.
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

    /// Steps of [`Cursor::prefetch`].
    pub const STEPS: u32 = 5;

    /// Which packets leave next, if that is known.
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

    /// What is to be sent next, if it is in memory; `preface` gives the track's.
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

    /// Where the next packet lies, and how many packets the preface before it has.
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

    /// A group's plan and bytes, if it is the one at hand.
    pub fn group(&self, group: usize) -> Option<&Arc<Group<B>>> {
        self.current.as_ref().filter(|_| group == self.group)
    }

    /// Moves on by `packets` of the unit at hand. An error is one of the group it comes to.
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

    /// When the frame at hand is due, if it can be left out: nothing of it was sent, and no other frame
    /// is decoded from it.
    pub fn droppable(&self) -> Option<Nanos> {
        let head = self.head.as_ref().filter(|head| head.droppable)?;
        Some(head.frame_due)
    }

    /// When the frame at hand is due, if nothing of it was sent.
    pub fn untouched(&self) -> Option<Nanos> {
        let head = self.head.as_ref()?;
        (self.packet == 0 && self.preface.is_none()).then_some(head.frame_due)
    }

    /// When the next frame is due that a decoder may start with, behind the one at hand, as far as plans
    /// are here.
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

    /// Leaves the frame at hand out.
    pub fn skip(&mut self) -> Result<(), StreamError> {
        self.frame += 1;
        self.settle()
    }

    /// Goes on to a frame that is to be sent, over the ends of groups.
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

    /// Takes in a group that was asked for. An error if it is the group at hand and cannot be had.
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

    /// The group to ask for now, and when it is due on the film's timeline; the one at hand at once, the
    /// one behind it if it is due before `ahead`. It counts as asked for.
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

    /// When the next group that is not here and was not asked for is due.
    pub fn asks(&self, outline: &Outline) -> Option<Nanos> {
        match self.asks {
            UNKNOWN => self.lacking(outline).map(|(_, due)| due),
            NEVER => None,
            due => Some(due),
        }
    }

    /// When what the cursor stands at is due, if its group is not here.
    pub fn missing(&self, outline: &Outline) -> Option<Nanos> {
        let misses = !self.done && self.current.is_none();
        misses.then(|| {
            outline
                .group_due(self.track, self.group)
                .max(self.from.unwrap_or(Nanos::MIN))
        })
    }

    /// The next group that is not here and was not asked for, and when it is due.
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
