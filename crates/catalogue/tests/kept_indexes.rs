//! Seed inputs of the index fuzzers, made from those of the film fuzzer (`fuzz/corpus/boxes`): as
//! files (`index_file`), and as other servers send them (`exchange`). After a change of the format,
//! none of them is a valid index any more, and the fuzzers see little more than the first error.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use reelway_catalogue::{Growth, IndexFile};
use reelway_media::exchange::{Incoming, VERSION, head};
use reelway_media::{GroupPackets, Index, IndexOptions, Packets, index_with};
use reelway_sys::FileIdentity;

/// Environment variable: if it is set, the inputs are made again.
const RENEW: &str = "REELWAY_RENEW";

/// The identity of each film.
const IDENTITY: FileIdentity = FileIdentity {
    device: 1,
    inode: 2,
    size: 3,
    mtime_ns: 4,
};

/// Bytes before the head of a transmitted index. They are constant except for its length.
const PREFIX: usize = 24;

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

/// Returns the index of a film with made-up packet counts.
fn indexed(film: &[u8]) -> Option<Index> {
    let read = |range: Range<u64>, into: &mut Vec<u8>| {
        into.extend(&film[range.start as usize..range.end as usize]);
        Ok(())
    };
    let mut index = index_with(read, film.len() as u64, IndexOptions::default()).ok()?;
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
    Some(index)
}

/// Checks that all kept inputs of a target can be read without an error. To renew them, `make`
/// writes that of a film.
fn are_of_this_version(
    target: &str,
    make: impl Fn(&Path, Index, usize),
    read: impl Fn(&Path) -> Result<(), String>,
) {
    let kept = corpus(target);
    if std::env::var_os(RENEW).is_some() {
        for file in files(&kept) {
            fs::remove_file(file).expect("it goes");
        }
        for film in files(&corpus("boxes")) {
            let bytes = fs::read(&film).expect("a film");
            if let Some(index) = indexed(&bytes) {
                let name = film.file_name().expect("a name");
                make(&kept.join(name), index, bytes.len());
            }
        }
    }
    let files = files(&kept);
    for file in &files {
        if let Err(error) = read(file) {
            let name = file.display();
            panic!("{name}: {error}; {RENEW}=1 makes all of them anew");
        }
    }
    assert!(files.len() >= 20, "{} of them", files.len());
}

#[test]
fn the_index_files_that_the_fuzzer_begins_with_are_of_this_version() {
    let make = |file: &Path, index: Index, _| {
        let Index { title, tables } = index;
        IndexFile::write(file, &IDENTITY, &title, &tables, Growth::default()).expect("it is kept");
    };
    let read = |file: &Path| {
        let opened = IndexFile::open(file, &IDENTITY).map_err(|error| error.to_string())?;
        assert!(!opened.0.tracks.is_empty(), "{}", file.display());
        Ok(())
    };
    are_of_this_version("index_file", make, read);
}

#[test]
fn the_indexes_of_other_servers_that_the_fuzzer_begins_with_are_of_this_version() {
    // Lengths of the head and of the film, the head, and the samples.
    let make = |file: &Path, index: Index, len: usize| {
        let mut bytes = head(&index.title, len as u64).split_off(PREFIX);
        let size = u16::try_from(bytes.len()).expect("a small head");
        for table in &index.tables {
            bytes.extend(table.iter().flat_map(|sample| sample.to_record()));
        }
        let len = (len as u32).to_le_bytes();
        let input = [&size.to_le_bytes()[..], &len, &bytes].concat();
        fs::write(file, input).expect("it is kept");
    };
    let read = |file: &Path| {
        let input = fs::read(file).expect("an index");
        let (size, rest) = input.split_first_chunk::<2>().ok_or("no length")?;
        let size = u32::from(u16::from_le_bytes(*size)).to_le_bytes();
        let (len, rest) = rest.split_first_chunk::<4>().ok_or("no length")?;
        let len = u64::from(u32::from_le_bytes(*len));
        let version = VERSION.to_le_bytes();
        let bytes = [b"RWSHARED", &version[..], &size, &len.to_le_bytes(), rest].concat();
        let mut incoming = Incoming::new(len, IndexOptions::default());
        let fed = incoming.feed(&bytes);
        let whole = fed.and_then(|()| incoming.finish());
        whole.map(drop).map_err(|error| error.to_string())
    };
    are_of_this_version("exchange", make, read);
}
