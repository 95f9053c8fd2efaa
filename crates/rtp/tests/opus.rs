//! Opus: packets of the film arrive as the same audio at the same times.

mod common;

use common::{Film, opus, payload, send, track};
use proptest::prelude::*;
use reelway_rtp::{Damage, PlanError};

proptest! {
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

/// An Opus packet of three frames of `len` bytes each: code 3 with the given flags.
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

/// Payloads and timestamps that an Opus packet is sent as, with at most `max_payload` bytes each.
fn opus_packets(packet: &[u8], max_payload: usize) -> Result<Vec<(u32, Vec<u8>)>, PlanError> {
    let film = Film::of(&[packet.to_vec()], 960);
    let plan = payload(&track(opus(2), 48_000), max_payload)
        .plan(&film.samples, &film.bytes.as_slice())?;
    let packets = send(&plan, &film.bytes).into_iter();
    Ok(packets.map(|it| (it.timestamp, it.payload)).collect())
}

#[test]
fn opus_frames_last_as_long_as_their_configuration_says() {
    // RFC 6716 table 2, in tenths of milliseconds.
    let silk = [100, 200, 400, 600];
    let celt = [25, 50, 100, 200];
    let hybrid = [100, 200];
    let lengths = [silk, silk, silk].concat();
    let lengths = [&lengths[..], &hybrid, &hybrid, &[celt; 4].concat()].concat();
    assert_eq!(lengths.len(), 32);
    for (configuration, tenths) in (0u8..).zip(lengths) {
        // Code 1: two frames of the same length. The stereo bit is kept.
        let mut packet = vec![configuration << 3 | 4 | 1];
        packet.extend([[5; 10], [6; 10]].concat());
        let lone = |byte| [&[configuration << 3 | 4][..], &[byte; 10]].concat();
        assert_eq!(
            opus_packets(&packet, 16).unwrap(),
            [(0, lone(5)), (tenths * 48 / 10, lone(6))],
            "configuration {configuration}"
        );
    }
}

#[test]
fn the_frames_of_a_split_opus_packet_share_its_time() {
    // Code 3, four frames of 20 ms.
    let mut packet = vec![0xfc | 3, 4];
    packet.extend([9; 40]);
    let mut film = Film::of(&[packet], 3840);
    film.samples[0].dts = 48_000;
    film.samples[0].sample.cts = 480;
    let plan = payload(&track(opus(2), 48_000), 16)
        .plan(&film.samples, &film.bytes.as_slice())
        .unwrap();
    let times: Vec<_> = plan
        .frames
        .iter()
        .map(|frame| (frame.due, frame.shown, frame.duration, frame.rtp_time))
        .collect();
    const MS: i64 = 1_000_000;
    assert_eq!(
        times,
        [
            (1000 * MS, 1010 * MS, 20 * MS, 48_480),
            (1020 * MS, 1030 * MS, 20 * MS, 49_440),
            (1040 * MS, 1050 * MS, 20 * MS, 50_400),
            (1060 * MS, 1070 * MS, 20 * MS, 51_360),
        ]
    );
    assert!(
        plan.frames
            .iter()
            .all(|frame| frame.sync && !frame.droppable)
    );
}

#[test]
fn opus_frames_of_two_lengths_are_cut_where_the_first_ends() {
    // RFC 6716 section 3.2.1: one byte up to 251; above that two, four times the second plus the
    // first.
    for (first, length) in [
        (1, &[1u8][..]),
        (251, &[251]),
        (252, &[252, 0]),
        (255, &[255, 0]),
        (256, &[252, 1]),
        (1275, &[255, 255]),
    ] {
        let packet = [&[0xfc | 2][..], length, &vec![7; first], &[8; 1275]].concat();
        assert_eq!(
            opus_packets(&packet, 1276).unwrap(),
            [
                (0, [&[0xfc][..], &vec![7; first]].concat()),
                (960, [&[0xfc][..], &[8; 1275]].concat())
            ],
            "{first} bytes"
        );
    }
}

#[test]
fn the_padding_of_an_opus_packet_is_not_sent() {
    // RFC 6716 section 3.2.5: a byte of 255 counts as 254, and another one follows.
    for (padding, length) in [
        (0, &[0][..]),
        (1, &[1]),
        (254, &[254]),
        (254, &[255, 0]),
        (257, &[255, 3]),
        (511, &[255, 255, 3]),
    ] {
        let frames = [[1; 9], [2; 9], [3; 9]].concat();
        let mut packet = [&[0xfc | 3, 0x40 | 3][..], length, &frames].concat();
        packet.extend(vec![0; padding]);
        let packets = opus_packets(&packet, 16).unwrap();
        let frames: Vec<_> = packets.iter().map(|(_, payload)| &payload[1..]).collect();
        assert_eq!(frames, [[1; 9], [2; 9], [3; 9]], "{padding} bytes");
    }
}

#[test]
fn an_opus_packet_that_is_broken_or_has_too_long_a_frame_is_left_out() {
    let left_out = |packet: &[u8], max_payload: usize, most| {
        let film = Film::of(&[packet.to_vec()], 960);
        let plan = payload(&track(opus(2), 48_000), max_payload)
            .plan(&film.samples, &film.bytes.as_slice())
            .unwrap();
        let damage = Damage::UnitTooLong {
            offset: common::HEAD as u64,
            length: packet.len() as u32,
            most,
        };
        let first = &packet[..packet.len().min(3)];
        assert_eq!(plan.damage, Some(damage), "{first:?} …");
        assert!(plan.packets.is_empty(), "{first:?} …");
    };
    let with = |head: &[u8], body: usize| [head, &vec![0; body]].concat();
    // Code 0: a single frame cannot be split.
    left_out(&with(&[0xfc], 16), 16, 16);
    // Code 1 with an odd number of bytes; code 2 with a first frame longer than the packet.
    left_out(&with(&[0xfc | 1], 17), 16, 16);
    left_out(&with(&[0xfc | 2, 17], 16), 16, 16);
    // Code 3: no frames, more than fit into 120 ms, a size that is no multiple of the frame count.
    left_out(&with(&[0xfc | 3, 0], 30), 16, 16);
    left_out(&with(&[0xfc | 3, 49], 49), 16, 16);
    left_out(&with(&[0xfc | 3, 3], 31), 16, 16);
    // More padding than bytes; lengths beyond the end of the packet.
    left_out(&with(&[0xfc | 3, 0x40 | 2, 100], 30), 16, 16);
    left_out(&with(&[0xfc | 3, 0x80 | 3, 10, 10], 19), 16, 16);
    left_out(&with(&[0xfc | 3, 0x80 | 0x40 | 2, 10, 10], 19), 16, 16);
    left_out(&with(&[0xfc | 3, 0x80 | 48], 20), 16, 16);
    // A frame longer than the payload minus its first byte.
    left_out(&with(&[0xfc | 1], 32), 16, 16);
    assert_eq!(opus_packets(&with(&[0xfc | 1], 30), 16).unwrap().len(), 2);
    assert_eq!(
        opus_packets(&with(&[0xfc | 3, 48], 48), 16).unwrap().len(),
        48
    );
    // RFC 6716 R2: no frame has more than 1275 bytes.
    left_out(&with(&[0xfc | 1], 2 * 1276), 1440, 1276);
    assert_eq!(
        opus_packets(&with(&[0xfc | 1], 2 * 1275), 1440)
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn an_opus_packet_that_is_not_in_memory_is_named() {
    let film = Film::of(&[vec![0xfc | 2; 30]], 960);
    for (there, offset) in [
        (common::HEAD, common::HEAD),
        (common::HEAD + 1, common::HEAD + 1),
    ] {
        let error = payload(&track(opus(2), 48_000), 16)
            .plan(&film.samples, &&film.bytes[..there])
            .unwrap_err();
        assert_eq!(
            error,
            PlanError::Missing {
                offset: offset as u64
            }
        );
    }
}
