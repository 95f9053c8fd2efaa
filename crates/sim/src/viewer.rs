//! A viewer, beside what the lane has of their stream.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use reelway_admission::BookingId;
use reelway_demand::Carriage;
use reelway_media::Nanos;
use reelway_playout::{PacketPlace, TURN, Want};
use reelway_time::Monotonic;

use crate::connection::Connection;
use crate::stream::Planned;

/// What a viewer is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Admitted, and their film begins later.
    Waiting,
    /// Their first groups are being read.
    Preparing,
    Playing,
    Paused,
}

/// What was sent of a track.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    /// Sequence number of the next packet.
    pub seq: u16,
    /// Where the next packet is; `None`: the viewer has gone elsewhere.
    pub next: Option<PacketPlace>,
    /// Packets of the group at hand.
    pub of_group: u64,
    /// Where the last packets lie, by their numbers, where packets get lost.
    pub places: VecDeque<(u16, PacketPlace)>,
    /// Packets that were asked for again, and have not been sent since: group, packet, number in the preface.
    pub missed: BTreeSet<(u32, u32, Option<u16>)>,
    /// Bytes that were sent again.
    pub again: u64,
}

impl Sent {
    /// What is sent from now on does not follow what was sent, which is not sent again.
    pub fn leave(&mut self) {
        self.next = None;
        self.places.clear();
        self.missed.clear();
    }
}

/// A viewer who was admitted.
pub(crate) struct Viewer {
    pub film: usize,
    pub booking: BookingId,
    /// How long they wait for their film's beginning.
    pub starts_in: Duration,
    pub state: State,
    /// Counts beginnings.
    pub epoch: u32,
    /// Where they stand, while they do not play.
    pub at: Nanos,
    /// From where on what they are sent is the film without a hole.
    pub begins: Nanos,
    /// How they are sent their film, if not over UDP.
    pub connection: Option<Connection>,
    /// They came over RTSP.
    pub is_over_rtsp: bool,
    /// They have played.
    pub has_played: bool,
    /// They are still to be judged by where they really begin.
    pub is_new: bool,
    /// Which of their tracks are behind a group that came late.
    pub late: [bool; 2],
    /// They play later than is booked for them, as their timetable was moved.
    pub moved: bool,
    /// They paused while a group was missing: one track has come further than the other.
    pub is_apart: bool,
    /// They vanish when they have asked for blocks.
    pub vanishes: bool,
    /// How often they may still try to resume.
    pub tries: u32,
    /// What was sent of each track.
    pub sent: [Sent; 2],
    /// Frames that were left out, and how many of them no gap has shown yet.
    pub dropped: u64,
    pub unseen: u64,
    /// How often their timetable was moved.
    pub shifts: u32,
    /// Packets of the last millisecond: when, how many, and how many may leave in it by the rate of their frame.
    pub window: VecDeque<(u64, u32, u32)>,
    /// The last groups given to them, which only a wrong model keeps.
    pub kept: VecDeque<Arc<Planned>>,
}

impl Viewer {
    pub fn new(film: usize, booking: BookingId, starts_in: Duration, at: Nanos) -> Viewer {
        Viewer {
            film,
            booking,
            starts_in,
            state: State::Waiting,
            epoch: 0,
            at,
            begins: at,
            connection: None,
            is_over_rtsp: false,
            has_played: false,
            is_new: true,
            late: [false; 2],
            moved: false,
            is_apart: false,
            vanishes: false,
            tries: 0,
            sent: Default::default(),
            dropped: 0,
            unseen: 0,
            shifts: 0,
            window: VecDeque::new(),
            kept: VecDeque::new(),
        }
    }

    /// How they are sent their film.
    pub fn carriage(&self) -> Carriage {
        match self.connection {
            Some(_) => Carriage::Tcp,
            None => Carriage::UdpV4,
        }
    }

    /// They begin or stand elsewhere: nothing of the place before counts.
    pub fn begins_anew(&mut self) {
        (self.late, self.moved) = ([false; 2], false);
    }

    /// Whether they play later than is booked for them.
    pub fn is_late(&self) -> bool {
        self.moved || self.late.contains(&true)
    }

    /// Whether their film is late as they do not read.
    pub fn is_behind(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::is_behind)
    }

    /// Notes that packets leave at `now`, of a frame whose rate needs `cap` in a millisecond. How many leave in this
    /// millisecond, and how many may.
    pub fn leaves(&mut self, now: u64, packets: u32, cap: u32) -> (u32, u32) {
        while self.window.front().is_some_and(|(at, ..)| at + TURN <= now) {
            self.window.pop_front();
        }
        self.window.push_back((now, packets, cap));
        let all = self.window.iter().map(|(_, packets, _)| packets).sum();
        let may = self.window.iter().map(|(.., cap)| *cap).max();
        (all, may.unwrap_or(0))
    }
}

/// One who waits for a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub viewer: u64,
    pub want: Want,
    /// They played when they asked.
    pub playing: bool,
    /// When they asked.
    pub at: Monotonic,
}
