//! Builds the configuration of VP8 and VP9 from the first frame, for containers that do not state
//! it (RFC 6386 9.1; VP9 Bitstream Specification 6.2; VP Codec ISO Media File Format Binding 1.0).

use crate::mp4::Bits;
use crate::sample_entry::boxed;

/// The sync code in the header of a sync frame.
const SYNC: u32 = 0x49_83_42;
/// The color_space value of sRGB.
const SRGB: u32 = 7;
/// The chromaSubsampling values of 4:2:0 (colocated with luma), 4:2:2 and 4:4:4.
const C420: u8 = 1;
const C422: u8 = 2;
const C444: u8 = 3;
/// Unspecified primaries, transfer characteristics and matrix (ITU-T H.273).
const UNSTATED: [u8; 3] = [2, 2, 2];

/// Ten times the level, the maximum luma sample rate and the maximum luma picture size (VP9
/// Bitstream Specification annex A).
const LEVELS: [(u8, u64, u64); 14] = [
    (10, 829_440, 36_864),
    (11, 2_764_800, 73_728),
    (20, 4_608_000, 122_880),
    (21, 9_216_000, 245_760),
    (30, 20_736_000, 552_960),
    (31, 36_864_000, 983_040),
    (40, 83_558_400, 2_228_224),
    (41, 160_432_128, 2_228_224),
    (50, 311_951_360, 8_912_896),
    (51, 588_251_136, 8_912_896),
    (52, 1_176_502_272, 8_912_896),
    (60, 1_176_502_272, 35_651_584),
    (61, 2_353_004_544, 35_651_584),
    (62, 4_706_009_088, 35_651_584),
];

/// The properties of a stream according to its sync frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    profile: u8,
    depth: u8,
    chroma: u8,
    full_range: bool,
    colours: [u8; 3],
}

/// Returns `vpcC` for VP8, which has a single picture format.
pub(crate) fn vp8(frame: &[u8]) -> Option<Vec<u8>> {
    let head = Head {
        profile: frame.first()? >> 1 & 7,
        depth: 8,
        chroma: C420,
        full_range: false,
        colours: UNSTATED,
    };
    (head.profile < 4).then(|| vpcc(head, 0))
}

/// Returns `vpcC` for VP9 video with this picture size and this many pictures per second.
pub(crate) fn vp9(frame: &[u8], size: (u16, u16), rate: u32) -> Option<Vec<u8>> {
    Some(vpcc(Head::parse(frame)?, level(size, rate)))
}

impl Head {
    /// Parses the uncompressed header of a VP9 frame.
    fn parse(frame: &[u8]) -> Option<Head> {
        let mut bits = Bits::new(frame);
        if bits.take(2)? != 2 {
            return None;
        }
        let profile = (bits.take(1)? | bits.take(1)? << 1) as u8;
        if profile == 3 && bits.take(1)? != 0 {
            return None;
        }
        // show_existing_frame, frame_type, show_frame, error_resilient_mode.
        if (bits.take(1)?, bits.take(1)?) != (0, 0) {
            return None;
        }
        bits.take(2)?;
        if bits.take(24)? != SYNC {
            return None;
        }
        let depth = match profile >= 2 {
            true => 10 + 2 * bits.take(1)? as u8,
            false => 8,
        };
        let is_odd = profile & 1 == 1;
        let space = bits.take(3)?;
        let (full_range, chroma) = match (space, is_odd) {
            (SRGB, _) => (true, C444),
            (_, false) => (bits.take(1)? == 1, C420),
            (_, true) => {
                let full_range = bits.take(1)? == 1;
                let chroma = match (bits.take(1)?, bits.take(1)?) {
                    (1, 0) => C422,
                    (1, 1) => C420,
                    _ => C444,
                };
                (full_range, chroma)
            }
        };
        let colours = match space {
            1 => [6, 6, 6],
            2 => [1, 1, 1],
            5 => [9, 14, 9],
            SRGB => [1, 13, 0],
            _ => UNSTATED,
        };
        Some(Head {
            profile,
            depth,
            chroma,
            full_range,
            colours,
        })
    }
}

/// Returns the lowest level that allows this picture size at this many pictures per second.
fn level(size: (u16, u16), rate: u32) -> u8 {
    let samples = u64::from(size.0) * u64::from(size.1);
    let fits = |level: &&(u8, u64, u64)| samples <= level.2 && samples * u64::from(rate) <= level.1;
    LEVELS.iter().find(fits).map_or(62, |level| level.0)
}

fn vpcc(head: Head, level: u8) -> Vec<u8> {
    let [primaries, transfer, matrix] = head.colours;
    let form = head.depth << 4 | head.chroma << 1 | u8::from(head.full_range);
    boxed(
        b"vpcC",
        &[
            &[1, 0, 0, 0, head.profile, level, form],
            &[primaries, transfer, matrix, 0, 0],
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_frame_of_vp9_says_what_is_in_the_box() {
        // Profile 0, BT.709, limited range.
        let frame = [0b1000_0000, 0x49, 0x83, 0x42, 0b0100_0000, 0];
        let made = vp9(&frame, (1920, 1080), 30).unwrap();
        assert_eq!(made[8..], [1, 0, 0, 0, 0, 40, 0x82, 1, 1, 1, 0, 0]);
        // Profile 2, 10 bits, BT.2020.
        let frame = [0b1001_0000, 0x49, 0x83, 0x42, 0b0101_0000, 0];
        let made = vp9(&frame, (3840, 2160), 60).unwrap();
        assert_eq!(made[8..], [1, 0, 0, 0, 2, 51, 0xa2, 9, 14, 9, 0, 0]);
        // Not a sync frame.
        assert_eq!(
            vp9(&[0b1000_0100, 0x49, 0x83, 0x42, 0x40], (16, 16), 30),
            None
        );
        for len in 0..5 {
            assert_eq!(vp9(&frame[..len], (16, 16), 30), None);
        }
    }
}
