//! Everything about RTP output that is known before a viewer connects.
//!
//! The crate holds payload formats ([`Payload`]), the packet plan of a group of samples ([`Plan`]),
//! the RTP header ([`Header`]), RTCP ([`rtcp`]) and SDP ([`sdp`]). It is pure: it opens no files,
//! sends nothing and reads no clock.
//!
//! A plan belongs to a film, not to a viewer. For each packet it records which bytes of the film
//! file it carries, the few bytes between them, and when it is due. No media byte is copied; the
//! sender gathers the pieces and adds the four fields that differ between viewers: payload type,
//! SSRC, first sequence number and timestamp base.
#![forbid(unsafe_code)]

mod aac;
mod av1;
mod bytes;
mod error;
mod frames;
mod h264;
mod h265;
mod header;
mod mp2t;
mod mpeg;
mod mpeg4;
mod nal;
mod options;
mod opus;
mod payload;
mod pcm;
mod plan;
pub mod rtcp;
pub mod sdp;
mod timing;
mod vp;

pub use bytes::Bytes;
pub use error::{Damage, PlanError, Unsupported};
pub use header::{Header, RTX_BYTES};
pub use options::PayloadOptions;
pub use payload::Payload;
pub use plan::{Frame, MAX_PIECES, Packet, Part, Piece, Plan};
pub use sdp::SdpMedia;
