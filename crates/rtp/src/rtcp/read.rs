//! Parses RTCP from receivers.

use super::numbers::{CNAME, GENERIC_NACK, kind};

/// A reception report of one receiver about one source (RFC 3550 section 6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceptionReport {
    /// SSRC of the receiver.
    pub from: u32,
    /// SSRC of the stream that is reported on.
    pub source: u32,
    /// Packets lost since the previous report, in 256ths of those expected.
    pub fraction_lost: u8,
    /// Packets lost since the beginning; negative if there are duplicates. 24 bits on the wire.
    pub lost: i32,
    /// Highest sequence number received, with the number of wraps in the upper half.
    pub highest_seq: u32,
    /// Interarrival jitter in timestamp units.
    pub jitter: u32,
    /// Middle 32 bits of the NTP timestamp of the last sender report received; 0 if none.
    pub last_sr: u32,
    /// Time since that report, in 65,536ths of a second.
    pub delay: u32,
}

/// A request to retransmit packets (RFC 4585 section 6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nack {
    /// SSRC of the receiver.
    pub from: u32,
    /// SSRC of the stream.
    pub source: u32,
    /// A lost sequence number.
    pub seq: u16,
    /// Bit mask of the 16 packets after it that are lost too; bit 0 is the next.
    pub also: u16,
}

impl Nack {
    /// Returns all lost sequence numbers, 1 to 17.
    pub fn lost(self) -> impl Iterator<Item = u16> {
        let after = (0..16u16).filter(move |bit| self.also >> bit & 1 == 1);
        std::iter::once(self.seq).chain(after.map(move |bit| self.seq.wrapping_add(bit + 1)))
    }
}

/// A message from a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// How a stream arrives. Sender reports yield this for their reception reports too.
    Report(ReceptionReport),
    /// A receiver report without report blocks, or a sender report: a sign of life.
    Alive {
        /// Its SSRC.
        from: u32,
    },
    /// The canonical name of an SSRC; at most 255 bytes, converted to valid UTF-8.
    Cname {
        /// The SSRC.
        from: u32,
        /// Its name.
        name: String,
    },
    /// An SSRC leaves the session.
    Bye {
        /// The SSRC.
        from: u32,
        /// The reason, if given; at most 255 bytes, converted to valid UTF-8.
        reason: String,
    },
    /// A request for missing packets.
    Nack(Nack),
}

/// Why a datagram is not RTCP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RtcpError {
    /// Shorter than its length field states or than its type requires.
    #[error("RTCP packet of type {kind} at byte {at} is truncated or too short")]
    Short {
        /// Offset of the packet in the datagram.
        at: usize,
        /// Its type; 0 if that is missing too.
        kind: u8,
    },
    /// Not version 2.
    #[error("byte {at}: RTCP version {version}, not 2")]
    Version {
        /// Offset of the packet in the datagram.
        at: usize,
        /// The version it states.
        version: u8,
    },
}

/// Parses a compound packet and skips unknown packet types. The size of the result is limited by
/// the input: at most one [`Packet`] per 4 bytes.
///
/// A compound packet need not begin with a report (RFC 5506), so that lax receivers are accepted.
pub fn read(datagram: &[u8]) -> Result<Vec<Packet>, RtcpError> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < datagram.len() {
        let short = |kind| RtcpError::Short { at, kind };
        let Some(&[first, kind, high, low]) = datagram.get(at..at + 4) else {
            return Err(short(0));
        };
        if first >> 6 != 2 {
            return Err(RtcpError::Version {
                at,
                version: first >> 6,
            });
        }
        let len = 4 * usize::from(u16::from_be_bytes([high, low]));
        let body = datagram.get(at + 4..at + 4 + len).ok_or(short(kind))?;
        let count = usize::from(first & 0x1f);
        packet(kind, count, body, &mut out).ok_or(short(kind))?;
        at += 4 + len;
    }
    Ok(out)
}

/// Parses one packet; `None` if `body` is too short for its content.
fn packet(kind: u8, count: usize, body: &[u8], out: &mut Vec<Packet>) -> Option<()> {
    match kind {
        kind::SR => {
            let from = word(body, 0)?;
            out.push(Packet::Alive { from });
            reports(from, count, body.get(24..)?, out)
        }
        kind::RR => {
            let from = word(body, 0)?;
            if count == 0 {
                out.push(Packet::Alive { from });
            }
            reports(from, count, &body[4..], out)
        }
        kind::SDES => names(count, body, out),
        kind::BYE => {
            let reason = match body.get(count * 4..) {
                Some([len, text @ ..]) => text.get(..usize::from(*len))?,
                _ => &[],
            };
            for nth in 0..count {
                out.push(Packet::Bye {
                    from: word(body, nth * 4)?,
                    reason: String::from_utf8_lossy(reason).into_owned(),
                });
            }
            Some(())
        }
        kind::RTPFB if count == usize::from(GENERIC_NACK) => {
            let (from, source) = (word(body, 0)?, word(body, 4)?);
            for entry in body[8..].chunks_exact(4) {
                let [a, b, c, d] = [entry[0], entry[1], entry[2], entry[3]];
                let (seq, also) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                out.push(Packet::Nack(Nack {
                    from,
                    source,
                    seq,
                    also,
                }));
            }
            Some(())
        }
        _ => Some(()),
    }
}

fn reports(from: u32, count: usize, body: &[u8], out: &mut Vec<Packet>) -> Option<()> {
    for nth in 0..count {
        let at = nth * 24;
        let losses = word(body, at + 4)?;
        out.push(Packet::Report(ReceptionReport {
            from,
            source: word(body, at)?,
            fraction_lost: (losses >> 24) as u8,
            // Extends the sign of the 24 bits.
            lost: ((losses << 8) as i32) >> 8,
            highest_seq: word(body, at + 8)?,
            jitter: word(body, at + 12)?,
            last_sr: word(body, at + 16)?,
            delay: word(body, at + 20)?,
        }));
    }
    Some(())
}

/// Parses SDES chunks: an SSRC and items, each chunk ended by a zero and padded to whole words.
fn names(count: usize, body: &[u8], out: &mut Vec<Packet>) -> Option<()> {
    let mut at = 0;
    for _ in 0..count {
        let from = word(body, at)?;
        at += 4;
        loop {
            let item = *body.get(at)?;
            if item == 0 {
                at = (at / 4 + 1) * 4;
                break;
            }
            let len = usize::from(*body.get(at + 1)?);
            let text = body.get(at + 2..at + 2 + len)?;
            if item == CNAME {
                out.push(Packet::Cname {
                    from,
                    name: String::from_utf8_lossy(text).into_owned(),
                });
            }
            at += 2 + len;
        }
    }
    Some(())
}

fn word(body: &[u8], at: usize) -> Option<u32> {
    body.get(at..at + 4)?
        .try_into()
        .ok()
        .map(u32::from_be_bytes)
}
