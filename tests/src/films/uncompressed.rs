//! Films with uncompressed sound. Every tool cuts that into other pieces, so that what arrives is compared as one run of numbers.

use super::FilmKind::Uncompressed;
use super::Make::Ffmpeg;
use super::Recipe;

/// Two channels that differ, and never repeat.
pub(super) const SHORT: (&str, &str) = (
    "@stereo",
    "-f lavfi -i aevalsrc=0.3*sin(2*PI*(300+100*t)*t)|0.2*sin(2*PI*(900-70*t)*t):s=48000:d=5",
);

const fn uncompressed(
    name: &'static str,
    what: &'static str,
    extension: &'static str,
    arguments: &'static str,
) -> Recipe {
    Recipe {
        name,
        what,
        kind: Uncompressed,
        extension,
        make: Ffmpeg(arguments),
    }
}

pub(super) const RECIPES: &[Recipe] = &[
    uncompressed(
        "pcm_twos",
        "16 bits in QuickTime, big-endian",
        "mov",
        "@picture @stereo @x264 -c:a pcm_s16be",
    ),
    uncompressed(
        "pcm_sowt",
        "16 bits in QuickTime, little-endian",
        "mov",
        "@picture @stereo @x264 -c:a pcm_s16le",
    ),
    uncompressed(
        "pcm_in24",
        "24 bits in QuickTime, big-endian",
        "mov",
        "@picture @stereo @x264 -c:a pcm_s24be",
    ),
    uncompressed(
        "pcm_in24_little",
        "24 bits in QuickTime, little-endian",
        "mov",
        "@picture @stereo @x264 -c:a pcm_s24le",
    ),
    uncompressed(
        "pcm_lpcm",
        "96 kHz, as version 2 of QuickTime's sound descriptions has them",
        "mov",
        "@picture @stereo @x264 -c:a pcm_s24be -ar 96000",
    ),
    uncompressed(
        "pcm_surround",
        "six channels",
        "mov",
        "@picture @stereo @x264 -c:a pcm_s16be -ac 6",
    ),
    uncompressed(
        "pcm_alone",
        "sound without picture: one chunk follows the other",
        "mov",
        "@stereo -c:a pcm_s16be -ar 44100 -ac 1",
    ),
    uncompressed(
        "pcm_fragmented",
        "in fragments",
        "mov",
        "@picture @stereo @x264 -c:a pcm_s16be -movflags frag_keyframe+empty_moov+default_base_moof",
    ),
    uncompressed(
        "pcm_matroska_big",
        "16 bits in Matroska, big-endian",
        "mkv",
        "@picture @stereo @x264 -c:a pcm_s16be",
    ),
    uncompressed(
        "pcm_matroska_24",
        "24 bits in Matroska, big-endian, at a rate that milliseconds do not divide",
        "mkv",
        "@picture @stereo @x264 -c:a pcm_s24be -ar 44100",
    ),
    uncompressed(
        "pcm_matroska_little",
        "16 bits in Matroska, little-endian",
        "mkv",
        "@picture @stereo @x264 -c:a pcm_s16le",
    ),
];
