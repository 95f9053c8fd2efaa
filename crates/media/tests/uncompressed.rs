//! Uncompressed audio in MP4 and QuickTime: supported sample descriptions, and joining of samples.

mod common;

use common::*;
use reelway_media::{Codec, Filled, Filling, IndexErrorKind, IndexOptions, PcmConfig, Sound};

/// A QuickTime sound description of version 0 with this sample size.
fn described(kind: &[u8; 4], bits: u8, boxes: &[u8]) -> Vec<u8> {
    let mut entry = audio(kind, boxes);
    entry[8 + 19] = bits;
    entry
}

/// Version 1, which has four additional numbers.
fn version_1(kind: &[u8; 4], boxes: &[u8]) -> Vec<u8> {
    let mut entry = audio(kind, &[&be(&[1, 3, 6, 2])[..], boxes].concat());
    entry[8 + 9] = 1;
    entry
}

/// Version 2 of `lpcm`.
fn version_2(rate: f64, [channels, bits, flags, bytes]: [u32; 4]) -> Vec<u8> {
    let more = [
        &be(&[72])[..],
        &rate.to_bits().to_be_bytes(),
        &be(&[channels, 0x7f00_0000, bits, flags, bytes, 1]),
    ];
    let mut entry = audio(b"lpcm", &more.concat());
    entry[8 + 9] = 2;
    entry
}

fn pcmc(flags: u8, bits: u8) -> Vec<u8> {
    boxed(b"pcmC", &[&[0, 0, 0, 0, flags, bits]])
}

/// A film of `count` samples, each one frame of `size` bytes, in chunks of `chunk`.
fn film(entry: Vec<u8>, count: usize, size: u32, chunk: usize) -> Vec<u8> {
    let spec = Spec {
        size,
        duration: 1,
        cts: 0,
        sync: true,
    };
    let mut track = Track::new(1, b"soun", entry, 48_000, vec![spec; count]);
    track.chunk = chunk;
    let track = track
        .with_table(table(b"stts", 0, 1, &[count as u32, 1]))
        .with_table(full(b"stsz", 0, 0, &[size, count as u32]));
    let mut track = track;
    track.without.push(*b"ctts");
    write(&[track]).0
}

#[test]
fn sample_descriptions_of_all_kinds_are_known() {
    let stereo = |bits: u8, little_endian: bool| PcmConfig {
        bits,
        little_endian,
        channels: 2,
    };
    let enda = |little: u8| boxed(b"wave", &[&boxed(b"enda", &[&[0, little]]), &[0; 4]]);
    for (entry, expected) in [
        (described(b"twos", 16, &[]), stereo(16, false)),
        (described(b"sowt", 16, &[]), stereo(16, true)),
        (described(b"twos", 24, &[]), stereo(24, false)),
        (version_1(b"in24", &[]), stereo(24, false)),
        (version_1(b"in24", &enda(0)), stereo(24, false)),
        (version_1(b"in24", &enda(1)), stereo(24, true)),
        (version_1(b"in32", &enda(1)), stereo(32, true)),
        (version_2(48_000.0, [2, 16, 4 | 8, 4]), stereo(16, true)),
        (
            version_2(48_000.0, [2, 24, 2 | 4 | 8, 6]),
            stereo(24, false),
        ),
        (audio(b"ipcm", &pcmc(1, 16)), stereo(16, true)),
        (audio(b"ipcm", &pcmc(0, 24)), stereo(24, false)),
    ] {
        let title = index(&film(entry, 4800, expected.frame_bytes(), 4800))
            .unwrap()
            .title;
        assert_eq!(title.tracks[0].codec, Codec::Pcm(expected));
        let sound = Sound {
            channels: 2,
            rate: 48_000,
        };
        assert_eq!(title.tracks[0].sound, Some(sound));
        assert_eq!(&title.tracks[0].sample_entry[4..8], b"ipcm");
    }
}

#[test]
fn rates_above_16_bits_are_kept() {
    let entry = version_2(192_000.0, [1, 16, 2 | 4 | 8, 2]);
    let title = index(&film(entry, 4800, 2, 4800)).unwrap().title;
    assert_eq!(title.tracks[0].sound.as_ref().unwrap().rate, 192_000);
}

#[test]
fn what_is_not_played_is_named() {
    for (entry, words) in [
        (audio(b"fl32", &[]), "floating-point sound"),
        (audio(b"fpcm", &pcmc(0, 32)), "floating-point sound"),
        (
            version_2(48_000.0, [2, 32, 1 | 8, 8]),
            "floating-point sound",
        ),
        (audio(b"raw ", &[]), "uncompressed sound of 8 bits"),
        (described(b"twos", 8, &[]), "uncompressed sound of 8 bits"),
        (version_2(48_000.0, [2, 24, 2 | 4, 8]), "laid out otherwise"),
        (
            version_2(48_000.0, [2, 16, 2 | 4 | 8 | 0x20, 4]),
            "laid out otherwise",
        ),
        (
            version_2(f64::NAN, [2, 16, 2 | 4 | 8, 4]),
            "of 0 samples a second",
        ),
        (version_2(1e12, [2, 16, 2 | 4 | 8, 4]), "samples a second"),
        (
            version_2(48_000.0, [u32::MAX, 16, 4 | 8, u32::MAX]),
            "laid out otherwise",
        ),
        (audio(b"ipcm", &[]), "without its configuration"),
    ] {
        let error = index(&film(entry, 10, 4, 10)).unwrap_err();
        assert_eq!(error.kind, IndexErrorKind::Unplayable);
        assert!(error.problem.contains(words), "{}", error.problem);
    }
}

#[test]
fn single_frames_are_joined_into_units_of_a_chunk() {
    // Chunks of 4000 frames: three units each, of up to 40 ms.
    let film = film(described(b"twos", 16, &[]), 10_000, 4, 4000);
    let index = index(&film).unwrap();
    let samples: Vec<_> = index.tables[0].iter().collect();
    let durations: Vec<u32> = samples.iter().map(|sample| sample.duration).collect();
    assert_eq!(durations, [1333, 1333, 1334, 1333, 1333, 1334, 1000, 1000]);
    for pair in samples.windows(2) {
        assert_eq!(pair[0].bytes().end, pair[1].offset);
        assert_eq!(pair[0].size, pair[0].duration * 4);
    }
    assert_eq!(samples[0].offset + 40_000, film.len() as u64);
}

#[test]
fn a_size_of_one_stands_for_a_frame() {
    let entry = described(b"twos", 16, &[]);
    let mut film = film(entry, 2000, 4, 2000);
    let at = film.windows(4).position(|kind| kind == b"stsz").unwrap() + 8;
    film[at + 3] = 1;
    let index = index(&film).unwrap();
    let sizes: Vec<u32> = index.tables[0].iter().map(|sample| sample.size).collect();
    assert_eq!(sizes, [4000, 4000]);
}

#[test]
fn samples_with_sizes_of_their_own_are_joined_where_they_follow_each_other() {
    let spec = |frames: u32| Spec {
        size: frames * 4,
        duration: frames,
        cts: 0,
        sync: true,
    };
    let samples = [1000, 800, 200, 1920, 1, 2].map(spec);
    let mut track = Track::new(
        1,
        b"soun",
        described(b"sowt", 16, &[]),
        48_000,
        samples.to_vec(),
    );
    track.without.push(*b"ctts");
    let index = index(&write(&[track]).0).unwrap();
    let durations: Vec<u32> = index.tables[0]
        .iter()
        .map(|sample| sample.duration)
        .collect();
    assert_eq!(durations, [1800, 200, 1920, 3]);
}

#[test]
fn chunks_that_reach_past_the_file_and_too_many_units_are_errors() {
    let mut cut = film(described(b"twos", 16, &[]), 10_000, 4, 4000);
    cut.truncate(cut.len() - 1);
    assert_eq!(index(&cut).unwrap_err().kind, IndexErrorKind::Incomplete);
    let options = IndexOptions {
        max_samples: 7,
        ..IndexOptions::default()
    };
    let whole = film(described(b"twos", 16, &[]), 10_000, 4, 4000);
    let error = index_with(&whole, options).unwrap_err();
    assert_eq!(error.kind, IndexErrorKind::TooLarge);
}

#[test]
fn a_film_that_lasts_longer_than_is_allowed_is_refused() {
    let film = film(described(b"twos", 16, &[]), 10_000, 4, 4000);
    let length = index(&film).unwrap().title.duration;
    let of_at_most = |max_duration| {
        index_with(
            &film,
            IndexOptions {
                max_duration,
                ..IndexOptions::default()
            },
        )
    };
    assert!(of_at_most(length).is_ok());
    let error = of_at_most(length - 1).unwrap_err();
    assert_eq!(error.kind, IndexErrorKind::TooLarge);
    assert!(error.to_string().contains("lasts"), "{error}");
}

/// A private DVD packet with audio of this format, at `at` ticks of 90 kHz.
fn dvd_packet(at: u32, format: u8, sound: &[u8]) -> Vec<u8> {
    let stamp = [
        0x21 | (at >> 29 & 0xe) as u8,
        (at >> 22) as u8,
        (at >> 14) as u8 | 1,
        (at >> 7) as u8,
        (at << 1) as u8 | 1,
    ];
    let head = [0xa0, 7, 0, 4, 0x0c, format, 0x80];
    let size = (8 + head.len() + sound.len()) as u16;
    [
        &[0, 0, 1, 0xbd][..],
        &size.to_be_bytes(),
        &[0x81, 0x80, 5],
        &stamp,
        &head,
        sound,
    ]
    .concat()
}

#[test]
fn sound_of_a_dvd_that_changes_its_form_is_played_in_the_first() {
    // Packets of 502.5 frames with ascending numbers; one packet in between has another format.
    let numbers: Vec<u8> = (0..8040u16).flat_map(u16::to_be_bytes).collect();
    let mut film = vec![0, 0, 1, 0xba, 0x44, 0, 4, 0, 4, 1, 0, 0, 3, 0xf8];
    for (nth, sound) in numbers.chunks(2010).enumerate() {
        film.extend(dvd_packet(90_000 + nth as u32 * 942, 0x01, sound));
        if nth == 3 {
            film.extend(dvd_packet(100_000, 0x81, &[0xee; 2010]));
        }
    }
    film.extend([0, 0, 1, 0xb9]);
    let index = index(&film).unwrap();
    let track = &index.title.tracks[0];
    let expected = PcmConfig {
        bits: 16,
        little_endian: false,
        channels: 2,
    };
    assert_eq!(track.codec, Codec::Pcm(expected));
    let notes = index.title.notes.join("; ");
    assert!(notes.contains("1 packets in another form"), "{notes}");
    let durations: Vec<u32> = index.tables[0]
        .iter()
        .map(|sample| sample.duration)
        .collect();
    assert_eq!(durations, [960, 960, 960, 960, 180]);
    let len = film.len() as u64;
    let bytes = index.title.view.unwrap().bytes;
    let filling = Filling::new(&index.title, &index.tables, len, 0..bytes);
    let mut filling = filling.unwrap().unwrap();
    let wanted = filling.wanted();
    let mut view = vec![0; bytes as usize];
    let wanted = &film[wanted.start as usize..wanted.end as usize];
    let filled = filling.fill(wanted, &mut view, &mut Vec::new());
    assert_eq!((filled, view), (Filled::Whole, numbers));
}
