//! A part of a view is made of the file, whatever the view is.

use std::ops::Range;

use crate::places::{Filled, WITH_HEADS};
use crate::samples::{Samples, SamplesError};
use crate::title::Title;
use crate::{matroska, mpeg};

/// The making of some bytes of a view.
#[derive(Debug)]
pub struct Filling(Way);

#[derive(Debug)]
enum Way {
    Streams(mpeg::Filling),
    Heads(matroska::Filling),
}

impl Filling {
    /// Of the bytes `range` of the view of a film whose file has `len` bytes. `None`: the film has no view.
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
        let way = match view.packet {
            WITH_HEADS => Way::Heads(matroska::Filling::new(title, view, samples, range)?),
            _ => Way::Streams(mpeg::Filling::new(title, view, samples, len, range)?),
        };
        Ok(Some(Filling(way)))
    }

    /// Bytes of the file that are needed.
    pub fn wanted(&self) -> Range<u64> {
        match &self.0 {
            Way::Streams(filling) => filling.wanted(),
            Way::Heads(filling) => filling.wanted(),
        }
    }

    /// Makes the bytes, of those that are wanted of the file. What is gathered on the way is put into `room`, which is best kept
    /// for the next part.
    pub fn fill(&mut self, file: &[u8], into: &mut [u8], room: &mut Vec<Vec<u8>>) -> Filled {
        match &mut self.0 {
            Way::Streams(filling) => filling.fill(file, into, room),
            Way::Heads(filling) => filling.fill(file, into),
        }
    }
}
