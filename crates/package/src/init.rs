//! The initialisation segment of a track: `ftyp` and a `moov` without samples (ISO/IEC 14496-12 8.8.1).

use reelway_media::{Kind, Track, rescale};

use crate::boxes::Boxes;
use crate::timeline::Timeline;

/// The unity matrix (ISO/IEC 14496-12 8.3.2.3).
const UNITY: [i32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];
/// Ticks per second of the movie header, the usual milliseconds. No exact time uses them.
const MOVIE_TIMESCALE: u32 = 1000;

/// Writes the initialisation segment. `end`: the track's presentation end in ticks.
pub(crate) fn init(track: &Track, timeline: &Timeline, end: i64) -> Vec<u8> {
    let movie_duration = rescale(end.max(0), track.timescale, MOVIE_TIMESCALE) as u64;
    let mut b = Boxes::with_capacity(1024 + track.sample_entry.len());
    b.put(b"ftyp", |b| {
        b.bytes(b"iso6");
        b.u32(0);
        // iso6: default-base-is-moof, signed offsets; cmf2: signed offsets, no edit list for
        // pictures.
        b.bytes(b"iso6cmf2dash");
    });
    b.put(b"moov", |b| {
        b.full(b"mvhd", 0, 0, |b| {
            b.u32(0); // created and modified: unknown
            b.u32(0);
            b.u32(MOVIE_TIMESCALE);
            b.u32(0); // duration: no samples here; mehd has it
            b.u32(0x1_0000); // rate 1
            b.u16(0x100); // volume 1
            b.zeros(10);
            matrix(b, &UNITY);
            b.zeros(24);
            b.u32(track.id.saturating_add(1).max(2)); // next_track_ID
        });
        b.put(b"trak", |b| trak(b, track, timeline));
        b.put(b"mvex", |b| {
            b.full(b"mehd", 1, 0, |b| b.u64(movie_duration));
            b.full(b"trex", 0, 0, |b| {
                b.u32(track.id);
                b.u32(1); // the one sample entry
                b.zeros(12); // defaults are in each tfhd
            });
        });
    });
    b.into_vec()
}

fn trak(b: &mut Boxes, track: &Track, timeline: &Timeline) {
    b.full(b"tkhd", 0, 0x7, |b| {
        // Flags: enabled (players choose by manifest), in movie, in preview.
        b.u32(0);
        b.u32(0);
        b.u32(track.id);
        b.u32(0);
        b.u32(0); // duration: unknown, fragments follow
        b.zeros(8);
        b.u16(0); // layer
        b.u16(u16::from(track.kind == Kind::Audio)); // alternate group
        b.u16(if track.kind == Kind::Audio { 0x100 } else { 0 }); // volume
        b.u16(0);
        matrix(
            b,
            track
                .picture
                .as_ref()
                .map_or(&UNITY, |picture| &picture.matrix),
        );
        let (width, height) = track
            .picture
            .as_ref()
            .map_or((0, 0), |picture| picture.display);
        b.u32(width);
        b.u32(height);
    });
    if timeline.priming > 0 {
        b.put(b"edts", |b| {
            b.full(b"elst", 1, 0, |b| {
                b.u32(1);
                b.u64(0); // until the end of all fragments
                b.u64(timeline.priming as u64);
                b.u32(0x1_0000); // rate 1
            });
        });
    }
    b.put(b"mdia", |b| {
        b.full(b"mdhd", 0, 0, |b| {
            b.u32(0);
            b.u32(0);
            b.u32(track.timescale);
            b.u32(0);
            b.u16(packed_language(track.language.as_deref()));
            b.u16(0);
        });
        b.full(b"hdlr", 0, 0, |b| {
            b.u32(0);
            b.bytes(if track.kind == Kind::Video {
                b"vide"
            } else {
                b"soun"
            });
            b.zeros(12);
            let name = track.name.as_deref().unwrap_or_default();
            b.bytes(name.replace('\0', "").as_bytes());
            b.bytes(&[0]);
        });
        // A language that three letters cannot express (ISO/IEC 14496-12 8.4.6).
        if let Some(language) = track
            .language
            .as_deref()
            .filter(|l| three_letters(l).is_none())
        {
            b.full(b"elng", 0, 0, |b| {
                b.bytes(language.replace('\0', "").as_bytes());
                b.bytes(&[0]);
            });
        }
        b.put(b"minf", |b| {
            match track.kind {
                Kind::Video => b.full(b"vmhd", 0, 1, |b| b.zeros(8)),
                Kind::Audio => b.full(b"smhd", 0, 0, |b| b.zeros(4)),
            }
            b.put(b"dinf", |b| {
                b.full(b"dref", 0, 0, |b| {
                    b.u32(1);
                    b.full(b"url ", 0, 1, |_| {}); // the media are in this file
                });
            });
            b.put(b"stbl", |b| {
                b.full(b"stsd", 0, 0, |b| {
                    b.u32(1);
                    b.bytes(&track.sample_entry);
                });
                b.full(b"stts", 0, 0, |b| b.u32(0));
                b.full(b"stsc", 0, 0, |b| b.u32(0));
                b.full(b"stsz", 0, 0, |b| b.zeros(8));
                b.full(b"stco", 0, 0, |b| b.u32(0));
            });
        });
    });
}

fn matrix(b: &mut Boxes, matrix: &[i32; 9]) {
    for value in matrix {
        b.i32(*value);
    }
}

/// Returns the language if it is an ISO 639-2/T code, which `mdhd` can hold.
fn three_letters(language: &str) -> Option<[u8; 3]> {
    let letters: [u8; 3] = language.as_bytes().try_into().ok()?;
    letters
        .iter()
        .all(u8::is_ascii_lowercase)
        .then_some(letters)
}

/// Returns the language for `mdhd`: three letters of five bits, `und` if unknown (ISO/IEC 14496-12
/// 8.4.2.3).
fn packed_language(language: Option<&str>) -> u16 {
    let letters = language.and_then(three_letters).unwrap_or(*b"und");
    letters
        .iter()
        .fold(0, |packed, letter| packed << 5 | u16::from(letter - 0x60))
}
