//! What the fuzzer of indexes that other servers send begins with (`fuzz/corpus/exchange`): those of the films that the
//! fuzzer of films begins with. When the format changes, none of them is an index any more, and the fuzzer sees little more
//! than the first error.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::index;
use reelway_media::exchange::{Incoming, VERSION, head};
use reelway_media::{GroupPackets, Index, IndexOptions, Packets};

/// Bytes before the head, which are the same for all but for its length.
const PREFIX: usize = 24;
/// Makes them anew.
const RENEW: &str = "REELWAY_RENEW";

fn corpus(target: &str) -> PathBuf {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");
    Path::new(corpus).join(target)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

/// As the fuzzer takes it: bytes of the head and of the film, the head, and the samples; packets of all groups are counted.
fn input(mut index: Index, len: usize) -> Option<Vec<u8>> {
    for track in &mut index.title.tracks {
        let counted = track.groups.iter().map(|group| GroupPackets {
            packets: group.count,
            bytes: group.bytes.max(group.count),
            sync_packets: group.sync.into(),
            sync_bytes: u32::from(group.sync),
        });
        track.packets = Packets {
            payload: 1436,
            groups: counted.collect(),
        };
    }
    let mut bytes = head(&index.title, len as u64).split_off(PREFIX);
    let (size, len) = (u16::try_from(bytes.len()).ok()?, len as u32);
    for table in &index.tables {
        bytes.extend(table.iter().flat_map(|sample| sample.to_record()));
    }
    Some([&size.to_le_bytes()[..], &len.to_le_bytes(), &bytes].concat())
}

/// As the fuzzer reads it.
fn read(input: &[u8]) -> Result<Index, String> {
    let (size, rest) = input.split_first_chunk::<2>().ok_or("no length")?;
    let size = u32::from(u16::from_le_bytes(*size)).to_le_bytes();
    let (len, rest) = rest.split_first_chunk::<4>().ok_or("no length")?;
    let len = u64::from(u32::from_le_bytes(*len));
    let version = VERSION.to_le_bytes();
    let bytes = [b"RWSHARED", &version[..], &size, &len.to_le_bytes(), rest].concat();
    let mut incoming = Incoming::new(len, IndexOptions::default());
    let fed = incoming.feed(&bytes);
    let whole = fed.and_then(|()| incoming.finish());
    whole.map_err(|error| error.to_string())
}

#[test]
fn the_indexes_that_the_fuzzer_begins_with_are_of_this_version() {
    let kept = corpus("exchange");
    if std::env::var_os(RENEW).is_some() {
        files(&kept)
            .iter()
            .for_each(|file| fs::remove_file(file).expect("it goes"));
        for film in files(&corpus("boxes")) {
            let bytes = fs::read(&film).expect("a film");
            let made = index(&bytes).ok();
            if let Some(input) = made.and_then(|index| input(index, bytes.len())) {
                let name = film.file_name().expect("a name");
                fs::write(kept.join(name), input).expect("it is kept");
            }
        }
    }
    let files = files(&kept);
    for file in &files {
        let read = read(&fs::read(file).expect("an index"));
        let name = file.display();
        assert!(
            read.is_ok(),
            "{name}: {:?}; {RENEW}=1 makes all of them anew",
            read.err()
        );
    }
    assert!(files.len() >= 20, "{} of them", files.len());
}
