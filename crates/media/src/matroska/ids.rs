//! IDs of the elements that are visited (RFC 8794, RFC 9559 section 5.1).

pub const EBML: u32 = 0x1a45_dfa3;
pub const SEGMENT: u32 = 0x1853_8067;
pub const INFO: u32 = 0x1549_a966;
pub const TRACKS: u32 = 0x1654_ae6b;
pub const CLUSTER: u32 = 0x1f43_b675;
pub const SEEK_HEAD: u32 = 0x114d_9b74;
pub const CUES: u32 = 0x1c53_bb6b;
pub const CHAPTERS: u32 = 0x1043_a770;
pub const ATTACHMENTS: u32 = 0x1941_a469;
pub const TAGS: u32 = 0x1254_c367;
pub const TIMESTAMP: u32 = 0xe7;
pub const SIMPLE_BLOCK: u32 = 0xa3;
pub const BLOCK_GROUP: u32 = 0xa0;
pub const BLOCK: u32 = 0xa1;
pub const BLOCK_DURATION: u32 = 0x9b;
pub const REFERENCE: u32 = 0xfb;
pub const ADDITIONS: u32 = 0x75a1;

/// Returns whether this element ends a cluster of unknown size.
pub fn is_in_segment(id: u32) -> bool {
    matches!(
        id,
        INFO | TRACKS | CLUSTER | SEEK_HEAD | CUES | CHAPTERS | ATTACHMENTS | TAGS
    )
}
