//! The contents of a film, with which the yardstick compares received access units.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use reelway_catalogue::index_path;
use reelway_media::{Codec, IndexOptions, Kind};
use reelway_yardstick::{Reference, ReferenceTrack, access_unit_hash};

/// Reads a whole film and hashes every access unit.
pub fn read(path: &Path) -> anyhow::Result<Reference> {
    let (_, index) = index_path(path, IndexOptions::default())?;
    let file = File::open(path)?;
    let mut reference = Reference::default();
    let mut bytes = Vec::new();
    for (track, table) in index.title.tracks.iter().zip(&index.tables) {
        let mut units = Vec::with_capacity(table.len() as usize);
        let mut dts = track.groups.first().map_or(0, |group| group.dts);
        for sample in table.iter() {
            bytes.resize(sample.size as usize, 0);
            file.read_exact_at(&mut bytes, sample.offset)?;
            let hash = match &track.codec {
                Codec::H264(config) => nal_hash(&bytes, config.length_size, |first| {
                    matches!(first & 31, 7..=9)
                }),
                Codec::H265(config) => nal_hash(&bytes, config.length_size, |first| {
                    matches!(first >> 1 & 63, 32..=35)
                }),
                _ => access_unit_hash([&bytes[..]]),
            };
            units.push((track.presentation(dts, sample.cts), hash));
            dts += i64::from(sample.duration);
        }
        units.sort_unstable();
        reference.tracks.push(ReferenceTrack {
            is_video: track.kind == Kind::Video,
            units,
        });
    }
    Ok(reference)
}

fn nal_hash(sample: &[u8], length_size: u8, aside: impl Fn(u8) -> bool) -> u64 {
    let mut nals: Vec<&[u8]> = Vec::new();
    let mut rest = sample;
    while let Some((length, after)) = rest.split_at_checked(length_size.into()) {
        let length = length
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let Some((nal, next)) = after.split_at_checked(length) else {
            break;
        };
        if nal.first().is_some_and(|first| !aside(*first)) {
            nals.push(nal);
        }
        rest = next;
    }
    access_unit_hash(nals)
}
