//! Views of files: their blocks are made from the files', however many are requested at once.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_store::{Making, ReadError, Source, Span, Store, StoreConfig, View};

const BLOCK: u64 = 4096;
/// Longest time that anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A file's bytes in reverse order, each with its bits inverted.
#[derive(Debug)]
struct Reversed {
    len: u64,
    /// Whether the file is taken for another.
    is_other: bool,
}

struct Part {
    wanted: Range<u64>,
    is_other: bool,
    /// Whether it has asked. The first time it asks for less than it needs.
    asked: bool,
}

impl View for Reversed {
    fn bytes(&self) -> u64 {
        self.len
    }

    fn make(&self, range: Range<u64>) -> io::Result<Box<dyn Making>> {
        Ok(Box::new(Part {
            wanted: self.len - range.end..self.len - range.start,
            is_other: self.is_other,
            asked: false,
        }))
    }
}

impl Making for Part {
    fn wanted(&self) -> Range<u64> {
        match self.asked {
            true => self.wanted.clone(),
            false => self.wanted.start..self.wanted.start + 1,
        }
    }

    fn make(&mut self, file: &[u8], into: &mut [u8], _room: &mut Vec<Vec<u8>>) -> io::Result<bool> {
        if self.is_other {
            return Err(io::Error::other("another file"));
        }
        if !self.asked {
            self.asked = true;
            return Ok(false);
        }
        for (into, from) in into.iter_mut().zip(file.iter().rev()) {
            *into = !from;
        }
        Ok(true)
    }
}

/// Creates a store with a pool of `blocks`, a file of 64 blocks, and a view of it.
fn opened(dir: &Path, blocks: u64, is_other: bool) -> (Store, Arc<Source>, Arc<Source>, Vec<u8>) {
    let bytes: Vec<u8> = (0..64 * BLOCK).map(|at| (at / 7 % 251) as u8).collect();
    let path = dir.join("file");
    std::fs::write(&path, &bytes).unwrap();
    let config = StoreConfig {
        pool_bytes: blocks * BLOCK,
        block_bytes: BLOCK as u32,
        ..StoreConfig::default()
    };
    let store = Store::new(config).unwrap();
    let file = store.open(&path).unwrap();
    let view = Arc::new(Reversed {
        len: file.len(),
        is_other,
    });
    let view = store.open_view(&file, view).unwrap();
    let turned = bytes.iter().rev().map(|byte| !byte).collect();
    (store, file, view, turned)
}

#[test]
fn more_blocks_of_a_view_are_wanted_at_once_than_the_pool_has() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _, view, turned) = opened(dir.path(), 8, false);
    let (sender, receiver) = channel();
    for nth in (0..64u64).rev() {
        let sender = sender.clone();
        let range = nth * BLOCK..(nth + 1) * BLOCK;
        let deadline = Monotonic::ZERO;
        store.fetch(
            &view,
            range,
            deadline,
            move |span: Result<Span, ReadError>| {
                let bytes = span.map(|span| span.slices(span.range()).collect::<Vec<_>>().concat());
                let _ = sender.send((nth, bytes));
            },
        );
    }
    for _ in 0..64 {
        let (nth, bytes) = receiver.recv_timeout(PATIENCE).expect("a block");
        let at = (nth * BLOCK) as usize;
        assert_eq!(
            bytes.unwrap(),
            turned[at..at + BLOCK as usize],
            "block {nth}"
        );
    }
}

#[test]
fn a_view_is_opened_once_and_forgotten_with_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let (store, file, view, _) = opened(dir.path(), 32, false);
    let again = Arc::new(Reversed {
        len: file.len(),
        is_other: true,
    });
    assert!(Arc::ptr_eq(&view, &store.open_view(&file, again).unwrap()));
    let (sender, receiver) = channel();
    store.fetch(&view, 0..BLOCK, Monotonic::ZERO, move |span| {
        let _ = sender.send(span.map(drop));
    });
    receiver.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(store.blocks_of(&view), [0]);
    store.forget(file.identity());
    assert!(store.blocks_of(&view).is_empty());
}

#[test]
fn a_file_that_is_another_than_the_view_is_of_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _, view, _) = opened(dir.path(), 32, true);
    let (sender, receiver) = channel();
    store.fetch(&view, 0..BLOCK, Monotonic::ZERO, move |span| {
        let _ = sender.send(span.map(drop));
    });
    let error = receiver.recv_timeout(PATIENCE).unwrap().unwrap_err();
    assert!(error.to_string().ends_with("another file"), "{error}");
}
