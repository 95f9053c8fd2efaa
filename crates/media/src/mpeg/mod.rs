//! Turns MPEG transport streams and program streams (ISO/IEC 13818-1), MPEG-1 system streams
//! (ISO/IEC 11172-1) and video elementary streams into an [`crate::Index`] and a view.
//!
//! Their samples are not contiguous in the file: they come in pieces, between those of other
//! streams, and with start codes or headers of their own. So the index has the positions of samples
//! in the *view*: all samples of the film one after the other, without what surrounds them, and NAL
//! units with their lengths. The view is not stored on disk. When a part of it is read, [`view`]
//! makes it from the file; it finds the beginning by the [`Place`](crate::Place)s in the index.
//!
//! [`carrier`] determines what carries the streams, and [`reader`] reads the file once: [`ts`] and
//! [`ps`] parse packets, [`psi`] lists the streams, [`pes`] reads times. [`elementary`] reassembles
//! a stream (from [`arrivals`]), and [`finder`] finds its samples: [`pictures`] (with
//! [`parameters`] and [`sequence`]), [`coded`], [`visual`] and [`sounds`] (with [`adts`], [`latm`],
//! [`lpcm`] and [`opus`]). [`clock`] puts their times on one timeline, [`date`] reads its
//! wall-clock time, [`bare`] derives times that are not stated, and [`film`] makes the tracks. In
//! addition, [`multiplex`] makes one track of all packets of a transport stream, in samples cut by
//! [`sending`].

mod adts;
mod arrivals;
mod bare;
mod carrier;
mod clock;
mod coded;
mod date;
mod elementary;
mod film;
mod finder;
mod latm;
mod lpcm;
mod multiplex;
mod nal;
mod opus;
mod packets;
mod parameters;
mod pes;
mod pictures;
mod ps;
mod psi;
mod reader;
mod sending;
mod sequence;
mod sounds;
mod streams;
mod ts;
mod view;
mod visual;

pub(crate) use carrier::Carrier;
pub(crate) use multiplex::{MOST_CHANGES, MOST_TABLES};
pub use opus::opus_frame;
pub(crate) use packets::Filling as Packets;
pub(crate) use reader::Reader;
pub(crate) use ts::PACKET;
pub(crate) use view::Filling;
