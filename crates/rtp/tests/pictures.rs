//! VP8, VP9, AV1 and MPEG-4 Visual: independent depacketisers restore the film, and the session
//! description matches it.

mod common;

use bytes::Bytes;
use common::{Film, Received, noise, payload, send, track};
use proptest::prelude::*;
use reelway_media::{Codec, Mpeg4Visual, VpConfig};
use rtc_rtp::codec::av1::Av1Depacketizer;
use rtc_rtp::codec::vp8::Vp8Packet;
use rtc_rtp::codec::vp9::Vp9Packet;
use rtc_rtp::packetizer::Depacketizer;

const VP: VpConfig = VpConfig {
    profile: 0,
    level: 31,
    depth: 8,
};

/// An AV1 configuration with a sequence header of four bytes.
fn av1() -> Codec {
    Codec::Av1(vec![0x81, 0x04, 0x0c, 0, 0x0a, 4, 1, 2, 3, 4])
}

/// Returns the packets for samples of this codec, 3600 ticks each.
fn packets(codec: Codec, samples: &[Vec<u8>], max_payload: usize) -> Vec<Received> {
    let film = Film::of(samples, 3600);
    let payload = payload(&track(codec, 90_000), max_payload);
    let plan = payload.plan(&film.samples, &film.bytes.as_slice()).unwrap();
    let packets = send(&plan, &film.bytes);
    assert!(
        packets
            .iter()
            .all(|packet| packet.payload.len() <= max_payload)
    );
    packets
}

/// Returns each frame as this depacketiser restores it. The marker must be on the last packet of
/// each frame only.
fn carried(packets: &[Received], mut take: impl FnMut(&Received) -> Vec<u8>) -> Vec<Vec<u8>> {
    let frames = packets.chunk_by(|one, next| one.timestamp == next.timestamp);
    let frames = frames.map(|packets| {
        let (last, others) = packets.split_last().unwrap();
        assert!(last.marker && others.iter().all(|packet| !packet.marker));
        packets.iter().flat_map(&mut take).collect()
    });
    frames.collect()
}

fn units(sizes: &[usize]) -> Vec<Vec<u8>> {
    let units = (0..).zip(sizes);
    units.map(|(nth, size)| noise(nth, *size)).collect()
}

/// Encodes a size (AV1 Bitstream Specification 4.10.5).
fn leb128(mut size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while size >= 0x80 {
        bytes.push(size as u8 | 0x80);
        size >>= 7;
    }
    bytes.push(size as u8);
    bytes
}

/// Returns an open bitstream unit of this type with a size field and, if requested, an extension.
fn obu(kind: u8, has_extension: bool, body: &[u8]) -> Vec<u8> {
    let head = kind << 3 | u8::from(has_extension) << 2 | 2;
    let extension = if has_extension { &[0x20][..] } else { &[] };
    [&[head], extension, &leb128(body.len()), body].concat()
}

proptest! {
    #[test]
    fn vp8_arrives_as_it_was(sizes in prop::collection::vec(3usize..6000, 1..12), max_payload in 16usize..1500) {
        let samples = units(&sizes);
        let mut is_first = true;
        let came = carried(&packets(Codec::Vp8(VP), &samples, max_payload), |packet| {
            let mut head = Vp8Packet::default();
            let body = head.depacketize(&Bytes::from(packet.payload.clone())).unwrap();
            assert_eq!((head.s == 1, head.pid), (is_first, 0));
            is_first = packet.marker;
            body.to_vec()
        });
        prop_assert_eq!(came, samples);
    }

    #[test]
    fn vp9_arrives_as_it_was(sizes in prop::collection::vec(1usize..6000, 1..12), max_payload in 16usize..1500) {
        let samples = units(&sizes);
        let mut is_first = true;
        let came = carried(&packets(Codec::Vp9(VP), &samples, max_payload), |packet| {
            let mut head = Vp9Packet::default();
            let body = head.depacketize(&Bytes::from(packet.payload.clone())).unwrap();
            assert_eq!((head.b, head.e), (is_first, packet.marker));
            // The first sample is a key frame.
            assert_eq!(head.p, packet.timestamp > 0);
            is_first = packet.marker;
            body.to_vec()
        });
        prop_assert_eq!(came, samples);
    }

    #[test]
    fn mpeg4_arrives_as_it_was(sizes in prop::collection::vec(1usize..6000, 1..12), max_payload in 16usize..1500) {
        let samples = units(&sizes);
        let codec = Codec::Mpeg4Visual(Mpeg4Visual { headers: vec![] });
        let came = carried(&packets(codec, &samples, max_payload), |packet| packet.payload.clone());
        prop_assert_eq!(came, samples);
    }

    #[test]
    fn av1_arrives_as_it_was_without_delimiters(
        samples in prop::collection::vec(
            prop::collection::vec((prop::sample::select(vec![1u8, 3, 4, 5, 6, 15]), any::<bool>(), 0usize..4000), 1..8),
            1..6,
        ),
        max_payload in 16usize..1500,
    ) {
        let (mut film, mut expected) = (Vec::new(), Vec::new());
        for (seed, sample) in (0..).zip(&samples) {
            let mut whole = obu(2, false, &[]);
            let mut sent = Vec::new();
            for (nth, (kind, has_extension, size)) in (0..).zip(sample) {
                let unit = obu(*kind, *has_extension, &noise(seed * 10 + nth, *size));
                whole.extend(&unit);
                // Padding is not sent.
                if *kind != 15 {
                    sent.extend(unit);
                }
            }
            film.push(whole);
            expected.extend(Some(sent).filter(|sent| !sent.is_empty()));
        }
        let mut depacketizer = Av1Depacketizer::new();
        let mut before = None;
        let came = carried(&packets(av1(), &film, max_payload), |packet| {
            // The sequence flag is on the first packet of a key frame and on no other.
            let is_first = before.replace(packet.timestamp) != Some(packet.timestamp);
            assert_eq!(packet.payload[0] & 8 != 0, is_first && packet.timestamp == 0);
            depacketizer.depacketize(&Bytes::from(packet.payload.clone())).unwrap().to_vec()
        });
        prop_assert_eq!(came, expected);
    }

    #[test]
    fn noise_for_av1_is_planned(sample in prop::collection::vec(any::<u8>(), 0..4000), max_payload in 16usize..1500) {
        packets(av1(), &[sample], max_payload);
    }
}

#[test]
fn the_sequence_header_of_av1_goes_ahead() {
    let payload = payload(&track(av1(), 90_000), 1440);
    let packets = send(payload.preface(), &[]);
    assert_eq!(packets[0].payload, [0x18, 0x08, 1, 2, 3, 4]);
    for config in [
        vec![],
        vec![0x81, 4, 0x0c, 0],
        vec![0x81, 4, 0x0c, 0, 0x0a, 200],
    ] {
        let payload = common::payload(&track(Codec::Av1(config), 90_000), 16);
        send(payload.preface(), &[]);
    }
}

#[test]
fn the_session_description_says_what_decoders_are_set_up_by() {
    let said = |codec| {
        let payload = payload(&track(codec, 90_000), 1440);
        payload.sdp().clone()
    };
    let (vp8, vp9, av1) = (said(Codec::Vp8(VP)), said(Codec::Vp9(VP)), said(av1()));
    assert_eq!(
        (vp8.encoding.as_str(), vp8.fmtp.as_str()),
        ("VP8/90000", "")
    );
    assert_eq!(
        (vp9.encoding.as_str(), vp9.fmtp.as_str()),
        ("VP9/90000", "profile-id=0")
    );
    assert_eq!(
        (av1.encoding.as_str(), av1.fmtp.as_str()),
        ("AV1/90000", "profile=0;level-idx=4;tier=0")
    );
    let headers = vec![0, 0, 1, 0xb0, 0xf5, 0, 0, 1, 0xb5];
    let mpeg4 = said(Codec::Mpeg4Visual(Mpeg4Visual { headers }));
    assert_eq!(mpeg4.encoding, "MP4V-ES/90000");
    assert_eq!(mpeg4.fmtp, "profile-level-id=245;config=000001B0F5000001B5");
}
