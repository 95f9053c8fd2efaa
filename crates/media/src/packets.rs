//! The size of sample groups as RTP packets.
//!
//! The number of packets of a picture depends on its contents (NAL units, slices), which no
//! container's tables describe. It is counted by the code that reads the film's bytes, and stored
//! with the index.

use serde::{Deserialize, Serialize};

use crate::{Paged, Record, WORDS};

/// What a group becomes over RTP. All zero: it cannot be sent, because its samples are damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPackets {
    /// The number of packets of all its samples.
    pub packets: u32,
    /// Their payload bytes, without RTP headers.
    pub bytes: u32,
    /// The number of packets of its first sample if that is a sync sample, otherwise 0.
    pub sync_packets: u32,
    /// Their payload bytes.
    pub sync_bytes: u32,
}

impl GroupPackets {
    /// Returns whether a group of this many samples and bytes may have these counts: each packet
    /// has some bytes, and payload headers are at most as large as their payload.
    pub(crate) fn are_possible_of(&self, samples: u32, bytes: u32) -> bool {
        let most = u64::from(bytes) * 2 + u64::from(samples) * 64;
        self.packets <= self.bytes
            && u64::from(self.bytes) <= most
            && self.sync_packets <= self.packets
            && self.sync_bytes <= self.bytes
    }
}

/// What the groups of a track become over RTP; empty if not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packets {
    /// The maximum payload bytes per packet for which they were counted.
    pub payload: u32,
    /// One record for each of [`Track::groups`](crate::Track::groups).
    pub groups: Paged<GroupPackets>,
}

impl Packets {
    /// Returns the records if they were counted for packets with at most this many payload bytes.
    pub fn of_payload(&self, payload: usize) -> Option<&Paged<GroupPackets>> {
        let is_it = !self.groups.is_empty() && self.payload as usize == payload;
        is_it.then_some(&self.groups)
    }
}

impl Record for GroupPackets {
    const USED: usize = 4;

    fn words(&self) -> [i64; WORDS] {
        let mut words = [0; WORDS];
        let used = [self.packets, self.bytes, self.sync_packets, self.sync_bytes];
        for (word, used) in words.iter_mut().zip(used) {
            *word = used.into();
        }
        words
    }

    fn of(words: &[i64; WORDS]) -> GroupPackets {
        GroupPackets {
            packets: words[0] as u32,
            bytes: words[1] as u32,
            sync_packets: words[2] as u32,
            sync_bytes: words[3] as u32,
        }
    }
}
