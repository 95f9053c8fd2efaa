//! Makes parts of a view from the file, for every kind of view.

use std::ops::Range;

use crate::places::{Filled, WITH_HEADS};
use crate::samples::{Samples, SamplesError};
use crate::title::{Title, Track};
use crate::{Codec, matroska, mpeg};

/// The process of making some bytes of a view.
#[derive(Debug)]
pub struct Filling(Way);

#[derive(Debug)]
enum Way {
    Streams(mpeg::Filling),
    Heads(matroska::Filling),
    Packets(mpeg::Packets),
}

impl Filling {
    /// Starts making the bytes `range` of the view of a film whose file has `len` bytes. Returns
    /// `None` if the film has no view.
    ///
    /// # Errors
    /// The film's sample records cannot be read.
    pub fn new(
        title: &Title,
        samples: &dyn Samples,
        len: u64,
        range: Range<u64>,
    ) -> Result<Option<Filling>, SamplesError> {
        let Some(view) = title.view else {
            return Ok(None);
        };
        let is_multiplex = |track: &Track| matches!(track.codec, Codec::TransportStream(_));
        let way = match view.packet {
            _ if title.tracks.first().is_some_and(is_multiplex) => {
                Way::Packets(mpeg::Packets::new(title, view, range))
            }
            WITH_HEADS => Way::Heads(matroska::Filling::new(title, view, samples, range)?),
            _ => Way::Streams(mpeg::Filling::new(title, view, samples, len, range)?),
        };
        Ok(Some(Filling(way)))
    }

    /// Returns the byte range of the file that is needed.
    pub fn wanted(&self) -> Range<u64> {
        match &self.0 {
            Way::Streams(filling) => filling.wanted(),
            Way::Heads(filling) => filling.wanted(),
            Way::Packets(filling) => filling.wanted(),
        }
    }

    /// Makes the bytes from the requested bytes of the file. `room` holds intermediate data;
    /// callers should reuse it for the next part.
    pub fn fill(&mut self, file: &[u8], into: &mut [u8], room: &mut Vec<Vec<u8>>) -> Filled {
        match &mut self.0 {
            Way::Streams(filling) => filling.fill(file, into, room),
            Way::Heads(filling) => filling.fill(file, into),
            Way::Packets(filling) => filling.fill(file, into),
        }
    }
}
