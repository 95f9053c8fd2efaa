//! Indexes arbitrary bytes as a film. The result must be an error, or an index whose samples lie in
//! the file or its view, and whose view can be made; memory must be bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reelway_media::{
    Filled, Filling, IndexErrorKind, IndexOptions, Indexer, RECORD_BYTES, SampleTable, Step, Title,
};

/// Smallest size of the parts in which a view is made, bytes.
const BLOCK: u64 = 4096;
/// Approximate number of parts in which a large view is made.
const PARTS: u64 = 16;

/// Checks that the indexed view can be made, beginning at any block.
fn make_view(film: &[u8], title: &Title, tables: &Vec<SampleTable>) {
    let Some(view) = title.view else {
        return;
    };
    let len = film.len() as u64;
    let block = BLOCK.max(view.bytes / PARTS);
    let (mut at, mut room) = (0, Vec::new());
    while at < view.bytes {
        let end = (at + block).min(view.bytes);
        let filling = Filling::new(title, tables, len, at..end);
        let mut filling = filling.expect("samples").expect("a view");
        let mut into = vec![0; (end - at) as usize];
        loop {
            let wanted = filling.wanted();
            assert!(wanted.end <= len);
            let bytes = &film[wanted.start as usize..wanted.end as usize];
            match filling.fill(bytes, &mut into, &mut room) {
                Filled::Whole => break,
                Filled::More => assert!(filling.wanted().end > wanted.end),
                Filled::Different => panic!("bytes {at} to {end} of the view are different"),
            }
        }
        at = end;
    }
}

fuzz_target!(|film: &[u8]| {
    let len = film.len();
    let mut indexer = Indexer::new(len as u64, IndexOptions::default());
    let outcome = loop {
        match indexer.step() {
            Ok(Step::Need(range)) => {
                assert!(range.start < range.end && range.end <= len as u64);
                if let Err(error) = indexer.feed(&film[range.start as usize..range.end as usize]) {
                    break Err(error);
                }
            }
            Ok(Step::Done(index)) => break Ok(index),
            Err(error) => break Err(error),
        }
    };
    let index = match outcome {
        Ok(index) => index,
        Err(error) => {
            let named = matches!(
                error.kind,
                IndexErrorKind::Damaged | IndexErrorKind::TooLarge
            );
            assert!(!named || !error.path.is_empty());
            assert!(error.offset <= len as u64);
            assert!(error.to_string().len() < 20_000);
            return;
        }
    };
    assert!(!index.title.tracks.is_empty());
    make_view(film, &index.title, &index.tables);
    if let Some(title) = index.title.as_transport_stream() {
        make_view(film, &title, &index.tables);
    }
    if let Some(entries) = &index.title.entry_points {
        let points: Vec<_> = entries.points.iter().collect();
        assert!(points.is_sorted_by(|a, b| a.place < b.place && a.sample < b.sample));
        assert!(entries.tables.is_sorted_by(|a, b| a.place <= b.place));
        assert_eq!(entries.tables.first().map(|first| first.place), Some(0));
        for tables in &entries.tables {
            assert!(!tables.packets.is_empty() && tables.packets.len().is_multiple_of(188));
        }
    }
    for (number, track) in index.title.recorded().enumerate() {
        // A transport stream that is sent unchanged lies in the file, or in its own view.
        let view = match number < index.title.tracks.len() {
            true => index.title.view,
            false => index.title.multiplex_view,
        };
        let end = view.map_or(len as u64, |view| view.bytes);
        let mut first = 0;
        for group in &track.groups {
            assert_eq!(group.first, first);
            first += group.count;
        }
        assert_eq!(first, track.samples);
        assert!(
            index.tables[number]
                .iter()
                .all(|sample| sample.bytes().end <= end)
        );
        let bytes = index.tables[number].len() as usize * RECORD_BYTES;
        assert!(bytes <= 3 * 18 * len, "{bytes} bytes of records from {len}");
        // Calls that other crates make on a title.
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
