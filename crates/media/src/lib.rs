//! Turns containers into titles.
//!
//! This crate contains the [`Title`] (tracks, samples, GOPs) and everything that builds one from a
//! film's bytes. It is pure and sans-IO: an indexer requests byte ranges and is fed them, so a
//! remote film is indexed like a local one. Positions and times come from the container, and media
//! data is not read, except for texts and the first bytes of tracks that the container does not
//! describe. Transport streams are read whole, since their containers state neither.
//!
//! Times are presentation times of the film in nanoseconds ([`Nanos`]) where they leave the crate,
//! and integer ticks of the track's timescale where exactness matters.
#![forbid(unsafe_code)]

mod chapters;
mod codec;
mod entry_points;
pub mod exchange;
mod exchanged_entries;
mod groups;
mod index;
mod index_error;
mod indexer;
mod language;
mod matroska;
mod mp4;
mod mpeg;
mod naming;
mod packets;
mod paged;
mod pcm;
mod places;
mod sample_entry;
mod samples;
mod scratch;
mod spool;
mod stored;
mod text;
mod texts;
mod time;
mod title;
mod track_head;
mod view;
mod vorbis;
mod vp;
mod wall_clock;
mod words;

pub use chapters::Chapter;
pub use codec::{
    AacConfig, Codec, H264Config, H265Config, Mpeg4Visual, MpegAudio, MpegVideo, OpusConfig,
    VpConfig,
};
pub use entry_points::{EntryPoint, EntryPoints, StreamTables};
pub use index::{Index, IndexOptions, Step};
pub use index_error::{IndexError, IndexErrorKind};
pub use indexer::{Indexer, ReadIndexError, Unfinished, index_growing, index_with, is_read_whole};
pub use language::bcp47;
pub use mpeg::opus_frame;
pub use packets::{GroupPackets, Packets};
pub use paged::{Paged, Record, WORDS};
pub use pcm::PcmConfig;
pub use places::{Filled, Move, Place, Places, STEP, View, WITH_HEADS};
pub use samples::{RECORD_BYTES, Sample, SampleTable, Samples, SamplesError, TimedSample};
pub use scratch::{SCRATCH_CHUNK, Scratch, ScratchSpace};
pub use stored::{Lost, Stored};
pub use text::{Document, TextForm, TextTrack};
pub use time::{Nanos, SECOND, nanos_to_ticks, rescale, ticks_to_nanos};
pub use title::{Container, Group, Groups, Kind, Picture, Sound, SyncSample, Title, Track};
pub use view::Filling;
pub use vorbis::VorbisConfig;
