//! Films and plain files to be sent: where a play begins, and what its groups are.

use std::path::PathBuf;
use std::sync::Arc;

use reelway_media::{
    AacConfig, Codec, Group, H264Config, Kind, Nanos, SECOND, Sample, SampleTable, Title, Track,
};
use reelway_playout::{Beginning, Cut, Outline, TrackBeginning};
use reelway_rtp::PayloadOptions;

const MS: Nanos = SECOND / 1000;

fn track(kind: Kind, codec: Codec, shift: i64) -> Track {
    Track {
        shift,
        ..Track::new(1, kind, codec, 1000)
    }
}

/// A track of samples of equal duration in milliseconds, in groups of equal numbers of samples.
fn of(mut track: Track, count: u32, millis: u32, per_group: u32, cts: i32) -> (Track, SampleTable) {
    let mut table = SampleTable::default();
    let is_picture = track.kind == Kind::Video;
    for number in 0..count {
        table.push(Sample {
            offset: u64::from(number) * 1000 + 5000,
            size: 100,
            duration: millis,
            cts,
            sync: !is_picture || number % per_group == 0,
        });
    }
    let groups = (0..count).step_by(per_group as usize).map(|first| Group {
        first,
        count: per_group.min(count - first),
        dts: i64::from(first * millis),
        cts,
        bytes: 100 * per_group.min(count - first),
        sync: true,
    });
    track.groups = groups.collect();
    (track.samples, track.duration) = (count, u64::from(count * millis));
    (track, table)
}

/// 10 s of pictures of 40 ms with a sync sample each second; each is shown 80 ms after
/// it is decoded.
fn pictures(shift: i64) -> (Track, SampleTable) {
    let codec = Codec::H264(H264Config {
        fourcc: *b"avc1",
        length_size: 4,
        profile: [100, 0, 30],
        sps: Vec::new(),
        pps: Vec::new(),
    });
    of(track(Kind::Video, codec, shift - 80), 250, 40, 25, 80)
}

/// Access units of 20 ms; those of the first 50 ms are not heard.
fn sound(count: u32) -> (Track, SampleTable) {
    let codec = Codec::Aac(AacConfig {
        config: vec![0x11, 0x90],
        object_type: 2,
        rate: 1000,
        channels: 2,
        frame_length: 20,
    });
    of(track(Kind::Audio, codec, -50), count, 20, 50, 0)
}

fn film(tracks: Vec<(Track, SampleTable)>) -> (Title, Vec<SampleTable>) {
    let (tracks, tables) = tracks.into_iter().unzip();
    let title = Title {
        duration: 10 * SECOND,
        ..Title::new(tracks)
    };
    (title, tables)
}

/// Where the tracks begin: the time, and the group and due time of each, in milliseconds.
fn begin(
    (title, tables): &(Title, Vec<SampleTable>),
    tracks: &[usize],
    wish: Nanos,
) -> (Nanos, Vec<Option<(usize, Nanos)>>) {
    let Beginning { at, tracks } = Beginning::find(title, tables, tracks, wish).unwrap();
    let track = |track: TrackBeginning| (track.group, track.due / MS);
    (
        at / MS,
        tracks.into_iter().map(|it| it.map(track)).collect(),
    )
}

#[test]
fn a_play_begins_with_the_sync_sample_at_or_before_the_wish_and_sound_from_there_on() {
    let film = film(vec![pictures(0), sound(500)]);
    for (wish, at, picture, sound) in [
        (0, 0, (0, -80), (0, -50)),
        (-5 * SECOND, 0, (0, -80), (0, -50)),
        (SECOND - 1, 0, (0, -80), (0, -50)),
        (SECOND, 1000, (1, 920), (1, 1010)),
        (1500 * MS, 1000, (1, 920), (1, 1010)),
        (9999 * MS, 9000, (9, 8920), (9, 9010)),
        (99 * SECOND, 9000, (9, 8920), (9, 9010)),
    ] {
        let expected = (at, vec![Some(picture), Some(sound)]);
        assert_eq!(begin(&film, &[0, 1], wish), expected, "{wish} ns");
        let expected = (at, vec![Some(sound), Some(picture)]);
        assert_eq!(begin(&film, &[1, 0], wish), expected, "the picture leads");
    }
}

#[test]
fn sound_alone_begins_with_the_access_unit_at_or_before_the_wish() {
    let film = film(vec![pictures(0), sound(500)]);
    for (wish, at, sound) in [
        (110 * MS, 110, (0, 110)),
        (129 * MS, 110, (0, 110)),
        (130 * MS, 130, (0, 130)),
        // The unit at -10 ms is played at 0, preceded by the units that its decoder needs.
        (5 * MS, -10, (0, -50)),
    ] {
        assert_eq!(
            begin(&film, &[1], wish),
            (at, vec![Some(sound)]),
            "{wish} ns"
        );
    }
}

#[test]
fn a_picture_that_begins_late_keeps_sound_from_nothing() {
    // The first picture is shown at 500 ms.
    let film = film(vec![pictures(500), sound(500)]);
    for (wish, at, sound) in [
        (0, 0, (0, -50)),
        (300 * MS, 300, (0, 310)),
        (500 * MS, 500, (0, 510)),
    ] {
        let expected = (at, vec![Some((0, 420)), Some(sound)]);
        assert_eq!(begin(&film, &[0, 1], wish), expected, "{wish} ns");
    }
}

#[test]
fn a_second_picture_begins_with_its_own_sync_sample_before_the_first_one_s() {
    let film = film(vec![pictures(0), pictures(-300), sound(500)]);
    // Its sync samples are shown at 700, 1700 ms …
    let expected = (
        2000,
        vec![Some((2, 1920)), Some((2, 1620)), Some((2, 2010))],
    );
    assert_eq!(begin(&film, &[0, 1, 2], 2500 * MS), expected);
}

#[test]
fn a_track_that_has_ended_is_not_there_or_is_empty_has_no_beginning() {
    let film = film(vec![pictures(0), sound(100), sound(0)]);
    let expected = (5000, vec![Some((5, 4920)), None, None, None]);
    assert_eq!(begin(&film, &[0, 1, 2, 9], 5 * SECOND), expected);
    assert_eq!(begin(&film, &[2], SECOND), (1000, vec![None]));
    assert_eq!(begin(&film, &[9], SECOND), (1000, vec![None]));
    assert_eq!(begin(&film, &[], SECOND), (1000, vec![]));
}

#[test]
fn a_film_without_any_sync_sample_begins_with_its_first() {
    let (mut track, _) = pictures(0);
    let mut table = SampleTable::default();
    for number in 0..250 {
        table.push(Sample {
            offset: number * 1000,
            size: 100,
            duration: 40,
            cts: 80,
            sync: false,
        });
    }
    let groups: Vec<Group> = track.groups.iter().collect();
    let groups = groups.into_iter().map(|group| Group {
        sync: false,
        ..group
    });
    track.groups = groups.collect();
    let film = film(vec![(track, table)]);
    assert_eq!(begin(&film, &[0], 3 * SECOND), (0, vec![Some((0, -80))]));
}

fn outline(tracks: Vec<(Track, SampleTable)>, ahead: Nanos) -> Outline {
    let (title, tables) = film(tracks);
    let path = PathBuf::from("a/film.mp4");
    let options = PayloadOptions::default();
    Outline::film(Arc::new(title), Arc::new(tables), path, options, ahead)
}

#[test]
fn a_film_s_outline_has_its_groups_with_their_times() {
    let outline = outline(vec![pictures(0), sound(500)], 2 * SECOND);
    assert_eq!(
        (outline.groups(0), outline.groups(1), outline.groups(2)),
        (10, 10, 0)
    );
    assert!(outline.is_picture(0) && !outline.is_picture(1) && !outline.is_picture(2));
    assert_eq!(outline.duration(), 10 * SECOND);
    assert_eq!(outline.group_due(0, 3), 2920 * MS);
    assert_eq!(outline.group_due(1, 9), 8950 * MS);
    assert_eq!(outline.group_due(0, 10), Nanos::MAX);
    assert_eq!(outline.group_due(2, 0), Nanos::MAX);
    assert_eq!(
        (outline.rtp_time(0, SECOND), outline.rtp_time(1, SECOND)),
        (90_000, 1000)
    );
    assert_eq!(outline.rtp_time(2, SECOND), 0);
    assert_eq!(outline.ahead(), 2 * SECOND);
    assert!(
        outline
            .payload(2)
            .unwrap_err()
            .contains("no track number 2")
    );
}

#[test]
fn sound_alone_is_not_sent_ahead() {
    assert_eq!(outline(vec![sound(500)], 2 * SECOND).ahead(), 0);
}

#[test]
fn the_peak_rate_is_that_of_the_densest_group_over_its_time() {
    // Groups of 25 samples of 100 bytes per second; the last one ends with the film, 80 ms later.
    let even = outline(vec![pictures(0)], 0);
    assert_eq!(even.peak_rate(0), 2500);
    let (mut track, table) = pictures(0);
    let groups: Vec<Group> = track.groups.iter().collect();
    let groups = groups.into_iter().map(|mut group| {
        if group.first == 75 {
            group.bytes = 40_000;
        }
        group
    });
    track.groups = groups.collect();
    let uneven = outline(vec![(track, table)], 0);
    assert_eq!((uneven.peak_rate(0), uneven.peak_rate(1)), (40_000, 0));
    // A last group with one sample of 20 ms counts as 100 ms long.
    let (mut track, table) = sound(501);
    track.shift = 0;
    let short = outline(vec![(track, table)], 0);
    assert_eq!(short.peak_rate(0), 5000);
    let file = Outline::file(Cut::new(0..100_000, 1000, 2 * MS, 90));
    assert_eq!(file.peak_rate(0), 500_000);
}

#[test]
fn what_is_read_for_a_group_reaches_from_its_first_byte_to_its_last() {
    let film = outline(vec![pictures(0)], 0);
    let wanted = film.wanted((0, 1)).unwrap();
    // Samples 25 to 49, 1000 bytes apart.
    assert_eq!(wanted.range, 30_000..54_100);
    assert_eq!(wanted.samples.len(), 25);
    assert_eq!(wanted.samples[1].dts, 1040);
    assert!(film.wanted((0, 10)).is_err());
    let missing = film.wanted((3, 0)).unwrap();
    assert_eq!((missing.range, missing.samples.len()), (0..0, 0));
}

#[test]
fn a_film_is_sent_ahead_only_if_that_is_allowed() {
    // Each sample is a NAL unit of 96 bytes after its length.
    let mut bytes = vec![0; 5000 + 250 * 1000];
    for number in 0..250 {
        let unit = 5000 + number * 1000;
        bytes[unit..unit + 5].copy_from_slice(&[0, 0, 0, 96, 0x65]);
    }
    let plan = |ahead, group| {
        let film = outline(vec![pictures(0)], ahead);
        let wanted = film.wanted((0, group)).unwrap();
        film.plan((0, group), &wanted.samples, &bytes.as_slice(), wanted.range)
            .unwrap()
    };
    let own = plan(0, 2);
    assert_eq!((own.plan.frames.len(), own.leaving.len()), (25, 0));
    assert_eq!(own.range, 55_000..79_100);
    let ahead = plan(2 * SECOND, 2);
    assert_eq!((ahead.plan.frames.len(), ahead.leaving.len()), (25, 25));
    for (leaving, frame) in ahead.leaving.iter().zip(&ahead.plan.frames) {
        assert_eq!(leaving.due, frame.due);
        assert!(leaving.first <= leaving.last && leaving.last <= leaving.due);
        assert!(leaving.first >= leaving.due - 2 * SECOND);
    }
}

/// 601 packets, the last of a single byte: two groups of 256 and one of 89.
fn file() -> Outline {
    Outline::file(Cut::new(100..600_101, 1000, 2 * MS, 90))
}

#[test]
fn a_plain_file_is_cut_into_groups_of_256_packets() {
    let file = file();
    assert_eq!((file.groups(0), file.duration()), (3, 1202 * MS));
    assert_eq!(
        (file.group_due(0, 1), file.group_due(0, 2)),
        (512 * MS, 1024 * MS)
    );
    let range = |group| file.wanted((0, group)).unwrap().range;
    assert_eq!(
        (range(0), range(1), range(2)),
        (100..256_100, 256_100..512_100, 512_100..600_101)
    );
    assert_eq!(range(3), 600_101..600_101);
    assert_eq!(
        (file.rtp_time(0, 3 * MS), file.rtp_time(0, -2 * MS)),
        (135, 0u32.wrapping_sub(90))
    );
    let group_at = |at| file.locate(&[0], at).unwrap().tracks[0].unwrap().group;
    for (at, group) in [
        (-SECOND, 0),
        (0, 0),
        (512 * MS - 1, 0),
        (512 * MS, 1),
        (1024 * MS, 2),
        (99 * SECOND, 2),
    ] {
        assert_eq!(group_at(at), group, "{at} ns");
    }
    let began = file.locate(&[0], -SECOND).unwrap();
    assert_eq!((began.at, began.tracks[0].unwrap().due), (0, 0));
}

#[test]
fn the_packets_of_a_plain_file_follow_each_other_and_the_last_is_shorter() {
    let file = file();
    let made = file.plan((0, 2), &[], &&[][..], 512_100..600_101).unwrap();
    let (packets, frames) = (&made.plan.packets, &made.plan.frames);
    assert_eq!((packets.len(), frames.len()), (89, 89));
    let run = |nth: usize| packets[nth].run().expect("a run").1;
    assert_eq!(
        (run(0), run(1), run(88)),
        (512_100..513_100, 513_100..514_100, 600_100..600_101)
    );
    let frame = |nth: usize| {
        (
            frames[nth].due,
            frames[nth].rtp_time,
            frames[nth].packets.clone(),
        )
    };
    assert_eq!(frame(0), (1024 * MS, 512 * 90, 0..1));
    assert_eq!(frame(88), (1200 * MS, 600 * 90, 88..89));
    assert!(
        frames
            .iter()
            .all(|frame| frame.duration == 2 * MS && frame.shown == frame.due)
    );
}

#[test]
fn a_group_of_a_plain_file_has_a_quarter_of_a_mebibyte_at_most() {
    let groups = |packet| Outline::file(Cut::new(0..1 << 20, packet, MS, 1)).groups(0);
    // 256 packets of 1024 bytes; 255 of 1025; one packet that is larger than a group.
    assert_eq!((groups(1024), groups(1025)), (4, 5));
    assert_eq!((groups(300_000), groups(1 << 30)), (4, 1));
}

#[test]
fn a_file_without_bytes_or_without_time_does_no_harm() {
    let empty = Outline::file(Cut::new(50..50, 0, MS, 1));
    assert_eq!((empty.groups(0), empty.duration()), (0, 0));
    assert_eq!(empty.locate(&[0], SECOND).unwrap().tracks, [None]);
    let at_once = Outline::file(Cut::new(0..1 << 20, 1000, 0, 1));
    assert_eq!((at_once.duration(), at_once.rtp_time(0, SECOND)), (0, 0));
    assert_eq!(
        at_once.locate(&[0], SECOND).unwrap().tracks[0]
            .unwrap()
            .group,
        0
    );
}
