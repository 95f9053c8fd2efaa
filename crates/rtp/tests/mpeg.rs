//! MPEG-1 and MPEG-2: pictures and audio arrive unchanged, slices that fit stay whole, and the
//! payload headers are correct (RFC 2250, RFC 4184).

mod common;

use common::{Film, noise, payload, send, track};
use proptest::prelude::*;
use reelway_media::{Codec, MpegAudio, MpegVideo};

fn video() -> Codec {
    Codec::MpegVideo(MpegVideo {
        object_type: 0x61,
        sequence: vec![0, 0, 1, 0xb3, 1, 2, 3, 4, 5, 6, 7, 8],
    })
}

/// Returns bytes without any start code.
fn plain(seed: u64, len: usize) -> Vec<u8> {
    noise(seed, len)
        .into_iter()
        .map(|byte| byte | 0x10)
        .collect()
}

/// Returns a picture of this type and number with slices of these lengths; an I picture has a
/// sequence header.
fn picture(kind: u8, number: u16, slices: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if kind == 1 {
        bytes.extend([
            0, 0, 1, 0xb3, 0x16, 0x01, 0x20, 0x13, 0xff, 0xff, 0xe0, 0x80,
        ]);
        bytes.extend([0, 0, 1, 0xb8, 0, 8, 0, 0x40]);
    }
    // vbv_delay is all ones; vectors have full_pel 0 and f_code 3 forwards, 1 and 5 backwards.
    let rest: u64 = 0xffff << 8 | 0b0011 << 4 | 0b1101;
    let head = u64::from(number) << 38 | u64::from(kind) << 35 | rest << 11;
    bytes.extend([0, 0, 1, 0]);
    bytes.extend(&head.to_be_bytes()[2..]);
    for (nth, length) in (1..).zip(slices) {
        bytes.extend([0, 0, 1, nth]);
        bytes.extend(plain(nth.into(), *length));
    }
    bytes
}

/// Returns the offsets at which slices begin.
fn slices(bytes: &[u8]) -> Vec<usize> {
    let starts = (0..bytes.len().saturating_sub(3))
        .filter(|at| bytes[*at..*at + 3] == [0, 0, 1] && (1..=0xaf).contains(&bytes[*at + 3]));
    starts.collect()
}

proptest! {
    #[test]
    fn pictures_arrive_as_they_were(
        pictures in prop::collection::vec((1u8..4, 0u16..1024, prop::collection::vec(0usize..3000, 1..12)), 1..8),
        max_payload in 64usize..1500,
    ) {
        let units: Vec<Vec<u8>> = pictures.iter().map(|(kind, number, slices)| picture(*kind, *number, slices)).collect();
        let film = Film::of(&units, 3600);
        let payload = payload(&track(video(), 90_000), max_payload);
        let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
        let packets = send(&plan, &film.bytes);
        let mut at = 0;
        for ((unit, (kind, number, _)), nth) in units.iter().zip(&pictures).zip(0u32..) {
            let mut arrived: Vec<u8> = Vec::new();
            while arrived.len() < unit.len() {
                let packet = &packets[at];
                at += 1;
                prop_assert!(packet.payload.len() <= max_payload);
                prop_assert_eq!(packet.timestamp, nth * 3600);
                let (head, body) = packet.payload.split_at(4);
                prop_assert_eq!(u16::from(head[0]) << 8 | u16::from(head[1]), *number);
                prop_assert_eq!(head[2] & 7, *kind);
                prop_assert_eq!(head[3], [0, 0, 3, 0xd3][usize::from(*kind)]);
                prop_assert_eq!(head[2] & 0x20 != 0, *kind == 1 && arrived.is_empty());
                // The flag is set if a slice begins in this packet, at its first byte or later.
                let begins = slices(body);
                prop_assert_eq!(head[2] & 0x10 != 0, !begins.is_empty());
                arrived.extend(body);
                let is_end = arrived.len() == unit.len();
                let ends = is_end || slices(unit).contains(&arrived.len());
                prop_assert_eq!(head[2] & 8 != 0, ends && arrived.len() > slices(unit)[0]);
                if let (Some(last), false) = (begins.last(), ends) {
                    prop_assert!(*last == 0 && body.len() == max_payload - 4, "a slice that would fit is cut");
                }
                prop_assert_eq!(packet.marker, is_end);
            }
            prop_assert_eq!(&arrived, unit);
        }
        prop_assert_eq!(at, packets.len());
    }

    #[test]
    fn frames_of_sound_arrive_as_they_were(
        sizes in prop::collection::vec(1usize..4000, 1..40), max_payload in 64usize..1500, ac3: bool,
    ) {
        let units: Vec<Vec<u8>> = (0..).zip(&sizes).map(|(nth, size)| noise(nth, *size)).collect();
        let film = Film::of(&units, 1152);
        let (codec, head) = match ac3 {
            true => (Codec::Ac3, 2),
            false => (Codec::MpegAudio(MpegAudio { object_type: 0x6b }), 4),
        };
        let payload = payload(&track(codec, 48_000), max_payload);
        let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
        let packets = send(&plan, &film.bytes);
        let mut packets = packets.iter();
        for unit in &units {
            let mut arrived: Vec<u8> = Vec::new();
            let parts = unit.len().div_ceil(max_payload - head);
            for part in 0..parts {
                let packet = packets.next().unwrap();
                prop_assert!(packet.payload.len() <= max_payload);
                let (said, body) = packet.payload.split_at(head);
                if ac3 {
                    let kind = match (parts, part) {
                        (1, _) => 0,
                        (_, 0) if body.len() * 8 >= unit.len().next_multiple_of(8) * 5 => 1,
                        (_, 0) => 2,
                        _ => 3,
                    };
                    prop_assert_eq!(said, [kind, parts as u8]);
                    prop_assert_eq!(packet.marker, part + 1 == parts);
                } else {
                    prop_assert_eq!(said, (arrived.len() as u32).to_be_bytes());
                }
                arrived.extend(body);
            }
            prop_assert_eq!(&arrived, unit);
        }
        prop_assert!(packets.next().is_none());
    }
}

#[test]
fn players_that_know_the_formats_by_number_are_told_it() {
    let audio = Codec::MpegAudio(MpegAudio { object_type: 0x6b });
    let of = |codec| payload(&track(codec, 90_000), 1440);
    assert_eq!(of(video()).static_type(), Some(32));
    assert_eq!(of(audio.clone()).static_type(), Some(14));
    assert_eq!(of(Codec::Ac3).static_type(), None);
    assert_eq!(of(video()).sdp().encoding, "MPV/90000");
    assert_eq!(of(audio).sdp().encoding, "MPA/90000");
}

#[test]
fn the_sequence_header_goes_ahead_of_where_playing_begins() {
    let preface = payload(&track(video(), 90_000), 1440).preface().clone();
    let packets = send(&preface, &[]);
    assert_eq!(packets.len(), 1);
    assert_eq!(packets[0].payload[..4], [0, 0, 0x20, 0]);
    assert_eq!(packets[0].payload[4..8], [0, 0, 1, 0xb3]);
}
