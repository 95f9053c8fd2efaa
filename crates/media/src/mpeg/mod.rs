//! MPEG transport streams and program streams (ISO/IEC 13818-1), system streams of MPEG-1 (ISO/IEC 11172-1), and streams of
//! pictures by themselves, become an [`crate::Index`] and a view.
//!
//! Their samples do not lie in the file as they are played: they come in pieces, with other streams between, with
//! start codes or headers of their own. So the index has them where they lie in the *view*: all samples of the film one after
//! the other, without what is around them, NAL units with their lengths. Nothing of the view is on a disk. Who reads a part of it
//! has it made of the file by [`view`], which finds the beginning by the [`Place`](crate::Place)s in the index.
//!
//! [`carrier`] says what the streams lie in, and [`reader`] goes through the file once: [`ts`] and [`ps`] take packets apart,
//! [`psi`] says which streams there are, [`pes`] what time it is; [`elementary`] puts a stream together again (of [`arrivals`]), and
//! [`finder`] finds its samples: [`pictures`] (with [`parameters`] and [`sequence`]), [`coded`], [`visual`] and [`sounds`] (with
//! [`adts`], [`latm`], [`lpcm`] and [`opus`]). [`clock`] lays their times on one line, [`date`] tells when that was, [`bare`] tells them where nothing states them, and [`film`] makes tracks of it. Beside that, [`multiplex`] makes one
//! track of all packets of a transport stream as they are, in samples as [`sending`] cuts them.

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
