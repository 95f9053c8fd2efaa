//! Headers of fragments.

mod common;

use common::{Made, even, film, find, gops, picture, read_back, sound, u32_at};
use reelway_package::{Options, Package, Part, Segment};

/// Returns the segments of a film's only track.
fn segments(made: Made) -> Vec<Segment> {
    let (title, tables) = film(vec![made]);
    let package = Package::new(title, &tables, Options::default()).unwrap();
    let track = &package.tracks()[0];
    track
        .numbers()
        .map(|number| track.segment(number, &tables).unwrap().unwrap())
        .collect()
}

/// Returns the flags of the first fragment's `trun` in each segment.
fn trun_flags(made: Made) -> Vec<u32> {
    let segments = segments(made);
    let flags = segments.iter().map(|segment| {
        let Part::Inline(header) = &segment.parts[1] else {
            panic!("a header follows styp");
        };
        let traf = find(&header[8..], b"traf");
        u32_at(find(traf, b"trun"), 0) & 0xff_ffff
    });
    flags.collect()
}

#[test]
fn a_header_says_sample_by_sample_only_what_differs() {
    // Always the data offset (1) and sizes (0x200). ISO/IEC 14496-12 8.8.8: 4 flags of the first sample,
    // 0x100 durations, 0x400 flags, 0x800 composition offsets.
    let sounds = even(600, 0, 300, 1024);
    assert_eq!(
        trun_flags(sound(1, 48_000, 0, sounds)),
        [0x201, 0x201, 0x201]
    );
    let mut pictures = even(300, 0, 300, 1);
    for (nth, sample) in (0..).zip(&mut pictures) {
        sample.sync = nth % 150 == 0;
    }
    assert_eq!(
        trun_flags(picture(1, 25, 0, pictures.clone())),
        [0x205, 0x205]
    );
    pictures[50].sync = true;
    pictures[299].duration = 2;
    assert_eq!(trun_flags(picture(1, 25, 0, pictures)), [0x601, 0x305]);
    // Reordered pictures: the first one is decoded at the segment's beginning, not earlier.
    assert_eq!(
        trun_flags(picture(1, 25, -1, gops(300, 150, 0, 1))),
        [0xb05, 0xb05]
    );
    assert_eq!(trun_flags(picture(1, 25, -1, gops(150, 50, 0, 1))), [0xf01]);
}

#[test]
fn a_fragment_is_full_with_1024_samples_or_a_gibibyte() {
    let read = |made| {
        let segments = segments(made);
        assert_eq!(segments.len(), 1);
        read_back(&segments[0])
    };
    let mut pictures = even(2049, 0, 300, 1);
    pictures[1..]
        .iter_mut()
        .for_each(|sample| sample.sync = false);
    let pictures = read(picture(1, 1000, 0, pictures));
    assert_eq!(pictures.tfdt, [0, 1024, 2048]);
    assert_eq!(
        pictures.samples.iter().filter(|sample| sample.sync).count(),
        1
    );
    let mut samples = even(9, 0, 0, 1024);
    for (nth, sample) in (0..).zip(&mut samples) {
        (sample.offset, sample.size) = (nth << 28, 1 << 28);
    }
    assert_eq!(
        read(sound(1, 48_000, 0, samples)).tfdt,
        [0, 4 * 1024, 8 * 1024]
    );
}
