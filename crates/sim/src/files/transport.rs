//! Transport streams (ISO/IEC 13818-1 2.4), written packet by packet.

use reelway_determinism::Random;
use reelway_mux::mpeg::{Packets, ROOM, stamp};

use super::coded::{Sound, Unit};

const PICTURE: u16 = 0x100;
const SOUND: u16 = 0x101;
const MAP: u16 = 0x1000;
/// The number of packets from one pair of tables to the next.
const TABLES: usize = 200;
/// Audio frames per PES packet.
const FRAMES: usize = 6;

/// Returns the header of a PES packet, with the timestamps of its content.
pub(super) fn head(stream: u8, length: usize, unit: &Unit) -> Vec<u8> {
    let mut head = vec![0, 0, 1, stream];
    let stamps = match unit.shown == unit.decoded {
        true => vec![(2, unit.shown)],
        false => vec![(3, unit.shown), (1, unit.decoded)],
    };
    let flags = if stamps.len() == 2 { 0xc0 } else { 0x80 };
    let size = 5 * stamps.len();
    let length = match length {
        0 => 0,
        length => length + 3 + size,
    };
    head.extend((length as u16).to_be_bytes());
    head.extend([0x80, flags, size as u8]);
    for (mark, ticks) in stamps {
        head.extend(stamp(mark, ticks));
    }
    head
}

struct Mux {
    packets: Packets,
    counters: [u8; 2],
    /// The number of packets with a payload.
    carried: usize,
}

impl Mux {
    fn packet(&mut self, pid: u16, starts: bool, counter: u8, payload: &[u8]) {
        self.packets.packet(pid, starts, counter, payload);
        self.carried += 1;
    }

    fn tables(&mut self, sound: Sound) {
        let coding = match sound {
            Sound::Mp2 => 3,
            _ => 0x0f,
        };
        self.packets.section(0, 0, 1, &[0, 1, 0xf0, 0]);
        let picture = [0xe1, 0, 0xf0, 0, 0x1b, 0xe1, 0, 0xf0, 0];
        let map = [&picture[..], &[coding, 0xe1, 1, 0xf0, 0]].concat();
        self.packets.section(MAP, 2, 1, &map);
        self.carried += 2;
    }
}

/// A packet that waits to be put into the file: whether a PES packet starts with it, the time at
/// which it is due, and its payload.
struct Waits {
    starts: bool,
    at: u64,
    payload: Vec<u8>,
}

fn cut(pes: &[u8], at: u64) -> impl Iterator<Item = Waits> {
    pes.chunks(ROOM)
        .enumerate()
        .map(move |(nth, payload)| Waits {
            starts: nth == 0,
            at,
            payload: payload.to_vec(),
        })
}

/// Returns a file of H.264 and sound, whose packets are interleaved at random, each preceded by
/// `before` bytes.
pub(super) fn file(
    random: &mut Random,
    tracks: &[Vec<Unit>],
    sound: Sound,
    before: usize,
) -> Vec<u8> {
    let mut mux = Mux {
        packets: Packets::new((before, 0)),
        counters: [0; 2],
        carried: 0,
    };
    let pictures = tracks[0].iter().flat_map(|unit| {
        let pes = [head(0xe0, 0, unit), unit.stream.clone()].concat();
        cut(&pes, unit.decoded).collect::<Vec<_>>()
    });
    let sounds = tracks[1].chunks(FRAMES).flat_map(|units| {
        let body: Vec<u8> = units.iter().flat_map(|unit| unit.stream.clone()).collect();
        let pes = [head(0xc0, body.len(), &units[0]), body].concat();
        cut(&pes, units[0].decoded).collect::<Vec<_>>()
    });
    let (mut pictures, mut sounds) = (pictures.peekable(), sounds.peekable());
    loop {
        if mux.carried.is_multiple_of(TABLES) {
            mux.tables(sound);
        }
        let is_sound = match (pictures.peek(), sounds.peek()) {
            (Some(picture), Some(sound)) => {
                // Neither track gets far ahead of the other.
                match picture.at.abs_diff(sound.at) > 20_000 {
                    true => sound.at < picture.at,
                    false => random.once_in(8),
                }
            }
            (picture, sound) => {
                if picture.is_none() && sound.is_none() {
                    return mux.packets.bytes;
                }
                picture.is_none()
            }
        };
        let next = match is_sound {
            true => sounds.next(),
            false => pictures.next(),
        };
        let Some(next) = next else {
            return mux.packets.bytes;
        };
        if next.starts && !is_sound {
            mux.packets.clock(PICTURE, mux.counters[0], next.at);
        }
        let counter = &mut mux.counters[usize::from(is_sound)];
        *counter = counter.wrapping_add(1);
        let (counter, pid) = (*counter, if is_sound { SOUND } else { PICTURE });
        mux.packet(pid, next.starts, counter, &next.payload);
        if random.once_in(50) {
            // Sent twice, as permitted.
            mux.packet(pid, next.starts, counter, &next.payload);
        }
    }
}
