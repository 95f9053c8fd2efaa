//! Tests demand against sums made sample by sample.

use proptest::prelude::*;
use reelway_media::{
    Codec, Group, GroupPackets, H264Config, OpusConfig, Packets, SECOND, Sample, SampleTable,
    Track as FilmTrack,
};

use super::*;
use crate::curve::BINS;

/// Bytes of a block of the pool.
const BLOCK: u64 = 256 << 10;
const READING: Reading = Reading {
    block: BLOCK,
    ahead: SECOND,
};

/// Ticks per second of all tracks.
const SCALE: u32 = 1000;

/// A picture: its bytes, its duration in ms, and whether it is a sync sample.
type Frame = (u32, u32, bool);

fn track(id: u32, kind: Kind, frames: &[Frame], from: u64, shift: i64) -> (FilmTrack, SampleTable) {
    let mut table = SampleTable::with_capacity(frames.len());
    let (mut groups, mut dts, mut offset) = (Vec::<Group>::new(), 0i64, from);
    for (nth, (size, duration, sync)) in frames.iter().enumerate() {
        let sync = *sync || nth == 0;
        table.push(Sample {
            offset,
            size: *size,
            duration: *duration,
            cts: 0,
            sync,
        });
        match groups.last_mut().filter(|_| !sync) {
            Some(group) => {
                group.count += 1;
                group.bytes += size;
            }
            None => groups.push(Group {
                first: nth as u32,
                count: 1,
                dts,
                cts: 0,
                bytes: *size,
                sync,
            }),
        }
        dts += i64::from(*duration);
        offset += u64::from(*size);
    }
    let codec = match kind {
        Kind::Video => Codec::H264(H264Config {
            fourcc: *b"avc1",
            length_size: 4,
            profile: [100, 0, 30],
            sps: Vec::new(),
            pps: Vec::new(),
        }),
        Kind::Audio => Codec::Opus(OpusConfig {
            channels: 2,
            pre_skip: 0,
            input_rate: 48_000,
        }),
    };
    let track = FilmTrack {
        shift,
        samples: frames.len() as u32,
        bytes: offset - from,
        duration: dts as u64,
        groups: groups.into_iter().collect(),
        ..FilmTrack::new(id, kind, codec, SCALE)
    };
    (track, table)
}

fn frames(most: u32) -> impl Strategy<Value = Vec<Frame>> {
    prop::collection::vec((0..most, 1u32..700, prop::bool::weighted(0.2)), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_byte_and_every_packets_headers_are_counted_once_in_the_quarter_second_they_are_due(
        picture in frames(60_000), sound in frames(1200), shift in -2000i64..2000,
    ) {
        let of_picture: u64 = picture.iter().map(|(size, ..)| u64::from(*size)).sum();
        let (first, first_table) = track(1, Kind::Video, &picture, 1000, shift);
        let (second, second_table) = track(2, Kind::Audio, &sound, 1000 + of_picture, 0);
        let title = Title::new(vec![first, second]);
        let payload = PayloadOptions::default();
        let demand = Demand::of(&title, &vec![first_table, second_table], payload, READING).unwrap();

        // From the groups alone: the same bytes, and nearly the same number of packets.
        let rough = Demand::rough(&title, payload, READING);
        prop_assert_eq!(rough.disk().total(), demand.disk().total());
        prop_assert_eq!(rough.disk().bins().len(), demand.disk().bins().len());

        // In runs: never less in any second, and hardly more at the most.
        let coarse = demand.coarse(8);
        let pairs = [
            ((*coarse.disk()).clone(), (*demand.disk()).clone()),
            ((*coarse.memory()).clone(), (*demand.memory()).clone()),
            (coarse.wire(&[0, 1], Carriage::Tcp), demand.wire(&[0, 1], Carriage::Tcp)),
            (coarse.wire(&[1], Carriage::UdpV6), demand.wire(&[1], Carriage::UdpV6)),
        ];
        for (more, less) in pairs {
            prop_assert_eq!(more.len(), less.len());
            // Headers round up to whole bytes, by one or two per quarter second.
            let second = |bins: &[u32]| bins.iter().map(|bin| u64::from(*bin)).sum::<u64>() + 8;
            let (more, less) = (more.bins(), less.bins());
            for (more, less) in more.windows(BINS).zip(less.windows(BINS)) {
                prop_assert!(second(more) >= second(less) - 8, "{:?} {:?}", more, less);
            }
        }

        // From the disk: each of the film's bytes once, when its sample is due.
        let disk = demand.disk();
        prop_assert_eq!(disk.bins().len() as i64, title.duration / BIN + 1);
        let last = disk.bins().len() - 1;
        let mut wanted = vec![0u64; last + 1];
        for (frames, shift) in [(&picture, shift), (&sound, 0)] {
            let mut dts = 0;
            for (size, duration, _) in frames {
                let due = (dts + shift).max(0) as usize * (SECOND / i64::from(SCALE)) as usize;
                wanted[(due / BIN as usize).min(last)] += u64::from(*size);
                dts += i64::from(*duration);
            }
        }
        // Sound is packed with what comes before it, and may leave at that frame's time.
        let all: u64 = wanted.iter().sum();
        prop_assert_eq!(disk.total(), all);
        let mut of_film = 0;
        for (at, wanted) in wanted.iter().enumerate() {
            of_film += wanted;
            let due: u64 = disk.bins()[..=at].iter().map(|bin| u64::from(*bin)).sum();
            prop_assert!(due >= of_film, "late at {}", at);
        }

        // On the wire: never less than the bytes and, for the picture, all headers of the fewest
        // packets.
        let picture_only = demand.wire(&[0], Carriage::UdpV4);
        let headers = u64::from(12 + 8 + 20 + ETHERNET);
        let fewest: u64 = picture
            .iter()
            .map(|(size, ..)| u64::from(*size).div_ceil(payload.max_payload as u64))
            .sum();
        prop_assert!(picture_only.total() >= of_picture + fewest * headers);
        // At most one packet more per picture, one per sync sample, and what the fragments' headers
        // take.
        let most = fewest + 3 * picture.len() as u64 + fewest / 400;
        prop_assert!(picture_only.total() <= of_picture + most * headers);

        // Longer headers cost more, and tracks add up.
        let (v4, v6) = (demand.wire(&[0, 1], Carriage::UdpV4), demand.wire(&[0, 1], Carriage::UdpV6));
        for (v4, v6) in v4.bins().into_iter().zip(v6.bins()) {
            prop_assert!(v6 >= v4);
        }
        let sound_only = demand.wire(&[1], Carriage::UdpV4);
        prop_assert_eq!(v4.total(), picture_only.total() + sound_only.total());
        prop_assert_eq!(&v4, &demand.wire(&[1, 0, 1], Carriage::UdpV4), "in any order");
    }

    #[test]
    fn memory_holds_at_every_moment_what_is_being_sent(picture in frames(60_000)) {
        let (film, table) = track(1, Kind::Video, &picture, 12_345, 0);
        let duration = film.decode(film.duration as i64);
        let groups: Vec<_> = film.groups.iter().collect();
        let ends = |nth: usize| groups.get(nth + 1).map_or(duration, |next| i64::from(next.dts as i32) * SECOND / i64::from(SCALE));
        let title = Title::new(vec![film]);
        let demand = Demand::of(&title, &vec![table], PayloadOptions::default(), READING).unwrap();
        let held = demand.memory();
        let mut largest = 0;
        for (nth, group) in groups.iter().enumerate() {
            largest = largest.max(u64::from(group.bytes));
            let start = group.dts * SECOND / i64::from(SCALE);
            for bin in start / BIN..ends(nth) / BIN {
                // The bins of a second add up to the level.
                let level = u64::from(held.bins()[bin as usize]) * BINS as u64;
                prop_assert!(level >= u64::from(group.bytes), "group {} in bin {}", nth, bin);
            }
        }
        // The VODCA paper's rule: two of the largest, all the time.
        let two = demand.two_groups();
        prop_assert!(u64::from(two.least()) >= 2 * largest || two.bins().len() < BINS);
    }
}

#[test]
fn a_block_that_sound_and_picture_share_is_held_once() {
    // A group of half a block per quarter second, and sound that begins where a picture lies.
    let frames = |size: u32| vec![(size, 250, true); 40];
    let half = BLOCK as u32 / 2;
    let (picture, picture_table) = track(1, Kind::Video, &frames(half), 0, 0);
    let (sound, sound_table) = track(2, Kind::Audio, &frames(100), 0, 0);
    let title = Title::new(vec![picture, sound]);
    let payload = PayloadOptions::default();
    let demand = Demand::of(&title, &vec![picture_table, sound_table], payload, READING).unwrap();
    // All the sound is in the first block. Of the picture, a group is held and the next one, and
    // where one ends and another begins, both of them: at most two blocks.
    for level in demand.memory().bins() {
        let blocks = u64::from(level) * BINS as u64 / BLOCK;
        assert!((1..=3).contains(&blocks), "{blocks} blocks");
    }
}

#[test]
fn the_next_group_is_held_from_when_it_is_read() {
    // Groups of 256 pictures, ten seconds and four blocks each.
    let frames: Vec<Frame> = (0..1024).map(|n| (4096, 40, n % 256 == 0)).collect();
    let (film, table) = track(1, Kind::Video, &frames, 0, 0);
    let title = Title::new(vec![film]);
    let levels = |ahead| {
        let reading = Reading {
            block: BLOCK,
            ahead,
        };
        let payload = PayloadOptions::default();
        let demand = Demand::of(&title, &vec![table.clone()], payload, reading).unwrap();
        demand.memory().bins()
    };
    let (late, early) = (levels(2 * SECOND), levels(60 * SECOND));
    let at = |bins: &[u32], second: usize| u64::from(bins[second * BINS]) * BINS as u64;
    assert_eq!(at(&late, 5) * 2, at(&early, 5), "one group, and two");
    assert_eq!(at(&late, 9), at(&early, 9), "it has been read");
}

#[test]
fn a_film_whose_index_is_short_of_samples_is_told() {
    let (film, _) = track(1, Kind::Video, &[(10, 40, true), (10, 40, false)], 0, 0);
    let title = Title::new(vec![film]);
    assert!(
        Demand::of(
            &title,
            &vec![SampleTable::default()],
            PayloadOptions::default(),
            READING
        )
        .is_err()
    );
}

#[test]
fn all_of_a_file_is_read_whose_view_is_smaller() {
    let sample = |nth: u64| Sample {
        offset: nth * 1000,
        size: 1000,
        duration: 3600,
        cts: 0,
        sync: true,
    };
    let mut table = SampleTable::default();
    (0..100).for_each(|nth| table.push(sample(nth)));
    let group = |nth: u32| Group {
        first: nth * 25,
        count: 25,
        dts: i64::from(nth) * 90_000,
        cts: 0,
        bytes: 25_000,
        sync: true,
    };
    let track = FilmTrack {
        samples: 100,
        bytes: 100_000,
        duration: 360_000,
        groups: (0..4).map(group).collect(),
        ..FilmTrack::new(256, Kind::Audio, Codec::Flac, 90_000)
    };
    let mut title = Title::new(vec![track]);
    title.view = Some(reelway_media::View {
        bytes: 100_000,
        file: 400_000,
        packet: 188,
    });
    let demand = Demand::of(&title, &vec![table], PayloadOptions::default(), READING).unwrap();
    assert_eq!(demand.disk().total(), 400_000);
    assert!(demand.coarse(4).disk().total() >= 400_000);
}

#[test]
fn a_film_whose_packets_were_counted_needs_these_and_no_others() {
    let frames: Vec<Frame> = (0..100).map(|n| (4000, 40, n % 10 == 0)).collect();
    let (mut film, table) = track(1, Kind::Video, &frames, 0, 0);
    // Pictures of many slices, each in a packet of its own.
    film.packets = Packets {
        payload: PayloadOptions::default().max_payload as u32,
        groups: (0..10)
            .map(|number| GroupPackets {
                packets: 200 + number,
                bytes: 39_000,
                sync_packets: 20,
                sync_bytes: 3900,
            })
            .collect(),
    };
    let packets = (0..10).map(|number| 200 + number).sum::<u64>();
    let wire = |payload| {
        let title = Title::new(vec![film.clone()]);
        let demand = Demand::of(&title, &vec![table.clone()], payload, READING).unwrap();
        let rough = Demand::rough(&title, payload, READING);
        let total = |demand: &Demand| demand.wire(&[0], Carriage::UdpV4).total();
        (total(&demand), total(&rough))
    };
    let headers = 12 + 8 + 20 + u64::from(ETHERNET);
    let exact = 390_000 + packets * headers;
    assert_eq!(wire(PayloadOptions::default()), (exact, exact));
    // The counts do not apply to other packets: three per picture, and one more for each sync
    // sample.
    let smaller = PayloadOptions::for_mtu(1480);
    assert_eq!(wire(smaller).0, 400_000 + 310 * headers);
}
