//! AAC and Opus: what goes in as access units comes out as the same ones at the same times.

mod common;

use common::{Film, aac, opus, payload, receive, send, track};
use proptest::prelude::*;
use reelway_rtp::{Payload, PayloadOptions, PlanError};

proptest! {
    #[test]
    fn aac_arrives_as_it_was(
        sizes in prop::collection::vec(prop_oneof![4 => 0usize..400, 1 => 0usize..8192], 1..80),
        max_payload in 16usize..2000,
    ) {
        let units: Vec<Vec<u8>> = (0..).zip(&sizes).map(|(nth, size)| common::noise(nth, *size)).collect();
        let film = Film::of(&units, 1024);
        let plan = payload(&track(aac(48_000, 2), 48_000), max_payload)
            .plan(&film.samples, &film.bytes.as_slice())
            .unwrap();
        let packets = send(&plan, &film.bytes);
        prop_assert!(packets.iter().all(|packet| packet.payload.len() <= max_payload));
        let expected: Vec<(u32, Vec<u8>)> =
            (0..).zip(units).map(|(nth, unit)| (nth * 1024, unit)).filter(|(_, unit)| !unit.is_empty()).collect();
        prop_assert_eq!(receive::aac(&packets, 1024), expected);
    }

    #[test]
    fn a_coarse_timescale_moves_no_access_unit_by_more_than_a_tick_of_its_own(
        timescale in prop::sample::select(vec![600u32, 1000, 1_000_000, 90_000]),
        begin in 0u64..40_000_000,
    ) {
        // A film whose sound counts in other ticks than its samples, 36,000 s in.
        let at = |nth: u64| (nth * 1024 * u64::from(timescale) / 44_100) as i64;
        let mut film = Film::of(&vec![vec![7; 100]; 50], 0);
        for (nth, timed) in (begin..).zip(&mut film.samples) {
            timed.dts = at(nth);
            timed.sample.duration = (at(nth + 1) - at(nth)) as u32;
        }
        let payload = payload(&track(aac(44_100, 2), timescale), 1440);
        let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
        let received = receive::aac(&send(&plan, &film.bytes), 1024);
        let tick = 44_100 / timescale as i64 + 1;
        prop_assert_eq!(received.len(), 50);
        prop_assert!(plan.packets.len() <= 20, "they still share packets: {}", plan.packets.len());
        for (timed, (timestamp, _)) in film.samples.iter().zip(received) {
            let exact = reelway_media::rescale(timed.dts, timescale, 44_100);
            let off = i64::from((exact as u32).wrapping_sub(timestamp) as i32);
            prop_assert!(off.abs() <= tick, "{off} ticks off");
        }
    }

    #[test]
    fn opus_arrives_as_it_was(sizes in prop::collection::vec(0usize..1440, 1..80)) {
        let units: Vec<Vec<u8>> = (0..).zip(&sizes).map(|(nth, size)| common::noise(nth, *size)).collect();
        let film = Film::of(&units, 960);
        let plan = payload(&track(opus(2), 48_000), 1440).plan(&film.samples, &film.bytes.as_slice()).unwrap();
        let packets = send(&plan, &film.bytes);
        let received: Vec<(u32, Vec<u8>)> = packets.into_iter().map(|p| (p.timestamp, p.payload)).collect();
        let expected: Vec<(u32, Vec<u8>)> =
            (0..).zip(units).map(|(nth, unit)| (nth * 960, unit)).filter(|(_, unit)| !unit.is_empty()).collect();
        prop_assert_eq!(received, expected);
    }

    #[test]
    fn noise_for_opus_is_planned_or_refused(packet in prop::collection::vec(any::<u8>(), 0..4000)) {
        let film = Film::of(&[packet], 960);
        let plan = payload(&track(opus(2), 48_000), 500).plan(&film.samples, &film.bytes.as_slice());
        if let Ok(plan) = plan {
            prop_assert!(send(&plan, &film.bytes).iter().all(|packet| packet.payload.len() <= 500));
        }
    }
}

#[test]
fn aac_units_share_a_packet_for_a_tenth_of_a_second_at_most() {
    for (rate, most) in [(96_000, 9), (48_000, 4), (44_100, 4), (8_000, 1)] {
        let film = Film::of(&vec![vec![1; 20]; 100], 1024);
        let plan = payload(&track(aac(rate, 2), rate), 1440)
            .plan(&film.samples, &film.bytes.as_slice())
            .unwrap();
        assert_eq!(plan.frames.len(), 100usize.div_ceil(most), "{rate} Hz");
        let first = &plan.frames[0];
        assert_eq!(
            first.duration,
            reelway_media::ticks_to_nanos(most as i64 * 1024, rate)
        );
    }
}

#[test]
fn a_gap_in_the_sound_ends_the_packet_because_a_receiver_could_not_know_of_it() {
    let mut film = Film::of(&vec![vec![1; 20]; 4], 1024);
    film.samples[1].sample.duration = 3000;
    for timed in &mut film.samples[2..] {
        timed.dts += 3000 - 1024;
    }
    let plan = payload(&track(aac(48_000, 2), 48_000), 1440)
        .plan(&film.samples, &film.bytes.as_slice())
        .unwrap();
    let times: Vec<u32> = plan.frames.iter().map(|frame| frame.rtp_time).collect();
    assert_eq!(times, [0, 1024 + 3000]);
}

#[test]
fn sound_that_primes_its_decoder_has_a_time_before_zero() {
    let mut track = track(aac(48_000, 2), 48_000);
    track.shift = -1024;
    let film = Film::of(&vec![vec![1; 2000]; 2], 1024);
    let plan = payload(&track, 1440)
        .plan(&film.samples, &film.bytes.as_slice())
        .unwrap();
    assert_eq!(plan.frames[0].rtp_time, 0u32.wrapping_sub(1024));
    assert!(plan.frames[0].shown < 0);
    assert_eq!(plan.frames[1].rtp_time, 0);
}

#[test]
fn an_access_unit_longer_than_thirteen_bits_tell_is_refused() {
    let film = Film::of(&[vec![0; 8192]], 1024);
    let error = payload(&track(aac(48_000, 2), 48_000), 1440)
        .plan(&film.samples, &film.bytes.as_slice())
        .unwrap_err();
    assert_eq!(
        error,
        PlanError::UnitTooLong {
            offset: common::HEAD as u64,
            length: 8192,
            most: 8191
        }
    );
}

#[test]
fn sound_with_sbr_is_clocked_as_the_film_counts_it() {
    // Counted in the rate of what is heard, 2048 ticks a unit; or in the core coder's, 1024.
    for (timescale, unit) in [(48_000, 2048), (24_000, 1024)] {
        let payload = payload(&track(aac(24_000, 5), timescale), 1440);
        assert_eq!(payload.clock_rate(), timescale);
        assert!(
            payload
                .sdp()
                .fmtp
                .contains(&format!("constantDuration={unit};"))
        );
        let film = Film::of(&vec![vec![1; 20]; 2], unit);
        let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
        assert_eq!(plan.frames.len(), 1, "both share a packet");
    }
}

/// Cuts an Opus packet of three frames, each `len` bytes, code 3 with the given flags.
fn three_frames(vbr: bool, padding: usize, len: usize) -> Vec<u8> {
    let mut packet = vec![
        0xfc | 3,
        3 | (u8::from(vbr) << 7) | (u8::from(padding > 0) << 6),
    ];
    if padding > 0 {
        packet.push(padding as u8);
    }
    if vbr {
        for _ in 0..2 {
            packet.extend([252 + (len % 4) as u8, ((len - 252 - len % 4) / 4) as u8]);
        }
    }
    for nth in 0..3 {
        packet.extend(vec![nth; len]);
    }
    packet.extend(vec![0xff; padding]);
    packet
}

#[test]
fn an_opus_packet_longer_than_a_payload_is_sent_as_its_frames() {
    for (vbr, padding) in [(false, 0), (false, 9), (true, 0), (true, 200)] {
        let film = Film::of(&[three_frames(vbr, padding, 600)], 2880);
        let plan = payload(&track(opus(2), 48_000), 1440)
            .plan(&film.samples, &film.bytes.as_slice())
            .unwrap();
        let packets = send(&plan, &film.bytes);
        assert_eq!(packets.len(), 3);
        for (nth, packet) in (0u8..).zip(&packets) {
            assert_eq!(packet.timestamp, u32::from(nth) * 960);
            assert_eq!(packet.payload[0], 0xfc, "one frame of the same kind");
            assert_eq!(packet.payload[1..], vec![nth; 600]);
        }
        assert_eq!(plan.frames[2].due, 40_000_000);
    }
}

#[test]
fn what_rtp_cannot_carry_is_refused_with_words_that_say_what_to_use() {
    let reason = |codec| {
        Payload::new(&track(codec, 48_000), PayloadOptions::default())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        reason(reelway_media::Codec::Av1(vec![])),
        "AV1 cannot be sent over RTP yet; HLS and DASH play this film"
    );
    assert!(
        reason(reelway_media::Codec::Eac3).starts_with("Enhanced AC-3 cannot be sent over RTP yet")
    );
    assert!(reason(opus(6)).starts_with("Opus with 6 channels"));
    assert!(reason(aac(48_000, 42)).starts_with("MPEG-4 audio object type 42"));
}
