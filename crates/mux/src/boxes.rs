//! Boxes of MP4 (ISO/IEC 14496-12 4.2).

/// Returns a box with these parts.
pub fn boxed(kind: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let size = (body.len() as u32 + 8).to_be_bytes();
    [&size[..], kind, &body].concat()
}

/// Returns a full box with 32-bit numbers.
pub fn full(kind: &[u8; 4], version: u8, flags: u32, words: &[u32]) -> Vec<u8> {
    boxed(
        kind,
        &[&be(&[u32::from(version) << 24 | flags]), &be(words)],
    )
}

/// Returns numbers as big-endian bytes.
pub fn be(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}
