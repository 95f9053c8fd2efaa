//! Films as HLS and DASH see them: fragmented MP4 segments, and the manifests that name them.
//!
//! What lives here: [`Package`], made once per film from its [`Title`](reelway_media::Title) and
//! sample tables. It knows where each track is cut, how long every segment is to the byte, and of
//! which generated headers and ranges of the film it consists, without ever reading media data:
//! a segment is a few hundred bytes of our own plus slices of the film file. The same segments
//! serve HLS and DASH. [`SlicedStream`] is a film that is a transport stream in segments that are slices of it, for HLS.
//!
//! The crate is pure: no I/O but through [`Samples`](reelway_media::Samples), no clock, no network.
//! How presentation times survive the repackaging is told in `docs/design/timeline.md` and in
//! [`timeline`](self).
#![forbid(unsafe_code)]

mod alignment;
mod boxes;
mod cuts;
mod dash;
mod fragment;
mod hls;
mod init;
mod links;
mod package;
mod picture;
mod rate;
mod segment;
mod stream;
mod stream_hls;
mod timeline;

pub use alignment::{Misaligned, check_alignment};
pub use dash::{mpd, xml_escape};
pub use hls::{StableIds, media_playlist, multivariant_playlist, stable_ids, subtitle_playlist};
pub use links::{Links, Recording, Rendition, Subtitles};
pub use package::{Options, Package, PackageError, PackagedTrack, Slices};
pub use picture::FrameRate;
pub use rate::BitRate;
pub use segment::{Part, Segment};
pub use stream::{NoSlices, SlicedStream, StreamSlices, sliceable};
pub use stream_hls::{stream_multivariant_playlist, stream_playlist};
