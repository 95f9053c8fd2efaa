//! Audio, mainly AAC: access units of the film arrive unchanged at the same times.

mod common;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use common::{Film, aac, opus, payload, receive, send, track};
use proptest::prelude::*;
use reelway_media::{Codec, Mpeg4Visual, MpegAudio, MpegVideo, VorbisConfig, VpConfig};
use reelway_rtp::{Damage, Payload, PayloadOptions};

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
        // A track whose timescale is not its sampling rate, up to 40,000,000 units into the film.
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
fn an_access_unit_longer_than_thirteen_bits_tell_is_left_out() {
    let film = Film::of(&[vec![0; 8192], vec![1; 2000]], 1024);
    let plan = payload(&track(aac(48_000, 2), 48_000), 1440)
        .plan(&film.samples, &film.bytes.as_slice())
        .unwrap();
    assert_eq!(plan.frames.len(), 1);
    assert_eq!(plan.frames[0].rtp_time, 1024);
    assert_eq!(
        plan.damage,
        Some(Damage::UnitTooLong {
            offset: common::HEAD as u64,
            length: 8192,
            most: 8191
        })
    );
}

/// Payload sizes of the packets for access units of these sizes, each of 1024 ticks at 48 kHz.
fn aac_packets(sizes: &[usize], max_payload: usize) -> Vec<usize> {
    let units: Vec<Vec<u8>> = sizes.iter().map(|size| vec![1; *size]).collect();
    let film = Film::of(&units, 1024);
    let plan = payload(&track(aac(48_000, 2), 48_000), max_payload)
        .plan(&film.samples, &film.bytes.as_slice())
        .unwrap();
    let packets = send(&plan, &film.bytes);
    packets.iter().map(|packet| packet.payload.len()).collect()
}

#[test]
fn access_units_share_a_packet_as_long_as_they_fit() {
    // 2 bytes for AU-headers-length, 2 for each header.
    assert_eq!(aac_packets(&[100; 4], 410), [410]);
    assert_eq!(aac_packets(&[100; 4], 409), [308, 104]);
    assert_eq!(aac_packets(&[100, 296, 10], 402), [402, 14]);
    assert_eq!(aac_packets(&[100, 297, 10], 402), [104, 313]);
}

#[test]
fn an_access_unit_that_just_fits_is_not_fragmented() {
    assert_eq!(aac_packets(&[396], 400), [400]);
    assert_eq!(aac_packets(&[397], 400), [203, 202]);
}

#[test]
fn fragments_of_an_access_unit_are_of_one_size_so_that_they_leave_in_one_send() {
    // The longest unit that 13 bits can express: 21 fragments of up to 396 bytes.
    let packets = aac_packets(&[8191], 400);
    assert_eq!(packets, [&[4 + 391; 20][..], &[4 + 371]].concat());
}

#[test]
fn an_access_unit_that_is_off_by_more_than_the_jitter_of_ticks_begins_a_packet() {
    // A unit lasts 1024 samples, which is 21.33 ms.
    for (timescale, begin, packets) in [
        (1000, 20, 2),
        (1000, 21, 1),
        (1000, 22, 1),
        (1000, 23, 2),
        // One tick of the film plus one for rounding.
        (48_000, 1021, 2),
        (48_000, 1022, 1),
        (48_000, 1026, 1),
        (48_000, 1027, 2),
    ] {
        let mut film = Film::of(&vec![vec![1; 20]; 2], 21);
        film.samples[1].dts = begin;
        let plan = payload(&track(aac(48_000, 2), timescale), 1440)
            .plan(&film.samples, &film.bytes.as_slice())
            .unwrap();
        assert_eq!(plan.packets.len(), packets, "{begin}/{timescale}");
    }
}

/// The `profile-level-id` in the `fmtp` line for this audio.
fn profile_level(object_type: u8, rate: u32, channels: u8) -> u8 {
    let mut codec = aac(rate, object_type);
    if let Codec::Aac(config) = &mut codec {
        config.channels = channels;
    }
    let payload = payload(&track(codec, rate), 1440);
    let parameters = payload.sdp().fmtp.split(';');
    let level = parameters.filter_map(|it| it.strip_prefix("profile-level-id="));
    level.map(|it| it.parse().unwrap()).next().unwrap()
}

#[test]
fn the_profile_level_is_the_lowest_that_the_sound_keeps_to() {
    // ISO/IEC 14496-3: the values are from table 1.14, the limits from the tables of levels. The
    // low-frequency channel does not count: the 6 channels of 5.1 have 5 main ones.
    for (object_type, rate, channels, level) in [
        // AAC profile, up to two channels: level 1 up to 24 kHz, level 2 up to 48 kHz.
        (2, 22_050, 1, 0x28),
        (2, 24_000, 2, 0x28),
        (2, 32_000, 2, 0x29),
        (2, 48_000, 1, 0x29),
        (2, 48_000, 2, 0x29),
        // Level 4: five channels up to 48 kHz. Level 5: up to 96 kHz.
        (2, 24_000, 6, 0x2a),
        (2, 48_000, 6, 0x2a),
        (2, 64_000, 2, 0x2b),
        (2, 96_000, 6, 0x2b),
        // High Efficiency AAC profile, by core rate: level 2 up to 24 kHz, level 3 up to 48 kHz.
        (5, 22_050, 1, 0x2c),
        (5, 24_000, 2, 0x2c),
        (5, 32_000, 2, 0x2d),
        (5, 48_000, 2, 0x2d),
        // Level 4: more than two channels up to 24 kHz. Level 5: up to 48 kHz.
        (5, 24_000, 6, 0x2e),
        (5, 32_000, 6, 0x2f),
        (5, 48_000, 6, 0x2f),
        (5, 96_000, 2, 0x2f),
        // High Efficiency AAC v2 profile: level 2 up to 24 kHz, level 3 up to 48 kHz.
        (29, 22_050, 1, 0x30),
        (29, 24_000, 1, 0x30),
        (29, 32_000, 1, 0x31),
        (29, 48_000, 1, 0x31),
        // AAC Main, LTP, ER AAC LD, ER AAC ELD: in none of these profiles.
        (1, 48_000, 2, 0xfe),
        (4, 24_000, 2, 0xfe),
        (23, 48_000, 2, 0xfe),
        (39, 48_000, 2, 0xfe),
    ] {
        assert_eq!(
            profile_level(object_type, rate, channels),
            level,
            "object type {object_type}, {rate} Hz, {channels} channels"
        );
    }
}

#[test]
fn sound_with_sbr_is_clocked_as_the_film_counts_it() {
    // Timescale is the output rate (2048 ticks per unit) or the core coder's (1024).
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

#[test]
fn a_payload_takes_what_one_datagram_holds_and_no_less_than_the_formats_need() {
    let of = |max_payload| payload(&track(opus(2), 48_000), max_payload).max_payload();
    // 65,507 bytes of UDP over IPv4, minus 12 of RTP.
    assert_eq!((of(0), of(15), of(16)), (16, 16, 16));
    assert_eq!((of(1438), of(65_495), of(65_496)), (1438, 65_495, 65_495));
}

#[test]
fn the_codecs_with_a_payload_format_are_those_that_can_be_sent() {
    let audio = MpegAudio { object_type: 0x6b };
    let picture = MpegVideo {
        object_type: 0x61,
        sequence: Vec::new(),
    };
    let vp = VpConfig {
        profile: 0,
        level: 31,
        depth: 8,
    };
    let codecs = [
        common::h264(4),
        common::h265(4),
        aac(48_000, 2),
        opus(2),
        Codec::Ac3,
        Codec::Eac3,
        Codec::MpegVideo(picture),
        Codec::MpegAudio(audio),
        Codec::Mpeg4Visual(Mpeg4Visual { headers: vec![] }),
        Codec::Vp8(vp),
        Codec::Vp9(vp),
        Codec::Av1(vec![]),
        vorbis(),
    ];
    for codec in codecs {
        assert!(Payload::carries(&codec));
        assert!(Payload::new(&track(codec, 48_000), PayloadOptions::default()).is_ok());
    }
    assert!(!Payload::carries(&Codec::Flac));
    assert!(Payload::new(&track(Codec::Flac, 48_000), PayloadOptions::default()).is_err());
}

#[test]
fn what_rtp_cannot_carry_is_refused_with_words_that_say_what_to_use() {
    let reason = |codec| {
        Payload::new(&track(codec, 48_000), PayloadOptions::default())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        reason(Codec::Flac),
        "there is no RTP payload format for FLAC; HLS and DASH play this film"
    );
    assert!(reason(opus(6)).starts_with("Opus: it has 6 channels"));
    assert!(reason(aac(48_000, 42)).starts_with("MPEG-4 audio object type 42"));
}

#[test]
fn enhanced_ac3_says_whether_a_packet_has_a_whole_frame_or_a_part_of_how_many() {
    let units = [common::noise(1, 90), common::noise(2, 250)];
    let film = Film::of(&units, 1536);
    let payload = payload(&track(Codec::Eac3, 48_000), 102);
    assert_eq!(payload.sdp().encoding, "eac3/48000/2");
    let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
    let came = send(&plan, &film.bytes);
    let heads: Vec<_> = came
        .iter()
        .map(|packet| (&packet.payload[..2], packet.marker))
        .collect();
    let (whole, part) = (&[0u8, 1][..], &[1u8, 3][..]);
    assert_eq!(
        heads,
        [(whole, true), (part, false), (part, false), (part, true)]
    );
    let bodies = came.iter().flat_map(|packet| &packet.payload[2..]);
    assert!(bodies.eq(units.iter().flatten()));
}

fn vorbis() -> Codec {
    let setup = b"\x05vorbis and what follows";
    let laced = [&[2, 30, 0][..], b"\x01vorbis", &[7; 23], setup].concat();
    Codec::Vorbis(VorbisConfig::parse(&laced).expect("headers of Vorbis"))
}

#[test]
fn vorbis_says_how_long_each_part_is() {
    let units = [common::noise(1, 90), common::noise(2, 250), vec![9]];
    let film = Film::of(&units, 1024);
    let payload = payload(&track(vorbis(), 48_000), 106);
    let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
    let came = send(&plan, &film.bytes);
    // RFC 5215 section 2.2: ident, fragment type, data type and packet count; section 2.3: the
    // length.
    let heads: Vec<_> = came.iter().map(|packet| &packet.payload[..6]).collect();
    let head = |kind: u8, length: u8| [0, 0, 1, kind, 0, length];
    let (whole, first, between, last) = (0x01, 0x40, 0x80, 0xc0);
    let expected = [
        (whole, 90),
        (first, 100),
        (between, 100),
        (last, 50),
        (whole, 1),
    ];
    assert_eq!(heads, expected.map(|(kind, length)| head(kind, length)));
    assert!(came.iter().all(|packet| !packet.marker));
    let bodies = came.iter().flat_map(|packet| &packet.payload[6..]);
    assert!(bodies.eq(units.iter().flatten()));
}

#[test]
fn headers_of_vorbis_are_described_with_empty_comments() {
    let payload = payload(&track(vorbis(), 48_000), 1440);
    assert_eq!(payload.sdp().encoding, "vorbis/48000/2");
    let configuration = payload.sdp().fmtp.strip_prefix("configuration=").unwrap();
    let configuration = BASE64_STANDARD.decode(configuration).unwrap();
    // RFC 5215 section 3.2.1: one set, its ident and length; two more headers, and the lengths of
    // all but the last.
    let head = [0, 0, 0, 1, 0, 0, 1, 0, 70, 2, 30, 16];
    let headers = [
        &b"\x01vorbis"[..],
        &[7; 23],
        b"\x03vorbis\0\0\0\0\0\0\0\0\x01",
        b"\x05vorbis and what follows",
    ];
    assert_eq!(configuration, [&head[..], &headers.concat()].concat());
}
