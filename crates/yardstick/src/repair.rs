//! Requests for lost packets by generic NACKs (RFC 4585 section 6.2.1), and their retransmissions
//! (RFC 4588).

use std::collections::BTreeMap;

/// Maximum number of requests for a packet.
const TIMES: u8 = 8;
/// Maximum number of packets requested in one datagram.
const MOST: usize = 200;

/// Requests of a track.
#[derive(Debug, Default)]
pub(crate) struct Repair {
    /// Extended sequence numbers that are missing, and how often each was requested.
    asked: BTreeMap<u64, u8>,
}

impl Repair {
    /// Takes the packets missing now, and returns those to request: the ones that were already
    /// missing the last time (packets that are only out of order have arrived by then), each at
    /// most [`TIMES`] times.
    pub fn ask(&mut self, missing: impl Iterator<Item = u64>) -> Vec<u16> {
        let mut next = BTreeMap::new();
        let mut wanted = Vec::new();
        for number in missing.take(MOST) {
            let times = self.asked.get(&number).copied();
            if let Some(0..TIMES) = times {
                wanted.push(number as u16);
            }
            next.insert(number, times.map_or(0, |times| times.saturating_add(1)));
        }
        self.asked = next;
        wanted
    }
}

/// Returns RTCP that requests the packets `lost` from the sender of `media`: a receiver report
/// without blocks, a CNAME and a generic NACK, as required by RFC 4585 section 3.1.
pub(crate) fn nack(own: u32, media: u32, lost: &[u16]) -> Vec<u8> {
    let name = b"yardstick";
    let mut out = vec![0x80, 201, 0, 1];
    out.extend(own.to_be_bytes());
    // One chunk with a CNAME, padded with zeros to whole words; the first zero terminates it.
    let mut chunk = own.to_be_bytes().to_vec();
    chunk.extend([1, name.len() as u8]);
    chunk.extend(name);
    chunk.resize((chunk.len() / 4 + 1) * 4, 0);
    out.extend([0x81, 202, 0, (chunk.len() / 4) as u8]);
    out.extend(chunk);
    let mut pairs: Vec<(u16, u16)> = Vec::new();
    for seq in lost {
        match pairs.last_mut() {
            Some((first, mask)) if (1..=16).contains(&seq.wrapping_sub(*first)) => {
                *mask |= 1 << (seq.wrapping_sub(*first) - 1);
            }
            _ => pairs.push((*seq, 0)),
        }
    }
    out.extend([0x81, 205]);
    out.extend((pairs.len() as u16 + 2).to_be_bytes());
    out.extend(own.to_be_bytes());
    out.extend(media.to_be_bytes());
    for (first, mask) in pairs {
        out.extend(first.to_be_bytes());
        out.extend(mask.to_be_bytes());
    }
    out
}

/// Returns the original sequence number and the payload of a retransmission (RFC 4588 section 4).
pub(crate) fn original(payload: &[u8]) -> Option<(u16, &[u8])> {
    let (number, payload) = payload.split_first_chunk::<2>()?;
    Some((u16::from_be_bytes(*number), payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_out_of_order_is_not_asked_for_and_nothing_for_ever() {
        let mut repair = Repair::default();
        assert_eq!(repair.ask([5, 6].into_iter()), []);
        assert_eq!(repair.ask([6, 7].into_iter()), [6]);
        let asked: usize = (0..20).map(|_| repair.ask([6].into_iter()).len()).sum();
        assert_eq!(asked, usize::from(TIMES) - 1);
    }

    #[test]
    fn a_nack_names_seventeen_packets_with_a_word() {
        let nack = nack(1, 2, &[65_535, 0, 15, 16]);
        assert_eq!(nack.len() % 4, 0);
        // 65535 with 0 (bit 0) and 15 (bit 15) after it; 16 begins the next pair.
        assert_eq!(nack[nack.len() - 8..], [0xff, 0xff, 0x80, 1, 0, 16, 0, 0]);
        let words = nack.len() / 4 - 2;
        assert_eq!(usize::from(nack[11]) + 1 + 5, words);
    }
}
