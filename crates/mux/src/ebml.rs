//! Elements of Matroska (RFC 8794).

/// Returns the bytes of an element ID.
pub fn id(id: u32) -> Vec<u8> {
    let bytes = id.to_be_bytes();
    let first = bytes.iter().position(|byte| *byte > 0).unwrap_or(3);
    bytes[first..].to_vec()
}

/// Returns an element with a size field of four bytes; the body has at most 2²⁸ − 2 bytes.
pub fn element(number: u32, body: &[u8]) -> Vec<u8> {
    let size = 0x1000_0000 | body.len() as u32;
    [&id(number), &size.to_be_bytes()[..], body].concat()
}

/// Returns an element whose body is a number.
pub fn unsigned(number: u32, value: u32) -> Vec<u8> {
    element(number, &value.to_be_bytes())
}
