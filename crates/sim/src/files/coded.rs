//! Pictures and sound as from an encoder: the headers are valid, the rest is generated.

use reelway_determinism::Random;

/// Ticks per second of all times in this module.
pub(crate) const TICKS: u64 = 90_000;
/// Ticks from one picture to the next.
const PICTURE: u64 = TICKS / 25;
/// Pictures of a GOP in decoding order, by their positions in presentation order.
const GOP: [u64; 10] = [0, 3, 1, 2, 6, 4, 5, 9, 7, 8];

/// Size of the picture in macroblocks.
const WIDE: u32 = 20;
const HIGH: u32 = 12;

/// A sample.
pub(crate) struct Unit {
    /// The sample in an MPEG stream: with start codes, or a header.
    pub stream: Vec<u8>,
    /// What a receiver should get of it: NAL units, or one part with all of it.
    pub parts: Vec<Vec<u8>>,
    /// When it is decoded and shown, in ticks.
    pub decoded: u64,
    pub shown: u64,
    pub sync: bool,
}

impl Unit {
    /// Returns the sample in a view, or in a file that has lengths instead of start codes.
    pub fn sample(&self) -> Vec<u8> {
        match &self.parts[..] {
            [whole] if !self.stream.starts_with(&[0, 0, 0, 1]) => whole.clone(),
            units => units.iter().flat_map(|unit| with_length(unit)).collect(),
        }
    }
}

fn with_length(unit: &[u8]) -> Vec<u8> {
    [&(unit.len() as u32).to_be_bytes()[..], unit].concat()
}

/// Bits that are packed into bytes.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    fn put(mut self, count: u32, value: u32) -> Bits {
        for bit in (0..count).rev() {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if let Some(last) = self.bytes.last_mut() {
                *last |= ((value >> bit & 1) as u8) << (7 - self.used % 8);
            }
            self.used += 1;
        }
        self
    }

    /// An Exp-Golomb code (ITU-T H.264 9.1).
    fn golomb(self, value: u32) -> Bits {
        let length = (value + 1).ilog2();
        self.put(length, 0).put(length + 1, value + 1)
    }

    /// Returns the completed parameter set (7.3.2.11), with emulation prevention bytes (7.4.1).
    fn set(self) -> Vec<u8> {
        let mut set = Vec::new();
        for byte in self.put(1, 1).bytes {
            if byte <= 3 && set.ends_with(&[0, 0]) {
                set.push(3);
            }
            set.push(byte);
        }
        set
    }
}

/// Returns parameter sets of H.264: their counts have 8 bits, and 25 pictures are shown per second.
pub(crate) fn sets() -> [Vec<u8>; 2] {
    let sequence = Bits::default()
        .put(24, 0x4d_40_1e)
        .golomb(0)
        .golomb(4)
        .golomb(0)
        .golomb(4)
        .golomb(3)
        .put(1, 0)
        .golomb(WIDE - 1)
        .golomb(HIGH - 1)
        // Frames, without cropping; then the duration of each.
        .put(4, 0b1101)
        .put(4, 0)
        .put(1, 1)
        .put(32, 1)
        .put(32, 50)
        .put(1, 1)
        .put(4, 0)
        .set();
    let picture = Bits::default()
        .golomb(0)
        .golomb(0)
        .put(2, 0)
        .golomb(0)
        .golomb(0)
        .golomb(0)
        .put(3, 0)
        .golomb(0)
        .golomb(0)
        .golomb(0)
        .put(3, 0)
        .set();
    [
        [&[0x67], &sequence[..]].concat(),
        [&[0x68], &picture[..]].concat(),
    ]
}

/// Returns the `avcC` box content of the parameter sets (ISO/IEC 14496-15 5.3.3).
pub(crate) fn avcc() -> Vec<u8> {
    let [sequence, picture] = sets();
    let mut avcc = vec![1, sequence[1], sequence[2], sequence[3], 0xff, 0xe1];
    avcc.extend((sequence.len() as u16).to_be_bytes());
    avcc.extend(&sequence);
    avcc.push(1);
    avcc.extend((picture.len() as u16).to_be_bytes());
    avcc.extend(&picture);
    avcc
}

/// Returns bytes that contain no start code and no sync word of an audio frame.
fn filled(random: &mut Random, length: u64) -> impl Iterator<Item = u8> {
    let mut words = Vec::with_capacity(length as usize + 8);
    while (words.len() as u64) < length {
        words.extend(random.bits().to_le_bytes());
    }
    words.truncate(length as usize);
    words.into_iter().map(|byte| byte & 0x7f | 1)
}

/// Returns when the nth picture is decoded and shown, whether it begins a GOP, and its
/// position in it.
fn times(nth: u64) -> (u64, u64, bool, u64) {
    let (gop, within) = (nth / GOP.len() as u64, nth as usize % GOP.len());
    let place = GOP[within];
    let shown = gop * GOP.len() as u64 + place + 1;
    (nth * PICTURE, shown * PICTURE, within == 0, place)
}

/// Returns the size of a picture: the first of a GOP is large, and those from which no other is
/// decoded are small.
fn size(random: &mut Random, sync: bool, referred: bool) -> u64 {
    match (sync, referred) {
        (true, _) => random.within(15_000, 40_000),
        (_, true) => random.within(2_000, 9_000),
        _ => random.within(200, 4_000),
    }
}

/// Returns `pictures` pictures of H.264, each of up to three slices.
pub(crate) fn h264(random: &mut Random, pictures: u64) -> Vec<Unit> {
    let [sequence, parameters] = sets();
    let mut frame = 0;
    let picture = |nth| {
        let (decoded, shown, sync, place) = times(nth);
        let referred = place.is_multiple_of(3);
        let mut parts = Vec::new();
        if sync {
            parts.extend([sequence.clone(), parameters.clone()]);
            frame = 0;
        }
        let slices = random.within(1, 4);
        let all = size(random, sync, referred);
        for slice in 0..slices {
            let (kind, head) = match (sync, referred) {
                (true, _) => (7, 0x65),
                (_, true) => (5, 0x41),
                _ => (6, 0x01),
            };
            let bits = Bits::default()
                .golomb((slice as u32) * WIDE * 2)
                .golomb(kind)
                .golomb(0)
                .put(8, frame);
            let bits = match sync {
                true => bits.golomb((nth / 10 % 2) as u32),
                false => bits,
            };
            let bits = bits.put(8, 2 * place as u32).put(8, 0xff);
            let mut unit = vec![head];
            unit.extend(bits.bytes);
            unit.extend(filled(random, all / slices));
            parts.push(unit);
        }
        if referred {
            frame += 1;
        }
        let mut stream = vec![0, 0, 0, 1, 9, 0xf0];
        for part in &parts {
            stream.extend(vec![0; random.below(2)]);
            stream.extend([0, 0, 1]);
            stream.extend(part);
        }
        Unit {
            stream,
            parts,
            decoded,
            shown,
            sync,
        }
    };
    (0..pictures).map(picture).collect()
}

/// Returns `pictures` pictures of MPEG-2.
pub(crate) fn mpeg2(random: &mut Random, pictures: u64) -> Vec<Unit> {
    let picture = |nth| {
        let (decoded, shown, sync, place) = times(nth);
        let referred = place.is_multiple_of(3);
        let mut stream = Vec::new();
        if sync {
            let sequence = Bits::default()
                .put(12, WIDE * 16)
                .put(12, HIGH * 16)
                .put(8, 0x13)
                .put(18, 5000)
                .put(14, 0x2000 | 112 << 3);
            stream.extend([0, 0, 1, 0xb3]);
            stream.extend(sequence.bytes);
            // Main profile, main level, 4:2:0.
            stream.extend([0, 0, 1, 0xb5, 0x14, 0x8a, 0, 1, 1, 0]);
            stream.extend([0, 0, 1, 0xb8, 0x80, 0x08, 0x01, 0x40]);
        }
        let kind = match (sync, referred) {
            (true, _) => 1,
            (_, true) => 2,
            _ => 3,
        };
        let head = Bits::default()
            .put(10, place as u32)
            .put(3, kind)
            .put(16, 0xffff);
        let head = match kind {
            1 => head,
            2 => head.put(4, 7),
            _ => head.put(8, 0x77),
        };
        stream.extend([0, 0, 1, 0]);
        stream.extend(head.put(1, 0).bytes);
        stream.extend([0, 0, 1, 0xb5, 0x8f, 0xff, 0xf3, 0x41, 0x80]);
        let all = size(random, sync, referred);
        for row in 1..=HIGH {
            stream.extend([0, 0, 1, row as u8]);
            stream.extend(filled(random, all / u64::from(HIGH)));
        }
        Unit {
            parts: vec![stream.clone()],
            stream,
            decoded,
            shown,
            sync,
        }
    };
    (0..pictures).map(picture).collect()
}

/// An audio codec.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sound {
    /// AAC-LC at 48 kHz with two channels; with ADTS headers in streams.
    Aac,
    /// MPEG-1 layer II at 192 kb/s, 48 kHz.
    Mp2,
    /// Frames of 20 ms.
    Opus,
}

impl Sound {
    /// Returns the ticks of a frame.
    pub fn ticks(self) -> u64 {
        match self {
            Sound::Aac => 1920,
            Sound::Mp2 => 2160,
            Sound::Opus => 1800,
        }
    }
}

/// Returns sound with a duration of `ticks`, which begins when the first picture is shown.
pub(crate) fn sound(random: &mut Random, sound: Sound, ticks: u64) -> Vec<Unit> {
    let frame = |nth| {
        let mut stream = Vec::new();
        let mut whole = Vec::new();
        match sound {
            Sound::Aac => {
                let length = random.within(200, 700);
                let size = length as usize + 7;
                stream.extend([0xff, 0xf1, 0x4c, 0x80 | (size >> 11) as u8]);
                stream.extend([(size >> 3) as u8, (size << 5) as u8 | 0x1f, 0xfc]);
                whole.extend(filled(random, length));
                stream.extend(&whole);
            }
            Sound::Mp2 => {
                whole.extend([0xff, 0xfd, 0xa4, 0]);
                whole.extend(filled(random, 572));
                stream.extend(&whole);
            }
            Sound::Opus => {
                whole.push(0xfc);
                whole.extend(filled(random, 240));
                stream.extend(&whole);
            }
        }
        let shown = PICTURE + nth * sound.ticks();
        Unit {
            stream,
            parts: vec![whole],
            decoded: shown,
            shown,
            sync: true,
        }
    };
    (0..ticks / sound.ticks()).map(frame).collect()
}
