//! Matroska films for tests, built element by element.
#![allow(dead_code, reason = "each test uses its own part")]

use reelway_media::{Index, IndexError, IndexOptions, Indexer, Step};
pub use reelway_mux::ebml::{element, id, unsigned};

/// An element of unknown size, whose end is determined by what follows.
pub fn endless(number: u32, body: &[u8]) -> Vec<u8> {
    [id(number), vec![0xff], body.to_vec()].concat()
}

pub const EBML: u32 = 0x1a45_dfa3;
pub const SEGMENT: u32 = 0x1853_8067;
pub const INFO: u32 = 0x1549_a966;
pub const TRACKS: u32 = 0x1654_ae6b;
pub const CLUSTER: u32 = 0x1f43_b675;
pub const TIMESTAMP: u32 = 0xe7;
pub const SIMPLE_BLOCK: u32 = 0xa3;
pub const BLOCK_GROUP: u32 = 0xa0;

pub fn header() -> Vec<u8> {
    element(EBML, &element(0x4282, b"matroska"))
}

/// A video track (H.264) with this number and additional elements.
pub fn picture(number: u32, more: &[u8]) -> Vec<u8> {
    let avcc = [
        1, 100, 0, 31, 0xff, 0xe1, 0, 3, 0x67, 1, 2, 1, 0, 2, 0x68, 3,
    ];
    let video = [unsigned(0xb0, 320), unsigned(0xba, 180)].concat();
    let body = [
        unsigned(0xd7, number),
        unsigned(0x83, 1),
        element(0x86, b"V_MPEG4/ISO/AVC"),
        element(0x63a2, &avcc),
        element(0xe0, &video),
        more.to_vec(),
    ];
    element(0xae, &body.concat())
}

/// An audio track (AAC, 48 kHz) with this number and additional elements.
pub fn sound(number: u32, more: &[u8]) -> Vec<u8> {
    let audio = [element(0xb5, &48_000f64.to_be_bytes()), unsigned(0x9f, 2)].concat();
    let body = [
        unsigned(0xd7, number),
        unsigned(0x83, 2),
        element(0x86, b"A_AAC"),
        element(0x63a2, &[0x11, 0x90]),
        element(0xe1, &audio),
        more.to_vec(),
    ];
    element(0xae, &body.concat())
}

/// A block: track, time in its cluster, flags, and the rest.
pub fn block(track: u8, time: i16, flags: u8, rest: &[u8]) -> Vec<u8> {
    let [high, low] = time.to_be_bytes();
    [&[0x80 | track, high, low, flags][..], rest].concat()
}

pub fn cluster(time: u32, blocks: &[Vec<u8>]) -> Vec<u8> {
    [unsigned(TIMESTAMP, time), blocks.concat()].concat()
}

pub fn key(track: u8, time: i16, rest: &[u8]) -> Vec<u8> {
    element(SIMPLE_BLOCK, &block(track, time, 0x80, rest))
}

pub fn other(track: u8, time: i16, rest: &[u8]) -> Vec<u8> {
    element(SIMPLE_BLOCK, &block(track, time, 0, rest))
}

/// A film with these parts of the segment.
pub fn film(parts: &[Vec<u8>]) -> Vec<u8> {
    [header(), element(SEGMENT, &parts.concat())].concat()
}

/// Indexes a film, and counts the requested bytes.
pub fn index_counting(film: &[u8], asked: &mut u64) -> Result<Index, IndexError> {
    let mut indexer = Indexer::new(film.len() as u64, IndexOptions::default());
    loop {
        match indexer.step()? {
            Step::Done(index) => return Ok(index),
            Step::Need(range) => {
                *asked += range.end - range.start;
                indexer.feed(&film[range.start as usize..range.end as usize])?;
            }
        }
    }
}

pub fn index(film: &[u8]) -> Result<Index, IndexError> {
    index_counting(film, &mut 0)
}
