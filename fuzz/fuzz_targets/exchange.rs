//! Any bytes as an index that another server sent: an index whose samples lie in the film, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reelway_media::IndexOptions;
use reelway_media::exchange::{Incoming, VERSION};

const LEN: u64 = 1 << 20;

fuzz_target!(|input: &[u8]| {
    // The prefix is the same for all: what is looked for lies behind it.
    let Some((size, rest)) = input.split_first_chunk::<2>() else {
        return;
    };
    let head = u32::from(u16::from_le_bytes(*size));
    let bytes = [
        b"RWSHARED",
        &VERSION.to_le_bytes()[..],
        &head.to_le_bytes(),
        &LEN.to_le_bytes(),
        rest,
    ]
    .concat();
    let options = IndexOptions {
        max_samples: 10_000,
        ..IndexOptions::default()
    };
    let mut incoming = Incoming::new(LEN, options);
    // In parts that no record ends with.
    if bytes
        .chunks(101)
        .try_for_each(|part| incoming.feed(part))
        .is_err()
    {
        return;
    }
    let Ok(index) = incoming.finish() else {
        return;
    };
    assert!(!index.title.tracks.is_empty());
    for (number, track) in index.title.recorded().enumerate() {
        assert_eq!(index.tables[number].len(), track.samples);
        assert!(
            index.tables[number]
                .iter()
                .all(|sample| sample.bytes().end <= LEN)
        );
        let _ = (track.codec.rfc6381(), track.codec.name());
        for at in [i64::MIN, 0, index.title.duration / 2, i64::MAX] {
            let group = track.sync_group_at(at).max(track.group_at(at));
            track
                .read_group(number, group, &index.tables)
                .expect("a group of this track");
            track
                .sync_sample_at(number, at, &index.tables)
                .expect("a sample of this track");
        }
    }
});
