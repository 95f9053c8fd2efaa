//! Depacketisation of RTP payloads into access units: H.264 (RFC 6184), H.265 (RFC 7798), AAC-hbr
//! (RFC 3640), Opus (RFC 7587).

use crate::reference::access_unit_hash;

/// The payload format of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 6184, packetization-mode 0 or 1.
    H264,
    /// RFC 7798 without DONL.
    H265,
    /// RFC 3640 with sizelength 13, indexlength 3, indexdeltalength 3.
    AacHbr {
        /// Timestamp ticks from one access unit to the next within a packet.
        unit_ticks: u32,
    },
    /// One access unit per packet.
    Whole,
}

/// A complete access unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeUnit<'a> {
    /// RTP timestamp.
    pub rtp_time: u32,
    /// The H.264 or H.265 parameter sets that arrived with it.
    pub parameters: &'a [Vec<u8>],
    /// Its other NAL units, without delimiters; for other formats, the whole unit.
    pub parts: Vec<&'a [u8]>,
}

impl WholeUnit<'_> {
    /// Returns the [`access_unit_hash`].
    pub fn hash(&self) -> u64 {
        access_unit_hash(self.parts.iter().copied())
    }
}

/// Assembles a track's access units.
#[derive(Debug)]
pub struct Depacketiser {
    format: Format,
    /// NAL units of the current access unit, and the bytes of a fragmented one.
    nals: Vec<Vec<u8>>,
    parameters: Vec<Vec<u8>>,
    fragment: Option<Vec<u8>>,
    rtp_time: Option<u32>,
    /// Whether a packet of the current access unit is missing.
    broken: bool,
    /// Number of packets missing before the next.
    missing: u64,
}

impl Depacketiser {
    /// Creates a depacketiser for a track of this format.
    pub fn new(format: Format) -> Self {
        Depacketiser {
            format,
            nals: Vec::new(),
            parameters: Vec::new(),
            fragment: None,
            rtp_time: None,
            broken: false,
            missing: 0,
        }
    }

    /// Records that `packets` packets were lost before the next, so the current unit is incomplete.
    pub fn gap(&mut self, packets: u64) {
        self.missing += packets;
        self.broken = true;
        self.fragment = None;
    }

    /// Takes a packet's payload, and calls `whole` for each access unit that is now complete. An
    /// error says how the payload violates its RFC.
    pub fn push(
        &mut self,
        payload: &[u8],
        rtp_time: u32,
        marker: bool,
        whole: &mut impl FnMut(WholeUnit<'_>),
    ) -> Result<(), String> {
        let missing = std::mem::take(&mut self.missing);
        match self.format {
            Format::Whole => {
                whole(WholeUnit {
                    rtp_time,
                    parameters: &[],
                    parts: vec![payload],
                });
                Ok(())
            }
            Format::AacHbr { unit_ticks } => aac(payload, rtp_time, unit_ticks, whole),
            Format::H264 | Format::H265 => {
                if self.rtp_time.is_some_and(|time| time != rtp_time) {
                    // The previous unit ended without a marker: its last packet is among the
                    // missing. If several are missing, the others may belong to this unit.
                    self.clear();
                    self.broken = missing > 1;
                }
                self.rtp_time = Some(rtp_time);
                let done = if self.format == Format::H264 {
                    self.h264(payload)
                } else {
                    self.h265(payload)
                };
                if marker {
                    if !self.broken && !self.nals.is_empty() && done.is_ok() {
                        whole(WholeUnit {
                            rtp_time,
                            parameters: &self.parameters,
                            parts: self.nals.iter().map(Vec::as_slice).collect(),
                        });
                    }
                    self.clear();
                    self.rtp_time = None;
                }
                done
            }
        }
    }

    fn clear(&mut self) {
        self.nals.clear();
        self.parameters.clear();
        self.fragment = None;
        self.broken = false;
    }

    fn keep(&mut self, nal: Vec<u8>) {
        let (parameters, delimiter) = match self.format {
            Format::H264 => (matches!(nal[0] & 31, 7 | 8), nal[0] & 31 == 9),
            _ => {
                let kind = nal[0] >> 1 & 63;
                (matches!(kind, 32..=34), kind == 35)
            }
        };
        if parameters {
            self.parameters.push(nal);
        } else if !delimiter {
            self.nals.push(nal);
        }
    }

    fn h264(&mut self, payload: &[u8]) -> Result<(), String> {
        let first = *payload.first().ok_or("an empty payload")?;
        match first & 31 {
            1..=23 => self.keep(payload.to_vec()),
            24 => self.aggregate(&payload[1..])?,
            28 => {
                let header = *payload.get(1).ok_or("an FU-A of one byte")?;
                let nal_header = first & 0xe0 | header & 31;
                self.fragmented(
                    header & 0x80 != 0,
                    header & 0x40 != 0,
                    &[nal_header],
                    &payload[2..],
                )?;
            }
            other => {
                return Err(format!(
                    "NAL type {other} has no place in packetization-mode 1"
                ));
            }
        }
        Ok(())
    }

    fn h265(&mut self, payload: &[u8]) -> Result<(), String> {
        let [first, second, ..] = *payload else {
            return Err("a payload of less than two bytes".into());
        };
        match first >> 1 & 63 {
            48 => self.aggregate(&payload[2..])?,
            49 => {
                let header = *payload.get(2).ok_or("an FU of two bytes")?;
                let nal_header = [first & 0x81 | (header & 63) << 1, second];
                self.fragmented(
                    header & 0x80 != 0,
                    header & 0x40 != 0,
                    &nal_header,
                    &payload[3..],
                )?;
            }
            50.. => return Err(format!("NAL type {} is reserved", first >> 1 & 63)),
            _ => self.keep(payload.to_vec()),
        }
        Ok(())
    }

    fn aggregate(&mut self, mut rest: &[u8]) -> Result<(), String> {
        while !rest.is_empty() {
            let [high, low, ..] = *rest else {
                return Err("an aggregate ends within a size".into());
            };
            let size = usize::from(u16::from_be_bytes([high, low]));
            let nal = rest
                .get(2..2 + size)
                .ok_or("an aggregated NAL is longer than its packet")?;
            if nal.is_empty() {
                return Err("an aggregated NAL of no bytes".into());
            }
            self.keep(nal.to_vec());
            rest = &rest[2 + size..];
        }
        Ok(())
    }

    fn fragmented(
        &mut self,
        start: bool,
        end: bool,
        header: &[u8],
        body: &[u8],
    ) -> Result<(), String> {
        if start && end {
            return Err("a fragment that is first and last".into());
        }
        if start {
            self.fragment = Some(header.to_vec());
        }
        let Some(fragment) = &mut self.fragment else {
            self.broken = true;
            return Ok(());
        };
        fragment.extend_from_slice(body);
        if end && let Some(nal) = self.fragment.take() {
            self.keep(nal);
        }
        Ok(())
    }
}

fn aac(
    payload: &[u8],
    rtp_time: u32,
    unit_ticks: u32,
    whole: &mut impl FnMut(WholeUnit<'_>),
) -> Result<(), String> {
    let [high, low, ..] = *payload else {
        return Err("an AAC payload of less than two bytes".into());
    };
    let bits = usize::from(u16::from_be_bytes([high, low]));
    if bits == 0 || !bits.is_multiple_of(16) {
        return Err(format!("AU-headers-length of {bits} bits"));
    }
    let headers = payload
        .get(2..2 + bits / 8)
        .ok_or("AU headers longer than their packet")?;
    let mut at = 2 + headers.len();
    for (number, header) in headers.chunks_exact(2).enumerate() {
        let size = usize::from(u16::from_be_bytes([header[0], header[1]]) >> 3);
        let Some(unit) = payload.get(at..at + size) else {
            // A unit that is longer than a packet comes in fragments, which are not compared.
            return if headers.len() == 2 {
                Ok(())
            } else {
                Err("an AU longer than its packet".into())
            };
        };
        let rtp_time = rtp_time.wrapping_add(unit_ticks * number as u32);
        whole(WholeUnit {
            rtp_time,
            parameters: &[],
            parts: vec![unit],
        });
        at += size;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_which_a_packet_is_lost_is_not_whole() {
        // Two pictures of two slices each: packet, RTP time, marker.
        let sent = [(1, 0, false), (2, 0, true), (3, 90, false), (4, 90, true)];
        for (lost, expected) in [
            (&[][..], &[0, 90][..]),
            (&[2], &[90]),
            (&[3], &[0]),
            (&[2, 3], &[]),
            // It is not known how many of the missing packets belong to the second picture.
            (&[1, 2], &[]),
            (&[1, 2, 3], &[]),
        ] {
            let mut depacketiser = Depacketiser::new(Format::H264);
            let (mut whole, mut missing) = (Vec::new(), 0);
            for (number, rtp_time, marker) in sent {
                if lost.contains(&number) {
                    missing += 1;
                    continue;
                }
                if missing > 0 {
                    depacketiser.gap(std::mem::take(&mut missing));
                }
                let slice = [0x41, number];
                let mut note = |unit: WholeUnit<'_>| whole.push(unit.rtp_time);
                let pushed = depacketiser.push(&slice, rtp_time, marker, &mut note);
                pushed.expect("a slice");
            }
            assert_eq!(whole, expected, "without {lost:?}");
        }
    }
}
