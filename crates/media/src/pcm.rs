//! Uncompressed audio: interleaved integer PCM. Its sample entry is `ipcm` (ISO/IEC 23003-5),
//! whatever name the film's own container has for it.

use serde::{Deserialize, Serialize};

use crate::sample_entry::{boxed, sound_of_bits};

/// The maximum number of channels.
const MOST_CHANNELS: u16 = 64;
/// The maximum sampling rate in Hz.
const MOST_RATE: u32 = 768_000;

/// Integer PCM. A frame has one number for each channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PcmConfig {
    /// Bits per number: 16, 24 or 32.
    pub bits: u8,
    /// Whether the numbers are stored in little-endian order.
    pub little_endian: bool,
    /// Channels: 1 to 64.
    pub channels: u16,
}

impl PcmConfig {
    /// Creates the configuration of PCM with this many bits and channels.
    ///
    /// # Errors
    /// Why it cannot be played, as text for users.
    pub fn new(bits: u32, little_endian: bool, channels: u32) -> Result<PcmConfig, String> {
        if !matches!(bits, 16 | 24 | 32) {
            return Err(format!("uncompressed sound of {bits} bits"));
        }
        let known = u16::try_from(channels).ok();
        let known = known.filter(|channels| (1..=MOST_CHANNELS).contains(channels));
        let config = known.map(|channels| PcmConfig {
            bits: bits as u8,
            little_endian,
            channels,
        });
        config.ok_or_else(|| format!("uncompressed sound of {channels} channels"))
    }

    /// Returns the size of a frame in bytes.
    pub fn frame_bytes(&self) -> u32 {
        u32::from(self.bits / 8) * u32::from(self.channels)
    }

    /// Returns the sample entry for this many frames per second; `None` if the rate is not valid.
    pub(crate) fn entry(&self, rate: u32) -> Option<Vec<u8>> {
        if !(1..=MOST_RATE).contains(&rate) {
            return None;
        }
        let pcmc = boxed(
            b"pcmC",
            &[&[0; 4], &[u8::from(self.little_endian), self.bits]],
        );
        // The entry's own field has 16 bits (ISO/IEC 14496-12 12.2.3.2).
        let srat = match rate > 0xffff {
            true => boxed(b"srat", &[&[0; 4], &rate.to_be_bytes()]),
            false => Vec::new(),
        };
        let config = [pcmc, srat].concat();
        // ffmpeg before version 6.1 takes the sample size from here, not from `pcmC`.
        let shape = (rate, self.channels, self.bits);
        Some(sound_of_bits(b"ipcm", shape, &config))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mp4::entry_of;
    use crate::{Codec, Kind, Sound};

    #[test]
    fn what_goes_into_a_sample_entry_comes_out_of_it() {
        for (bits, little_endian, channels, rate) in [
            (16, false, 2, 48_000),
            (24, true, 1, 44_100),
            (32, true, 6, 192_000),
        ] {
            let config = PcmConfig::new(bits, little_endian, channels).unwrap();
            let entry = entry_of(&config.entry(rate).unwrap(), Kind::Audio).unwrap();
            let sound = Sound {
                channels: channels as u16,
                rate,
            };
            assert_eq!(entry.sound, Some(sound));
            assert_eq!(entry.codec, Codec::Pcm(config));
            assert_eq!(config.frame_bytes(), bits / 8 * channels);
        }
    }

    #[test]
    fn other_numbers_of_bits_and_channels_cannot_be_played() {
        let why = PcmConfig::new(8, false, 2).unwrap_err();
        assert_eq!(why, "uncompressed sound of 8 bits");
        assert!(PcmConfig::new(16, false, 0).is_err());
        assert!(PcmConfig::new(16, false, 0x1_0002).is_err());
        let config = PcmConfig::new(16, false, 2).unwrap();
        assert_eq!((config.entry(0), config.entry(MOST_RATE + 1)), (None, None));
    }
}
