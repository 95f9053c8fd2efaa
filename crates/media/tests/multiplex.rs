//! Generated transport streams, indexed as one track of all their packets.

mod made;
mod sent;

use std::ops::Range;

use made::{FIRST_CLOCK, film};
use proptest::prelude::*;
use reelway_media::{
    Codec, Filled, Filling, Index, IndexOptions, STEP, Sample, Samples, Track, index_with,
};
use sent::sent;

fn index(file: &[u8]) -> Index {
    let read = |range: Range<u64>, bytes: &mut Vec<u8>| {
        bytes.extend(&file[range.start as usize..range.end as usize]);
        Ok(())
    };
    index_with(read, file.len() as u64, IndexOptions::default()).expect("an index")
}

/// The track of all packets, and its samples.
fn multiplex(index: &Index) -> (Track, Vec<Sample>) {
    let track = index.title.multiplex.as_deref().expect("a multiplex");
    let mut samples = Vec::new();
    let number = index.title.tracks.len();
    let all = index.tables.read(number, 0..track.samples, &mut samples);
    all.expect("samples");
    (track.clone(), samples)
}

/// The positions of the packets that begin pictures at which decoders can start.
fn syncs(file: &[u8]) -> Vec<usize> {
    let starts = |packet: &[u8]| packet[1] == 0x41 && packet[2] == 0 && packet[3] & 0x10 != 0;
    let packets = file.chunks(188).enumerate();
    let pictures = packets.filter(|(_, packet)| starts(packet));
    pictures.step_by(8).map(|(nth, _)| nth * 188).collect()
}

#[test]
fn all_packets_from_the_first_picture_on_are_sent_as_they_are_stated() {
    let (file, _) = film(&vec![vec![4000]; 200], &[90; 375], 5, &[1, 0, 2], (0, 0));
    let index = index(&file);
    let (track, samples) = multiplex(&index);
    // One for each stated time, and one for each picture at which decoders can start, except for
    // the first.
    let syncs = syncs(&file);
    assert_eq!(
        (index.title.notes.len(), track.samples, track.timescale),
        (0, 224, 90_000)
    );
    let Codec::TransportStream(tables) = &track.codec else {
        panic!("{:?}", track.codec);
    };
    assert_eq!(tables[..], file[..2 * 188], "PAT and PMT");
    let sent: Vec<u8> = samples
        .iter()
        .flat_map(|sample| file[sample.offset as usize..][..sample.size as usize].to_vec())
        .collect();
    assert_eq!(sent, file[syncs[0]..], "all packets, in their order");
    let begin: Vec<usize> = samples
        .iter()
        .filter(|sample| sample.sync)
        .map(|sample| sample.offset as usize)
        .collect();
    assert_eq!(begin, syncs, "pictures that decoders can start at");
    // A separate packet states the time before each picture: every 3,600 ticks.
    let states = |packet: &[u8]| packet[3] & 0x30 == 0x20;
    let clocks = file
        .chunks(188)
        .enumerate()
        .filter(|(_, packet)| states(packet));
    let clocks: Vec<u64> = clocks.map(|(nth, _)| nth as u64 * 188).collect();
    let mut at = 0;
    for sample in &samples {
        let stated = clocks.partition_point(|clock| *clock <= sample.offset) as i64 - 1;
        // The first sample begins one packet after the first time.
        let around = 3600 * stated - 200..=3600 * (stated + 1) + 200;
        assert!(
            around.contains(&at),
            "{sample:?} at {at}, not in {around:?}"
        );
        at += i64::from(sample.duration);
    }
    assert_eq!(
        track.groups.get(0).map(|group| track.decode(group.dts)),
        Some(0)
    );
    let title = index
        .title
        .as_transport_stream()
        .expect("a transport stream");
    assert_eq!((title.view, title.tracks.len()), (None, 1));
    let apart = (title.duration - 8_000_000_000).abs();
    assert!(apart < 10_000_000, "{} ns", title.duration);
    const {
        assert!(
            FIRST_CLOCK + 200 * 3600 > 1 << 33,
            "the time begins again meanwhile"
        )
    };
}

#[test]
fn bytes_between_packets_are_not_sent() {
    let (whole, _) = film(&vec![vec![900]; 40], &[90; 75], 5, &[1, 0, 2], (0, 0));
    let mut file = whole[..188 * 100].to_vec();
    file.extend([1; 77]);
    file.extend(&whole[188 * 100..]);
    file.extend([2; 50]);
    let (_, samples) = multiplex(&index(&file));
    let sent: Vec<u8> = samples
        .iter()
        .flat_map(|sample| file[sample.offset as usize..][..sample.size as usize].to_vec())
        .collect();
    assert_eq!(sent, whole[syncs(&whole)[0]..]);
}

/// Bytes before and after each packet.
const AROUND: [(usize, usize); 2] = [(4, 0), (0, 16)];

/// The whole view of the unmodified transport stream, made in parts of `part` bytes.
fn packets(file: &[u8], index: &Index, part: u64) -> Vec<u8> {
    let title = index.title.as_transport_stream().expect("one");
    let bytes = title.view.expect("a view").bytes;
    let (mut all, mut room) = (Vec::new(), Vec::new());
    while (all.len() as u64) < bytes {
        let at = all.len() as u64;
        let range = at..(at + part).min(bytes);
        let mut into = vec![0xaa; (range.end - range.start) as usize];
        let filling = Filling::new(&title, &index.tables, file.len() as u64, range);
        let mut filling = filling.expect("samples").expect("a view");
        loop {
            let wanted = filling.wanted();
            let bytes = &file[wanted.start as usize..wanted.end as usize];
            match filling.fill(bytes, &mut into, &mut room) {
                Filled::Whole => break,
                Filled::More => assert!(filling.wanted().end > wanted.end),
                Filled::Different => panic!("another film from byte {at} of the view on"),
            }
        }
        all.extend(into);
    }
    all
}

#[test]
fn packets_with_something_between_them_are_sent_from_a_view_like_those_without() {
    let made = |around| film(&vec![vec![9000]; 100], &[90; 188], 5, &[1, 0, 2], around).0;
    let plain = made((0, 0));
    let (own, samples) = multiplex(&index(&plain));
    for around in AROUND {
        let file = made(around);
        let index = index(&file);
        let (track, others) = multiplex(&index);
        assert_eq!(others, samples, "{around:?}");
        assert_eq!((&track.groups, &track.codec), (&own.groups, &own.codec));
        let view = index.title.multiplex_view.expect("a view");
        assert_eq!(
            (view.bytes, view.file),
            (plain.len() as u64, file.len() as u64)
        );
        assert!(view.bytes > 3 * STEP);
        for part in [1000, 188, STEP, 1 << 20] {
            assert!(packets(&file, &index, part) == plain, "{around:?} {part}");
        }
        let theirs = sent(&index, file.len() as u64, |_| ()).unwrap();
        assert_eq!(theirs, index);
        let longer = |index: &mut Index| {
            index.title.multiplex_view.as_mut().unwrap().bytes = file.len() as u64 + 1;
        };
        let error = sent(&index, file.len() as u64, longer).unwrap_err();
        assert!(error.contains("a view of a transport stream"), "{error}");
        let missing = |index: &mut Index| index.title.multiplex_view = None;
        assert!(sent(&index, file.len() as u64, missing).is_err());
    }
}

#[test]
fn another_file_than_the_indexed_one_gives_no_packets() {
    let (mut file, _) = film(&vec![vec![9000]; 40], &[90; 75], 5, &[1, 0, 2], (4, 0));
    let index = index(&file);
    let title = index.title.as_transport_stream().expect("one");
    let bytes = title.view.expect("a view").bytes;
    file.fill(0);
    let filling = Filling::new(&title, &index.tables, file.len() as u64, 0..bytes);
    let mut filling = filling.expect("samples").expect("a view");
    let mut into = vec![0; bytes as usize];
    let filled = loop {
        let wanted = filling.wanted();
        let bytes = &file[wanted.start as usize..wanted.end as usize];
        match filling.fill(bytes, &mut into, &mut Vec::new()) {
            Filled::More => assert!(filling.wanted().end > wanted.end),
            filled => break filled,
        }
    };
    assert_eq!(filled, Filled::Different);
}

#[test]
fn a_stream_that_does_not_state_its_time_is_not_sent_as_it_is() {
    let (mut file, _) = film(&vec![vec![900]; 40], &[90; 75], 5, &[1, 0, 2], (0, 0));
    for packet in file
        .chunks_mut(188)
        .filter(|packet| packet[3] & 0x30 == 0x20)
    {
        packet[5] = 0;
    }
    let title = index(&file).title;
    assert!(title.multiplex.is_none());
    assert_eq!(
        title.notes,
        ["it is not offered as a transport stream: it does not state its time"]
    );
}

/// Changes the packets that only state the time, by their number.
fn restate(file: &mut [u8], mut change: impl FnMut(usize, &mut [u8])) {
    let states = |packet: &&mut [u8]| packet[3] & 0x30 == 0x20;
    let clocks = file.chunks_mut(188).filter(states).enumerate();
    clocks.for_each(|(nth, packet)| change(nth, packet));
}

#[test]
fn where_the_time_is_stated_no_more_the_stream_ends_soon() {
    let (mut file, _) = film(&vec![vec![4000]; 200], &[90; 375], 5, &[1, 0, 2], (0, 0));
    restate(&mut file, |nth, packet| {
        packet[5] = if nth < 10 { 0x10 } else { 0 }
    });
    let (track, samples) = multiplex(&index(&file));
    // Ten pictures of 200, and one second more: at the beginning, audio is interleaved with them.
    let all = file.len() as u64;
    assert!(
        (all / 20..all / 3).contains(&track.bytes),
        "{} of {all} bytes",
        track.bytes
    );
    assert!(track.duration < 2 * 90_000, "{} ticks", track.duration);
    assert!(samples.iter().all(|sample| sample.size % 188 == 0));
}

#[test]
fn where_the_time_is_stated_rarely_samples_are_short_all_the_same() {
    let (mut file, _) = film(&vec![vec![30_000]; 200], &[90; 375], 5, &[1, 0, 2], (0, 0));
    restate(&mut file, |nth, packet| {
        packet[5] = if nth % 199 == 0 { 0x10 } else { 0 }
    });
    let (track, samples) = multiplex(&index(&file));
    assert!(samples.iter().all(|sample| sample.size <= 256 << 10));
    let apart = track.duration as i64 - 200 * 3600;
    assert!(apart.abs() < 3600, "{} ticks", track.duration);
    // The time hardly advances.
    let stated = FIRST_CLOCK + 3600;
    restate(&mut file, |nth, packet| {
        if nth == 199 {
            packet[6..10].copy_from_slice(&((stated >> 1) as u32).to_be_bytes());
        }
    });
    let title = index(&file).title;
    let notes =
        ["it is not offered as a transport stream: it states its time too rarely, or wrongly"];
    assert!(
        title.multiplex.is_none() && title.notes == notes,
        "{:?}",
        title.notes
    );
}

#[test]
fn another_server_learns_of_it() {
    let (file, _) = film(&vec![vec![900]; 40], &[90; 75], 5, &[1, 0, 2], (0, 0));
    let own = index(&file);
    assert_eq!(sent(&own, file.len() as u64, |_| ()).unwrap(), own);
}

#[test]
fn a_packet_with_something_else_on_either_side_is_left_out() {
    for around in AROUND {
        let stride = around.0 + 188 + around.1;
        let made = |around| film(&vec![vec![900]; 40], &[90; 75], 5, &[1, 0, 2], around).0;
        let mut whole = made((0, 0));
        whole.drain(188 * 100..188 * 101);
        let mut file = made(around);
        for at in [stride * 101, stride * 100] {
            file.splice(at..at, [3; 300]);
        }
        let index = index(&file);
        assert!(packets(&file, &index, 1000) == whole, "{around:?}");
    }
}

/// Holes before packets of these numbers, limited to `count`. A packet is confirmed by the one
/// after it, so there must be more than one packet between two holes.
fn with_packets_between(mut holes: Vec<(usize, usize)>, count: usize) -> Vec<(usize, usize)> {
    holes.iter_mut().for_each(|hole| hole.0 = hole.0.min(count));
    holes.sort_unstable();
    holes.dedup_by(|next, last| next.0 == last.0 + 1);
    holes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn however_a_stream_is_cut_its_samples_are_whole_packets_in_order(
        pictures in prop::collection::vec(prop::collection::vec(200usize..3000, 1..3), 8..60),
        turns in prop::collection::vec(0u8..9, 1..9),
        holes in prop::collection::vec((20usize..2000, 1usize..400), 0..4),
    ) {
        let sounds = vec![90; pictures.len() * 2];
        let (whole, _) = film(&pictures, &sounds, 5, &turns, (0, 0));
        let mut file = whole;
        for (at, bytes) in holes {
            let at = (at * 188).min(file.len());
            file.splice(at..at, vec![3; bytes]);
        }
        let index = index(&file);
        let Some(track) = index.title.multiplex.as_deref() else {
            return Ok(());
        };
        let mut samples = Vec::new();
        index.tables.read(index.title.tracks.len(), 0..track.samples, &mut samples).unwrap();
        let mut end = 0;
        for sample in &samples {
            prop_assert!(sample.offset >= end && sample.size > 0 && sample.size % 188 == 0);
            end = sample.offset + u64::from(sample.size);
            let packets = &file[sample.offset as usize..end as usize];
            prop_assert!(packets.chunks(188).all(|packet| packet[0] == 0x47));
        }
        prop_assert!(samples[0].sync && end <= file.len() as u64);
        let durations: u64 = samples.iter().map(|sample| u64::from(sample.duration)).sum();
        prop_assert!(durations < 90_000 * 60);
    }

    #[test]
    fn whatever_lies_between_packets_the_view_has_them_all(
        pictures in prop::collection::vec(prop::collection::vec(200usize..6000, 1..3), 8..60),
        turns in prop::collection::vec(0u8..9, 1..9),
        holes in prop::collection::vec((20usize..3000, prop_oneof![1usize..400, Just(300_000)]), 0..4),
        around in prop::sample::select(AROUND.to_vec()),
        part in 500u64..600_000,
    ) {
        let sounds = vec![90; pictures.len() * 2];
        let (whole, _) = film(&pictures, &sounds, 5, &turns, (0, 0));
        let (mut file, _) = film(&pictures, &sounds, 5, &turns, around);
        let stride = around.0 + 188 + around.1;
        let holes = with_packets_between(holes, file.len() / stride);
        // From the end, so that no hole divides a packet.
        for (at, bytes) in holes.into_iter().rev() {
            let at = at * stride;
            file.splice(at..at, vec![3; bytes]);
        }
        let index = index(&file);
        if index.title.multiplex.is_some() {
            prop_assert!(packets(&file, &index, part) == whole);
        }
    }
}
