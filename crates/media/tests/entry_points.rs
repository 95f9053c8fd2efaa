//! Where slices of a transport stream can begin, and the tables that apply there.

mod made;
mod sent;

use std::ops::Range;

use made::{MAP, PICTURE, SOUND, film};
use proptest::prelude::*;
use reelway_media::{EntryPoint, EntryPoints, Index, IndexOptions, index_with};
use reelway_mux::mpeg::Packets;
use sent::sent;

/// The PID to which the sound moves when the map changes.
const MOVED: u16 = 0x102;

fn index(file: &[u8]) -> Index {
    let read = |range: Range<u64>, bytes: &mut Vec<u8>| {
        bytes.extend(&file[range.start as usize..range.end as usize]);
        Ok(())
    };
    index_with(read, file.len() as u64, IndexOptions::default()).expect("an index")
}

fn entries(index: &Index) -> EntryPoints {
    *index.title.entry_points.clone().expect("entry points")
}

/// A film of 40 pictures. Decoders can start at every eighth; tables precede every third packet.
fn made(around: (usize, usize)) -> Vec<u8> {
    film(&vec![vec![900]; 40], &[90; 75], 5, &[1, 0, 2], around).0
}

/// The positions of the packets that begin these pictures.
fn places(file: &[u8]) -> Vec<u64> {
    let starts =
        |packet: &[u8]| packet[1] == 0x41 && packet[2] == PICTURE as u8 && packet[3] & 0x10 != 0;
    let packets = file.chunks(188).enumerate();
    let pictures = packets.filter(|(_, packet)| starts(packet));
    pictures
        .step_by(8)
        .map(|(nth, _)| nth as u64 * 188)
        .collect()
}

/// PAT and PMT of programmes with these numbers and maps, whose sound has this PID.
fn tables(programmes: &[(u16, u16)], sound: u16) -> Vec<u8> {
    let mut packets = Packets::new((0, 0));
    let listed: Vec<u8> = programmes
        .iter()
        .flat_map(|(number, map)| [number.to_be_bytes(), (map | 0xe000).to_be_bytes()].concat())
        .collect();
    packets.section(0, 0, 1, &listed);
    let [high, low] = (sound | 0xe000).to_be_bytes();
    let map = [
        0xe1, 0, 0xf0, 0, 0x1b, 0xe1, 0, 0xf0, 0, 0x0f, high, low, 0xf0, 0,
    ];
    for (number, map_at) in programmes {
        packets.section(*map_at, 2, *number as u8, &map);
    }
    packets.bytes
}

/// The section in a packet, without header and adaptation field.
fn carried(packet: &[u8]) -> &[u8] {
    let payload = match packet[3] & 0x20 {
        0 => &packet[4..],
        _ => &packet[5 + usize::from(packet[4])..],
    };
    let section = &payload[1..];
    &section[..3 + usize::from(section[2])]
}

#[test]
fn each_begins_with_the_packet_of_a_picture_that_decoders_can_start_at() {
    let file = made((0, 0));
    let entries = entries(&index(&file));
    let expected: Vec<EntryPoint> = (0..)
        .zip(places(&file))
        .map(|(nth, place)| EntryPoint {
            place,
            sample: nth * 8,
            jumps: false,
        })
        .collect();
    assert_eq!(entries.points.iter().collect::<Vec<_>>(), expected);
    assert_eq!(expected.len(), 5);
    assert_eq!((entries.programmes, entries.is_scrambled), (1, false));
    let [tables] = &entries.tables[..] else {
        panic!("{:?}", entries.tables);
    };
    assert_eq!((tables.place, tables.packets.len()), (0, 2 * 188));
    // The same sections, repacked.
    for (own, packet) in tables.packets.chunks(188).zip(file.chunks(188)) {
        assert_eq!((own[0], &own[1..3]), (0x47, &packet[1..3]));
        assert_eq!(carried(own), carried(packet));
        let rest = &own[5 + carried(own).len()..];
        assert!(rest.iter().all(|byte| *byte == 0xff));
    }
}

#[test]
fn what_lies_between_packets_does_not_count() {
    let plain = entries(&index(&made((0, 0))));
    for around in [(4, 0), (0, 16)] {
        assert_eq!(entries(&index(&made(around))), plain, "{around:?}");
    }
}

#[test]
fn the_first_behind_a_jump_of_the_time_says_so() {
    // The time restarts with the second half.
    let once = made((0, 0));
    let twice = once.repeat(2);
    let entries = entries(&index(&twice));
    let jumps: Vec<u64> = entries
        .points
        .iter()
        .filter(|entry| entry.jumps)
        .map(|entry| entry.place)
        .collect();
    assert_eq!(entries.points.len(), 10);
    assert_eq!(jumps, [once.len() as u64 + places(&once)[0]]);
    assert_eq!(entries.tables.len(), 1, "the same tables");
    // Stamps that wrap after 26.5 hours, as the film's do, are not jumps.
    assert!(entries.points.iter().take(5).all(|entry| !entry.jumps));
}

#[test]
fn tables_are_noted_where_the_streams_change() {
    let once = made((0, 0));
    let mut other = tables(&[(1, MAP)], MOVED);
    for packet in once.chunks(188).skip(2) {
        let mut packet = packet.to_vec();
        match u16::from_be_bytes([packet[1] & 0x1f, packet[2]]) {
            SOUND => packet[2] = MOVED as u8,
            0 | MAP => continue,
            _ => {}
        }
        other.extend(packet);
    }
    let file = [once.clone(), other.clone()].concat();
    let entries = entries(&index(&file));
    let noted: Vec<u64> = entries.tables.iter().map(|tables| tables.place).collect();
    // The packet after the PAT.
    let changed = once.len() as u64 + 188;
    assert_eq!(noted, [0, changed]);
    let packets = &entries.tables[1].packets;
    assert_eq!(carried(&packets[188..]), carried(&other[188..376]));
    assert_eq!(entries.tables_at(changed - 1), Some(0));
    assert_eq!(entries.tables_at(changed), Some(1));
}

#[test]
fn programmes_are_counted_that_have_a_map() {
    let file = made((0, 0));
    let rest = &file[2 * 188..];
    let of = |tables: Vec<u8>| entries(&index(&[&tables[..], rest].concat())).programmes;
    assert_eq!(of(tables(&[(1, MAP), (2, 0x1001)], SOUND)), 2);
    let listed = tables(&[(1, MAP), (2, 0x1001)], SOUND);
    assert_eq!(of(listed[..2 * 188].to_vec()), 1, "listed only");
}

#[test]
fn a_stream_with_scrambled_packets_says_so_unless_they_are_strays() {
    let file = made((0, 0));
    let packets = file.len() / 188;
    let scrambled = |most: usize| {
        let mut file = file.clone();
        let sound = |packet: &&mut [u8]| packet[2] == SOUND as u8;
        let packets = file.chunks_mut(188).filter(sound).take(most);
        packets.for_each(|packet| packet[3] |= 0x80);
        entries(&index(&file)).is_scrambled
    };
    assert!(!scrambled(packets / 100) && scrambled(packets / 100 + 1));
}

#[test]
fn what_another_server_sends_is_checked() {
    let file = made((0, 0));
    let (own, len) = (index(&file), file.len() as u64);
    assert_eq!(sent(&own, len, |_| ()).expect("an index"), own);
    let refused = |change: fn(&mut EntryPoints)| {
        let changed = |index: &mut Index| {
            change(index.title.entry_points.as_mut().expect("entry points"));
        };
        sent(&own, len, changed).expect_err("what cannot be")
    };
    let words = refused(|entries| {
        let first = entries.points.first().expect("one");
        entries.points.push(first);
    });
    assert!(words.contains("entry points out of order"), "{words}");
    let tables: [fn(&mut EntryPoints); 4] = [
        |entries| entries.tables[0].packets.push(0),
        |entries| entries.tables[0].packets.clear(),
        |entries| entries.tables[0].packets = vec![0; 13 * 188],
        |entries| entries.tables = vec![entries.tables[0].clone(); 257],
    ];
    for change in tables {
        let words = refused(change);
        assert!(words.contains("tables that cannot be"), "{words}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn however_a_stream_is_cut_entry_points_are_samples_of_it_and_of_the_picture(
        pictures in prop::collection::vec(prop::collection::vec(200usize..3000, 1..3), 28..60),
        turns in prop::collection::vec(0u8..9, 1..9),
        holes in prop::collection::vec((20usize..2000, 1usize..400), 0..4),
        times in 1usize..3,
    ) {
        let sounds = vec![90; pictures.len() * 2];
        let (whole, _) = film(&pictures, &sounds, 5, &turns, (0, 0));
        let mut file = whole.repeat(times);
        for (at, bytes) in holes {
            let at = (at * 188).min(file.len());
            file.splice(at..at, vec![3; bytes]);
        }
        let index = index(&file);
        let Some(entries) = index.title.entry_points.as_deref() else {
            return Ok(());
        };
        let (_, picture) = index.title.video().expect("a picture");
        let points: Vec<EntryPoint> = entries.points.iter().collect();
        prop_assert!(points.is_sorted_by(|a, b| a.place < b.place && a.sample < b.sample));
        for entry in points {
            prop_assert!(entry.sample < picture.samples);
            let packet = &file[entry.place as usize..][..188];
            prop_assert!(packet[0] == 0x47 && packet[1] == 0x41);
        }
        prop_assert_eq!(sent(&index, file.len() as u64, |_| ()), Ok(index.clone()));
    }
}
