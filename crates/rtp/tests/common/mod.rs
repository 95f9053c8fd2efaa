//! Helpers for tests of payload formats: films made of known units, and receivers written from the
//! RFCs alone.
#![allow(dead_code)]

pub mod receive;

use reelway_media::{
    AacConfig, Codec, H264Config, H265Config, Kind, OpusConfig, Picture, Sample, Sound,
    TimedSample, Track,
};
use reelway_rtp::{Part, Payload, PayloadOptions, Plan};

/// A film: its bytes, and its samples in decode order.
pub struct Film {
    pub bytes: Vec<u8>,
    pub samples: Vec<TimedSample>,
}

/// Offset of the first sample: not 0, so that wrong offsets are detected.
pub const HEAD: usize = 37;

impl Film {
    /// A film of these samples, each `duration` ticks long.
    pub fn of(samples: &[Vec<u8>], duration: u32) -> Film {
        let mut film = Film {
            bytes: vec![0xee; HEAD],
            samples: Vec::new(),
        };
        for (nth, bytes) in samples.iter().enumerate() {
            let sample = Sample {
                offset: film.bytes.len() as u64,
                size: bytes.len() as u32,
                duration,
                cts: 0,
                sync: nth == 0,
            };
            film.samples.push(TimedSample {
                sample,
                dts: nth as i64 * i64::from(duration),
            });
            film.bytes.extend_from_slice(bytes);
        }
        film
    }

    /// A film of pictures made of NAL units with lengths of `length_size` bytes.
    pub fn of_nals(pictures: &[Vec<Vec<u8>>], length_size: u8, duration: u32) -> Film {
        let samples: Vec<Vec<u8>> = pictures
            .iter()
            .map(|nals| with_lengths(nals, length_size))
            .collect();
        Film::of(&samples, duration)
    }
}

/// Returns NAL units as they are stored in a sample.
pub fn with_lengths(nals: &[Vec<u8>], length_size: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for nal in nals {
        let length = (nal.len() as u32).to_be_bytes();
        assert!(
            length[..4 - usize::from(length_size)]
                .iter()
                .all(|&byte| byte == 0)
        );
        out.extend_from_slice(&length[4 - usize::from(length_size)..]);
        out.extend_from_slice(nal);
    }
    out
}

/// A packet as a receiver sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub payload: Vec<u8>,
    pub marker: bool,
    pub timestamp: u32,
}

/// Returns the packets of a plan with their bytes.
pub fn send(plan: &Plan, film: &[u8]) -> Vec<Received> {
    let mut out = Vec::new();
    let mut next = 0;
    for frame in &plan.frames {
        assert_eq!(
            frame.packets.start, next,
            "frames take the packets in order, none twice"
        );
        assert!(!frame.packets.is_empty(), "no frame without packets");
        next = frame.packets.end;
        for packet in plan.packets_of(frame) {
            let mut payload = Vec::new();
            let parts: Vec<_> = plan.parts_of(packet).collect();
            for part in &parts {
                let bytes = match part {
                    Part::Kept(bytes) => bytes,
                    Part::Film(range) => &film[range.start as usize..range.end as usize],
                };
                assert!(!bytes.is_empty());
                payload.extend_from_slice(bytes);
            }
            assert_eq!(
                payload.len(),
                usize::from(packet.len),
                "the packet says its length"
            );
            assert!((1..=reelway_rtp::MAX_PIECES).contains(&parts.len()));
            out.push(Received {
                payload,
                marker: packet.marker,
                timestamp: frame.rtp_time,
            });
        }
    }
    assert_eq!(
        next as usize,
        plan.packets.len(),
        "every packet belongs to a frame"
    );
    out
}

/// Creates a packetiser with at most `max_payload` bytes per packet.
pub fn payload(track: &Track, max_payload: usize) -> Payload {
    Payload::new(track, PayloadOptions { max_payload }).expect("a format for the track")
}

/// Creates a track with nothing but its codec and timescale.
pub fn track(codec: Codec, timescale: u32) -> Track {
    let kind = match codec {
        Codec::Aac(_)
        | Codec::Ac3
        | Codec::Eac3
        | Codec::Opus(_)
        | Codec::MpegAudio(_)
        | Codec::Flac
        | Codec::Pcm(_)
        | Codec::Vorbis(_) => Kind::Audio,
        _ => Kind::Video,
    };
    Track {
        picture: (kind == Kind::Video).then_some(Picture {
            width: 640,
            height: 360,
            pixel_aspect: (1, 1),
            matrix: [0; 9],
            display: (640 << 16, 360 << 16),
        }),
        sound: (kind == Kind::Audio).then_some(Sound {
            rate: 48_000,
            channels: 2,
        }),
        ..Track::new(1, kind, codec, timescale)
    }
}

pub fn h264(length_size: u8) -> Codec {
    Codec::H264(H264Config {
        fourcc: *b"avc1",
        length_size,
        profile: [0x64, 0x00, 0x1f],
        sps: vec![vec![0x67, 0x64, 0x00, 0x1f, 0xac]],
        pps: vec![vec![0x68, 0xeb, 0xe3]],
    })
}

pub fn h265(length_size: u8) -> Codec {
    Codec::H265(H265Config {
        fourcc: *b"hvc1",
        length_size,
        profile: [0x01, 0x60, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 93],
        vps: vec![vec![0x40, 0x01, 0x0c]],
        sps: vec![vec![0x42, 0x01, 0x01, 0x01]],
        pps: vec![vec![0x44, 0x01, 0xc1]],
    })
}

pub fn aac(rate: u32, object_type: u8) -> Codec {
    Codec::Aac(AacConfig {
        config: vec![0x11, 0x90],
        object_type,
        rate,
        channels: 2,
        frame_length: 1024,
    })
}

pub fn opus(channels: u8) -> Codec {
    Codec::Opus(OpusConfig {
        channels,
        pre_skip: 312,
        input_rate: 48_000,
    })
}

/// Returns pseudorandom bytes, so that misplaced bytes are detected.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect()
}
