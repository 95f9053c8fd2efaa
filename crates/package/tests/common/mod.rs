//! Synthetic films, and a reader of fragments that is independent of our writer.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;

use reelway_media::{
    AacConfig, Codec, Group, H264Config, Kind, Picture, Sample, SampleTable, Sound, Title, Track,
    ticks_to_nanos,
};
use reelway_package::{Part, Segment};

/// A track under construction, and its samples.
#[derive(Debug)]
pub struct Made {
    pub track: Track,
    pub samples: Vec<Sample>,
    /// Media decode time of the first sample.
    pub first_dts: i64,
}

pub const UNITY: [i32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];

/// Returns a picture track of these samples.
pub fn picture(id: u32, timescale: u32, shift: i64, samples: Vec<Sample>) -> Made {
    let codec = Codec::H264(H264Config {
        fourcc: *b"avc1",
        length_size: 4,
        profile: [0x64, 0, 0x1f],
        sps: vec![vec![0x67]],
        pps: vec![vec![0x68]],
    });
    let mut made = made(id, Kind::Video, codec, timescale, shift, samples);
    made.track.picture = Some(Picture {
        width: 1280,
        height: 720,
        pixel_aspect: (1, 1),
        matrix: UNITY,
        display: (1280 << 16, 720 << 16),
    });
    made
}

/// Returns a sound track of these samples.
pub fn sound(id: u32, rate: u32, shift: i64, samples: Vec<Sample>) -> Made {
    let codec = Codec::Aac(AacConfig {
        config: vec![0x11, 0x90],
        object_type: 2,
        rate,
        channels: 2,
        frame_length: 1024,
    });
    let mut made = made(id, Kind::Audio, codec, rate, shift, samples);
    made.track.sound = Some(Sound { rate, channels: 2 });
    made
}

fn made(
    id: u32,
    kind: Kind,
    codec: Codec,
    timescale: u32,
    shift: i64,
    samples: Vec<Sample>,
) -> Made {
    let track = Track {
        shift,
        samples: samples.len() as u32,
        bytes: samples.iter().map(|s| u64::from(s.size)).sum(),
        duration: samples.iter().map(|s| u64::from(s.duration)).sum(),
        sample_entry: b"\0\0\0\x10test\0\0\0\0\0\0\0\x01".to_vec(),
        ..Track::new(id, kind, codec, timescale)
    };
    Made {
        track,
        samples,
        first_dts: 0,
    }
}

/// Groups the samples as `media` does.
fn groups(made: &Made) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut dts = made.first_dts;
    for (number, sample) in (0..).zip(&made.samples) {
        let new = match groups.last() {
            Some(last) => {
                last.count >= Group::MAX_SAMPLES || (sample.sync && made.track.kind == Kind::Video)
            }
            None => true,
        };
        if new {
            groups.push(Group {
                first: number,
                count: 0,
                dts,
                cts: sample.cts,
                bytes: 0,
                sync: sample.sync,
            });
        }
        if let Some(last) = groups.last_mut() {
            last.count += 1;
            last.bytes += sample.size;
        }
        dts += i64::from(sample.duration);
    }
    groups
}

/// Returns a film of these tracks.
pub fn film(tracks: Vec<Made>) -> (Arc<Title>, Vec<SampleTable>) {
    let mut title = Title {
        name: Some("A <film>".into()),
        ..Title::new(Vec::new())
    };
    let mut tables = Vec::new();
    for mut made in tracks {
        made.track.groups = groups(&made).into_iter().collect();
        let mut table = SampleTable::default();
        made.samples.iter().for_each(|sample| table.push(*sample));
        let end = made.first_dts + made.track.duration as i64 + made.track.shift;
        title.duration = title
            .duration
            .max(ticks_to_nanos(end, made.track.timescale));
        title.tracks.push(made.track);
        tables.push(table);
    }
    (Arc::new(title), tables)
}

/// Returns consecutive samples in the file from `offset`, all of one size and duration, all sync.
pub fn even(count: u32, offset: u64, size: u32, duration: u32) -> Vec<Sample> {
    (0..count)
        .map(|n| Sample {
            offset: offset + u64::from(n * size),
            size,
            duration,
            cts: 0,
            sync: true,
        })
        .collect()
}

/// Returns pictures in GOPs of `gop` pictures in the order I P B B P B B …, each lasting
/// `duration`.
pub fn gops(count: u32, gop: u32, offset: u64, duration: u32) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut at = offset;
    for n in 0..count {
        let place = n % gop;
        // Presentation positions in decode order: 0, then 3 1 2, 6 4 5, …; the rest of a GOP in
        // order.
        let left = (gop - 1) % 3;
        let shown = match place {
            0 => 0,
            p if p >= gop - left => p,
            p => match (p - 1) % 3 {
                0 => p + 2,
                _ => p - 1,
            },
        };
        let cts = (i64::from(shown) - i64::from(place) + 1) * i64::from(duration);
        let size = if place == 0 { 9000 } else { 1000 + n % 7 };
        samples.push(Sample {
            offset: at,
            size,
            duration,
            cts: cts as i32,
            sync: place == 0,
        });
        at += u64::from(size);
    }
    samples
}

/// A sample as described by a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub decoded: i64,
    pub shown: i64,
    pub duration: u32,
    pub size: u32,
    pub sync: bool,
}

/// A segment read back.
#[derive(Debug, Default)]
pub struct ReadBack {
    /// `tfdt` of each fragment.
    pub tfdt: Vec<i64>,
    /// End of the last sample.
    pub end: i64,
    pub samples: Vec<Told>,
    /// Ranges of the film in order.
    pub film: Vec<std::ops::Range<u64>>,
}

/// Reads a segment as a player does. Panics if the segment is invalid.
pub fn read_back(segment: &Segment) -> ReadBack {
    let mut out = ReadBack::default();
    let mut head: Vec<u8> = Vec::new();
    let mut media = 0u64; // media bytes of the fragment that are still to come
    for part in &segment.parts {
        match part {
            Part::Inline(bytes) => {
                assert_eq!(media, 0, "a header inside an mdat");
                head.extend_from_slice(bytes);
                if head.len() >= 8
                    && &head[4..8] == b"styp"
                    && head.len() == u32_at(&head, 0) as usize
                {
                    head.clear();
                    continue;
                }
                media = read_head(&head, &mut out);
                head.clear();
            }
            Part::Film(range) => {
                let len = range.end - range.start;
                assert!(len <= media, "more media than mdat has");
                media -= len;
                out.film.push(range.clone());
            }
        }
    }
    assert_eq!(media, 0, "less media than mdat has");
    assert_eq!(
        segment.len,
        segment.parts.iter().map(Part::len).sum::<u64>()
    );
    out
}

fn read_head(bytes: &[u8], out: &mut ReadBack) -> u64 {
    let moof = u32_at(bytes, 0) as usize;
    assert_eq!(&bytes[4..8], b"moof");
    assert_eq!(&bytes[moof + 4..moof + 8], b"mdat");
    assert_eq!(bytes.len(), moof + 8);
    let media = u64::from(u32_at(bytes, moof)) - 8;
    let traf = find(&bytes[8..moof], b"traf");
    let tfhd = find(traf, b"tfhd");
    assert_eq!(u32_at(tfhd, 0), 0x2_0028);
    let (default_duration, default_flags) = (u32_at(tfhd, 8), u32_at(tfhd, 12));
    let tfdt = find(traf, b"tfdt");
    assert_eq!(tfdt[0], 1, "version");
    let tfdt = i64::from_be_bytes(tfdt[4..12].try_into().unwrap());
    let trun = find(traf, b"trun");
    assert_eq!(trun[0], 1, "version: signed offsets");
    let flags = u32_at(trun, 0) & 0xff_ffff;
    let count = u32_at(trun, 4);
    assert_eq!(u32_at(trun, 8) as usize, moof + 8, "data offset");
    let mut at = 12;
    let mut next = |wanted: bool| {
        wanted.then(|| {
            at += 4;
            u32_at(trun, at - 4)
        })
    };
    let first_flags = next(flags & 0x4 != 0);
    let mut decoded = tfdt;
    let mut size_of_all = 0;
    for n in 0..count {
        let duration = next(flags & 0x100 != 0).unwrap_or(default_duration);
        let size = next(flags & 0x200 != 0).unwrap();
        let mut sample_flags = next(flags & 0x400 != 0).unwrap_or(default_flags);
        if n == 0 {
            sample_flags = first_flags.unwrap_or(sample_flags);
        }
        let offset = next(flags & 0x800 != 0).unwrap_or(0) as i32;
        out.samples.push(Told {
            decoded,
            shown: decoded + i64::from(offset),
            duration,
            size,
            sync: sample_flags & 0x1_0000 == 0,
        });
        decoded += i64::from(duration);
        size_of_all += u64::from(size);
    }
    assert_eq!(at, trun.len(), "trun has more than it says");
    assert_eq!(size_of_all, media, "samples fill the mdat");
    if !out.tfdt.is_empty() {
        assert_eq!(out.end, tfdt, "fragments follow each other");
    }
    out.tfdt.push(tfdt);
    out.end = decoded;
    media
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Returns the body of the first box of this kind in a sequence of boxes.
pub fn find<'a>(mut boxes: &'a [u8], kind: &[u8; 4]) -> &'a [u8] {
    loop {
        assert!(!boxes.is_empty(), "no {}", String::from_utf8_lossy(kind));
        let size = u32_at(boxes, 0) as usize;
        if &boxes[4..8] == kind {
            return &boxes[8..size];
        }
        boxes = &boxes[size..];
    }
}
