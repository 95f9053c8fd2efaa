//! What a receiver makes of a group's packets, according to the RFCs of the payload format, for
//! comparison with the known content of the file.

use reelway_media::{Codec, Nanos};
use reelway_rtp::{Bytes, Part, Plan};

use crate::files::{Put, is_same};

/// Checks that the known content of a group's samples comes out of its packets, with
/// the right times.
///
/// # Errors
/// Describes what does not hold.
pub(crate) fn check(
    plan: &Plan,
    codec: &Codec,
    put: &[Put],
    bytes: &dyn Bytes,
) -> Result<(), String> {
    let mut packets = Vec::with_capacity(plan.packets.len());
    for (number, packet) in plan.packets.iter().enumerate() {
        let payload = payload(plan, packet, bytes);
        packets
            .push(payload.ok_or_else(|| format!("packet {number} has bytes that do not exist"))?);
    }
    let units = match codec {
        Codec::H264(_) => h264(&packets),
        Codec::Aac(_) => aac(&packets),
        // RFC 2250 3.4 and 3.5: a header of four bytes, and what follows it in the stream.
        Codec::MpegVideo(_) | Codec::MpegAudio(_) => {
            let bodies = packets.iter().map(|packet| packet.get(4..));
            bodies
                .collect::<Option<Vec<_>>>()
                .map(|bodies| vec![bodies.concat()])
        }
        // RFC 7587 4.2.
        Codec::Opus(_) => Some(packets),
        _ => return Err(format!("there is no receiver for {codec:?}")),
    };
    let units = units.ok_or("the packets cannot be reassembled")?;
    let mut came = units.iter().map(Vec::as_slice);
    let mut sent = put
        .iter()
        .flat_map(|put| put.parts.iter().map(Vec::as_slice));
    let is_stream = matches!(codec, Codec::MpegVideo(_) | Codec::MpegAudio(_));
    let is_whole = match is_stream {
        true => units.concat() == sent.collect::<Vec<_>>().concat(),
        false => came.by_ref().eq(sent.by_ref()),
    };
    if !is_whole {
        let bytes: usize = units.iter().map(Vec::len).sum();
        return Err(format!(
            "the {} units received, with {bytes} bytes, differ from the {} samples sent",
            units.len(),
            put.len()
        ));
    }
    let shown: Vec<Nanos> = plan.frames.iter().map(|frame| frame.shown).collect();
    let is_of_each = shown.len() == put.len();
    let is_shown = match (is_of_each, shown.first(), put.first()) {
        (true, ..) => shown
            .iter()
            .zip(put)
            .all(|(is, put)| is_same(*is, put.shown)),
        // Several audio frames in a packet have the time of the first.
        (false, Some(is), Some(put)) => is_same(*is, put.shown),
        _ => false,
    };
    match is_shown {
        true => Ok(()),
        false => Err(format!("frames are shown at the wrong times: {shown:?} ns")),
    }
}

/// Returns the payload of a packet.
fn payload(plan: &Plan, packet: &reelway_rtp::Packet, bytes: &dyn Bytes) -> Option<Vec<u8>> {
    let mut payload = Vec::with_capacity(packet.len.into());
    for part in plan.parts_of(packet) {
        match part {
            Part::Kept(kept) => payload.extend_from_slice(kept),
            Part::Film(range) => {
                let at = payload.len();
                payload.resize(at + (range.end - range.start) as usize, 0);
                bytes
                    .read_at(range.start, &mut payload[at..])
                    .then_some(())?;
            }
        }
    }
    (payload.len() == usize::from(packet.len)).then_some(payload)
}

/// Returns NAL units (RFC 6184): single, several in a packet (STAP-A), or one in several packets
/// (FU-A). `None` if a piece is missing.
fn h264(packets: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let mut units: Vec<Vec<u8>> = Vec::new();
    let mut is_open = false;
    for packet in packets {
        let head = *packet.first()?;
        match head & 0x1f {
            28 => {
                let mark = *packet.get(1)?;
                let (first, last) = (mark & 0x80 != 0, mark & 0x40 != 0);
                if first == is_open || (first && last) {
                    return None;
                }
                if first {
                    units.push(vec![head & 0xe0 | mark & 0x1f]);
                }
                units.last_mut()?.extend_from_slice(packet.get(2..)?);
                is_open = !last;
            }
            _ if is_open => return None,
            24 => {
                let mut rest = packet.get(1..)?;
                while let Some((size, more)) = rest.split_first_chunk::<2>() {
                    let (unit, more) = more.split_at_checked(u16::from_be_bytes(*size).into())?;
                    units.push(unit.to_vec());
                    rest = more;
                }
                rest.is_empty().then_some(())?;
            }
            1..24 => units.push(packet.clone()),
            _ => return None,
        }
    }
    (!is_open).then_some(units)
}

/// Returns access units (RFC 3640 3.3.6): their sizes in 13 bits each, then the units. `None` if
/// the sizes are wrong.
fn aac(packets: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let mut units = Vec::new();
    for packet in packets {
        let (bits, rest) = packet.split_first_chunk::<2>()?;
        let heads = usize::from(u16::from_be_bytes(*bits)) / 8;
        let (heads, mut rest) = rest.split_at_checked(heads)?;
        for head in heads.chunks(2) {
            let size = u16::from_be_bytes(head.try_into().ok()?) >> 3;
            let (unit, more) = rest.split_at_checked(size.into())?;
            units.push(unit.to_vec());
            rest = more;
        }
        rest.is_empty().then_some(())?;
    }
    Some(units)
}
