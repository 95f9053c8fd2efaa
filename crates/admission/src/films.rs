//! Films for tests.

use std::sync::Arc;

use reelway_demand::Demand;
use reelway_media::{Codec, Group, H264Config, Kind, Title, Track};

use crate::config::Config;

/// A film without sound, of groups of pictures that last `millis` ms and have these sizes in bytes;
/// 24 pictures per second.
pub(crate) fn title(millis: u32, bytes: &[u32]) -> Title {
    let pictures = millis * 24 / 1000;
    let group = |(number, bytes): (u32, &u32)| Group {
        first: number * pictures,
        count: pictures,
        dts: i64::from(number * millis),
        cts: 0,
        bytes: *bytes,
        sync: true,
    };
    let groups: Vec<Group> = (0..).zip(bytes).map(group).collect();
    let length = u64::from(millis) * groups.len() as u64;
    let codec = Codec::H264(H264Config {
        fourcc: *b"avc1",
        length_size: 4,
        profile: [100, 0, 30],
        sps: Vec::new(),
        pps: Vec::new(),
    });
    let track = Track {
        samples: groups.len() as u32 * pictures,
        bytes: bytes.iter().map(|bytes| u64::from(*bytes)).sum(),
        duration: length,
        groups: groups.into_iter().collect(),
        ..Track::new(1, Kind::Video, codec, 1000)
    };
    Title::new(vec![track])
}

/// What such a film needs, estimated from its groups.
pub(crate) fn demand(millis: u32, bytes: &[u32]) -> Arc<Demand> {
    let (title, config) = (title(millis, bytes), Config::default());
    Arc::new(Demand::rough(&title, config.payload, config.reading))
}
