//! Where a plan's maker finds the film's bytes.

/// Bytes of a film that are in memory.
pub trait Bytes {
    /// Copies the film's bytes from `offset` on into all of `buf`; false (and `buf` undefined) if
    /// not all of them are there.
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
