//! Transport streams that are made here: whatever way their samples are cut into packets, the view has them whole.

use std::ops::Range;

use proptest::prelude::*;
use reelway_media::exchange::{self, Incoming};
use reelway_media::{
    Codec, Container, Filled, Filling, Index, IndexOptions, Place, Sample, SampleTable, Samples,
    index_with,
};

/// Parameter sets of 320 × 180 pixels, Constrained Baseline.
const SPS: &[u8] = &[
    0x67, 0x42, 0xc0, 0x0d, 0xda, 0x05, 0x06, 0x7e, 0x78, 0x40, 0x00, 0x00, 0x03, 0x00, 0x40, 0x00,
    0x00, 0x0c, 0x83, 0xc5, 0x0a, 0xa8,
];
const PPS: &[u8] = &[0x68, 0xce, 0x0f, 0xc8];
const PICTURE: u16 = 0x100;
const SOUND: u16 = 0x101;
const MAP: u16 = 0x1000;

/// A sample, as it is in the stream and as it is to be in the view.
struct Unit {
    stream: Vec<u8>,
    view: Vec<u8>,
}

/// A picture of slices of these lengths.
fn picture(number: usize, slices: &[usize]) -> Unit {
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

/// A frame of AAC at 48 kHz, two channels.
fn frame(number: usize, length: usize) -> Unit {
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

fn stamp(mark: u8, ticks: u64) -> [u8; 5] {
    [
        mark << 4 | (ticks >> 29) as u8 & 0xe | 1,
        (ticks >> 22) as u8,
        (ticks >> 14) as u8 | 1,
        (ticks >> 7) as u8,
        (ticks << 1) as u8 | 1,
    ]
}

/// Packets are put together.
struct Mux {
    bytes: Vec<u8>,
    counters: [u8; 2],
    /// Bytes before and after each packet.
    around: (usize, usize),
}

impl Mux {
    fn packet(&mut self, pid: u16, starts: bool, counter: u8, payload: &[u8]) {
        self.bytes.extend(vec![0; self.around.0]);
        let room = 184 - payload.len();
        let adaptation = if room > 0 { 0x20 } else { 0 };
        self.bytes.extend([
            0x47,
            u8::from(starts) << 6 | (pid >> 8) as u8,
            pid as u8,
            adaptation | 0x10 | counter & 0xf,
        ]);
        if room > 0 {
            self.bytes.push(room as u8 - 1);
            self.bytes.extend(
                [
                    vec![0; usize::from(room > 1)],
                    vec![0xff; room.saturating_sub(2)],
                ]
                .concat(),
            );
        }
        self.bytes.extend(payload);
        self.bytes.extend(vec![0; self.around.1]);
    }

    fn section(&mut self, pid: u16, table: u8, body: &[u8]) {
        let mut section = vec![table, 0xb0, (body.len() + 9) as u8, 0, 1, 0xc1, 0, 0];
        section.extend(body);
        let sum = section.iter().fold(u32::MAX, |sum, byte| {
            (0..8).fold(sum ^ u32::from(*byte) << 24, |sum, _| {
                sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 }
            })
        });
        section.extend(sum.to_be_bytes());
        self.packet(pid, true, 0, &[&[0], &section[..]].concat());
    }

    fn tables(&mut self) {
        self.section(0, 0, &[0, 1, 0xe0 | (MAP >> 8) as u8, MAP as u8]);
        let map = [
            0xe1, 0, 0xf0, 0, 0x1b, 0xe1, 0, 0xf0, 0, 0x0f, 0xe1, 1, 0xf0, 0,
        ];
        self.section(MAP, 2, &map);
    }

    /// The packets of a PES packet.
    fn pes(&mut self, pid: u16, ticks: u64, payload: &[u8]) -> Vec<(u16, bool, Vec<u8>)> {
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

    /// Puts packets of both streams into the file, in an order that `turns` decides.
    fn interleave(
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
            let counter = &mut self.counters[usize::from(pid - PICTURE)];
            *counter = counter.wrapping_add(1);
            let counter = *counter;
            self.packet(pid, starts, counter, &payload);
            if *turn == 5 {
                // Sent twice, as is allowed.
                self.packet(pid, starts, counter, &payload);
            }
        }
    }
}

/// A film of pictures with slices of these lengths and sound frames of these, `each` of them in a PES packet.
fn film(
    pictures: &[Vec<usize>],
    sounds: &[usize],
    each: usize,
    turns: &[u8],
    around: (usize, usize),
) -> (Vec<u8>, [Vec<Unit>; 2]) {
    let mut mux = Mux {
        bytes: Vec::new(),
        counters: [0; 2],
        around,
    };
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
    (mux.bytes, [pictures, sounds])
}

fn index(file: &[u8]) -> Index {
    let read = |range: Range<u64>, bytes: &mut Vec<u8>| {
        bytes.extend(&file[range.start as usize..range.end as usize]);
        Ok(())
    };
    index_with(read, file.len() as u64, IndexOptions::default()).expect("an index")
}

/// Some bytes of the view, and how often the file was read for them.
fn view(file: &[u8], index: &Index, range: Range<u64>) -> (Vec<u8>, usize) {
    let len = file.len() as u64;
    let mut filling = Filling::new(&index.title, &index.tables, len, range.clone())
        .expect("samples")
        .expect("a view");
    let mut into = vec![0xaa; (range.end - range.start) as usize];
    for reads in 1.. {
        let wanted = filling.wanted();
        let bytes = &file[wanted.start as usize..wanted.end as usize];
        match filling.fill(bytes, &mut into) {
            Filled::Whole => return (into, reads),
            Filled::More => assert!(filling.wanted().end > wanted.end),
            Filled::Different => panic!("{range:?} is different"),
        }
    }
    unreachable!()
}

/// All samples are as they were put in, when the view is read in blocks of `block` bytes.
fn is_whole(file: &[u8], index: &Index, units: &[Vec<Unit>; 2], block: u64) {
    let bytes = index.title.view.expect("a view").bytes;
    let mut all = Vec::new();
    while (all.len() as u64) < bytes {
        let at = all.len() as u64;
        all.extend(view(file, index, at..(at + block).min(bytes)).0);
    }
    for (number, units) in units.iter().enumerate() {
        let mut samples = Vec::new();
        let count = index.title.tracks[number].samples;
        index.tables.read(number, 0..count, &mut samples).unwrap();
        assert_eq!(samples.len(), units.len(), "track {number}");
        for (nth, (sample, unit)) in samples.iter().zip(units).enumerate() {
            let bytes = sample.bytes();
            let found = &all[bytes.start as usize..bytes.end as usize];
            assert_eq!(found, unit.view, "track {number}, sample {nth}");
        }
    }
}

#[test]
fn pictures_and_sound_become_tracks_with_their_times() {
    let (file, units) = film(&vec![vec![300, 40]; 50], &[90; 94], 5, &[1, 0, 2], (0, 0));
    let index = index(&file);
    let title = &index.title;
    assert_eq!(title.container, Container::TransportStream);
    assert_eq!((title.duration, title.notes.len()), (2_005_333_333, 0));
    let [picture, sound] = &title.tracks[..] else {
        panic!("{title:?}");
    };
    assert!(
        matches!(&picture.codec, Codec::H264(config) if config.sps == [SPS] && &config.fourcc == b"avc1")
    );
    let shape = picture.picture.as_ref().expect("a picture");
    assert_eq!((shape.width, shape.height), (320, 180));
    assert_eq!(
        (picture.id, picture.samples, picture.duration),
        (256, 50, 50 * 3600)
    );
    assert_eq!(
        (sound.id, sound.samples, sound.timescale),
        (257, 94, 48_000)
    );
    assert!(
        index.tables[0]
            .iter()
            .enumerate()
            .all(|(nth, sample)| sample.sync == (nth % 8 == 0))
    );
    is_whole(&file, &index, &units, 4096);
}

#[test]
fn a_part_in_the_middle_needs_little_of_the_file() {
    let (file, _) = film(
        &vec![vec![20_000, 20_000]; 100],
        &[300; 180],
        8,
        &[1, 1, 0, 2],
        (0, 0),
    );
    let index = index(&file);
    let at = 8 * (256 << 10);
    let len = file.len() as u64;
    let filling = Filling::new(&index.title, &index.tables, len, at..at + (256 << 10))
        .unwrap()
        .unwrap();
    let wanted = filling.wanted();
    assert!(wanted.end - wanted.start < 600 << 10, "{wanted:?} of {len}");
    let (_, reads) = view(&file, &index, at..at + (256 << 10));
    assert_eq!(reads, 1);
}

/// The index as another server gets it.
fn sent(index: &Index, len: u64, change: impl FnOnce(&mut Index)) -> Result<Index, String> {
    let mut index = index.clone();
    change(&mut index);
    let mut bytes = exchange::head(&index.title, len);
    for table in &index.tables {
        bytes.extend(table.as_bytes());
    }
    let mut incoming = Incoming::new(len, IndexOptions::default());
    incoming.feed(&bytes).map_err(|error| error.to_string())?;
    incoming.finish().map_err(|error| error.to_string())
}

#[test]
fn another_server_gets_an_index_with_which_it_makes_the_same_view() {
    let (file, units) = film(&vec![vec![9000]; 50], &[90; 94], 5, &[1, 0], (0, 0));
    let (index, len) = (index(&file), file.len() as u64);
    let theirs = sent(&index, len, |_| ()).unwrap();
    assert_eq!(theirs, index);
    is_whole(&file, &theirs, &units, 100_000);

    let places = |index: &mut Index| {
        let places = index.title.tracks[0].places.iter();
        let later = places.map(|place| Place {
            sample: place.sample + 1,
            ..place
        });
        index.title.tracks[0].places = later.collect();
    };
    let error = sent(&index, len, places).unwrap_err();
    assert!(error.contains("a place 0 in track 256"), "{error}");
    let order = |index: &mut Index| {
        let mut samples: Vec<Sample> = index.tables[1].iter().collect();
        samples.swap(3, 4);
        index.tables[1] = SampleTable::with_capacity(0);
        samples
            .into_iter()
            .for_each(|sample| index.tables[1].push(sample));
    };
    let error = sent(&index, len, order).unwrap_err();
    assert!(
        error.contains("sample 4 of track 257 out of order"),
        "{error}"
    );
    let view = |index: &mut Index| index.title.view.as_mut().unwrap().bytes *= 3;
    let error = sent(&index, len, view).unwrap_err();
    assert!(error.contains("a view of"), "{error}");
}

#[test]
fn a_file_that_is_another_than_the_indexed_one_is_noticed() {
    let (file, _) = film(&vec![vec![3000]; 50], &[90; 94], 5, &[1, 0], (0, 0));
    let (other, _) = film(&vec![vec![2999]; 50], &[90; 94], 5, &[1, 0], (0, 0));
    let index = index(&file);
    let bytes = index.title.view.unwrap().bytes;
    let mut filling = Filling::new(&index.title, &index.tables, file.len() as u64, 0..bytes)
        .unwrap()
        .unwrap();
    let wanted = filling.wanted();
    let mut other = other;
    other.resize(file.len(), 0);
    let other = &other[wanted.start as usize..wanted.end as usize];
    assert_eq!(
        filling.fill(other, &mut vec![0; bytes as usize]),
        Filled::Different
    );
}

#[test]
fn what_no_decoder_could_start_with_is_skipped_and_said() {
    let (mut file, units) = film(&vec![vec![300]; 20], &[90; 30], 1, &[1, 0], (0, 0));
    // The first picture loses its parameter sets.
    let sps = file
        .windows(4)
        .position(|bytes| bytes == &SPS[..4])
        .unwrap();
    file[sps] = 0x6c;
    let index = index(&file);
    let [mut pictures, sounds] = units;
    pictures.drain(..8);
    is_whole(&file, &index, &[pictures, sounds], 1000);
    let notes = index.title.notes.join("; ");
    assert!(
        notes.contains("8 pictures before the first that can be decoded"),
        "{notes}"
    );
}

#[test]
fn bytes_between_packets_cost_what_they_hit_only() {
    let (mut file, _) = film(&vec![vec![3000]; 20], &[90; 30], 1, &[1, 0], (0, 0));
    let middle = file.len() / 188 / 2 * 188;
    file.splice(middle..middle, [1, 2, 3, 0x47, 5, 6]);
    let index = index(&file);
    let notes = index.title.notes.join("; ");
    assert!(notes.contains("6 bytes between packets"), "{notes}");
    assert_eq!(index.title.tracks[0].samples, 20);
    let bytes = index.title.view.unwrap().bytes;
    let (whole, _) = view(&file, &index, 0..bytes);
    for at in (0..bytes).step_by(5000) {
        let end = (at + 5000).min(bytes);
        let part = view(&file, &index, at..end).0;
        assert_eq!(part, whole[at as usize..end as usize], "from {at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn however_samples_are_cut_into_packets_the_view_has_them(
        pictures in proptest::collection::vec(proptest::collection::vec(0usize..1500, 1..5), 1..40),
        large in 0usize..400_000,
        sounds in proptest::collection::vec(1usize..700, 1..60),
        each in 1usize..7,
        turns in proptest::collection::vec(0u8..8, 1..30).prop_filter("an end", |turns| turns.iter().any(|turn| *turn != 5)),
        around in prop_oneof![Just((0, 0)), Just((4, 0)), Just((0, 16))],
        block in 1000u64..300_000,
    ) {
        let mut pictures = pictures;
        let middle = pictures.len() / 2;
        pictures[middle].push(large);
        let (file, units) = film(&pictures, &sounds, each, &turns, around);
        let index = index(&file);
        is_whole(&file, &index, &units, block);
    }
}

#[test]
fn sound_that_is_silent_for_long_is_never_looked_for_far_away() {
    let mut mux = Mux {
        bytes: Vec::new(),
        counters: [0; 2],
        around: (0, 0),
    };
    mux.tables();
    let mut units = [Vec::new(), Vec::new()];
    for nth in 0..160 {
        let shown = picture(nth, &[90_000]);
        let packets = mux.pes(PICTURE, 90_000 + nth as u64 * 3600, &shown.stream);
        // Sound is there at the beginning, in the middle and not at the end; a frame is cut off where it ends.
        let mut sound = Vec::new();
        if nth < 10 || (90..100).contains(&nth) {
            let heard = frame(nth, 500);
            let mut bytes = heard.stream.clone();
            units[1].push(heard);
            if nth == 9 {
                bytes.extend(&frame(nth, 600).stream[..300]);
            }
            sound = mux.pes(SOUND, 90_000 + nth as u64 * 3600, &bytes);
        }
        units[0].push(shown);
        mux.interleave(packets, sound, &[1, 0]);
    }
    let file = mux.bytes;
    let index = index(&file);
    is_whole(&file, &index, &units, 256 << 10);
    let bytes = index.title.view.expect("a view").bytes;
    for at in (0..bytes).step_by(256 << 10) {
        let range = at..(at + (256 << 10)).min(bytes);
        let filling = Filling::new(&index.title, &index.tables, file.len() as u64, range);
        let wanted = filling.unwrap().unwrap().wanted();
        assert!(wanted.end - wanted.start < 10 << 20, "{wanted:?} at {at}");
    }
}
