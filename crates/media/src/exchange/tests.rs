//! Tests of the exchange format: what is written, and what is refused.

use super::*;
use crate::groups::group;
use crate::places::Places;
use crate::text::{Document, TextForm};
use crate::time::SECOND;
use crate::title::Kind;

/// A minute of audio in frames of 1,024 samples.
fn index() -> Index {
    let mut table = SampleTable::default();
    for number in 0..2812u64 {
        table.push(Sample {
            offset: 1000 + number * 100,
            size: 100,
            duration: 1024,
            cts: 0,
            sync: true,
        });
    }
    let sample_entry = crate::mp4::opus_entry();
    let entry = entry_of(&sample_entry, Kind::Audio).expect("an entry of Opus");
    let track = Track {
        id: 1,
        kind: Kind::Audio,
        codec: entry.codec,
        timescale: 48_000,
        shift: -312,
        language: Some("deu".into()),
        name: None,
        enabled: true,
        samples: table.len(),
        bytes: 281_200,
        duration: 2812 * 1024,
        groups: group(table.iter(), Kind::Audio, 512, 48_000, &Scratch::default()),
        packets: Packets {
            payload: 1438,
            groups: group(table.iter(), Kind::Audio, 512, 48_000, &Scratch::default())
                .iter()
                .map(|group| GroupPackets {
                    packets: group.count,
                    bytes: group.bytes,
                    sync_packets: 1,
                    sync_bytes: 100,
                })
                .collect(),
        },
        places: Places::default(),
        stripped: Vec::new(),
        moves: Vec::new(),
        picture: None,
        sound: entry.sound,
        sample_entry,
    };
    let end = 512 + 2812 * 1024 - 312;
    let title = Title {
        container: Container::Mp4,
        view: None,
        name: Some("Sound".into()),
        duration: ticks_to_nanos(end, 48_000),
        recorded_at: Some(1_700_000_000 * SECOND),
        tracks: vec![track],
        chapters: vec![Chapter::new(0, "Beginning"), Chapter::new(1_000_000, "")],
        texts: vec![TextTrack {
            id: 2,
            form: TextForm::SubRip,
            language: Some("deu".into()),
            name: None,
            default: false,
            forced: false,
            sdh: true,
            document: Document::new(b"1\n00:00:01,000 --> 00:00:02,000\nHallo\n".to_vec()),
        }],
        notes: vec!["a note".into()],
        multiplex: None,
        multiplex_view: None,
        entry_points: None,
    };
    Index {
        title,
        tables: vec![table],
    }
}

const LEN: u64 = 1000 + 281_200;

fn sent(index: &Index) -> Vec<u8> {
    let mut bytes = head(&index.title, LEN);
    let before = bytes.len() as u64;
    for table in &index.tables {
        bytes.extend(table.iter().flat_map(|sample| sample.to_record()));
    }
    assert_eq!(bytes.len() as u64 - before, record_bytes(&index.title));
    bytes
}

fn receive(bytes: &[u8], step: usize) -> Result<Index, ExchangeError> {
    let mut incoming = Incoming::new(LEN, IndexOptions::default());
    for part in bytes.chunks(step) {
        incoming.feed(part)?;
    }
    incoming.finish()
}

#[test]
fn what_is_sent_arrives_in_whatever_parts() {
    let index = index();
    let bytes = sent(&index);
    for step in [1, 7, 17, 18, 19, 1000, bytes.len()] {
        assert_eq!(receive(&bytes, step).as_ref(), Ok(&index), "{step}");
    }
}

#[test]
fn what_is_cut_short_or_too_long_or_of_another_film_is_refused() {
    let bytes = sent(&index());
    for end in [0, 10, PREFIX, PREFIX + 3, bytes.len() - 18, bytes.len() - 1] {
        let error = receive(&bytes[..end], 4096).unwrap_err();
        assert!(error.to_string().contains("ends before"), "{end}: {error}");
    }
    let longer = [&bytes[..], &[0; 18]].concat();
    let error = receive(&longer, 4096).unwrap_err();
    assert!(error.to_string().contains("goes on"), "{error}");
    let mut other = Incoming::new(LEN - 1, IndexOptions::default());
    let error = other.feed(&bytes).unwrap_err();
    assert!(error.to_string().contains("of a film of"), "{error}");
    let few = IndexOptions {
        max_samples: 100,
        ..IndexOptions::default()
    };
    let error = Incoming::new(LEN, few).feed(&bytes).unwrap_err();
    assert!(error.to_string().contains("2812 samples"), "{error}");
}

#[test]
fn a_sample_behind_the_end_is_refused() {
    let mut bytes = sent(&index());
    let record = bytes.len() - RECORD_BYTES;
    bytes[record..record + 6].copy_from_slice(&(LEN - 99).to_le_bytes()[..6]);
    let error = receive(&bytes, 4096).unwrap_err();
    assert!(
        error.to_string().contains("sample 2811 of track 1"),
        "{error}"
    );
}

proptest::proptest! {
    #[test]
    fn any_change_gives_an_index_that_is_sound_or_an_error(
        changes in proptest::collection::vec((0usize..60_000, 0u8..), 1..8),
    ) {
        let mut bytes = sent(&index());
        for (at, value) in changes {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        if let Ok(index) = receive(&bytes, 4096) {
            for (number, track) in index.title.recorded().enumerate() {
                let inside = |sample: Sample| sample.bytes().end <= LEN;
                proptest::prop_assert!(index.tables[number].iter().all(inside));
                for at in [i64::MIN, 0, index.title.duration, i64::MAX] {
                    let found = track.sync_sample_at(number, at, &index.tables);
                    proptest::prop_assert!(found.is_ok());
                }
            }
        }
    }
}
