//! The Vorbis headers from which decoders are configured (Vorbis I specification, section 4.2), in
//! the form in which containers carry them: laced as in Ogg.

use serde::{Deserialize, Serialize};

/// The unregistered objectTypeIndication of Vorbis in `esds`, as ffmpeg and GPAC use it.
pub(crate) const OBJECT_TYPE: u8 = 0xdd;
/// The size of an identification header in bytes (section 4.2.2).
const IDENTIFICATION: usize = 30;
/// The maximum size of a setup header in bytes; real ones are far smaller.
const MOST_SETUP: usize = 15_000;
/// A comment header without comments. Decoders need none.
const COMMENTS: [u8; 16] = *b"\x03vorbis\0\0\0\0\0\0\0\0\x01";

/// The configuration of Vorbis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VorbisConfig {
    /// The identification header.
    identification: [u8; IDENTIFICATION],
    /// The setup header.
    setup: Vec<u8>,
}

impl VorbisConfig {
    /// Reads three consecutive headers. Before them come their number minus one and the lengths of
    /// the first two, each as bytes of 255 and a last one below. Comments are skipped: some contain
    /// whole pictures.
    pub fn parse(bytes: &[u8]) -> Option<VorbisConfig> {
        let mut bytes = bytes.strip_prefix(&[2])?;
        let mut length = || {
            let full = bytes.iter().take_while(|byte| **byte == 255).count();
            let last = usize::from(*bytes.get(full)?);
            bytes = &bytes[full + 1..];
            Some(full * 255 + last)
        };
        let (identification, comments) = (length()?, length()?);
        let (identification, bytes) = bytes.split_at_checked(identification)?;
        let setup = bytes.get(comments..)?;
        let is_it = |header: &[u8], kind: u8| header.split_first() == Some((&kind, &b"vorbis"[..]));
        let head: &[u8; IDENTIFICATION] = identification.first_chunk()?;
        let is_known = is_it(&head[..7], 1) && is_it(setup.get(..7)?, 5);
        if !is_known || setup.len() > MOST_SETUP {
            return None;
        }
        let config = VorbisConfig {
            identification: *head,
            setup: setup.to_vec(),
        };
        (config.channels() > 0 && config.rate() > 0).then_some(config)
    }

    /// Returns the number of channels.
    pub fn channels(&self) -> u8 {
        self.identification[11]
    }

    /// Returns the sampling rate in Hz.
    pub fn rate(&self) -> u32 {
        let head = &self.identification;
        u32::from_le_bytes([head[12], head[13], head[14], head[15]])
    }

    /// Returns the three headers one after the other, and where the second and the third begin.
    pub fn headers(&self) -> (Vec<u8>, [usize; 2]) {
        let second = self.identification.len();
        let headers = [&self.identification[..], &COMMENTS, &self.setup].concat();
        (headers, [second, second + COMMENTS.len()])
    }

    /// Returns the headers in the form that [`VorbisConfig::parse`] reads.
    pub(crate) fn laced(&self) -> Vec<u8> {
        let (headers, _) = self.headers();
        let lengths = [2, self.identification.len() as u8, COMMENTS.len() as u8];
        [&lengths[..], &headers].concat()
    }
}

/// Headers for tests.
#[cfg(test)]
pub(crate) fn headers(comments: usize) -> Vec<u8> {
    let mut identification = b"\x01vorbis\0\0\0\0\x02".to_vec();
    identification.extend(44_100u32.to_le_bytes());
    identification.extend([0; 12]);
    identification.extend([0xb8, 1]);
    let mut bytes = vec![2, identification.len() as u8];
    bytes.extend(std::iter::repeat_n(255, comments / 255));
    bytes.push((comments % 255) as u8);
    bytes.extend(identification);
    bytes.extend(std::iter::repeat_n(b'c', comments));
    bytes.extend(b"\x05vorbis and what follows");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_any_length_are_passed_over() {
        for comments in [0, 1, 254, 255, 256, 510, 70_000] {
            let config = VorbisConfig::parse(&headers(comments)).unwrap();
            assert_eq!((config.channels(), config.rate()), (2, 44_100));
            assert_eq!(config.setup, b"\x05vorbis and what follows");
            assert_eq!(VorbisConfig::parse(&config.laced()), Some(config));
        }
    }

    #[test]
    fn headers_that_are_none_are_not_taken() {
        let good = headers(300);
        for end in 0..good.len() - 17 {
            assert_eq!(VorbisConfig::parse(&good[..end]), None, "{end} bytes");
        }
        let lies = [(0, 1), (1, 255), (1, 29), (4, 3), (5, b'V')];
        for (at, byte) in lies {
            let mut bytes = good.clone();
            bytes[at] = byte;
            assert_eq!(VorbisConfig::parse(&bytes), None, "byte {at} is {byte}");
        }
        let mut silent = good;
        silent[4 + 11] = 0;
        assert_eq!(VorbisConfig::parse(&silent), None, "no channels");
    }
}
