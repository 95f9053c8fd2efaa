//! Dispatches the search for samples by the stream's coding.

use super::coded::{Coded, Order};
use super::nal::Family;
use super::pictures::{Counted, Pictures};
use super::psi::Coding;
use super::sounds::{Frames, Framing, Kind};
use super::visual::Visual;

/// A sample finder.
#[derive(Clone, Debug)]
pub enum Finder {
    Pictures(Box<Pictures>),
    Coded(Box<Coded>),
    Visual(Box<Visual>),
    Sounds(Frames, Framing, Option<Kind>),
}

/// A sample found in a stream.
pub struct FoundSample {
    pub start: usize,
    pub size: u32,
    pub sync: bool,
    pub order: Option<Order>,
    pub counted: Option<Counted>,
    /// The presentation time by the stream's own count from an arbitrary origin: ticks of 90 kHz.
    pub own: Option<i64>,
    /// Whether its configuration differs from that of the samples to be played.
    pub other: bool,
}

impl Finder {
    /// Creates a finder for this coding; `None` if it cannot be played.
    pub fn of(coding: &Coding) -> Option<Finder> {
        let pictures = |family| Finder::Pictures(Box::new(Pictures::new(family)));
        let sounds = |framing| Finder::Sounds(Frames::new(framing), framing, None);
        Some(match coding {
            Coding::H264 => pictures(Family::H264),
            Coding::H265 => pictures(Family::H265),
            Coding::MpegVideo => Finder::Coded(Box::default()),
            Coding::Mpeg4Visual => Finder::Visual(Box::default()),
            Coding::MpegAudio => sounds(Framing::Mpeg),
            Coding::Adts => sounds(Framing::Adts),
            Coding::Latm => sounds(Framing::Latm),
            Coding::Dolby => sounds(Framing::Dolby),
            Coding::Opus(channels) => sounds(Framing::Opus(*channels)),
            Coding::Dvd(sound) => sounds(Framing::Dvd(*sound)),
            Coding::Hdmv => sounds(Framing::Hdmv),
            Coding::Other(_) => return None,
        })
    }

    /// Returns whether it finds pictures.
    pub fn is_picture(&self) -> bool {
        !matches!(self, Finder::Sounds(..))
    }

    /// Returns the sample entry; `None` if the decoder configuration has not been found yet.
    pub fn entry(&self) -> Option<Vec<u8>> {
        match self {
            Finder::Pictures(pictures) => pictures.parameters.entry(),
            Finder::Coded(coded) => coded.entry(),
            Finder::Visual(visual) => visual.entry(),
            Finder::Sounds(_, _, kind) => kind.as_ref().map(|kind| kind.entry.clone()),
        }
    }

    /// Returns the position from which bytes are still needed.
    pub fn needed(&self) -> Option<usize> {
        match self {
            Finder::Pictures(pictures) => pictures.needed(),
            Finder::Coded(coded) => coded.needed(),
            Finder::Visual(visual) => visual.needed(),
            Finder::Sounds(frames, ..) => Some(frames.needed()),
        }
    }

    /// Adapts to the removal of the first `gone` bytes.
    pub fn forget(&mut self, gone: usize) {
        match self {
            Finder::Pictures(pictures) => pictures.forget(gone),
            Finder::Coded(coded) => coded.forget(gone),
            Finder::Visual(visual) => visual.forget(gone),
            Finder::Sounds(frames, ..) => frames.forget(gone),
        }
    }

    /// Returns the next whole sample in `bytes`, which are those of the last call and more.
    /// `is_end`: nothing follows.
    pub fn next(&mut self, bytes: &[u8], is_end: bool) -> Option<FoundSample> {
        let found = |start, size, sync| FoundSample {
            start,
            size,
            sync,
            order: None,
            counted: None,
            own: None,
            other: false,
        };
        match self {
            Finder::Pictures(pictures) => {
                let picture = pictures.next(bytes, is_end)?;
                let sync = picture.sync && pictures.parameters.are_known();
                Some(FoundSample {
                    counted: Some(picture.counted),
                    ..found(picture.start, picture.size, sync)
                })
            }
            Finder::Coded(coded) => {
                let picture = coded.next(bytes, is_end)?;
                Some(FoundSample {
                    order: Some(picture.order),
                    ..found(picture.start, picture.size, picture.sync)
                })
            }
            Finder::Visual(visual) => {
                let picture = visual.next(bytes, is_end)?;
                Some(FoundSample {
                    own: Some(picture.shown),
                    ..found(picture.start, picture.size, picture.sync)
                })
            }
            Finder::Sounds(frames, framing, kind) => {
                let frame = frames.next(bytes, is_end)?;
                if kind.is_none() {
                    let first = &bytes[frame.start..frame.end];
                    *kind = framing.kind(first);
                    frames.only(kind.as_ref().and_then(|_| framing.setup(first)));
                }
                Some(FoundSample {
                    other: frame.other,
                    ..found(frame.start, frame.size as u32, kind.is_some())
                })
            }
        }
    }
}
