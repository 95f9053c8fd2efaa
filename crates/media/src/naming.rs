//! What codecs are called: in manifests (RFC 6381) and by people.

use crate::Codec;

impl Codec {
    /// The `codecs` parameter of RFC 6381: `avc1.64001f`, `hvc1.1.6.L93.B0`, `av01.0.04M.08`, `mp4a.40.2`, `opus`.
    pub fn rfc6381(&self) -> String {
        String::new()
    }

    /// What people call it: `H.264 High`, `HEVC Main 10`, `AAC-LC`.
    pub fn name(&self) -> String {
        String::new()
    }
}
