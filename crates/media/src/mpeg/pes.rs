//! PES packet headers (ISO/IEC 13818-1 2.4.3.6) with their decode and presentation times.

/// Decode and presentation time of the next sample: ticks of 90 kHz, modulo 2^33.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub decoded: u64,
    pub shown: u64,
}

/// The header of a PES packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of bytes before the payload.
    pub len: usize,
    /// The time stamp, if stated.
    pub stamp: Option<Stamp>,
    /// Whether the payload is scrambled.
    pub scrambled: bool,
}

impl Head {
    /// Parses a header; `None` if it is invalid.
    pub fn parse(bytes: &[u8]) -> Option<Head> {
        let fixed = bytes.first_chunk::<9>()?;
        let [0, 0, 1, _, _, _, flags, times, length] = *fixed else {
            return None;
        };
        if flags >> 6 != 2 {
            return None;
        }
        let shown = match times >> 6 {
            2 | 3 => stamp(bytes.get(9..)?),
            _ => None,
        };
        let decoded = match times >> 6 {
            3 => stamp(bytes.get(14..)?),
            _ => None,
        };
        Some(Head {
            len: 9 + usize::from(length),
            stamp: shown.map(|shown| Stamp {
                decoded: decoded.unwrap_or(shown),
                shown,
            }),
            scrambled: flags >> 4 & 3 != 0,
        })
    }
}

/// Reads a 33-bit time.
pub fn stamp(bytes: &[u8]) -> Option<u64> {
    let [a, b, c, d, e] = bytes.first_chunk::<5>()?.map(u64::from);
    Some((a >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1)
}

/// Reassembles a stream's PES packets from transport packets.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// The number of header bytes still to come.
    head_left: usize,
    counter: Option<u8>,
    /// The payload of the last packet: a packet with the same counter is a duplicate only if its
    /// payload is the same, otherwise it comes from a splice.
    last: Vec<u8>,
    /// Whether to skip everything until the next PES packet.
    waits: bool,
}

/// The part of a packet that concerns its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried<'a> {
    /// The payload bytes.
    pub bytes: &'a [u8],
    /// The number of header bytes before them.
    pub head: usize,
    /// Whether a PES packet begins here.
    pub starts: bool,
    /// The time stamp of the next sample.
    pub stamp: Option<Stamp>,
    /// Whether packets are missing before it.
    pub missing: bool,
}

impl Stream {
    /// Starts after this packet.
    pub fn after(packet: &super::ts::Packet) -> Stream {
        Stream {
            head_left: 0,
            counter: Some(packet.counter),
            last: packet.payload.to_vec(),
            waits: false,
        }
    }

    /// Starts with the next PES packet.
    pub fn that_begins() -> Stream {
        Stream {
            waits: true,
            ..Stream::default()
        }
    }

    /// Returns the packet's payload; `None` if there is none, or if the packet is a duplicate.
    pub fn take<'a>(&mut self, packet: &super::ts::Packet<'a>) -> Option<Carried<'a>> {
        self.waits &= !packet.starts;
        if self.waits {
            return None;
        }
        let before = self.counter.replace(packet.counter);
        if before == Some(packet.counter) && !packet.jumps && self.last == packet.payload {
            return None;
        }
        self.last.clear();
        self.last.extend_from_slice(packet.payload);
        let missing =
            !packet.jumps && before.is_some_and(|before| (before + 1) & 0xf != packet.counter);
        let (mut bytes, mut stamp) = (packet.payload, None);
        if packet.starts {
            let head = Head::parse(bytes)?;
            if head.scrambled {
                return None;
            }
            stamp = head.stamp;
            self.head_left = head.len;
        }
        let head = self.head_left.min(bytes.len());
        self.head_left -= head;
        bytes = &bytes[head..];
        Some(Carried {
            bytes,
            head,
            starts: packet.starts,
            stamp,
            missing,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_whole() {
        let head = [
            0, 0, 1, 0xe0, 0, 0, 0x80, 0xc0, 10, 0x3f, 0xff, 0xff, 0xff, 0xff, 0x11, 0, 1, 0, 3,
        ];
        let parsed = Head::parse(&head).unwrap();
        assert_eq!(parsed.len, 19);
        let stamp = parsed.stamp.unwrap();
        assert_eq!((stamp.shown, stamp.decoded), ((1 << 33) - 1, 1));
        assert_eq!(Head::parse(&head[..12]), None);
        assert_eq!(Head::parse(&[0; 9]), None);
    }
}
