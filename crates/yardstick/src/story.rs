//! The results of a measuring viewer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::course::Course;
use crate::histogram::Histogram;
use crate::playback::Playback;
use crate::verdict::Finding;

/// The results of one track of one viewer.
#[derive(Clone, Debug, Default)]
pub struct TrackStory {
    /// Whether it is video.
    pub is_video: bool,
    /// Packets that arrived.
    pub packets: u64,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// Packets that never arrived.
    pub lost: u64,
    /// Packets that arrived after a later one.
    pub reordered: u64,
    /// Packets of these that arrived after the buffer had given them up.
    pub too_late: u64,
    /// Packets that arrived twice.
    pub repeated: u64,
    /// Packets that were lost, requested and retransmitted in time.
    pub repaired: u64,
    /// Number of packets from each sender; limited to the first 64 senders.
    pub senders: BTreeMap<SocketAddr, u64>,
    /// Access units that arrived complete.
    pub units: u64,
    /// Access units whose bytes differ from the film's.
    pub different: u64,
    /// Access units at whose time the film has none.
    pub unknown: u64,
    /// Access units of the film that belong to another time than the server announced.
    pub displaced: u64,
    /// Displacement of the first of them in nanoseconds.
    pub displaced_by: Option<i64>,
    /// Access units of the film between the first and the last arrival that did not arrive
    /// complete.
    pub missing: u64,
    /// Lateness of the access units relative to the earliest; see `TrackMeter::judge`.
    pub late: Histogram,
    /// The first violation of an RFC, in words.
    pub wrong: Option<String>,
    /// Whether the first sequence number was the one announced in RTP-Info.
    pub announced: Option<bool>,
    /// Whether RTP-Info announced a timestamp.
    pub announced_time: bool,
    /// The film's time of the first packet by RTP-Info, in nanoseconds.
    pub first_media: i64,
    /// Number of sender reports received.
    pub sender_reports: u64,
    /// Whether RTCP BYE was received.
    pub bye: bool,
}

impl TrackStory {
    /// Returns the track's kind in words.
    pub fn kind(&self) -> &'static str {
        if self.is_video { "picture" } else { "sound" }
    }
}

/// The results of one viewer's play.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// Tracks, in the order of the session description.
    pub tracks: Vec<TrackStory>,
    /// Time from the PLAY request to the first packet.
    pub start: Option<Duration>,
    /// Maximum number of packets of all tracks within any millisecond.
    pub burst: u32,
    /// Number of times that more packets than agreed came within a millisecond.
    pub bursts_over: u64,
    /// Start position in the film according to the server, in nanoseconds.
    pub from: i64,
    /// End position in the film according to the server, in nanoseconds.
    pub to: Option<i64>,
    /// The film's time of the last access unit that arrived, in nanoseconds.
    pub last: i64,
    /// Whether the film reached its end.
    pub ended: bool,
    /// What a player with a buffer would have shown.
    pub playback: Playback,
    /// Findings about RTP-Info and the sender reports.
    pub lies: Vec<Finding>,
    /// Playback second by second.
    pub course: Course,
}

impl Story {
    /// Returns the number of packets of all tracks that never arrived.
    pub fn lost(&self) -> u64 {
        self.tracks.iter().map(|track| track.lost).sum()
    }

    /// Whether every packet arrived once and in order, and every access unit of the film arrived
    /// unchanged.
    pub fn is_whole(&self) -> bool {
        self.tracks.iter().all(|track| {
            let wrong = [
                track.lost,
                track.reordered,
                track.repeated,
                track.different,
                track.unknown,
                track.displaced,
                track.missing,
            ];
            wrong.iter().sum::<u64>() == 0 && track.wrong.is_none() && track.packets > 0
        })
    }

    /// Returns the lateness over all tracks.
    pub fn late(&self) -> Histogram {
        let mut all = Histogram::default();
        for track in &self.tracks {
            all.merge(&track.late);
        }
        all
    }
}
