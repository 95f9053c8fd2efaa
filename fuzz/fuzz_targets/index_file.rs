//! Opens arbitrary bytes as an index file with correct checksums. The result must be an error, or a
//! film on which every query works without a panic.
#![no_main]

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::process;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use reelway_catalogue::IndexFile;
use reelway_media::Samples;
use reelway_sys::FileIdentity;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes before the brief, and the positions of its length and both checksums in them.
const PREFIX: usize = 40;
const BRIEF_LEN: Range<usize> = 12..16;
const SUMS: [Range<usize>; 2] = [24..32, 32..40];
/// The most records of each kind that are read.
const MOST: usize = 1000;

/// The file, in memory (tmpfs).
static PATH: LazyLock<PathBuf> =
    LazyLock::new(|| PathBuf::from(format!("/dev/shm/reelway-fuzz-{}.rwx", process::id())));

fuzz_target!(|input: &[u8]| {
    let mut bytes = input.to_vec();
    let Some(rest) = bytes.get(PREFIX..) else {
        return;
    };
    let brief_len = u32::from_le_bytes(bytes[BRIEF_LEN].try_into().expect("four bytes")) as usize;
    let Some((brief, rest)) = rest.split_at_checked(brief_len) else {
        return;
    };
    // The brief begins with the identity of the file from which it was made.
    let Ok(((device, inode, size, mtime_ns), _)) = postcard::take_from_bytes(brief) else {
        return;
    };
    let identity = FileIdentity {
        device,
        inode,
        size,
        mtime_ns,
    };
    // The second checksum covers everything after the brief.
    let sums = [xxh3_64(brief), xxh3_64(rest)];
    for (place, sum) in SUMS.into_iter().zip(sums) {
        bytes[place].copy_from_slice(&sum.to_le_bytes());
    }
    fs::write(&*PATH, &bytes).expect("memory is written");
    let _ = IndexFile::summary(&PATH, &identity);
    let Ok((title, samples)) = IndexFile::open(&PATH, &identity) else {
        return;
    };
    for (number, track) in title.recorded().enumerate() {
        let _ = (track.codec.rfc6381(), track.codec.name());
        for record in 0..track.groups.len().min(MOST) {
            let _ = track.read_group(number, record, &samples);
        }
        let _ = (track.groups.last(), track.places.last());
        let _ = track.places.iter().take(MOST).count();
        let _ = track.packets.groups.iter().take(MOST).count();
        for at in [i64::MIN, 0, title.duration / 2, i64::MAX] {
            let _ = (track.sync_group_at(at), track.group_at(at));
            let _ = track.sync_sample_at(number, at, &samples);
        }
        let mut read = Vec::new();
        let _ = samples.read(number, 0..track.samples.min(MOST as u32), &mut read);
    }
    for text in &title.texts {
        let _ = text.document.read();
    }
    if let Some(entries) = &title.entry_points {
        let _ = entries.points.iter().take(MOST).count();
    }
});
