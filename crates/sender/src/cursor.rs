//! Where a viewer stands in a track: the group, the frame, the packet. It moves on as packets leave,
//! and asks for the next group in time.

use std::sync::Arc;

use reelway_media::Nanos;
use reelway_rtp::{Packet, Plan};

use crate::again::Place;
use crate::plans::{Planned, Script};
use crate::stream::StreamError;

/// A place in a track of a script.
pub(crate) struct Cursor {
    /// The script's track.
    pub track: usize,
    /// Groups of the track.
    groups: usize,
    group: usize,
    /// Frame within the group, and packet within the frame: the next to be sent.
    frame: usize,
    packet: u32,
    /// Until the first frame is found: frames due before this are left out, but for the one it lies
    /// in (several access units of sound share a packet).
    from: Option<Nanos>,
    /// Frames due from here on are left out.
    end: Nanos,
    /// Packets of the preface sent; `None`: it has been sent, or is not wanted.
    preface: Option<u32>,
    current: Option<Arc<Planned>>,
    next: Option<Result<Arc<Planned>, StreamError>>,
    /// The last group asked for.
    asked: Option<usize>,
    done: bool,
}

/// What is to be sent next: a frame, or the parameter sets before the first one.
pub(crate) struct Unit<'a> {
    /// The plan the packets are of.
    pub plan: &'a Plan,
    /// Its bytes in memory.
    pub bytes: &'a Planned,
    /// All packets of the unit.
    pub packets: &'a [Packet],
    /// The first one not sent yet.
    pub at: u32,
    pub due: Nanos,
    pub duration: Nanos,
    /// RTP timestamp less the viewer's base.
    pub rtp_time: u32,
}

impl Cursor {
    /// A place that is nowhere yet.
    pub fn new(track: usize, groups: usize) -> Cursor {
        Cursor {
            track,
            groups,
            group: 0,
            frame: 0,
            packet: 0,
            from: None,
            end: Nanos::MAX,
            preface: None,
            current: None,
            next: None,
            asked: None,
            done: true,
        }
    }

    /// Moves to the frame due at `from`, or that it lies in, in `group` or later; nothing is left of the
    /// place before. `None`: the track has nothing there.
    pub fn place(&mut self, at: Option<(usize, Nanos)>, end: Nanos) {
        let (track, groups) = (self.track, self.groups);
        *self = Cursor::new(track, groups);
        if let Some((group, from)) = at {
            self.group = group;
            self.from = Some(from);
            self.preface = Some(0);
            self.done = group >= groups;
        }
        self.end = end;
    }

    /// Lets go of all memory, keeping the place.
    pub fn let_go(&mut self) {
        self.current = None;
        self.next = None;
        self.asked = None;
    }

    /// Forgets what was asked for: the answer would come to a thread that the track has left.
    pub fn ask_again(&mut self) {
        self.asked = None;
    }

    /// Whether there is nothing left to send.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the next packet is known, or it is known that there is none.
    pub fn is_ready(&self) -> bool {
        self.done || self.current.is_some()
    }

    /// What is to be sent next, if it is in memory.
    pub fn unit<'a>(&'a self, preface: Option<&'a Plan>) -> Option<Unit<'a>> {
        let bytes = self.current.as_deref()?;
        let frame = bytes.plan.frames.get(self.frame)?;
        let (due, rtp_time) = (frame.due, frame.rtp_time);
        if let (Some(at), Some(plan)) = (
            self.preface,
            preface.filter(|plan| !plan.packets.is_empty()),
        ) {
            return Some(Unit {
                plan,
                bytes,
                packets: &plan.packets,
                at,
                due,
                duration: 0,
                rtp_time,
            });
        }
        let packets = bytes.plan.packets_of(frame);
        Some(Unit {
            plan: &bytes.plan,
            bytes,
            packets,
            at: self.packet,
            due,
            duration: frame.duration,
            rtp_time,
        })
    }

    /// Where the next packet lies, and how many packets the preface has; `preface`: packets of the
    /// unit at hand, if the film has one.
    pub fn at(&self, preface: Option<u32>) -> Option<(Place, u16)> {
        let frame = self.current.as_deref()?.plan.frames.get(self.frame)?;
        let before = self.preface.zip(preface);
        let place = Place {
            group: self.group as u32,
            packet: frame.packets.start + self.packet,
            preface: before.map(|(sent, _)| sent as u16),
        };
        Some((place, before.map_or(0, |(_, of)| of as u16)))
    }

    /// A group's plan and bytes, if it is the one at hand.
    pub fn group(&self, group: usize) -> Option<&Arc<Planned>> {
        self.current.as_ref().filter(|_| group == self.group)
    }

    /// Moves on by `packets` of the unit at hand, which has `of` in all. An error is one of the group it
    /// comes to.
    pub fn advance(&mut self, packets: u32, of: u32, has_preface: bool) -> Result<(), StreamError> {
        if let Some(sent) = self.preface.filter(|_| has_preface) {
            self.preface = Some(sent + packets).filter(|sent| *sent < of);
            return Ok(());
        }
        self.preface = None;
        self.packet += packets;
        if self.packet < of {
            return Ok(());
        }
        self.packet = 0;
        self.frame += 1;
        self.settle()
    }

    /// When the frame at hand is due, if it can be left out: nothing of it was sent, and no other frame
    /// is decoded from it.
    pub fn droppable(&self) -> Option<Nanos> {
        let frame = self.current.as_deref()?.plan.frames.get(self.frame)?;
        let whole = self.packet == 0 && self.preface.is_none();
        (frame.droppable && whole && !self.done).then_some(frame.due)
    }

    /// Leaves the frame at hand out.
    pub fn skip(&mut self) -> Result<(), StreamError> {
        self.frame += 1;
        self.settle()
    }

    /// Goes on to a frame that is to be sent, over the ends of groups.
    fn settle(&mut self) -> Result<(), StreamError> {
        while let Some(current) = self.current.as_deref() {
            let frames = &current.plan.frames;
            if let Some(from) = self.from {
                self.frame += frames[self.frame.min(frames.len())..]
                    .iter()
                    .take_while(|frame| frame.due < from && frame.due + frame.duration <= from)
                    .count();
            }
            if let Some(frame) = frames.get(self.frame) {
                self.from = None;
                if frame.due >= self.end {
                    self.finish();
                }
                return Ok(());
            }
            self.group += 1;
            self.frame = 0;
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
        planned: Result<Arc<Planned>, StreamError>,
    ) -> Result<(), StreamError> {
        if self.done {
            return Ok(());
        }
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
    pub fn want(&mut self, script: &Script, ahead: Nanos) -> Option<(usize, Nanos)> {
        let (group, due) = self.lacking(script)?;
        if group != self.group && due >= ahead {
            return None;
        }
        self.asked = Some(group);
        Some((group, due))
    }

    /// The next group that is not here and was not asked for.
    pub fn lacking(&self, script: &Script) -> Option<(usize, Nanos)> {
        let group = match (&self.current, &self.next) {
            _ if self.done => return None,
            (None, _) => self.group,
            (Some(_), None) => self.group + 1,
            (Some(_), Some(_)) => return None,
        };
        if group >= self.groups || self.asked == Some(group) {
            return None;
        }
        let due = script.group_due(self.track, group);
        (group == self.group || due < self.end).then_some((group, due))
    }
}
