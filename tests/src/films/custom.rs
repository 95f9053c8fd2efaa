//! Films that ffmpeg cannot make: taken apart and laid out again.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::boxes::entry::{set_audio_config, set_nal_length};
use crate::boxes::{Ctts, Edit, Layout, Movie, Order, Sizes, write};

/// Makes a film at the second path from the one at the first.
pub(super) type With = fn(&Path, &Path) -> Result<()>;

fn layout(from: &Path, to: &Path, layout: Layout) -> Result<()> {
    write(&Movie::read(from)?, &layout, to)
}

pub(super) fn co64(from: &Path, to: &Path) -> Result<()> {
    layout(
        from,
        to,
        Layout {
            co64: true,
            ..Layout::default()
        },
    )
}

pub(super) fn wide_boxes(from: &Path, to: &Path) -> Result<()> {
    layout(
        from,
        to,
        Layout {
            wide: true,
            moov_first: true,
            ..Layout::default()
        },
    )
}

pub(super) fn several_mdats(from: &Path, to: &Path) -> Result<()> {
    layout(
        from,
        to,
        Layout {
            mdats: 5,
            moov_first: true,
            ..Layout::default()
        },
    )
}

pub(super) fn not_interleaved(from: &Path, to: &Path) -> Result<()> {
    layout(
        from,
        to,
        Layout {
            order: Order::Apart,
            ..Layout::default()
        },
    )
}

pub(super) fn shuffled(from: &Path, to: &Path) -> Result<()> {
    layout(
        from,
        to,
        Layout {
            order: Order::Shuffled(1),
            mdats: 2,
            ..Layout::default()
        },
    )
}

pub(super) fn one_sample_chunks(from: &Path, to: &Path) -> Result<()> {
    layout(
        from,
        to,
        Layout {
            order: Order::Samples,
            ..Layout::default()
        },
    )
}

pub(super) fn mdat_to_eof(from: &Path, to: &Path) -> Result<()> {
    layout(
        from,
        to,
        Layout {
            moov_first: true,
            to_eof: true,
            mdats: 2,
            ..Layout::default()
        },
    )
}

pub(super) fn moov_to_eof(from: &Path, to: &Path) -> Result<()> {
    layout(
        from,
        to,
        Layout {
            to_eof: true,
            ..Layout::default()
        },
    )
}

pub(super) fn huge(from: &Path, to: &Path) -> Result<()> {
    layout(
        from,
        to,
        Layout {
            hole: (4 << 30) + 12345,
            co64: true,
            ..Layout::default()
        },
    )
}

pub(super) fn stz2_16(from: &Path, to: &Path) -> Result<()> {
    layout(
        from,
        to,
        Layout {
            sizes: Sizes::Stz2(16),
            ..Layout::default()
        },
    )
}

pub(super) fn stz2_8(from: &Path, to: &Path) -> Result<()> {
    let mut movie = Movie::read(from)?;
    for track in &mut movie.tracks {
        // The encoder's first frames contain its bit reservoir: leave out those that are too large.
        track.samples.retain(|sample| sample.data.len() < 256);
        ensure!(
            track.samples.len() > 100,
            "hardly a frame of this film fits into 8 bits"
        );
    }
    write(
        &movie,
        &Layout {
            sizes: Sizes::Stz2(8),
            ..Layout::default()
        },
        to,
    )
}

pub(super) fn stz2_4(from: &Path, to: &Path) -> Result<()> {
    let mut movie = Movie::read(from)?;
    for track in &mut movie.tracks {
        track.samples.retain(|sample| sample.data.len() < 16);
        // An odd number, so that the last byte contains only one size.
        track.samples.truncate((track.samples.len() - 1) | 1);
        ensure!(
            track.samples.len() > 30,
            "hardly a frame of this film fits into 4 bits"
        );
    }
    write(
        &movie,
        &Layout {
            sizes: Sizes::Stz2(4),
            ..Layout::default()
        },
        to,
    )
}

pub(super) fn no_stss(from: &Path, to: &Path) -> Result<()> {
    layout(
        from,
        to,
        Layout {
            no_stss: true,
            ..Layout::default()
        },
    )
}

pub(super) fn ctts_v0_signed(from: &Path, to: &Path) -> Result<()> {
    layout(
        from,
        to,
        Layout {
            ctts: Ctts::SignedV0,
            ..Layout::default()
        },
    )
}

pub(super) fn nal_1(from: &Path, to: &Path) -> Result<()> {
    nal(from, to, 1)
}

pub(super) fn nal_2(from: &Path, to: &Path) -> Result<()> {
    nal(from, to, 2)
}

fn nal(from: &Path, to: &Path, length: usize) -> Result<()> {
    let mut movie = Movie::read(from)?;
    set_nal_length(movie.track(b"vide"), length)?;
    write(&movie, &Layout::default(), to)
}

pub(super) fn priming_2112(from: &Path, to: &Path) -> Result<()> {
    edits(from, to, b"soun", |media, _| {
        vec![Edit {
            duration: media - 44,
            media_time: 2112,
            rate: 1 << 16,
        }]
    })
}

pub(super) fn edit_in_two(from: &Path, to: &Path) -> Result<()> {
    // The first second, then everything from second 3: what lies between is not shown.
    let mut movie = Movie::read(from)?;
    let scale = u64::from(movie.timescale());
    for track in &mut movie.tracks {
        let start = track.edits.as_ref().map_or(0, |edits| edits[0].media_time);
        let second = i64::from(track.timescale);
        track.edits = Some(vec![
            Edit {
                duration: scale,
                media_time: start,
                rate: 1 << 16,
            },
            Edit {
                duration: 2 * scale,
                media_time: start + 2 * second,
                rate: 1 << 16,
            },
        ]);
    }
    write(&movie, &Layout::default(), to)
}

pub(super) fn edit_empty_and_offset(from: &Path, to: &Path) -> Result<()> {
    edits(from, to, b"soun", |media, scale| {
        vec![
            Edit {
                duration: scale / 2,
                media_time: -1,
                rate: 1 << 16,
            },
            Edit {
                duration: media - scale,
                media_time: 48000,
                rate: 1 << 16,
            },
        ]
    })
}

pub(super) fn edit_zero_length(from: &Path, to: &Path) -> Result<()> {
    let mut movie = Movie::read(from)?;
    for track in &mut movie.tracks {
        if let Some(edits) = &mut track.edits {
            edits.iter_mut().for_each(|edit| edit.duration = 0);
        }
    }
    write(&movie, &Layout::default(), to)
}

pub(super) fn edit_dwell(from: &Path, to: &Path) -> Result<()> {
    edits(from, to, b"vide", |media, scale| {
        vec![
            Edit {
                duration: scale / 5,
                media_time: 1024,
                rate: 0,
            },
            Edit {
                duration: media,
                media_time: 1024,
                rate: 1 << 16,
            },
        ]
    })
}

/// Gives one track the edits that `make` returns for its length and the movie's timescale (both in
/// ticks of the movie).
fn edits(
    from: &Path,
    to: &Path,
    handler: &[u8; 4],
    make: impl Fn(u64, u64) -> Vec<Edit>,
) -> Result<()> {
    let mut movie = Movie::read(from)?;
    let scale = u64::from(movie.timescale());
    let track = movie.track(handler);
    let media = track.duration() * scale / u64::from(track.timescale);
    track.edits = Some(make(media, scale));
    write(&movie, &Layout::default(), to)
}

pub(super) fn he_aac_explicit(from: &Path, to: &Path) -> Result<()> {
    // Object type 5, 24 kHz (6), one channel, extension 48 kHz (3), object type 2, GASpecificConfig 0:
    // 00101 0110 0001 0011 00010 000 (ISO/IEC 14496-3 1.6.2.1).
    he_aac(from, to, &[0b0010_1011, 0b0000_1001, 0b1000_1000, 0])
}

pub(super) fn he_aac_compatible(from: &Path, to: &Path) -> Result<()> {
    // Object type 2, 24 kHz, one channel, GASpecificConfig 0; then the sync extension 0x2b7, object
    // type 5, SBR present, 48 kHz: 00010 0110 0001 000 01010110111 00101 1 0011 (1.6.6.1).
    he_aac(
        from,
        to,
        &[
            0b0001_0011,
            0b0000_1000,
            0b0101_0110,
            0b1110_0101,
            0b1001_1000,
        ],
    )
}

fn he_aac(from: &Path, to: &Path, config: &[u8]) -> Result<()> {
    let mut movie = Movie::read(from)?;
    set_audio_config(movie.track(b"soun"), config)?;
    write(&movie, &Layout::default(), to)
}

pub(super) fn two_hours(from: &Path, to: &Path) -> Result<()> {
    // Eight seconds are exactly 192 pictures and 375 audio frames; the tables cover them 900 times.
    let mut movie = Movie::read(from)?;
    movie.track(b"vide").samples.truncate(192);
    movie.track(b"soun").samples.truncate(375);
    for track in &movie.tracks {
        ensure!(
            track.duration() == 8 * u64::from(track.timescale),
            "the film is not eight seconds long"
        );
    }
    write(
        &movie,
        &Layout {
            repeat: 900,
            moov_first: true,
            ..Layout::default()
        },
        to,
    )
}
