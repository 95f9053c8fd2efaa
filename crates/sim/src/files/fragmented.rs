//! MP4 in movie fragments (ISO/IEC 14496-12 8.8): one for each GOP and the sound until
//! the next one.

use reelway_mux::boxes::{be, boxed, full};

use super::coded::{self, TICKS, Unit};

/// Ticks per second of the sound.
const RATE: u64 = 48_000;

/// Returns the sample entries of both tracks.
fn entries() -> [Vec<u8>; 2] {
    let avcc = boxed(b"avcC", &[&coded::avcc()]);
    let mut visual = be(&[0, 1, 0, 0, 0, 0, 320 << 16 | 192, 0x48_0000, 0x48_0000, 0]);
    visual.extend([0, 1]);
    visual.extend([0; 32]);
    visual.extend([0, 24, 0xff, 0xff]);
    let sound = be(&[0, 1, 0, 0, 2 << 16 | 16, 0, (RATE as u32) << 16]);
    let esds = [
        0, 0, 0, 0, 3, 25, 0, 2, 0, 4, 17, 0x40, 0x15, 0, 0, 0, 0, 1, 0xf4, 0, 0, 1, 0xf4, 0, 5, 2,
        0x11, 0x90, 6, 1, 2,
    ];
    [
        boxed(b"avc1", &[&visual, &avcc]),
        boxed(b"mp4a", &[&sound, &boxed(b"esds", &[&esds])]),
    ]
}

fn track(number: usize, entry: &[u8]) -> Vec<u8> {
    let matrix = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];
    let id = number as u32 + 1;
    let head = [
        &[0, 0, id, 0, 0, 0, 0, 0, 0][..],
        &matrix,
        &[320 << 16, 192 << 16],
    ]
    .concat();
    let (handler, media, scale) = match number {
        0 => (b"vide", full(b"vmhd", 0, 1, &[0, 0]), TICKS),
        _ => (b"soun", full(b"smhd", 0, 0, &[0]), RATE),
    };
    let handler = boxed(b"hdlr", &[&be(&[0, 0]), handler, &[0; 13]]);
    let mdhd = full(b"mdhd", 0, 0, &[0, 0, scale as u32, 0, 0x55c4_0000]);
    let stsd = boxed(b"stsd", &[&be(&[0, 1]), entry]);
    let empty = |kind| full(kind, 0, 0, &[0]);
    let table = boxed(
        b"stbl",
        &[
            &stsd,
            &empty(b"stts"),
            &empty(b"stsc"),
            &full(b"stsz", 0, 0, &[0, 0]),
            &empty(b"stco"),
        ],
    );
    let url = full(b"url ", 0, 1, &[]);
    let dinf = boxed(b"dinf", &[&boxed(b"dref", &[&be(&[0, 1]), &url])]);
    let minf = boxed(b"minf", &[&media, &dinf, &table]);
    let mdia = boxed(b"mdia", &[&mdhd, &handler, &minf]);
    boxed(b"trak", &[&full(b"tkhd", 0, 7, &head), &mdia])
}

/// Appends a fragment with the units of both tracks, one track after the other.
fn fragment(into: &mut Vec<u8>, sequence: u32, units: [&[Unit]; 2]) {
    let build = |data: u32| {
        let mut at = data;
        let mut trafs = Vec::new();
        for (number, units) in units.into_iter().enumerate() {
            let Some(first) = units.first() else {
                continue;
            };
            let (scale, duration) = match number {
                0 => (1, 3600),
                _ => (TICKS / RATE, 1024),
            };
            // The sound's times are on the pictures' timeline, in ticks of its own rate.
            let begins = match number {
                0 => first.decoded,
                _ => first.decoded * RATE / TICKS,
            };
            debug_assert_eq!(first.decoded % scale, 0);
            let tfhd = full(b"tfhd", 0, 0x2_0008, &[number as u32 + 1, duration]);
            let tfdt = full(b"tfdt", 1, 0, &[(begins >> 32) as u32, begins as u32]);
            let mut words = vec![units.len() as u32, at];
            for unit in units {
                let flags = if unit.sync { 0x200_0000 } else { 0x101_0000 };
                let size = unit.sample().len() as u32;
                words.extend([size, flags, (unit.shown - unit.decoded) as u32]);
                at += size;
            }
            let trun = full(b"trun", 0, 0xe01, &words);
            trafs.push(boxed(b"traf", &[&tfhd, &tfdt, &trun]));
        }
        boxed(
            b"moof",
            &[&full(b"mfhd", 0, 0, &[sequence]), &trafs.concat()],
        )
    };
    let head = build(0).len() as u32 + 8;
    into.extend(build(head));
    let units = units.into_iter().flatten();
    let data: Vec<u8> = units.flat_map(Unit::sample).collect();
    into.extend(boxed(b"mdat", &[&data]));
}

/// Returns a file of H.264 and AAC.
pub(super) fn file(tracks: &[Vec<Unit>]) -> Vec<u8> {
    let [picture, sound] = entries();
    let mvhd: Vec<u32> = [
        &[0, 0, 1000, 0, 0x1_0000, 0x100_0000, 0, 0][..],
        &[0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000],
        &[0, 0, 0, 0, 0, 0, 3],
    ]
    .concat();
    let trex = |id| full(b"trex", 0, 0, &[id, 1, 0, 0, 0]);
    let mvex = boxed(b"mvex", &[&trex(1), &trex(2)]);
    let mut bytes = boxed(b"ftyp", &[b"iso5", &be(&[0]), b"iso5"]);
    bytes.extend(boxed(
        b"moov",
        &[
            &full(b"mvhd", 0, 0, &mvhd),
            &track(0, &picture),
            &track(1, &sound),
            &mvex,
        ],
    ));
    let mut sounds = &tracks[1][..];
    let mut gops = tracks[0].chunk_by(|_, next| !next.sync).peekable();
    let mut sequence = 0;
    while let Some(gop) = gops.next() {
        let until = gops.peek().map_or(u64::MAX, |next| next[0].decoded);
        let heard = sounds.partition_point(|unit| unit.decoded < until);
        let (now, later) = sounds.split_at(heard);
        sounds = later;
        sequence += 1;
        fragment(&mut bytes, sequence, [gop, now]);
    }
    bytes
}
