//! Builds a track from its container's description, its sample entry and its samples.

use serde::{Deserialize, Serialize};

use crate::groups::group_by;
use crate::mp4::Entry;
use crate::samples::SampleTable;
use crate::title::{Kind, Picture, Track};

/// A container's description of a track, without its samples and its codec.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TrackHead {
    pub id: u32,
    pub kind: Kind,
    pub timescale: u32,
    pub shift: i64,
    pub language: Option<String>,
    pub name: Option<String>,
    pub enabled: bool,
    /// The decode time of the first sample.
    pub dts: i64,
    /// The transformation matrix of tkhd.
    pub matrix: [i32; 9],
    /// The width and height of tkhd, 16.16.
    pub display: (u32, u32),
    /// See [`Track::stripped`].
    pub stripped: Vec<u8>,
}

impl TrackHead {
    /// Builds the track; also returns the media time at which the last of these samples ends.
    pub fn track(self, entry: Entry, samples: &SampleTable) -> (Track, i64) {
        let (mut dts, mut end, mut bytes, mut sync) = (self.dts, None, 0, 0);
        for sample in samples.iter() {
            dts += i64::from(sample.duration);
            end = end.max(Some(dts + i64::from(sample.cts)));
            bytes += u64::from(sample.size);
            sync += u32::from(sample.sync);
        }
        let picture = (self.kind == Kind::Video).then_some(Picture {
            width: entry.size.0,
            height: entry.size.1,
            pixel_aspect: entry.pixel_aspect,
            matrix: self.matrix,
            display: self.display,
        });
        let track = Track {
            shift: self.shift,
            language: self.language,
            name: self.name,
            enabled: self.enabled,
            samples: samples.len(),
            bytes,
            duration: (dts - self.dts) as u64,
            groups: group_by(
                samples.iter(),
                (self.kind, sync > samples.len() / 2),
                self.dts,
                self.timescale,
                samples.scratch(),
            ),
            picture,
            sound: entry.sound,
            sample_entry: entry.bytes,
            stripped: self.stripped,
            ..Track::new(self.id, self.kind, entry.codec, self.timescale)
        };
        (track, end.unwrap_or(0))
    }
}
