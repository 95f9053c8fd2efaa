//! Timestamps and departure times over a long film.

mod common;

use common::{Film, aac, h264, payload, track};
use reelway_media::SECOND;

/// Ten hours in seconds.
const TEN_HOURS: i64 = 36_000;

#[test]
fn a_film_of_ten_hours_does_not_drift() {
    // 24 to 30 pictures per second in various timescales, such as the usual 30,000.
    for (timescale, ticks) in [
        (30_000u32, 1001i64),
        (24_000, 1001),
        (1_000_000, 33_367),
        (15_360, 512),
    ] {
        let pictures = TEN_HOURS * i64::from(timescale) / ticks;
        let payload = payload(&track(h264(4), timescale), 1440);
        let mut film = Film::of_nals(&[vec![vec![0x65, 1]]], 4, ticks as u32);
        for nth in (0..pictures).step_by(9973).chain([pictures - 1, pictures]) {
            film.samples[0].dts = nth * ticks;
            let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
            let exact = nth as f64 * ticks as f64 * 90_000.0 / f64::from(timescale);
            let off = i64::from(
                plan.frames[0]
                    .rtp_time
                    .wrapping_sub(exact.round() as i64 as u32) as i32,
            );
            assert!(
                off.abs() <= 1,
                "picture {nth} of {timescale} is {off} ticks off"
            );
            let due = nth as i128 * i128::from(ticks) * i128::from(SECOND) / i128::from(timescale);
            assert!((i128::from(plan.frames[0].due) - due).abs() <= 1);
        }
    }
}

#[test]
fn sound_counted_in_its_own_rate_is_exact_to_the_end() {
    let payload = payload(&track(aac(44_100, 2), 44_100), 1440);
    let units = TEN_HOURS * 44_100 / 1024;
    let mut film = Film::of(&[vec![1; 100]], 1024);
    film.samples[0].dts = units * 1024;
    let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
    assert_eq!(plan.frames[0].rtp_time, (units * 1024) as u32);
}

#[test]
fn timestamps_are_presentation_times_and_departures_decode_times() {
    let mut track = track(h264(4), 25);
    track.shift = -2;
    let mut film = Film::of_nals(&vec![vec![vec![0x65, 1]]; 4], 4, 1);
    for (timed, cts) in film.samples.iter_mut().zip([2, 4, 1, 1]) {
        timed.sample.cts = cts;
    }
    let plan = payload(&track, 1440)
        .plan(&film.samples, &film.bytes.as_slice())
        .unwrap();
    let times: Vec<u32> = plan.frames.iter().map(|frame| frame.rtp_time).collect();
    assert_eq!(times, [0, 3 * 3600, 3600, 2 * 3600]);
    let due: Vec<i64> = plan
        .frames
        .iter()
        .map(|frame| frame.due / (SECOND / 25))
        .collect();
    assert_eq!(due, [-2, -1, 0, 1]);
    let shown: Vec<i64> = plan
        .frames
        .iter()
        .map(|frame| frame.shown / (SECOND / 25))
        .collect();
    assert_eq!(shown, [0, 3, 1, 2]);
    assert!(
        plan.frames
            .iter()
            .all(|frame| frame.duration == SECOND / 25)
    );
    assert!(plan.frames[0].sync && !plan.frames[1].sync);
}

#[test]
fn times_at_the_edge_of_what_can_be_counted_do_no_harm() {
    let mut film = Film::of_nals(&[vec![vec![0x65, 1]]], 4, u32::MAX);
    for (dts, cts, shift) in [
        (i64::MAX, i32::MAX, i64::MAX),
        (i64::MIN, i32::MIN, i64::MIN),
        (i64::MAX, 0, -1),
    ] {
        film.samples[0].dts = dts;
        film.samples[0].sample.cts = cts;
        for timescale in [0, 1, u32::MAX] {
            let mut track = track(h264(4), timescale);
            track.shift = shift;
            let plan = payload(&track, 1440)
                .plan(&film.samples, &film.bytes.as_slice())
                .unwrap();
            assert!(plan.frames[0].duration >= 0);
        }
    }
}

#[test]
fn the_timestamp_of_a_moment_is_that_of_a_picture_shown_then() {
    let payload = payload(&track(h264(4), 30_000), 1440);
    assert_eq!(payload.rtp_time(0), 0);
    assert_eq!(payload.rtp_time(10 * SECOND), 900_000);
    assert_eq!(payload.rtp_time(-SECOND), 0u32.wrapping_sub(90_000));
}
