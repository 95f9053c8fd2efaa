//! Transport streams, generated packet by packet.
#![allow(dead_code, reason = "each suite uses its part")]

use reelway_mux::mpeg::{Packets, stamp};

/// Parameter sets of 320 × 180 pixels, Constrained Baseline.
pub const SPS: &[u8] = &[
    0x67, 0x42, 0xc0, 0x0d, 0xda, 0x05, 0x06, 0x7e, 0x78, 0x40, 0x00, 0x00, 0x03, 0x00, 0x40, 0x00,
    0x00, 0x0c, 0x83, 0xc5, 0x0a, 0xa8,
];
pub const PPS: &[u8] = &[0x68, 0xce, 0x0f, 0xc8];
pub const PICTURE: u16 = 0x100;
pub const SOUND: u16 = 0x101;
/// The time at which the first picture is sent: it wraps after 90 pictures.
pub const FIRST_CLOCK: u64 = (1 << 33) - 90 * 3600;
pub const MAP: u16 = 0x1000;

/// A sample in its form in the stream and its expected form in the view.
pub struct Unit {
    pub stream: Vec<u8>,
    pub view: Vec<u8>,
}

/// A picture with slices of these lengths.
pub fn picture(number: usize, slices: &[usize]) -> Unit {
    let sync = number.is_multiple_of(8);
    let (mut stream, mut view) = (vec![0, 0, 0, 1, 9, 0xf0], Vec::new());
    let mut put = |unit: &[u8], zeros: usize| {
        stream.extend(vec![0; zeros]);
        stream.extend([0, 0, 1]);
        stream.extend(unit);
        view.extend((unit.len() as u32).to_be_bytes());
        view.extend(unit);
    };
    if sync {
        put(SPS, 1);
        put(PPS, 0);
    }
    for (nth, length) in slices.iter().enumerate() {
        // first_mb_in_slice 0 is a single set bit.
        let first = if nth == 0 { 0x88 } else { 0x48 };
        let mut slice = vec![if sync { 0x65 } else { 0x41 }, first];
        slice.extend((0..*length).map(|at| (at * 7 + number) as u8 | 4));
        put(&slice, nth % 3);
    }
    Unit { stream, view }
}

/// A frame of AAC at 48 kHz with two channels.
pub fn frame(number: usize, length: usize) -> Unit {
    let whole = length + 7;
    let mut stream = vec![
        0xff,
        0xf1,
        0x4c,
        0x80 | (whole >> 11) as u8,
        (whole >> 3) as u8,
        (whole << 5) as u8 | 0x1f,
        0xfc,
    ];
    let view: Vec<u8> = (0..length)
        .map(|at| (at * 3 + number) as u8 & 0x7f)
        .collect();
    stream.extend(&view);
    Unit { stream, view }
}

/// A film that is being made.
pub struct Mux {
    pub packets: Packets,
    counters: [u8; 2],
    /// The number of pictures begun.
    begun: u64,
}

impl Mux {
    /// Creates an empty film with this many bytes before and after each packet.
    pub fn new(around: (usize, usize)) -> Mux {
        Mux {
            packets: Packets::new(around),
            counters: [0; 2],
            begun: 0,
        }
    }

    pub fn tables(&mut self) {
        self.packets
            .section(0, 0, 1, &[0, 1, 0xe0 | (MAP >> 8) as u8, MAP as u8]);
        let map = [
            0xe1, 0, 0xf0, 0, 0x1b, 0xe1, 0, 0xf0, 0, 0x0f, 0xe1, 1, 0xf0, 0,
        ];
        self.packets.section(MAP, 2, 1, &map);
    }

    /// Returns the transport packets of a PES packet.
    pub fn pes(&self, pid: u16, ticks: u64, payload: &[u8]) -> Vec<(u16, bool, Vec<u8>)> {
        let mut bytes = vec![
            0,
            0,
            1,
            if pid == PICTURE { 0xe0 } else { 0xc0 },
            0,
            0,
            0x80,
            0x80,
            5,
        ];
        bytes.extend(stamp(2, ticks));
        bytes.extend(payload);
        let pieces = bytes.chunks(184).enumerate();
        pieces
            .map(|(nth, piece)| (pid, nth == 0, piece.to_vec()))
            .collect()
    }

    /// Writes packets of both streams to the file, in an order determined by `turns`.
    pub fn interleave(
        &mut self,
        mut picture: Vec<(u16, bool, Vec<u8>)>,
        mut sound: Vec<(u16, bool, Vec<u8>)>,
        turns: &[u8],
    ) {
        picture.reverse();
        sound.reverse();
        for turn in turns.iter().cycle() {
            let (first, second) = match turn % 3 {
                0 => (&mut sound, &mut picture),
                _ => (&mut picture, &mut sound),
            };
            let Some((pid, starts, payload)) = first.pop().or_else(|| second.pop()) else {
                return;
            };
            if *turn == 7 {
                self.tables();
            }
            if starts && pid == PICTURE {
                self.packets.clock(
                    PICTURE,
                    self.counters[0],
                    FIRST_CLOCK.wrapping_add(self.begun * 3600) & ((1 << 33) - 1),
                );
                self.begun += 1;
            }
            let counter = &mut self.counters[usize::from(pid - PICTURE)];
            *counter = counter.wrapping_add(1);
            let counter = *counter;
            self.packets.packet(pid, starts, counter, &payload);
            if *turn == 5 {
                // Duplicates are allowed.
                self.packets.packet(pid, starts, counter, &payload);
            }
        }
    }
}

/// A film of pictures with these slice lengths and audio frames, `each` per PES packet.
pub fn film(
    pictures: &[Vec<usize>],
    sounds: &[usize],
    each: usize,
    turns: &[u8],
    around: (usize, usize),
) -> (Vec<u8>, [Vec<Unit>; 2]) {
    let mut mux = Mux::new(around);
    mux.tables();
    let pictures: Vec<Unit> = pictures
        .iter()
        .enumerate()
        .map(|(nth, slices)| picture(nth, slices))
        .collect();
    let sounds: Vec<Unit> = sounds
        .iter()
        .enumerate()
        .map(|(nth, length)| frame(nth, *length))
        .collect();
    let mut packets = [Vec::new(), Vec::new()];
    for (nth, unit) in pictures.iter().enumerate() {
        packets[0].extend(mux.pes(PICTURE, 90_000 + nth as u64 * 3600, &unit.stream));
    }
    for (nth, units) in sounds.chunks(each).enumerate() {
        let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.stream.clone()).collect();
        packets[1].extend(mux.pes(SOUND, 90_000 + (nth * each) as u64 * 1920, &bytes));
    }
    let [picture, sound] = packets;
    mux.interleave(picture, sound, turns);
    (mux.packets.bytes, [pictures, sounds])
}
