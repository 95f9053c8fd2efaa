//! Builds packets from headers and pinned film bytes, in batches for the kernel.

use reelway_hint as hint;
use reelway_playout::{Due, PacketPlace};
use reelway_rtp::{Header, Piece, RTX_BYTES};
use reelway_sys::udp::{Batch, MAX_RUN_BYTES, MAX_RUN_PACKETS, Segmentation};

use crate::path::Path;
use crate::streams::{Stream, Track, Unit};

/// Bytes ahead of the payload that each packet needs for itself: a frame header of RTSP's
/// interleaving, the RTP header, a short payload header.
const CELL: usize = 32;
/// Size of the interleaving header in bytes: `$`, channel, length (RFC 2326 section 10.12).
pub(crate) const FRAMING: usize = 4;
/// Maximum number of packets built before they are passed to the kernel.
const CELLS: usize = 1024;

/// Memory for the headers of one turn's packets.
pub(crate) struct Cells(pub Box<[[u8; CELL]]>);

impl Default for Cells {
    fn default() -> Self {
        Cells(vec![[0; CELL]; CELLS].into_boxed_slice())
    }
}

/// Returns the RTP header of a viewer's packet.
fn header(track: &Track, unit: &Unit<'_>, number: u32, nth: u32) -> [u8; Header::BYTES] {
    Header {
        payload_type: track.payload_type,
        marker: unit.packets[number as usize].marker,
        seq: track.seq.wrapping_add(nth as u16),
        timestamp: track.rtp_base.wrapping_add(unit.rtp_time),
        ssrc: track.ssrc,
    }
    .to_bytes()
}

/// Adds the payload of a packet after its `used` bytes of header in `cell`: a short payload header
/// is copied into the cell, everything else is referenced.
fn payload<'d>(
    unit: &Unit<'d>,
    number: u32,
    cell: &'d mut [u8; CELL],
    from: usize,
    used: usize,
    batch: &mut Batch<'_, 'd>,
) {
    let packet = &unit.packets[number as usize];
    if let Some((head, film)) = packet.run() {
        let end = used + head.len();
        cell[used..end].copy_from_slice(head);
        if end > from {
            batch.slice(&cell[from..end]);
        }
        for slice in unit.bytes.bytes.0.slices(film) {
            // Prefetch what the kernel will copy while other packets are built.
            hint::bulk(slice);
            batch.slice(slice);
        }
        return batch.end_packet();
    }
    let mut pieces = unit.plan.pieces_of(packet);
    let mut used = used;
    if let Some((first, rest)) = pieces.split_first() {
        let inline = unit.plan.inline_of(first);
        if !inline.is_empty() && used + inline.len() <= CELL {
            cell[used..used + inline.len()].copy_from_slice(inline);
            used += inline.len();
            pieces = rest;
        }
    }
    if used > from {
        batch.slice(&cell[from..used]);
    }
    for piece in pieces {
        match *piece {
            Piece::Inline { .. } => batch.slice(unit.plan.inline_of(piece)),
            Piece::Film { offset, len } => {
                for slice in unit.bytes.bytes.0.slices(offset..offset + u64::from(len)) {
                    batch.slice(slice);
                }
            }
        }
    }
    batch.end_packet();
}

/// Takes a cell for a packet.
fn next_cell<'d>(cells: &mut &'d mut [[u8; CELL]]) -> Option<&'d mut [u8; CELL]> {
    let (cell, rest) = std::mem::take(cells).split_first_mut()?;
    *cells = rest;
    Some(cell)
}

/// Adds due packets of a stream to the batch, in runs that the kernel can segment: equally long
/// packets, except that the last may be shorter.
pub(crate) fn fill_udp<'d>(
    stream: &'d Stream,
    due: &Due,
    cells: &mut &'d mut [[u8; CELL]],
    batch: &mut Batch<'_, 'd>,
    segmentation: Segmentation,
    tag: u64,
) {
    let (Some(unit), Some(track)) = (stream.unit_of(due.track), stream.tracks.get(due.track))
    else {
        return;
    };
    let Path::Udp(udp) = &track.path else {
        return;
    };
    let (mut run, mut first_len, mut last_len) = (0, 0, 0);
    for number in due.first..due.end {
        let len = unit.packets[number as usize].len;
        let full = run == MAX_RUN_PACKETS
            || (run + 1) * (usize::from(first_len) + Header::BYTES) > MAX_RUN_BYTES;
        if run > 0 && (len > first_len || last_len < first_len || full) {
            batch.end_message(udp.socket, &udp.rtp, segmentation, due.departs, tag);
            run = 0;
        }
        let Some(cell) = next_cell(cells) else { break };
        let used = match udp.plain {
            true => 0,
            false => {
                let bytes = header(track, &unit, number, number - due.first);
                cell[..Header::BYTES].copy_from_slice(&bytes);
                Header::BYTES
            }
        };
        payload(&unit, number, cell, 0, used, batch);
        if run == 0 {
            first_len = len;
        }
        last_len = len;
        run += 1;
    }
    if run > 0 {
        batch.end_message(udp.socket, &udp.rtp, segmentation, due.departs, tag);
    }
}

/// Adds packets of a stream to the batch as frames of RTSP's interleaving.
pub(crate) fn fill_tcp<'d>(
    stream: &'d Stream,
    due: &Due,
    cells: &mut &'d mut [[u8; CELL]],
    batch: &mut Batch<'_, 'd>,
) {
    let (Some(unit), Some(track)) = (stream.unit_of(due.track), stream.tracks.get(due.track))
    else {
        return;
    };
    let Path::Tcp { rtp, .. } = &track.path else {
        return;
    };
    for number in due.first..due.end {
        let Some(cell) = next_cell(cells) else { return };
        let bytes = Header::BYTES as u16 + unit.packets[number as usize].len;
        cell[0] = b'$';
        cell[1] = *rtp;
        cell[2..FRAMING].copy_from_slice(&bytes.to_be_bytes());
        let header = header(track, &unit, number, number - due.first);
        cell[FRAMING..FRAMING + Header::BYTES].copy_from_slice(&header);
        payload(&unit, number, cell, 0, FRAMING + Header::BYTES, batch);
    }
}

/// Adds the retransmission of a track's packet to the batch: the lost packet's header with SSRC,
/// payload type and sequence number of the retransmission stream, and the original sequence number
/// ahead of the payload (RFC 4588 section 4). Returns its RTP bytes.
pub(crate) fn fill_again<'d>(
    stream: &'d Stream,
    (track, place): (usize, PacketPlace),
    cells: &mut &'d mut [[u8; CELL]],
    batch: &mut Batch<'_, 'd>,
) -> Option<u32> {
    let (unit, number) = stream.unit_at(track, place)?;
    let track = stream.tracks.get(track)?;
    let resend = track.resend.as_ref()?;
    let Path::Udp(udp) = &track.path else {
        return None;
    };
    let cell = next_cell(cells)?;
    let packet = &unit.packets[number as usize];
    let header = Header {
        payload_type: resend.payload_type,
        marker: packet.marker,
        seq: resend.seq,
        timestamp: track.rtp_base.wrapping_add(unit.rtp_time),
        ssrc: resend.ssrc,
    };
    cell[..Header::BYTES].copy_from_slice(&header.to_bytes());
    let before = track.packets.wrapping_sub(resend.number()?) as u16;
    let lost = track.seq.wrapping_sub(before);
    let used = Header::BYTES + RTX_BYTES;
    cell[Header::BYTES..used].copy_from_slice(&lost.to_be_bytes());
    payload(&unit, number, cell, 0, used, batch);
    batch.end_message(udp.socket, &udp.rtp, Segmentation::None, 0, 0);
    Some(used as u32 + u32::from(packet.len))
}
