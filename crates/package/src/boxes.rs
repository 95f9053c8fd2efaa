//! A writer of ISO base media boxes (ISO/IEC 14496-12 4.2), limited to the boxes that this crate
//! needs.

/// Bytes of boxes being written.
#[derive(Default)]
pub(crate) struct Boxes {
    out: Vec<u8>,
}

impl Boxes {
    /// Creates a writer with room for `bytes`.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Boxes {
            out: Vec::with_capacity(bytes),
        }
    }

    /// Writes a box: its header, what `body` writes, and then its size into the header.
    pub(crate) fn put(&mut self, kind: &[u8; 4], body: impl FnOnce(&mut Self)) {
        let start = self.out.len();
        self.u32(0);
        self.bytes(kind);
        body(self);
        // Only headers are written here; their size is bounded by `cuts::MAX_SAMPLES`.
        let size = (self.out.len() - start) as u32;
        self.out[start..start + 4].copy_from_slice(&size.to_be_bytes());
    }

    /// Writes a full box: version and flags come before the body.
    pub(crate) fn full(
        &mut self,
        kind: &[u8; 4],
        version: u8,
        flags: u32,
        body: impl FnOnce(&mut Self),
    ) {
        self.put(kind, |b| {
            b.u32(u32::from(version) << 24 | flags);
            body(b);
        });
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub(crate) fn zeros(&mut self, count: usize) {
        self.out.resize(self.out.len() + count, 0);
    }

    /// Returns the number of bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.out
    }
}
