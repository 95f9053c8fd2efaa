//! Uncompressed audio: it arrives unchanged in whole frames, each packet with the time of its first
//! one.

mod common;

use common::{Film, payload, send, track};
use proptest::prelude::*;
use reelway_media::{Codec, PcmConfig, SECOND};
use reelway_rtp::{Payload, PayloadOptions};

fn pcm(bits: u8, little_endian: bool, channels: u16) -> Codec {
    Codec::Pcm(PcmConfig {
        bits,
        little_endian,
        channels,
    })
}

proptest! {
    #[test]
    fn uncompressed_sound_arrives_as_it_was(
        bits in prop::sample::select(vec![16u8, 24]),
        channels in 1u16..3,
        frames in prop::collection::vec(0usize..3000, 1..20),
        max_payload in 16usize..2000,
    ) {
        let frame = usize::from(bits / 8) * usize::from(channels);
        let units: Vec<Vec<u8>> =
            (0..).zip(&frames).map(|(nth, count)| common::noise(nth, count * frame)).collect();
        let mut film = Film::of(&units, 0);
        let mut dts = 0;
        for (timed, count) in film.samples.iter_mut().zip(&frames) {
            (timed.dts, timed.sample.duration) = (dts, *count as u32);
            dts += *count as i64;
        }
        let mut track = track(pcm(bits, false, channels), 48_000);
        track.sound.as_mut().unwrap().channels = channels;
        let payload = payload(&track, max_payload);
        prop_assert_eq!(&payload.sdp().encoding, &format!("L{bits}/48000/{channels}"));
        let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
        let packets = send(&plan, &film.bytes);
        let mut next = 0;
        for packet in &packets {
            prop_assert!(packet.payload.len() <= max_payload && packet.payload.len() % frame == 0);
            prop_assert!(!packet.marker);
            prop_assert_eq!(packet.timestamp, next);
            next += (packet.payload.len() / frame) as u32;
        }
        let bodies: Vec<u8> = packets.into_iter().flat_map(|packet| packet.payload).collect();
        prop_assert_eq!(bodies, units.concat());
        // Packets leave evenly, one after the other.
        for (frame, count) in plan.frames.iter().zip(plan.frames.iter().skip(1)) {
            prop_assert!((count.due - frame.due - frame.duration).abs() <= 1);
            prop_assert_eq!(frame.due, frame.shown);
        }
    }
}

#[test]
fn a_packet_has_as_much_as_it_has_room_for() {
    let film = Film::of(&[vec![7; 4096]], 1024);
    let payload = payload(&track(pcm(16, false, 2), 48_000), 1442);
    let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
    let packets = send(&plan, &film.bytes);
    let sizes: Vec<usize> = packets.iter().map(|packet| packet.payload.len()).collect();
    assert_eq!(sizes, [1440, 1440, 1216]);
    assert_eq!(payload.clock_rate(), 48_000);
    assert_eq!(plan.frames[1].due, 360 * SECOND / 48_000);
}

#[test]
fn what_rtp_does_not_carry_is_refused_with_the_reason() {
    for (codec, words) in [
        (pcm(16, true, 2), "it is little-endian"),
        (pcm(32, false, 2), "RTP carries 16 or 24 bits, not 32"),
        (pcm(16, false, 6), "it has 6 channels"),
    ] {
        let why = Payload::refused(&codec).unwrap();
        assert!(why.starts_with(words), "{why}");
        assert!(!Payload::carries(&codec));
        let error = Payload::new(&track(codec, 48_000), PayloadOptions::default()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}
