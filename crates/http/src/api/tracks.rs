//! Full details of a track, with its GOPs.

use reelway_media::{Kind, Packets, Samples, SamplesError, Track, ticks_to_nanos};
use reelway_package::FrameRate;
use serde::Serialize;

use super::json::seconds;

/// Number of samples read at once.
const SCAN: u32 = 4096;

#[derive(Serialize)]
pub(super) struct TrackJson {
    id: u32,
    kind: &'static str,
    codec: String,
    name: String,
    language: Option<String>,
    timescale: u32,
    samples: u32,
    bytes: u64,
    bitrate: u64,
    duration: f64,
    #[serde(flatten)]
    picture: Option<PictureJson>,
    #[serde(flatten)]
    sound: Option<SoundJson>,
    gops: Option<Gops>,
    packets: Option<PacketsJson>,
}

/// A track's RTP packets: at most `payload` bytes each after their headers, and the total of these
/// bytes.
#[derive(Serialize)]
struct PacketsJson {
    payload: u32,
    count: u64,
    bytes: u64,
}

impl PacketsJson {
    /// Returns `None` if the packets have not been counted.
    fn of(packets: &Packets) -> Option<PacketsJson> {
        let groups = &packets.groups;
        (!groups.is_empty()).then(|| PacketsJson {
            payload: packets.payload,
            count: groups.iter().map(|group| u64::from(group.packets)).sum(),
            bytes: groups.iter().map(|group| u64::from(group.bytes)).sum(),
        })
    }
}

#[derive(Serialize)]
struct PictureJson {
    width: u16,
    height: u16,
    pixel_aspect: (u32, u32),
    rotation: u16,
    frame_rate: f64,
}

#[derive(Serialize)]
struct SoundJson {
    rate: u32,
    channels: u16,
}

#[derive(Debug, PartialEq, Serialize)]
struct Gops {
    count: u32,
    seconds: Spread<f64>,
    bytes: Spread<u64>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Spread<T> {
    min: T,
    mean: T,
    max: T,
}

impl TrackJson {
    pub fn of(
        track: &Track,
        index: usize,
        samples: &dyn Samples,
    ) -> Result<TrackJson, SamplesError> {
        let length = ticks_to_nanos(track.duration as i64, track.timescale);
        let bits = u128::from(track.bytes) * 8 * 1_000_000_000;
        Ok(TrackJson {
            id: track.id,
            kind: if track.kind == Kind::Video {
                "video"
            } else {
                "audio"
            },
            codec: track.codec.rfc6381(),
            name: track.codec.name(),
            language: track.language.clone(),
            timescale: track.timescale,
            samples: track.samples,
            bytes: track.bytes,
            bitrate: (bits / length.max(1) as u128) as u64,
            duration: seconds(length),
            picture: track.picture.as_ref().map(|picture| PictureJson {
                width: picture.width,
                height: picture.height,
                pixel_aspect: picture.pixel_aspect,
                rotation: rotation(&picture.matrix),
                frame_rate: FrameRate::of(track)
                    .map_or(0.0, |rate| (rate.per_second() * 1e3).round() / 1e3),
            }),
            sound: track.sound.as_ref().map(|sound| SoundJson {
                rate: sound.rate,
                channels: sound.channels,
            }),
            gops: match track.kind {
                Kind::Video => gops(track, index, samples)?,
                Kind::Audio => None,
            },
            packets: PacketsJson::of(&track.packets),
        })
    }
}

/// Returns the clockwise rotation of the picture in degrees, from a matrix {a b; c d}.
fn rotation(matrix: &[i32; 9]) -> u16 {
    let (a, b) = (f64::from(matrix[0]), f64::from(matrix[1]));
    let degrees = b.atan2(a).to_degrees().round() as i32;
    degrees.rem_euclid(360) as u16
}

/// Returns the GOPs of a video track: from sync sample to sync sample.
fn gops(track: &Track, index: usize, samples: &dyn Samples) -> Result<Option<Gops>, SamplesError> {
    let mut found: Vec<(u64, u64)> = Vec::new(); // ticks and bytes of each
    let mut read = Vec::new();
    let mut from = 0;
    while from < track.samples {
        let to = track.samples.min(from + SCAN);
        read.clear();
        samples.read(index, from..to, &mut read)?;
        for sample in &read {
            if sample.sync || found.is_empty() {
                found.push((0, 0));
            }
            if let Some((ticks, bytes)) = found.last_mut() {
                *ticks += u64::from(sample.duration);
                *bytes += u64::from(sample.size);
            }
        }
        from = to;
    }
    let count = found.len() as u64;
    if count == 0 {
        return Ok(None);
    }
    let ticks = found.iter().map(|(ticks, _)| *ticks);
    let bytes = found.iter().map(|(_, bytes)| *bytes);
    let time = |ticks: f64| (ticks / f64::from(track.timescale.max(1)) * 1e3).round() / 1e3;
    Ok(Some(Gops {
        count: count as u32,
        seconds: Spread {
            min: time(ticks.clone().min().unwrap_or(0) as f64),
            mean: time(ticks.clone().sum::<u64>() as f64 / count as f64),
            max: time(ticks.max().unwrap_or(0) as f64),
        },
        bytes: Spread {
            min: bytes.clone().min().unwrap_or(0),
            mean: bytes.clone().sum::<u64>() / count,
            max: bytes.max().unwrap_or(0),
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarter_turns_are_told_from_the_matrix() {
        let turned = |a: i32, b: i32, c: i32, d: i32| {
            rotation(&[a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30])
        };
        assert_eq!(turned(1, 0, 0, 1), 0);
        assert_eq!(turned(0, 1, -1, 0), 90);
        assert_eq!(turned(-1, 0, 0, -1), 180);
        assert_eq!(turned(0, -1, 1, 0), 270);
    }
}
