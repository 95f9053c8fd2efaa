//! Uncompressed audio in private streams of DVDs and in transport streams of Blu-ray Discs. The
//! view has its frames one after the other: big-endian, without headers, in the channel order of
//! WAVE files.

use crate::PcmConfig;

/// The size of a header in a Blu-ray Disc stream, in bytes.
pub const HDMV_HEAD: usize = 4;
/// Bytes before the audio in a private DVD packet: substream number, number of frames that begin,
/// position of the first one, emphasis, format, dynamic range.
pub const DVD_HEAD: usize = 7;
/// The position of the format in this header.
const DVD_FORMAT: usize = 5;
/// Parts per unit: consecutive parts are joined up to this number.
pub const PARTS: u32 = 6;
/// Units per second.
const UNITS: u32 = 50;

/// A format of uncompressed audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lpcm {
    pub config: PcmConfig,
    /// Frames per second.
    pub rate: u32,
}

impl Lpcm {
    /// Reads the format in a packet of a DVD.
    ///
    /// # Errors
    /// Why it cannot be played, as text for users.
    pub fn of_dvd(packet: &[u8]) -> Result<Lpcm, &'static str> {
        let format = packet.get(DVD_FORMAT).copied().unwrap_or_default();
        let (size, channels) = (format >> 6, u32::from(format & 7) + 1);
        // Low bits of several frames follow their high bits: known for two channels of 24 bits.
        let bits = match (size, channels) {
            (0, _) => 16,
            (2, 2) => 24,
            _ => return Err("uncompressed sound of 20 bits, or of 24 and not two channels"),
        };
        let config = PcmConfig::new(bits, false, channels);
        Ok(Lpcm {
            config: config.map_err(|_| "uncompressed sound of an unknown form")?,
            rate: [48_000, 96_000, 44_100, 32_000][usize::from(format >> 4 & 3)],
        })
    }

    /// Returns the size of the next unit of a DVD stream, of which `rest` bytes are there; 0: more
    /// are needed. `is_end`: nothing follows.
    pub fn dvd_unit(&self, rest: usize, is_end: bool) -> usize {
        let group = self.group() as usize;
        let whole =
            (self.rate / UNITS).max(2) as usize / 2 * 2 * self.config.frame_bytes() as usize;
        match rest < whole {
            true if is_end => rest / group * group,
            true => 0,
            false => whole,
        }
    }

    /// Returns the number of bytes that belong together in a DVD stream.
    fn group(&self) -> u32 {
        match self.config.bits {
            16 => self.config.frame_bytes(),
            _ => self.config.frame_bytes() * 2,
        }
    }

    /// Returns the audio of some 24-bit groups of a DVD stream: in each group of four numbers, the
    /// 16 high bits of all four precede the low bits.
    pub fn ungrouped(bytes: &[u8]) -> Vec<u8> {
        let groups = bytes.as_chunks::<12>().0.iter();
        let numbers = groups.flat_map(|group| {
            (0..4).flat_map(|nth| [group[2 * nth], group[2 * nth + 1], group[8 + nth]])
        });
        numbers.collect()
    }

    /// Returns the number of frames in this many bytes of a DVD stream.
    pub fn frames_of(&self, bytes: u64) -> i64 {
        (bytes / u64::from(self.config.frame_bytes())) as i64
    }
}

/// A header in a Blu-ray Disc stream and the audio after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hdmv {
    pub sound: Lpcm,
    /// The number of bytes after the header.
    pub bytes: usize,
    /// For each channel, its index in the stream.
    order: &'static [u8],
    /// The size of a stored frame, which has an even number of channels, in bytes.
    stored: usize,
}

/// The channel orders by channel_assignment.
const ORDERS: [&[u8]; 12] = [
    &[],
    &[0],
    &[],
    &[0, 1],
    &[0, 1, 2],
    &[0, 1, 2],
    &[0, 1, 2, 3],
    &[0, 1, 2, 3],
    &[0, 1, 2, 3, 4],
    // The sixth is the LFE channel.
    &[0, 1, 2, 5, 3, 4],
    // Left side, left back, right back, right side, and LFE.
    &[0, 1, 2, 4, 5, 3, 6],
    &[0, 1, 2, 7, 4, 5, 3, 6],
];

impl Hdmv {
    /// Parses a header; `None` if it is invalid.
    pub fn parse(bytes: &[u8]) -> Option<Hdmv> {
        let [high, low, form, size] = *bytes.first_chunk::<HDMV_HEAD>()?;
        let order = *ORDERS.get(usize::from(form >> 4))?;
        let rate = match form & 0xf {
            1 => 48_000,
            4 => 96_000,
            5 => 192_000,
            _ => return None,
        };
        // 20-bit numbers take 24 bits.
        let bits = match size >> 6 {
            1 => 16,
            2 | 3 => 24,
            _ => return None,
        };
        let config = PcmConfig::new(bits, false, order.len() as u32).ok()?;
        let stored = order.len().next_multiple_of(2) * bits as usize / 8;
        let bytes = usize::from(u16::from_be_bytes([high, low]));
        (bytes > 0 && bytes.is_multiple_of(stored)).then_some(Hdmv {
            sound: Lpcm { config, rate },
            bytes,
            order,
            stored,
        })
    }

    /// Returns for how many parts of a unit this counts.
    pub fn parts(&self) -> u32 {
        let frames = (self.bytes / self.stored) as u32;
        // A unit of 30 ms.
        (frames * PARTS)
            .div_ceil(self.sound.rate * 3 / 100)
            .clamp(1, PARTS)
    }
}

/// Returns the audio in a part of a Blu-ray Disc stream, headers removed; `None` if it is damaged.
pub fn hdmv_sound(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut sound = Vec::with_capacity(bytes.len());
    while !bytes.is_empty() {
        let head = Hdmv::parse(bytes)?;
        let (body, rest) = bytes[HDMV_HEAD..].split_at_checked(head.bytes)?;
        let size = usize::from(head.sound.config.bits / 8);
        for frame in body.chunks_exact(head.stored) {
            for channel in head.order {
                let at = usize::from(*channel) * size;
                sound.extend_from_slice(&frame[at..at + size]);
            }
        }
        bytes = rest;
    }
    Some(sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with this payload size.
    fn head(bytes: u16, assignment: u8, rate: u8, bits: u8) -> Vec<u8> {
        let [high, low] = bytes.to_be_bytes();
        vec![high, low, assignment << 4 | rate, bits << 6]
    }

    #[test]
    fn formats_of_dvds_are_read() {
        let of = |format: u8| Lpcm::of_dvd(&[0xa0, 7, 0, 4, 0, format, 0x80]);
        let form = |format: u8| {
            of(format).map(|sound| (sound.config.bits, sound.config.channels, sound.rate))
        };
        assert_eq!(form(0x01), Ok((16, 2, 48_000)));
        assert_eq!(form(0x91), Ok((24, 2, 96_000)));
        assert_eq!(form(0x25), Ok((16, 6, 44_100)));
        assert!(form(0x41).is_err() && form(0x80).is_err() && form(0xc1).is_err());
    }

    #[test]
    fn units_of_dvds_are_whole_groups() {
        let of = |format: u8| Lpcm::of_dvd(&[0xa0, 7, 0, 4, 0, format, 0x80]).unwrap();
        let stereo = of(0x01);
        assert_eq!(stereo.dvd_unit(3839, false), 0);
        assert_eq!(stereo.dvd_unit(3840, false), 3840);
        assert_eq!(stereo.dvd_unit(9, true), 8);
        assert_eq!(stereo.dvd_unit(3, true), 0);
        assert_eq!(of(0x81).dvd_unit(5760 - 1, true), 5748);
        let group = [1, 2, 4, 5, 7, 8, 10, 11, 3, 6, 9, 12];
        assert!(Lpcm::ungrouped(&group).into_iter().eq(1..13));
    }

    #[test]
    fn channels_of_blu_ray_discs_are_put_in_order_and_what_fills_is_left_out() {
        let mono = [head(8, 1, 1, 1), vec![1, 2, 0, 0, 3, 4, 0, 0]].concat();
        assert_eq!(hdmv_sound(&mono), Some(vec![1, 2, 3, 4]));
        let surround = [head(18, 9, 1, 3), (0..18).collect()].concat();
        let expected = [0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 9, 10, 11, 12, 13, 14];
        assert_eq!(hdmv_sound(&surround), Some(expected.to_vec()));
        assert_eq!(
            hdmv_sound(&[surround.clone(), surround].concat()),
            Some([expected, expected].concat())
        );
        assert_eq!(hdmv_sound(&mono[..9]), None);
    }

    #[test]
    fn other_headers_are_none() {
        assert_eq!(Hdmv::parse(&head(960, 3, 1, 1)).unwrap().parts(), 1);
        assert_eq!(Hdmv::parse(&head(65_532, 3, 1, 1)).unwrap().parts(), PARTS);
        for wrong in [
            head(0, 3, 1, 1),
            head(962, 3, 1, 1),
            head(960, 2, 1, 1),
            head(960, 12, 1, 1),
            head(960, 3, 2, 1),
            head(960, 3, 1, 0),
            vec![3, 0xc0, 0x31],
        ] {
            assert_eq!(Hdmv::parse(&wrong), None, "{wrong:?}");
        }
    }
}
