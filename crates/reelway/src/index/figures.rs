//! Figures of a film that matter to a server: the sizes of its GOPs and of their first pictures,
//! and its bit rate over time.

use std::path::Path;

use reelway_clock::Real;
use reelway_media::{Nanos, SampleTable, Title, Track, ticks_to_nanos};
use reelway_sys::extents::Layout;

/// The maximum number of columns of the bit rate over time.
const COLUMNS: usize = 60;
/// The bars, from none to the maximum.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Bytes that the server reads at a time by default (`pool.block`).
pub const BLOCK: u64 = 256 << 10;

/// How a film is laid out on its disk, if the file system reports it.
pub fn layout(path: &Path) -> Option<Layout> {
    let file = std::fs::File::open(path).ok()?;
    Layout::of(&file, BLOCK).ok()
}

/// Converts nanoseconds to seconds.
pub fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

/// Nanoseconds since 1970 as a date (RFC 3339, UTC).
pub fn date(nanos: Nanos) -> String {
    Real::from_nanos(nanos.max(0) as u64).to_string()
}

/// The mean bit rate of a track, in bits per second.
pub fn bitrate(track: &Track) -> u64 {
    let seconds = seconds(ticks_to_nanos(track.duration as i64, track.timescale));
    if seconds > 0.0 {
        (track.bytes as f64 * 8.0 / seconds) as u64
    } else {
        0
    }
}

/// Bytes of a file that are not media: tables and headers.
pub fn overhead(size: u64, title: &Title) -> u64 {
    let media: u64 = title.tracks.iter().map(|track| track.bytes).sum();
    size.saturating_sub(media)
}

/// The minimum, mean and maximum of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub min: f64,
    pub mean: f64,
    pub max: f64,
}

impl Spread {
    /// Computes it for these values; all 0 if there are none.
    pub fn of(values: &[f64]) -> Spread {
        let fold = |with: fn(f64, f64) -> f64| values.iter().copied().reduce(with).unwrap_or(0.0);
        Spread {
            min: fold(f64::min),
            mean: values.iter().sum::<f64>() / values.len().max(1) as f64,
            max: fold(f64::max),
        }
    }
}

/// The GOPs of a video track: each from one sync sample to the next.
#[derive(Debug)]
pub struct Gops {
    pub count: usize,
    pub seconds: Spread,
    pub bytes: Spread,
    /// Sizes of the first pictures, in bytes.
    pub key_bytes: Spread,
}

impl Gops {
    pub fn of(track: &Track, table: &SampleTable) -> Gops {
        let (mut starts, mut bytes) = (Vec::new(), Vec::new());
        for group in &track.groups {
            if group.sync || starts.is_empty() {
                starts.push(group.dts);
                bytes.push(0.0);
            }
            if let Some(bytes) = bytes.last_mut() {
                *bytes += f64::from(group.bytes);
            }
        }
        let first = track.groups.first().map_or(0, |group| group.dts);
        starts.push(first + track.duration as i64);
        let lengths: Vec<f64> = starts
            .windows(2)
            .map(|pair| seconds(ticks_to_nanos(pair[1] - pair[0], track.timescale)))
            .collect();
        let keys = table.iter().filter(|sample| sample.sync);
        let keys: Vec<f64> = keys.map(|sample| f64::from(sample.size)).collect();
        Gops {
            count: bytes.len(),
            seconds: Spread::of(&lengths),
            bytes: Spread::of(&bytes),
            key_bytes: Spread::of(&keys),
        }
    }
}

/// The RTP packets of a track.
#[derive(Debug)]
pub struct RtpPackets {
    pub count: u64,
    /// Payload bytes, without the packets' headers.
    pub bytes: u64,
    /// Packets per GOP; for audio, per group of frames.
    pub groups: Spread,
    /// Packets of the first pictures of GOPs.
    pub keys: Spread,
}

impl RtpPackets {
    /// Returns `None` if the packets were not counted.
    pub fn of(track: &Track) -> Option<RtpPackets> {
        let counted = &track.packets.groups;
        if counted.is_empty() {
            return None;
        }
        let (mut count, mut bytes) = (0, 0);
        let (mut groups, mut keys) = (Vec::new(), Vec::new());
        for (group, packets) in track.groups.iter().zip(counted) {
            count += u64::from(packets.packets);
            bytes += u64::from(packets.bytes);
            if group.sync || groups.is_empty() {
                groups.push(0.0);
                keys.push(f64::from(packets.sync_packets));
            }
            if let Some(packets_so_far) = groups.last_mut() {
                *packets_so_far += f64::from(packets.packets);
            }
        }
        Some(RtpPackets {
            count,
            bytes,
            groups: Spread::of(&groups),
            keys: Spread::of(&keys),
        })
    }
}

/// The bit rate over time.
#[derive(Debug)]
pub struct Rates {
    /// Seconds per column.
    pub step: f64,
    /// Bits per second in each.
    pub columns: Vec<f64>,
    /// The most bits in any whole second.
    pub peak: f64,
}

impl Rates {
    /// Adds up all tracks, by the decode times of their samples.
    pub fn of(title: &Title, tables: &[SampleTable]) -> Rates {
        let whole = (seconds(title.duration).ceil() as usize).max(1);
        let mut by_second = vec![0.0; whole];
        for (track, table) in title.tracks.iter().zip(tables) {
            let mut dts = track.groups.first().map_or(0, |group| group.dts) + track.shift;
            for sample in table.iter() {
                let at = seconds(ticks_to_nanos(dts, track.timescale)).max(0.0) as usize;
                by_second[at.min(whole - 1)] += f64::from(sample.size) * 8.0;
                dts += i64::from(sample.duration);
            }
        }
        let step = whole.div_ceil(COLUMNS);
        let columns = by_second.chunks(step);
        let columns = columns.map(|seconds| seconds.iter().sum::<f64>() / seconds.len() as f64);
        Rates {
            step: step as f64,
            columns: columns.collect(),
            peak: by_second.iter().copied().fold(0.0, f64::max),
        }
    }

    /// A line with a bar for each column, of which the highest is the maximum.
    pub fn line(&self) -> String {
        let most = self.columns.iter().copied().fold(0.0, f64::max);
        let bar = |rate: &f64| {
            let share = if most > 0.0 { rate / most } else { 0.0 };
            BARS[(share * (BARS.len() - 1) as f64).ceil() as usize]
        };
        self.columns.iter().map(bar).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_for_parts_of_the_most() {
        let columns = vec![0.0, 1.0, 50.0, 100.0];
        let rates = Rates {
            step: 1.0,
            columns,
            peak: 100.0,
        };
        assert_eq!(rates.line(), " ▁▄█");
        let none = Rates {
            step: 1.0,
            columns: vec![0.0],
            peak: 0.0,
        };
        assert_eq!(none.line(), " ");
    }

    #[test]
    fn nothing_has_a_spread_of_nothing() {
        let none = Spread {
            min: 0.0,
            mean: 0.0,
            max: 0.0,
        };
        assert_eq!(Spread::of(&[]), none);
        assert_eq!(Spread::of(&[1.0, 2.0, 6.0]).mean, 3.0);
    }
}
