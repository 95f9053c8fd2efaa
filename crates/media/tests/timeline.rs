//! Edit lists, priming, and the beginning of a film's timeline.

mod common;

use common::*;
use reelway_media::Index;

/// The presentation ticks of a track's samples.
fn times(index: &Index, track: usize) -> Vec<i64> {
    samples(index, track)
        .iter()
        .map(|sample| sample.2)
        .collect()
}

fn indexed(tracks: &[Track]) -> Index {
    index(&write(tracks).0).unwrap()
}

/// I B P B P …: decoded I P B, offset by one picture as B-pictures require.
fn reordered(count: usize, gop: usize) -> Track {
    Track::picture(1, count, gop).with_cts(|n| {
        if n == 0 {
            40
        } else {
            [80, 0][n % 2] + if n % 2 == 1 { 40 } else { 0 }
        }
    })
}

#[test]
fn a_film_begins_at_zero_with_its_first_picture_with_and_without_edit_list() {
    for edits in [vec![], vec![(1200, 40)]] {
        let mut picture = reordered(30, 30);
        picture.edits = edits;
        let index = indexed(&[picture]);
        assert_eq!(index.title.tracks[0].shift, -40);
        assert_eq!(times(&index, 0)[0], 0);
    }
}

#[test]
fn priming_sound_lies_before_zero() {
    for priming in [1024, 2112, 312] {
        let mut sound = Track::sound(2, 100);
        sound.edits = vec![(2200, priming)];
        for tracks in [
            vec![Track::picture(1, 30, 12), sound.clone()],
            vec![sound.clone()],
        ] {
            let index = indexed(&tracks);
            let heard = times(&index, tracks.len() - 1);
            assert_eq!(
                (heard[0], heard.len()),
                (-priming, 100),
                "{} tracks",
                tracks.len()
            );
        }
    }
}

#[test]
fn sound_that_comes_late_stays_late() {
    let mut sound = Track::sound(2, 10);
    sound.edits = vec![(700, -1), (300, 1024)];
    let index = indexed(&[Track::picture(1, 30, 12), sound]);
    assert_eq!(times(&index, 1)[1], 48000 * 7 / 10);
}

#[test]
fn sound_that_begins_well_before_the_picture_begins_the_film() {
    let mut picture = reordered(30, 12);
    picture.edits = vec![(500, -1), (1200, 40)];
    let index = indexed(&[picture.clone(), Track::sound(2, 100)]);
    assert_eq!((times(&index, 0)[0], times(&index, 1)[0]), (500, 0));
    assert_eq!(index.title.tracks[1].samples, 100);

    // A few frames before it only prime the decoder.
    picture.edits = vec![(80, -1), (1200, 40)];
    let index = indexed(&[picture, Track::sound(2, 100)]);
    assert_eq!((times(&index, 0)[0], times(&index, 1)[0]), (0, -3840));
}

#[test]
fn a_film_that_starts_in_mid_gop_begins_with_the_sync_picture_before() {
    // Sync pictures at 0, 480, 960 ms; the edits start at 700 ms in video and audio.
    let mut picture = Track::picture(1, 40, 12);
    picture.edits = vec![(900, 700)];
    let mut sound = Track::sound(2, 100);
    sound.edits = vec![(1500, 700 * 48)];
    let index = indexed(&[picture, sound]);
    assert_eq!(
        (index.title.tracks[0].shift, times(&index, 0)[0]),
        (-480, 0)
    );
    assert_eq!(
        index.title.tracks[0].samples,
        40 - 12,
        "the GOP before is gone, the rest of this one stays"
    );
    // The offset between audio and video is unchanged: media time 480 ms is 0 for both.
    let sound = &index.title.tracks[1];
    assert_eq!(sound.shift, -480 * 48);
    // Frame 22 ends at 23,552 ticks, the first after 23,040: five before it are kept.
    assert_eq!(times(&index, 1)[0], (22 - 5) * 1024 - 480 * 48);
    assert_eq!(index.title.notes.len(), 2, "{:?}", index.title.notes);
}

#[test]
fn pictures_of_an_open_gop_that_are_shown_before_its_sync_picture_are_kept() {
    // Each GOP: I at offset 80, then two pictures that are presented before it.
    let picture = Track::picture(1, 24, 6).with_cts(|n| {
        if n % 6 == 0 {
            80
        } else if n % 6 < 3 {
            -40
        } else {
            0
        }
    });
    let mut tracks = [picture];
    tracks[0].edits = vec![(720, 6 * 40 + 80)];
    let index = indexed(&tracks);
    assert_eq!(index.title.tracks[0].samples, 18);
    assert_eq!(times(&index, 0)[..4], [0, -80, -40, 40]);
}

#[test]
fn what_the_edit_list_cuts_off_at_the_end_is_left_out() {
    let mut picture = Track::picture(1, 40, 12);
    picture.edits = vec![(1000, 0)];
    let mut sound = Track::sound(2, 100);
    sound.edits = vec![(1000, 1024)];
    let index = indexed(&[picture, sound]);
    assert_eq!(
        index.title.tracks[0].samples, 26,
        "25 pictures, and one that begins within a tick of the end"
    );
    assert_eq!(
        index.title.tracks[1].samples, 48,
        "48,000 ticks from 1,024 on"
    );
    assert!(
        index.title.notes[0].contains("14 pictures that its edit list cuts off"),
        "{:?}",
        index.title.notes
    );
}

#[test]
fn of_several_edits_the_first_is_followed_to_the_end_of_the_media() {
    let mut picture = Track::picture(1, 40, 12);
    picture.edits = vec![(200, 480), (200, 960)];
    let index = indexed(&[picture]);
    assert_eq!(
        (times(&index, 0)[0], index.title.tracks[0].samples),
        (0, 28)
    );
    assert!(
        index
            .title
            .notes
            .iter()
            .any(|note| note.contains("of its 2 edits the first is followed"))
    );
}

#[test]
fn odd_edit_lists_do_no_harm() {
    // Empty; length 0; to the end by the highest number; only a pause; beyond the media.
    for edits in [
        vec![(0, 0)],
        vec![(u64::MAX, 0)],
        vec![(500, -1)],
        vec![(1000, 99_999)],
        vec![(1600, 0), (10, -1)],
    ] {
        let mut picture = Track::picture(1, 40, 12);
        picture.edits = edits.clone();
        let index = indexed(&[picture]);
        assert_eq!(
            (times(&index, 0)[0], index.title.tracks[0].samples),
            (0, 40),
            "{edits:?}"
        );
    }
}

#[test]
fn of_two_pictures_the_enabled_one_sets_the_beginning() {
    let mut late = Track::picture(1, 30, 12);
    late.enabled = false;
    late.edits = vec![(1000, -1), (1200, 0)];
    let index = indexed(&[late, Track::picture(2, 30, 12)]);
    assert_eq!((times(&index, 0)[0], times(&index, 1)[0]), (1000, 0));
    assert_eq!(index.title.video().unwrap().0, 1);
    assert_eq!(index.title.duration, 2_200_000_000);
}

#[test]
fn sound_over_before_the_first_picture_is_the_films_beginning() {
    let mut picture = Track::picture(1, 30, 12);
    picture.edits = vec![(5000, -1), (1200, 0)];
    let index = indexed(&[picture, Track::sound(2, 10)]);
    assert_eq!((times(&index, 0)[0], times(&index, 1)[0]), (5000, 0));
}

#[test]
fn a_picture_track_without_sync_samples_begins_with_its_first() {
    let picture = Track::picture(1, 30, 30).with_table(table(b"stss", 0, 0, &[]));
    let index = indexed(&[picture]);
    assert!(index.title.tracks[0].groups.first().unwrap().sync);
    assert!(
        index.title.notes[0].contains("no sync sample"),
        "{:?}",
        index.title.notes
    );
}

#[test]
fn times_that_no_film_has_are_refused() {
    let mut sound = Track::sound(2, 10);
    sound.timescale = 1;
    sound
        .samples
        .iter_mut()
        .for_each(|spec| spec.duration = u32::MAX / 2);
    let error = index(&write(&[sound]).0).unwrap_err();
    assert!(error.problem.contains("which is no film"), "{error}");
    assert_eq!(error.path, "moov/trak (track_ID 2)");
}
