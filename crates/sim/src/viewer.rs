//! A viewer, without the lane's part of the stream.

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

/// The state of a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Admitted; the film begins later.
    Waiting,
    /// Their first groups are being read.
    Preparing,
    Playing,
    Paused,
}

/// The packets sent of a track.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    /// Sequence number of the next packet.
    pub seq: u16,
    /// Where the next packet is; `None` after the viewer has moved to another position.
    pub next: Option<PacketPlace>,
    /// The number of packets sent of the current group.
    pub of_group: u64,
    /// The positions of the last packets by sequence number, if packets may be lost.
    pub places: VecDeque<(u16, PacketPlace)>,
    /// Packets that were requested again and have not been sent since: group, packet, number
    /// in the preface.
    pub missed: BTreeSet<(u32, u32, Option<u16>)>,
    /// The number of bytes that were sent again.
    pub again: u64,
}

impl Sent {
    /// Resets the state: the next packets do not follow those sent so far, which are
    /// not sent again.
    pub fn leave(&mut self) {
        self.next = None;
        self.places.clear();
        self.missed.clear();
    }
}

/// An admitted viewer.
pub(crate) struct Viewer {
    pub film: usize,
    pub booking: BookingId,
    /// How long they wait for the beginning of their film.
    pub starts_in: Duration,
    pub state: State,
    /// Counts the stream's beginnings.
    pub epoch: u32,
    /// Their position, while they do not play.
    pub at: Nanos,
    /// The position from which the film is sent without gaps.
    pub begins: Nanos,
    /// Their connection, if the film is not sent over UDP.
    pub connection: Option<Connection>,
    /// Whether they came over RTSP.
    pub is_over_rtsp: bool,
    /// Whether the RTSP machine knows their session: they do not wait for their place any more.
    pub is_welcome: bool,
    /// Whether they have played.
    pub has_played: bool,
    /// Whether they must still be judged by where they really begin.
    pub is_new: bool,
    /// Whether each of their tracks is behind a group that came late.
    pub late: [bool; 2],
    /// Whether they play later than booked, as their timetable was moved.
    pub moved: bool,
    /// Whether they paused while a group was missing, so that one track has come further
    /// than the other.
    pub is_apart: bool,
    /// Whether they disappear after their next request for blocks.
    pub vanishes: bool,
    /// How many more times they try to resume.
    pub tries: u32,
    /// The packets sent of each track.
    pub sent: [Sent; 2],
    /// Frames that were left out, and how many of them have not shown up as gaps yet.
    pub dropped: u64,
    pub unseen: u64,
    /// How often their timetable was moved.
    pub shifts: u32,
    /// Packets of the last millisecond: time, number, and how many may leave in it by the rate of
    /// their frame.
    pub window: VecDeque<(u64, u32, u32)>,
    /// The last groups handed to them; used only by wrong models.
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
            is_welcome: false,
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

    /// Returns how their film is carried.
    pub fn carriage(&self) -> Carriage {
        match self.connection {
            Some(_) => Carriage::Tcp,
            None => Carriage::UdpV4,
        }
    }

    /// Resets the lateness when they begin or stop at another position.
    pub fn restart(&mut self) {
        (self.late, self.moved) = ([false; 2], false);
    }

    /// Returns whether they play later than booked.
    pub fn is_late(&self) -> bool {
        self.moved || self.late.contains(&true)
    }

    /// Returns whether their film is late because they do not read.
    pub fn is_behind(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::is_behind)
    }

    /// Records that packets leave at `now`, of a frame whose rate needs `cap` in a millisecond.
    /// Returns how many leave in this millisecond, and how many may.
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

/// A viewer who waits for a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub viewer: u64,
    pub want: Want,
    /// Whether they played when they requested it.
    pub playing: bool,
    /// When they requested it.
    pub at: Monotonic,
}
