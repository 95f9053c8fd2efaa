//! Access to the bytes of a film while its packets are planned.

/// Bytes of a film that are in memory.
pub trait Bytes {
    /// Copies the film's bytes that begin at `offset` into `buf`, filling it. Returns false (and
    /// leaves `buf` undefined) if not all of them are in memory.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> bool;
}

/// A whole film, or its beginning, as a slice.
impl Bytes for &[u8] {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> bool {
        let Ok(start) = usize::try_from(offset) else {
            return false;
        };
        let Some(from) = start
            .checked_add(buf.len())
            .and_then(|end| self.get(start..end))
        else {
            return false;
        };
        buf.copy_from_slice(from);
        true
    }
}
