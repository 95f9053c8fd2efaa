//! Reads arbitrary bytes as an index from another server. The result must be an error, or an index
//! whose samples lie in the film.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reelway_media::exchange::{Incoming, VERSION};
use reelway_media::{IndexOptions, View};

fuzz_target!(|input: &[u8]| {
    // The prefix is constant, so that the fuzzer explores what follows it.
    let Some((size, rest)) = input.split_first_chunk::<2>() else {
        return;
    };
    let Some((len, rest)) = rest.split_first_chunk::<4>() else {
        return;
    };
    let head = u32::from(u16::from_le_bytes(*size));
    let len = u64::from(u32::from_le_bytes(*len));
    let bytes = [
        b"RWSHARED",
        &VERSION.to_le_bytes()[..],
        &head.to_le_bytes(),
        &len.to_le_bytes(),
        rest,
    ]
    .concat();
    let options = IndexOptions {
        max_samples: 10_000,
        ..IndexOptions::default()
    };
    let mut incoming = Incoming::new(len, options);
    // In parts that do not end at records' boundaries.
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
    // The samples of a transport stream that is sent unchanged over RTSP do not lie where those of
    // its tracks do.
    let title = &index.title;
    let bytes = |view: Option<View>| view.map_or(len, |view| view.bytes);
    let (tracks, multiplex) = (bytes(title.view), bytes(title.multiplex_view));
    assert!(!title.tracks.is_empty());
    for (number, track) in title.recorded().enumerate() {
        let most = if number < title.tracks.len() {
            tracks
        } else {
            multiplex
        };
        assert_eq!(index.tables[number].len(), track.samples);
        assert!(
            index.tables[number]
                .iter()
                .all(|sample| sample.bytes().end <= most)
        );
        let _ = (track.codec.rfc6381(), track.codec.name());
        for at in [i64::MIN, 0, title.duration / 2, i64::MAX] {
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
