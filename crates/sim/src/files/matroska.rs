//! Matroska (RFC 9559): clusters of a second each.

use reelway_mux::ebml::{element, unsigned};

use super::coded::{self, TICKS, Unit};

/// Ticks per millisecond, the unit of times.
const MILLI: u64 = TICKS / 1000;

fn picture() -> Vec<u8> {
    let video = [unsigned(0xb0, 320), unsigned(0xba, 192)].concat();
    let body = [
        unsigned(0xd7, 1),
        unsigned(0x73c5, 1),
        unsigned(0x83, 1),
        unsigned(0x23_e383, 40_000_000),
        element(0x86, b"V_MPEG4/ISO/AVC"),
        element(0x63a2, &coded::avcc()),
        element(0xe0, &video),
    ];
    element(0xae, &body.concat())
}

fn sound() -> Vec<u8> {
    let audio = [element(0xb5, &48_000f64.to_be_bytes()), unsigned(0x9f, 2)].concat();
    let private = [
        &b"OpusHead"[..],
        &[1, 2, 0, 0],
        &48_000u32.to_le_bytes(),
        &[0; 3],
    ];
    let body = [
        unsigned(0xd7, 2),
        unsigned(0x73c5, 2),
        unsigned(0x83, 2),
        element(0x86, b"A_OPUS"),
        element(0x63a2, &private.concat()),
        element(0xe1, &audio),
    ];
    element(0xae, &body.concat())
}

/// Returns a file of H.264 and Opus.
pub(super) fn file(tracks: &[Vec<Unit>]) -> Vec<u8> {
    let info = element(0x1549_a966, &unsigned(0x2a_d7b1, 1_000_000));
    let entries = element(0x1654_ae6b, &[picture(), sound()].concat());
    let mut segment = [info, entries].concat();
    let mut units: Vec<(u8, &Unit)> = (1..)
        .zip(tracks)
        .flat_map(|(number, units)| units.iter().map(move |unit| (number, unit)))
        .collect();
    units.sort_by_key(|(_, unit)| unit.decoded);
    for of_second in units.chunk_by(|(_, one), (_, two)| one.decoded / TICKS == two.decoded / TICKS)
    {
        let begins = of_second[0].1.decoded / TICKS * 1000;
        let mut cluster = unsigned(0xe7, begins as u32);
        for (track, unit) in of_second {
            let [high, low] = ((unit.shown / MILLI - begins) as i16).to_be_bytes();
            let flags = if unit.sync { 0x80 } else { 0 };
            let head = [0x80 | track, high, low, flags];
            cluster.extend(element(0xa3, &[&head[..], &unit.sample()].concat()));
        }
        segment.extend(element(0x1f43_b675, &cluster));
    }
    let head = element(0x1a45_dfa3, &element(0x4282, b"matroska"));
    [head, element(0x1853_8067, &segment)].concat()
}
