//! What the fuzzer of index files begins with (`fuzz/corpus/index_file`): those of the films that the fuzzer of films begins
//! with. When the format changes, none of them is one any more, and the fuzzer sees no more than their first bytes.

use std::fs;
use std::path::{Path, PathBuf};

use reelway_catalogue::{Growth, IndexFile};
use reelway_media::{GroupPackets, Index, IndexOptions, Packets, index_with};
use reelway_sys::FileIdentity;

/// Makes them anew.
const RENEW: &str = "REELWAY_RENEW";

/// Of each film.
const IDENTITY: FileIdentity = FileIdentity {
    device: 1,
    inode: 2,
    size: 3,
    mtime_ns: 4,
};

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

/// The index of a film, as if it had been counted what its groups become over RTP.
fn indexed(film: &[u8]) -> Option<Index> {
    let read = |range: std::ops::Range<u64>, into: &mut Vec<u8>| {
        into.extend(&film[range.start as usize..range.end as usize]);
        Ok(())
    };
    let mut index = index_with(read, film.len() as u64, IndexOptions::default()).ok()?;
    for track in &mut index.title.tracks {
        let counted = track.groups.iter().map(|group| GroupPackets {
            packets: group.count,
            bytes: group.bytes,
            ..GroupPackets::default()
        });
        track.packets = Packets {
            payload: 1436,
            groups: counted.collect(),
        };
    }
    Some(index)
}

#[test]
fn the_index_files_that_the_fuzzer_begins_with_are_of_this_version() {
    let kept = corpus("index_file");
    if std::env::var_os(RENEW).is_some() {
        let before = files(&kept);
        before
            .iter()
            .for_each(|file| fs::remove_file(file).expect("it goes"));
        for film in files(&corpus("boxes")) {
            if let Some(Index { title, tables }) = indexed(&fs::read(&film).expect("a film")) {
                let file = kept.join(film.file_name().expect("a name"));
                IndexFile::write(&file, &IDENTITY, &title, &tables, Growth::default())
                    .expect("it is kept");
            }
        }
    }
    let files = files(&kept);
    for file in &files {
        let (title, _) = IndexFile::open(file, &IDENTITY).unwrap_or_else(|error| {
            panic!(
                "{}: {error}; {RENEW}=1 makes all of them anew",
                file.display()
            )
        });
        assert!(!title.tracks.is_empty(), "{}", file.display());
    }
    assert!(files.len() >= 20, "{} of them", files.len());
}
