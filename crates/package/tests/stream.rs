//! Transport streams in segments that are slices of them.

mod common;

use std::ops::Range;
use std::sync::Arc;

use common::{Made, film, picture};
use proptest::prelude::*;
use reelway_media::{
    Codec, Container, EntryPoint, EntryPoints, Kind, SECOND, Sample, SampleTable, Samples,
    SamplesError, StreamTables, Title, Track,
};
use reelway_package::{
    Links, NoSlices, Options, Package, Part, Recording, SlicedStream, stream_multivariant_playlist,
    stream_playlist,
};
use reelway_time::Real;

/// Ticks per picture, at 25 per second.
const TICKS: u32 = 3600;
/// Pictures from one entry point to the next.
const GROUP: u32 = 25;
/// Samples of the stream per group.
const RUNS: u32 = 5;
/// Size of such a sample in bytes.
const RUN: u32 = 188 * 7;

/// Returns a transport stream of this many groups of a second. Its packets begin after other
/// packets, and in the middle of each group there are `hole` bytes that belong to no packet.
fn stream(groups: u32, hole: u64) -> (Title, Vec<SampleTable>) {
    let samples = (0..groups * GROUP).map(|nth| Sample {
        offset: u64::from(nth) * 1000,
        size: 1000,
        duration: TICKS,
        cts: 0,
        sync: nth % GROUP == 0,
    });
    let made: Made = picture(0x100, 90_000, 0, samples.collect());
    let (title, mut tables) = film(vec![made]);
    let mut title = Title::clone(&title);
    title.container = Container::TransportStream;
    let mut track = Track::new(0, Kind::Video, Codec::TransportStream(Vec::new()), 90_000);
    let (mut table, mut at) = (SampleTable::default(), 5 * 188);
    let mut points = Vec::new();
    for group in 0..groups {
        points.push(EntryPoint {
            place: at,
            sample: group * GROUP,
            jumps: false,
        });
        for run in 0..RUNS {
            at += if run == 2 { hole } else { 0 };
            table.push(Sample {
                offset: at,
                size: RUN,
                duration: TICKS * GROUP / RUNS,
                cts: 0,
                sync: run == 0,
            });
            at += u64::from(RUN);
        }
    }
    track.samples = table.len();
    tables.push(table);
    title.multiplex = Some(Box::new(track));
    title.entry_points = Some(Box::new(EntryPoints {
        points: points.into_iter().collect(),
        tables: vec![tables_at(0)],
        programmes: 1,
        is_scrambled: false,
    }));
    (title, tables)
}

fn tables_at(place: u64) -> StreamTables {
    StreamTables {
        place,
        packets: vec![0x47; 2 * 188],
    }
}

/// Changes or removes entry points one by one.
fn change(title: &mut Title, mut change: impl FnMut(EntryPoint) -> Option<EntryPoint>) {
    let entries = title.entry_points.as_mut().expect("entry points");
    entries.points = entries.points.iter().filter_map(&mut change).collect();
}

/// The samples of the stream only.
#[derive(Debug)]
struct Alone<'a>(&'a [SampleTable]);

impl Samples for Alone<'_> {
    fn read(
        &self,
        track: usize,
        range: Range<u32>,
        out: &mut Vec<Sample>,
    ) -> Result<(), SamplesError> {
        assert_eq!(track, 0);
        self.0[1..].to_vec().read(0, range, out)
    }
}

fn cut(title: &Title, tables: &[SampleTable]) -> Result<(Package, SlicedStream), NoSlices> {
    let tables = tables.to_vec();
    let package = Package::new(Arc::new(title.clone()), &tables, Options::default());
    let package = package.expect("a package");
    let stream = SlicedStream::new(&package, &tables)?;
    Ok((package, stream))
}

/// Returns the seconds at which segments begin.
fn starts(stream: &SlicedStream) -> Vec<f64> {
    let starts = stream.numbers().filter_map(|number| stream.start(number));
    starts.map(|start| start as f64 / SECOND as f64).collect()
}

/// Returns the ranges of the stream that make up a part of a segment.
fn ranges(
    stream: &SlicedStream,
    number: u32,
    range: Range<u64>,
    tables: &[SampleTable],
) -> Vec<Range<u64>> {
    let mut slices = stream.slices(number, range).expect("a segment");
    let mut ranges: Vec<Range<u64>> = Vec::new();
    while let Some(segment) = slices.next(&Alone(tables)).expect("samples") {
        assert!(segment.len > 0);
        for part in segment.parts {
            let Part::Film(part) = part else {
                panic!("nothing is made: {part:?}");
            };
            match ranges.last_mut() {
                Some(last) if last.end == part.start => last.end = part.end,
                _ => ranges.push(part),
            }
        }
    }
    ranges
}

#[test]
fn segments_begin_where_those_of_the_picture_do() {
    let (title, tables) = stream(20, 0);
    let (package, stream) = cut(&title, &tables).expect("slices");
    let picture = &package.tracks()[0];
    assert_eq!(starts(&stream), [0.0, 6.0, 12.0, 18.0]);
    for number in stream.numbers() {
        assert_eq!(stream.start(number), picture.start(number));
        assert_eq!(stream.duration(number), picture.duration(number));
    }
    let group = u64::from(RUNS * RUN);
    assert_eq!(stream.segment_len(1), Some(6 * group));
    assert_eq!(stream.segment_len(4), Some(2 * group));
    assert_eq!((stream.segment_len(0), stream.segment_len(5)), (None, None));
    let first = 5 * 188;
    assert_eq!(
        ranges(&stream, 2, 0..u64::MAX, &tables),
        vec![Range {
            start: first + 6 * group,
            end: first + 12 * group,
        }]
    );
    assert_eq!(
        stream_multivariant_playlist(
            &package,
            &stream,
            Links {
                playlists: Some("s=t"),
                ..Links::default()
            }
        ),
        // Six groups of one second each, with five times 1,316 bytes.
        "#EXTM3U\n#EXT-X-VERSION:6\n#EXT-X-INDEPENDENT-SEGMENTS\n\
         #EXT-X-STREAM-INF:BANDWIDTH=52640,AVERAGE-BANDWIDTH=52640,CODECS=\"avc1.64001f\",RESOLUTION=1280x720,\
         FRAME-RATE=25.000\nsegments.m3u8?s=t\n"
    );
    assert_eq!(
        stream_playlist(
            &stream,
            Links {
                segments: Some("v=1"),
                ..Links::default()
            }
        ),
        "#EXTM3U\n#EXT-X-VERSION:6\n#EXT-X-TARGETDURATION:6\n#EXT-X-MEDIA-SEQUENCE:1\n#EXT-X-PLAYLIST-TYPE:VOD\n\
         #EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-MAP:URI=\"tables-1.ts?v=1\"\n#EXTINF:6.0,\n1.ts?v=1\n#EXTINF:6.0,\n\
         2.ts?v=1\n#EXTINF:6.0,\n3.ts?v=1\n#EXTINF:2.0,\n4.ts?v=1\n#EXT-X-ENDLIST\n"
    );
}

#[test]
fn bytes_that_belong_to_no_packet_are_left_out() {
    let (title, tables) = stream(8, 77);
    let (_, stream) = cut(&title, &tables).expect("slices");
    let run = u64::from(RUN);
    assert_eq!(stream.segment_len(1), Some(6 * 5 * run));
    let first = 5 * 188;
    assert_eq!(
        ranges(&stream, 1, 0..3 * run, &tables),
        [
            first..first + 2 * run,
            first + 2 * run + 77..first + 3 * run + 77
        ]
    );
}

#[test]
fn a_segment_begins_anew_behind_a_jump_and_a_change_of_the_tables() {
    let (mut title, tables) = stream(20, 0);
    change(&mut title, |entry| {
        let jumps = entry.sample == 8 * GROUP;
        Some(EntryPoint { jumps, ..entry })
    });
    let entries = title.entry_points.as_mut().expect("entry points");
    // In the middle of the sixteenth group.
    let place = 5 * 188 + 15 * u64::from(RUNS * RUN) + 188;
    entries.tables.push(tables_at(place));
    let (_, stream) = cut(&title, &tables).expect("slices");
    assert_eq!(starts(&stream), [0.0, 6.0, 8.0, 12.0, 16.0, 18.0]);
    let playlist = stream_playlist(&stream, Links::default());
    let lines: Vec<&str> = playlist.lines().skip(6).collect();
    assert_eq!(
        lines,
        [
            "#EXT-X-MAP:URI=\"tables-1.ts\"",
            "#EXTINF:6.0,",
            "1.ts",
            "#EXTINF:2.0,",
            "2.ts",
            "#EXT-X-DISCONTINUITY",
            "#EXT-X-MAP:URI=\"tables-1.ts\"",
            "#EXTINF:4.0,",
            "3.ts",
            "#EXTINF:4.0,",
            "4.ts",
            "#EXT-X-DISCONTINUITY",
            "#EXT-X-MAP:URI=\"tables-2.ts\"",
            "#EXTINF:2.0,",
            "5.ts",
            "#EXTINF:2.0,",
            "6.ts",
            "#EXT-X-ENDLIST",
        ]
    );
    assert!(stream.tables(2).is_some() && stream.tables(3).is_none());
    assert!(stream.tables(0).is_none());
}

#[test]
fn a_segment_goes_on_where_no_packet_begins_with_the_next_ones_picture() {
    let (mut title, tables) = stream(20, 0);
    change(&mut title, |entry| {
        (entry.sample != 12 * GROUP).then_some(entry)
    });
    let (_, stream) = cut(&title, &tables).expect("slices");
    assert_eq!(starts(&stream), [0.0, 6.0, 18.0]);
    // The first segment begins at the first possible place.
    change(&mut title, |entry| {
        (entry.sample >= 2 * GROUP).then_some(entry)
    });
    let (_, stream) = cut(&title, &tables).expect("slices");
    assert_eq!(starts(&stream), [2.0, 6.0, 18.0]);
    assert_eq!(stream.segment_len(1), Some(4 * u64::from(RUNS * RUN)));
}

#[test]
fn what_goes_on_for_long_behind_the_last_picture_is_in_the_last_segment() {
    let (mut title, mut tables) = stream(20, 0);
    let track = title.multiplex.as_mut().expect("a stream");
    tables[1].push(Sample {
        offset: 1 << 30,
        size: RUN,
        duration: 90_000 * 60,
        cts: 0,
        sync: false,
    });
    track.samples += 1;
    let (_, stream) = cut(&title, &tables).expect("slices");
    assert_eq!(stream.duration(4), Some(62 * SECOND));
    assert_eq!(stream.segment_len(4), Some(u64::from((2 * RUNS + 1) * RUN)));
}

#[test]
fn of_a_recording_the_segments_are_listed_whose_ends_are_known() {
    let (title, tables) = stream(20, 0);
    let (package, stream) = cut(&title, &tables).expect("slices");
    assert_eq!((stream.settled(), package.tracks()[0].settled()), (3, 3));
    let links = Links {
        recording: Some(Recording {
            began: Real::from_nanos(0),
            now: Real::from_nanos(1),
        }),
        ..Links::default()
    };
    let playlist = stream_playlist(&stream, links);
    assert!(
        playlist.contains("#EXT-X-PLAYLIST-TYPE:EVENT\n"),
        "{playlist}"
    );
    assert!(playlist.contains("#EXT-X-TARGETDURATION:9\n"), "{playlist}");
    assert!(playlist.ends_with("#EXTINF:6.0,\n3.ts\n"), "{playlist}");
    // A segment that continues past a possible beginning becomes final later.
    let mut title = title;
    change(&mut title, |entry| {
        (entry.sample != 18 * GROUP).then_some(entry)
    });
    let (_, stream) = cut(&title, &tables).expect("slices");
    assert_eq!((stream.settled(), starts(&stream).len()), (2, 3));
}

/// A change to the index of a stream.
type Change = fn(&mut EntryPoints);

#[test]
fn films_that_cannot_be_offered_so_say_why() {
    let (title, tables) = stream(20, 0);
    let why = |change: fn(&mut Title)| {
        let mut title = title.clone();
        change(&mut title);
        cut(&title, &tables).expect_err("no slices").to_string()
    };
    let of = |change: Change, title: &mut Title| {
        change(title.entry_points.as_mut().expect("entry points"));
    };
    let words = [
        (
            why(|title| title.container = Container::Mp4),
            "it is no transport stream",
        ),
        (
            why(|title| title.multiplex = None),
            "its packets cannot be sent as they are (see the film's notes)",
        ),
        (
            why(|title| title.entry_points = None),
            "its packets cannot be sent as they are (see the film's notes)",
        ),
    ];
    for (said, words) in words {
        assert_eq!(said, words);
    }
    let changes: [(Change, &str); 4] = [
        (
            |entries| entries.programmes = 3,
            "it has 3 programmes, and HLS allows one",
        ),
        (
            |entries| entries.is_scrambled = true,
            "its packets are encrypted",
        ),
        (
            |entries| entries.points = Vec::<EntryPoint>::new().into_iter().collect(),
            "no key frame begins with a packet of its own",
        ),
        (
            // Places of another stream.
            |entries| {
                entries.points = [EntryPoint {
                    place: 1,
                    sample: 0,
                    jumps: false,
                }]
                .into_iter()
                .collect();
            },
            "no key frame begins with a packet of its own",
        ),
    ];
    for (change, words) in changes {
        let mut title = title.clone();
        of(change, &mut title);
        let said = cut(&title, &tables).expect_err("no slices").to_string();
        assert_eq!(said, words);
    }
}

proptest! {
    #[test]
    fn whatever_entry_points_there_are_segments_are_the_stream_from_the_first_on(
        groups in 1u32..60,
        hole in prop_oneof![Just(0u64), 1u64..500],
        kept in prop::collection::vec(any::<bool>(), 60),
        jumps in prop::collection::vec(prop::bool::weighted(0.1), 60),
        change_at in prop::option::of(0u64..500_000),
        part in (0u64..300_000, 1u64..300_000),
    ) {
        let (mut title, tables) = stream(groups, hole);
        change(&mut title, |entry| {
            let nth = (entry.sample / GROUP) as usize;
            kept[nth].then_some(EntryPoint { jumps: jumps[nth], ..entry })
        });
        if let Some(place) = change_at {
            title.entry_points.as_mut().expect("entries").tables.push(tables_at(place));
        }
        let points: Vec<EntryPoint> = title.entry_points.as_ref().expect("entries").points.iter().collect();
        let Ok((package, stream)) = cut(&title, &tables) else {
            prop_assert!(points.is_empty());
            return Ok(());
        };
        // All bytes from the first on, whatever range of a segment is requested.
        let all: Vec<Sample> = tables[1].iter().collect();
        let first = points[0].place;
        let expected: u64 = all.iter().filter(|sample| sample.offset >= first).map(|sample| u64::from(sample.size)).sum();
        let lengths: u64 = stream.numbers().filter_map(|number| stream.segment_len(number)).sum();
        prop_assert_eq!(lengths, expected);
        let mut at = first;
        for number in stream.numbers() {
            let whole = ranges(&stream, number, 0..u64::MAX, &tables);
            let len = stream.segment_len(number).expect("its length");
            prop_assert_eq!(whole.iter().map(|range| range.end - range.start).sum::<u64>(), len);
            // Each range begins where the last one ended, except for holes.
            for range in &whole {
                prop_assert!(range.start == at || range.start == at + hole);
                at = range.end;
            }
            prop_assert!(points.iter().any(|entry| entry.place == whole[0].start));
            let (from, to) = (part.0.min(len), (part.0 + part.1).min(len));
            let bytes = |ranges: &[Range<u64>]| ranges.iter().flat_map(|range| range.clone()).collect::<Vec<_>>();
            let asked = ranges(&stream, number, from..to, &tables);
            prop_assert_eq!(bytes(&asked), &bytes(&whole)[from as usize..to as usize]);
        }
        let starts = starts(&stream);
        prop_assert!(starts.is_sorted());
        let durations: i64 = stream.numbers().filter_map(|number| stream.duration(number)).sum();
        prop_assert_eq!(durations + stream.start(1).expect("the first"), package.duration());
        prop_assert!(stream.settled() < starts.len() as u32 || starts.is_empty());
        // After each jump, except the first entry's own, a segment begins with a discontinuity.
        let playlist = stream_playlist(&stream, Links::default());
        let anew = playlist.matches("#EXT-X-DISCONTINUITY").count();
        let jumped = points.iter().skip(1).filter(|entry| entry.jumps).count();
        prop_assert!((jumped..=jumped + 1).contains(&anew), "{} {}", anew, jumped);
    }
}
