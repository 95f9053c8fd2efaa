//! Program streams (ISO/IEC 13818-1 2.5).

use super::coded::Unit;
use super::transport::head;

/// Bytes of a picture per packet.
const ROOM: usize = 1990;
/// Audio frames per packet.
const FRAMES: usize = 3;

/// Appends the header of a pack with this clock reference.
fn pack(into: &mut Vec<u8>, ticks: u64) {
    into.extend([0, 0, 1, 0xba]);
    let [high, low] = [ticks >> 30 & 7, ticks >> 15 & 0x7fff];
    into.push(0x44 | (high << 3) as u8 | (low >> 13) as u8);
    into.push((low >> 5) as u8);
    into.push((low << 3) as u8 | 4 | (ticks >> 13 & 3) as u8);
    into.extend([(ticks >> 5) as u8, (ticks << 3) as u8 | 4, 1]);
    into.extend([0x01, 0x89, 0xc3, 0xf8]);
}

/// Appends a packet without timestamps.
fn more(into: &mut Vec<u8>, stream: u8, body: &[u8]) {
    into.extend([0, 0, 1, stream]);
    into.extend((body.len() as u16 + 3).to_be_bytes());
    into.extend([0x80, 0, 0]);
    into.extend(body);
}

/// Returns a file of MPEG-2 video and MPEG-1 audio.
pub(super) fn file(tracks: &[Vec<Unit>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sounds = tracks[1].chunks(FRAMES).peekable();
    for unit in &tracks[0] {
        pack(&mut bytes, unit.decoded);
        for (nth, body) in unit.stream.chunks(ROOM).enumerate() {
            match nth {
                0 => {
                    bytes.extend(head(0xe0, body.len(), unit));
                    bytes.extend(body);
                }
                _ => more(&mut bytes, 0xe0, body),
            }
            let next = sounds.next_if(|units| units[0].decoded <= unit.decoded + 9000);
            if let Some(units) = next {
                sound(&mut bytes, units);
            }
        }
    }
    sounds.for_each(|units| sound(&mut bytes, units));
    bytes.extend([0, 0, 1, 0xb9]);
    bytes
}

/// Appends audio frames; the last one continues in a packet of its own.
fn sound(into: &mut Vec<u8>, units: &[Unit]) {
    let body: Vec<u8> = units.iter().flat_map(|unit| unit.stream.clone()).collect();
    let (first, rest) = body.split_at(body.len() - 100);
    into.extend(head(0xc0, first.len(), &units[0]));
    into.extend(first);
    more(into, 0xc0, rest);
}
