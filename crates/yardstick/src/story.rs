//! What a measuring viewer tells.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::course::Course;
use crate::histogram::Histogram;
use crate::playback::Playback;
use crate::verdict::Finding;

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
    /// Packets of these that came after the buffer had given them up.
    pub too_late: u64,
    /// Packets that came twice.
    pub repeated: u64,
    /// Packets that were lost, asked for, and sent again in time.
    pub repaired: u64,
    /// Who sent how many packets; of more than 64 the first.
    pub senders: BTreeMap<SocketAddr, u64>,
    /// Access units that came whole.
    pub units: u64,
    /// Access units whose bytes are not the film's.
    pub different: u64,
    /// Access units for which the film has nothing at that time.
    pub unknown: u64,
    /// Access units that are the film's, but of another time than the server's words put them at.
    pub displaced: u64,
    /// By how much the first of them is off, ns.
    pub displaced_by: Option<i64>,
    /// Access units of the film that did not come whole between the first and the last that came.
    pub missing: u64,
    /// How late the access units came against the earliest; see `TrackMeter::judge`.
    pub late: Histogram,
    /// What was against an RFC, the first case in words.
    pub wrong: Option<String>,
    /// The first sequence number was the one announced in RTP-Info.
    pub announced: Option<bool>,
    /// RTP-Info named a timestamp.
    pub announced_time: bool,
    /// The film's time of the first packet, by RTP-Info, ns.
    pub first_media: i64,
    /// Sender reports seen.
    pub sender_reports: u64,
    /// RTCP BYE was seen.
    pub bye: bool,
}

impl TrackStory {
    /// What a person calls the track.
    pub fn kind(&self) -> &'static str {
        if self.is_video { "picture" } else { "sound" }
    }
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
    /// Where it was to end, in ns, as the server said.
    pub to: Option<i64>,
    /// The film's time of the last access unit that came, ns.
    pub last: i64,
    /// Whether the film came to its end.
    pub ended: bool,
    /// What a player with a buffer would have shown.
    pub playback: Playback,
    /// What is wrong with RTP-Info and the sender reports.
    pub lies: Vec<Finding>,
    /// How it went, second by second.
    pub course: Course,
}

impl Story {
    /// Packets that never came, of all tracks.
    pub fn lost(&self) -> u64 {
        self.tracks.iter().map(|track| track.lost).sum()
    }

    /// Whether every packet came, once, in order, and each access unit of the film, equal to it.
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

    /// Lateness of all tracks.
    pub fn late(&self) -> Histogram {
        let mut all = Histogram::default();
        for track in &self.tracks {
            all.merge(&track.late);
        }
        all
    }
}
