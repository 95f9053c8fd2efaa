//! Generated transport streams: the view has whole samples, however they are cut into packets.

mod made;
mod sent;

use std::ops::Range;

use proptest::prelude::*;
use reelway_media::{
    Codec, Container, Filled, Filling, Index, IndexOptions, Indexer, Place, Sample, SampleTable,
    Samples, Unfinished, index_growing, index_with,
};

use made::*;
use reelway_mux::mpeg::{Packets, stamp};
use sent::sent;

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
    let mut room = Vec::new();
    for reads in 1.. {
        let wanted = filling.wanted();
        let bytes = &file[wanted.start as usize..wanted.end as usize];
        match filling.fill(bytes, &mut into, &mut room) {
            Filled::Whole => return (into, reads),
            Filled::More => assert!(filling.wanted().end > wanted.end),
            Filled::Different => panic!("{range:?} is different"),
        }
    }
    unreachable!()
}

/// Checks that all samples equal the original ones if the view is read in blocks of `block` bytes.
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
        filling.fill(other, &mut vec![0; bytes as usize], &mut Vec::new()),
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

/// A packet with the previous one's counter is a duplicate only if it has the same payload.
#[test]
fn a_gap_after_which_the_numbers_of_packets_match_costs_no_picture() {
    let (file, [mut pictures, sounds]) = film(&vec![vec![20]; 40], &[90; 75], 5, &[1, 0], (0, 0));
    let lost = 9..24;
    let mut number = 0;
    let packets = file.chunks(188).filter(|packet| {
        let carries = packet[3] & 0x10 != 0 && packet[1..3] == [0x41, 0];
        number += usize::from(carries);
        !(carries && lost.contains(&(number - 1)))
    });
    let cut: Vec<u8> = packets.flatten().copied().collect();
    assert_eq!(cut.len(), file.len() - lost.len() * 188);
    pictures.drain(lost);
    is_whole(&cut, &index(&cut), &[pictures, sounds], 1000);
}

/// The film of another station: its number, and the PIDs of its map, video and audio.
fn of_another_station(film: &[u8], number: u8, map: u16, [picture, sound]: [u16; 2]) -> Vec<u8> {
    let mut packets = Packets::new((0, 0));
    let pid = |pid: u16| (pid | 0xe000).to_be_bytes();
    packets.section(0, 0, 1, &[&[0, number][..], &pid(map)].concat());
    let streams = [(0x1b, picture), (0x0f, sound)]
        .map(|(kind, at)| [&[kind][..], &pid(at), &[0xf0, 0]].concat());
    packets.section(
        map,
        2,
        number,
        &[&pid(picture)[..], &[0xf0, 0], &streams.concat()].concat(),
    );
    for packet in film.chunks(188) {
        let mut packet = packet.to_vec();
        let now = match u16::from_be_bytes([packet[1] & 0x1f, packet[2]]) {
            PICTURE => picture,
            SOUND => sound,
            _ => continue,
        };
        packet[1] = packet[1] & 0xe0 | (now >> 8) as u8;
        packet[2] = now as u8;
        packets.bytes.extend(packet);
    }
    packets.bytes
}

#[test]
fn a_recording_of_another_station_goes_on_where_the_first_one_ends() {
    let of = || film(&vec![vec![300, 40]; 50], &[90; 94], 5, &[1, 0, 2], (0, 0));
    for (number, map, streams) in [
        (2, 0x1001, [0x200, 0x201]),
        (2, MAP, [PICTURE, SOUND]),
        // Its map has the PID of the first one's sound, its picture the PID of the first one's map.
        (2, SOUND, [MAP, 0x201]),
        (1, PICTURE, [SOUND, 0x201]),
    ] {
        let (first, [mut pictures, mut sounds]) = of();
        let (second, [others, other_sounds]) = of();
        let second = of_another_station(&second, number, map, streams);
        let file = [first.clone(), second].concat();
        let index = index(&file);
        pictures.extend(others);
        sounds.extend(other_sounds);
        is_whole(&file, &index, &[pictures, sounds], 4096);
        let note = format!("programme {number} is played: programme 1 is not listed any more");
        let is_told = index.title.notes.iter().any(|words| words.ends_with(&note));
        assert_eq!(is_told, number != 1, "{:?}", index.title.notes);
    }
}

/// Each piece goes back to the start of the first one: by less than reordering, or by more.
#[test]
fn pieces_of_any_length_follow_each_other() {
    for pictures in 2..40 {
        // Of equal length, or so that audio ends before or after the video.
        for sounds in [0, 1, 2].map(|more| pictures * 15 / 8 + more) {
            for copies in 2..5 {
                let case = format!("{copies} times {pictures} pictures and {sounds} sounds");
                let (file, units) = film(
                    &vec![vec![90]; pictures],
                    &vec![90; sounds],
                    1,
                    &[1, 0],
                    (0, 0),
                );
                let index = index(&file.repeat(copies));
                for (track, (table, units)) in index.tables.iter().zip(&units).enumerate() {
                    let case = format!("{case}, track {track}");
                    assert_eq!(table.len() as usize, units.len() * copies, "{case}");
                    // Stamps that deviate so little are not jumps.
                    if pictures <= 3 || table.is_empty() {
                        continue;
                    }
                    let (one, most) = [(3600, 12_000), (1024, 6_000)][track];
                    let durations: Vec<u32> = table.iter().map(|sample| sample.duration).collect();
                    let joints = durations.iter().filter(|duration| **duration != one);
                    assert!(joints.count() < copies, "{case}: {durations:?}");
                    let within = one..=most;
                    assert!(
                        durations.iter().all(|one| within.contains(one)),
                        "{case}: {durations:?}"
                    );
                }
            }
        }
    }
}

/// Writers and bad reception produce such stamps, while the clock continues as before.
#[test]
fn a_stamp_that_is_off_by_itself_moves_nothing_behind_it() {
    let (mut file, _) = film(&vec![vec![300]; 50], &[90; 94], 1, &[1, 0], (0, 0));
    let begins = |packet: &[u8]| packet[1] == 0x41 && packet[2] == SOUND as u8;
    let mut frames = file.chunks_mut(188).filter(|packet| begins(packet));
    let packet = frames.nth(40).expect("a frame of sound");
    let payload = if packet[3] & 0x20 == 0 {
        4
    } else {
        5 + usize::from(packet[4])
    };
    let early = 90_000 + 40 * 1920 - 27_000;
    packet[payload + 9..][..5].copy_from_slice(&stamp(2, early));
    let index = index(&file);
    assert_eq!(index.title.notes.len(), 0, "{:?}", index.title.notes);
    let lasts = |to: usize| {
        index.tables[1]
            .iter()
            .take(to)
            .map(|sample| sample.duration)
            .sum::<u32>()
    };
    assert_eq!(
        (lasts(39), lasts(41), lasts(94)),
        (39 * 1024, 41 * 1024, 94 * 1024)
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn a_recording_that_grew_has_the_index_that_it_would_have_had_at_once(
        size in 8_000usize..40_000,
        turns in proptest::collection::vec(0u8..8, 1..30).prop_filter("an end", |turns| turns.iter().any(|turn| *turn != 5)),
        around in prop_oneof![Just((0, 0)), Just((4, 0)), Just((0, 16))],
        mut lengths in proptest::collection::vec(0.02f64..1.0, 1..6),
    ) {
        let pictures = vec![vec![size, size / 2]; 120];
        let (file, _) = film(&pictures, &[300; 225], 3, &turns, around);
        lengths.sort_by(f64::total_cmp);
        let mut lengths: Vec<usize> = lengths.iter().map(|part| (file.len() as f64 * part) as usize).collect();
        lengths.push(file.len());
        let mut unfinished: Option<Unfinished> = None;
        let (mut read_in_all, mut before) = (0, 0);
        for length in lengths {
            let so_far = &file[..length];
            let read = |range: Range<u64>, bytes: &mut Vec<u8>| {
                read_in_all += range.end - range.start;
                bytes.extend(&so_far[range.start as usize..range.end as usize]);
                Ok(())
            };
            let indexer = match unfinished.take() {
                Some(unfinished) => unfinished.go_on(length as u64),
                None => Indexer::new(length as u64, IndexOptions::default()),
            };
            let had = before;
            before = length as u64;
            match index_growing(indexer, true, read) {
                Ok((found, kept)) => {
                    prop_assert!(found == index(so_far), "{length} bytes");
                    // Files smaller than one read leave no state to continue from.
                    prop_assert!(kept.is_some() || length <= 1 << 20);
                    prop_assert!(had < 2 << 20 || read_in_all <= length as u64 - had + (1 << 20), "{read_in_all}");
                    unfinished = kept;
                }
                // Too short to contain anything.
                Err(_) => prop_assert!(length < 1 << 20),
            }
            read_in_all = 0;
        }
    }
}

#[test]
fn sound_that_is_silent_for_long_is_never_looked_for_far_away() {
    let mut mux = Mux::new((0, 0));
    mux.tables();
    let mut units = [Vec::new(), Vec::new()];
    for nth in 0..160 {
        let shown = picture(nth, &[90_000]);
        let packets = mux.pes(PICTURE, 90_000 + nth as u64 * 3600, &shown.stream);
        // Audio at the beginning and in the middle, but not at the end; its last frame is cut off.
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
    let file = mux.packets.bytes;
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

/// Gives the frames `range`, each a PES packet, another configuration: the header's third byte.
fn reconfigured(file: &mut [u8], range: Range<usize>, third: u8) {
    let at = (0..file.len() - 4).filter(|at| file[*at..].starts_with(&[0xff, 0xf1, 0x4c, 0x80]));
    let at: Vec<usize> = at.collect();
    for at in &at[range] {
        file[at + 2] = third;
    }
}

#[test]
fn frames_of_another_configuration_than_the_first_are_left_out_and_said() {
    // 44.1 kHz; six channels.
    for third in [0x50, 0x4d] {
        let (mut file, [pictures, mut sounds]) =
            film(&vec![vec![300]; 100], &[90; 188], 1, &[1, 0, 2], (0, 0));
        reconfigured(&mut file, 50..120, third);
        let index = index(&file);
        sounds.drain(50..120);
        let units = [pictures, sounds];
        for block in [1000, 100_000] {
            is_whole(&file, &index, &units, block);
        }
        let notes = index.title.notes.join("; ");
        assert!(
            notes.contains("track 257: from 1.1 s on, 70 sound frames have another configuration"),
            "{notes}"
        );
        // The following frames keep their times.
        let durations = index.tables[1].iter().map(|sample| sample.duration);
        let durations: Vec<u32> = durations.collect();
        assert_eq!(durations[49], 71 * 1024);
        let length: u64 = durations.iter().map(|ticks| u64::from(*ticks)).sum();
        assert_eq!(length, 188 * 1024);
        let sound = index.title.tracks[1].sound.as_ref();
        assert_eq!(
            sound.map(|sound| (sound.rate, sound.channels)),
            Some((48_000, 2))
        );
        assert_eq!(sent(&index, file.len() as u64, |_| ()).unwrap(), index);
    }
}
