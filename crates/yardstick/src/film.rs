//! Synthetic films, made without an encoder: an MP4 file of video and audio with the sizes and
//! times of a real film, and with random bytes (seeded). The films are never decoded, only sent,
//! received and compared.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use reelway_determinism::Random;

/// The parameters of a film.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// Length in seconds.
    pub seconds: u32,
    /// Pictures per second.
    pub fps: u32,
    /// Number of pictures from one sync sample to the next.
    pub gop: u32,
    /// Bit rate of the video in bits per second.
    pub picture_rate: u64,
    /// Bit rate of the audio in bits per second.
    pub sound_rate: u64,
    /// Whether media bytes are written, or the file has a hole instead.
    pub with_media: bool,
    /// Seed of the random bytes.
    pub seed: u64,
}

/// Default bit rate of the audio in bits per second.
pub const SOUND: u64 = 128_000;

impl Recipe {
    /// Returns a film of 25 pictures per second in GOPs of two seconds, with audio.
    pub fn usual(seconds: u32, picture_rate: u64) -> Recipe {
        Recipe {
            seconds,
            fps: 25,
            gop: 50,
            picture_rate,
            sound_rate: SOUND,
            with_media: true,
            seed: 1,
        }
    }
}

/// Sampling rate of the audio. An access unit has 1024 samples.
const SOUND_HZ: u32 = 48_000;
const AU_SAMPLES: u32 = 1024;

/// The growing tables of a track.
struct Table {
    sizes: Vec<u32>,
    /// Offsets of the chunks; every chunk holds one sample.
    offsets: Vec<u64>,
}

/// Returns the size of a picture. A sync picture is six times as large as the mean of the others,
/// which vary by half around it, as in natural film.
fn picture_size(recipe: &Recipe, number: u32, random: &mut Random) -> u32 {
    let mean = recipe.picture_rate / 8 / u64::from(recipe.fps);
    let gop = u64::from(recipe.gop);
    let others = mean * gop / (gop + 5);
    let size = if number.is_multiple_of(recipe.gop) {
        others * 6
    } else {
        others / 2 + random.within(0, others)
    };
    size.max(16) as u32
}

/// Writes the film, with `moov` before the media.
pub fn make(path: &Path, recipe: &Recipe) -> io::Result<()> {
    make_varying(path, recipe, &|_| 1.0)
}

/// Writes the film with pictures whose size is multiplied by `level` of their number.
pub fn make_varying(path: &Path, recipe: &Recipe, level: &dyn Fn(u32) -> f64) -> io::Result<()> {
    let mut random = Random::new(recipe.seed);
    let pictures = recipe.seconds * recipe.fps;
    let frames = (u64::from(recipe.seconds) * u64::from(SOUND_HZ) / u64::from(AU_SAMPLES)) as u32;
    let sound_size =
        (recipe.sound_rate / 8 * u64::from(AU_SAMPLES) / u64::from(SOUND_HZ)).max(8) as u32;

    // Interleaved by time, as muxers do.
    let mut picture = Table {
        sizes: Vec::new(),
        offsets: Vec::new(),
    };
    let mut sound = Table {
        sizes: Vec::new(),
        offsets: Vec::new(),
    };
    let mut at = 0;
    let mut next_sound = 0;
    for number in 0..pictures {
        let sound_due =
            u64::from(number) * u64::from(SOUND_HZ) / u64::from(recipe.fps) / u64::from(AU_SAMPLES);
        while u64::from(next_sound) <= sound_due && next_sound < frames {
            sound.offsets.push(at);
            sound.sizes.push(sound_size);
            at += u64::from(sound_size);
            next_sound += 1;
        }
        let size = picture_size(recipe, number, &mut random);
        let size = ((f64::from(size) * level(number)) as u32).max(16);
        picture.offsets.push(at);
        picture.sizes.push(size);
        at += u64::from(size);
    }
    for _ in next_sound..frames {
        sound.offsets.push(at);
        sound.sizes.push(sound_size);
        at += u64::from(sound_size);
    }

    let ftyp = boxed(b"ftyp", b"isom\0\0\0\x01isomavc1");
    let head = (ftyp.len() + moov(recipe, &picture, &sound, 0).len() + 16) as u64;
    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(&ftyp)?;
    out.write_all(&moov(recipe, &picture, &sound, head))?;
    out.write_all(&1_u32.to_be_bytes())?;
    out.write_all(b"mdat")?;
    out.write_all(&(at + 16).to_be_bytes())?;
    if recipe.with_media {
        write_media(&mut out, recipe, &picture, &sound, &mut random)?;
    } else {
        out.seek(SeekFrom::Start(head + at - 1))?;
        out.write_all(&[0])?;
    }
    out.into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .sync_all()
}

fn write_media(
    out: &mut impl Write,
    recipe: &Recipe,
    picture: &Table,
    sound: &Table,
    random: &mut Random,
) -> io::Result<()> {
    let mut order: Vec<(u64, u32, Option<usize>)> =
        Vec::with_capacity(picture.sizes.len() + sound.sizes.len());
    order.extend(
        picture
            .offsets
            .iter()
            .zip(&picture.sizes)
            .enumerate()
            .map(|(number, (at, size))| (*at, *size, Some(number))),
    );
    order.extend(
        sound
            .offsets
            .iter()
            .zip(&sound.sizes)
            .map(|(at, size)| (*at, *size, None)),
    );
    order.sort_unstable_by_key(|sample| sample.0);
    let mut bytes = Vec::new();
    for (_, size, number) in order {
        bytes.clear();
        if let Some(number) = number {
            let sync = (number as u32).is_multiple_of(recipe.gop);
            bytes.extend_from_slice(&(size - 4).to_be_bytes());
            bytes.push(if sync { 0x65 } else { 0x41 });
        }
        let left = size as usize - bytes.len();
        fill(&mut bytes, left, random);
        out.write_all(&bytes)?;
    }
    Ok(())
}

/// Appends `length` random bytes.
fn fill(bytes: &mut Vec<u8>, length: usize, random: &mut Random) {
    let end = bytes.len() + length;
    while bytes.len() < end {
        bytes.extend_from_slice(&random.bits().to_le_bytes());
    }
    bytes.truncate(end);
}

fn boxed(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 8);
    out.extend_from_slice(&(body.len() as u32 + 8).to_be_bytes());
    out.extend_from_slice(name);
    out.extend_from_slice(body);
    out
}

fn full(name: &[u8; 4], flags: u32, body: &[u8]) -> Vec<u8> {
    boxed(name, &[&flags.to_be_bytes(), body].concat())
}

fn words(values: &[u32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_be_bytes())
        .collect()
}

const MATRIX: [u32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];

/// Returns the movie box for media that begins at offset `media` in the file.
fn moov(recipe: &Recipe, picture: &Table, sound: &Table, media: u64) -> Vec<u8> {
    let mut mvhd = words(&[
        0,
        0,
        1000,
        recipe.seconds * 1000,
        0x1_0000,
        0x100_0000,
        0,
        0,
    ]);
    mvhd.extend(words(&MATRIX));
    mvhd.extend(words(&[0, 0, 0, 0, 0, 0, 3]));
    let sync: Vec<u32> = (0..picture.sizes.len() as u32)
        .step_by(recipe.gop as usize)
        .map(|number| number + 1)
        .collect();
    let pictures = trak(
        recipe,
        1,
        b"vide",
        (12_800, 12_800 / recipe.fps),
        avc1(),
        picture,
        Some(&sync),
        media,
    );
    let sounds = trak(
        recipe,
        2,
        b"soun",
        (SOUND_HZ, AU_SAMPLES),
        mp4a(),
        sound,
        None,
        media,
    );
    boxed(
        b"moov",
        &[full(b"mvhd", 0, &mvhd), pictures, sounds].concat(),
    )
}

#[allow(clippy::too_many_arguments)] // a track is its many tables
fn trak(
    recipe: &Recipe,
    id: u32,
    handler: &[u8; 4],
    (timescale, delta): (u32, u32),
    entry: Vec<u8>,
    table: &Table,
    sync: Option<&[u32]>,
    media: u64,
) -> Vec<u8> {
    let count = table.sizes.len() as u32;
    let is_picture = handler == b"vide";
    let mut tkhd = words(&[
        0,
        0,
        id,
        0,
        recipe.seconds * 1000,
        0,
        0,
        0,
        if is_picture { 0 } else { 0x100_0000 },
    ]);
    tkhd.extend(words(&MATRIX));
    tkhd.extend(if is_picture {
        words(&[1280 << 16, 720 << 16])
    } else {
        words(&[0, 0])
    });
    let mdhd = words(&[0, 0, timescale, count * delta, 0x55c4_0000]);
    let hdlr = [&words(&[0])[..], handler, &[0; 12], b"made\0"].concat();
    let header = if is_picture {
        full(b"vmhd", 1, &[0; 8])
    } else {
        full(b"smhd", 0, &[0; 4])
    };
    let dinf = boxed(
        b"dinf",
        &full(b"dref", 0, &[words(&[1]), full(b"url ", 1, &[])].concat()),
    );
    let mut stsz = words(&[0, count]);
    stsz.extend(words(&table.sizes));
    let mut co64 = words(&[count]);
    co64.extend(
        table
            .offsets
            .iter()
            .flat_map(|offset| (offset + media).to_be_bytes()),
    );
    let mut stbl = vec![
        full(b"stsd", 0, &[words(&[1]), entry].concat()),
        full(b"stts", 0, &words(&[1, count, delta])),
        full(b"stsc", 0, &words(&[1, 1, 1, 1])),
        full(b"stsz", 0, &stsz),
        full(b"co64", 0, &co64),
    ];
    if let Some(sync) = sync {
        let mut stss = words(&[sync.len() as u32]);
        stss.extend(words(sync));
        stbl.push(full(b"stss", 0, &stss));
    }
    let minf = boxed(
        b"minf",
        &[header, dinf, boxed(b"stbl", &stbl.concat())].concat(),
    );
    let mdia = boxed(
        b"mdia",
        &[full(b"mdhd", 0, &mdhd), full(b"hdlr", 0, &hdlr), minf].concat(),
    );
    boxed(b"trak", &[full(b"tkhd", 3, &tkhd), mdia].concat())
}

/// H.264 High, 1280×720.
fn avc1() -> Vec<u8> {
    const SPS: [u8; 26] = [
        0x67, 0x64, 0x00, 0x1f, 0xac, 0xd9, 0x40, 0x50, 0x05, 0xbb, 0x01, 0x10, 0x00, 0x00, 0x03,
        0x00, 0x10, 0x00, 0x00, 0x03, 0x03, 0xc0, 0xf1, 0x83, 0x19, 0x60,
    ];
    const PPS: [u8; 6] = [0x68, 0xeb, 0xe3, 0xcb, 0x22, 0xc0];
    let mut record = vec![1, SPS[1], SPS[2], SPS[3], 0xff, 0xe1, 0, SPS.len() as u8];
    record.extend_from_slice(&SPS);
    record.extend_from_slice(&[1, 0, PPS.len() as u8]);
    record.extend_from_slice(&PPS);
    record.extend_from_slice(&[0xfd, 0xf8, 0xf8, 0]);
    let mut body = vec![0, 0, 0, 0, 0, 0, 0, 1];
    body.extend_from_slice(&[0; 16]);
    body.extend_from_slice(&[1280_u16.to_be_bytes(), 720_u16.to_be_bytes()].concat());
    body.extend(words(&[0x48_0000, 0x48_0000, 0]));
    body.extend_from_slice(&1_u16.to_be_bytes());
    body.extend_from_slice(&[0; 32]);
    body.extend_from_slice(&[0, 0x18, 0xff, 0xff]);
    body.extend(boxed(b"avcC", &record));
    boxed(b"avc1", &body)
}

/// AAC-LC, 48 kHz, stereo.
fn mp4a() -> Vec<u8> {
    let config = [5_u8, 2, 0x11, 0x90];
    let decoder = [
        &[4_u8, 13 + 4, 0x40, 0x15, 0, 0, 0][..],
        &words(&[128_000, 128_000]),
        &config,
    ]
    .concat();
    let descriptor = [&[3_u8, 3 + 19 + 3, 0, 1, 0][..], &decoder, &[6, 1, 2]].concat();
    let mut body = vec![0, 0, 0, 0, 0, 0, 0, 1];
    body.extend_from_slice(&[0; 8]);
    body.extend_from_slice(&[0, 2, 0, 16, 0, 0, 0, 0]);
    body.extend(words(&[SOUND_HZ << 16]));
    body.extend(full(b"esds", 0, &descriptor));
    boxed(b"mp4a", &body)
}
