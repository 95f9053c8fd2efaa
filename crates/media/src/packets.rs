//! What groups of samples become over RTP.
//!
//! How many packets a picture makes depends on what is inside it (NAL units, slices), which no container's tables tell. It is
//! counted by whoever reads the film's bytes, and kept with the index.

use serde::{Deserialize, Serialize};

use crate::{Paged, Record, WORDS};

/// What a group becomes over RTP. All 0: it cannot be sent, as its samples are damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPackets {
    /// Packets of all its samples.
    pub packets: u32,
    /// Bytes of their payload: what is behind the RTP headers.
    pub bytes: u32,
    /// Packets of its first sample, where that is a sync sample; else 0.
    pub sync_packets: u32,
    /// Bytes of their payload.
    pub sync_bytes: u32,
}

impl GroupPackets {
    /// Whether a group of so many samples and bytes may become this: each packet has some bytes, and headers are no larger than
    /// what they are before.
    pub(crate) fn are_possible_of(&self, samples: u32, bytes: u32) -> bool {
        let most = u64::from(bytes) * 2 + u64::from(samples) * 64;
        self.packets <= self.bytes
            && u64::from(self.bytes) <= most
            && self.sync_packets <= self.packets
            && self.sync_bytes <= self.bytes
    }
}

/// What the groups of a track become over RTP; empty where that was not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packets {
    /// Most bytes of payload of a packet for which it was counted.
    pub payload: u32,
    /// One record for each of [`Track::groups`](crate::Track::groups).
    pub groups: Paged<GroupPackets>,
}

impl Packets {
    /// The records, if they were counted for packets with at most so many bytes of payload.
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
