//! Films with uncompressed audio. Every tool divides it into different pieces, so tests compare the
//! audio that arrives as one sequence of numbers.

use super::FilmKind::Uncompressed;
use super::Make::Ffmpeg;
use super::Recipe;

/// Two channels that differ from each other and never repeat.
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
    uncompressed(
        "pcm_dvd",
        "as on a DVD: 16 bits",
        "mpg",
        "@picture @stereo -s 720x576 -c:v mpeg2video -g 15 -bf 2 -b:v 3M -aspect 4:3 -c:a pcm_dvd -sample_fmt s16 -f dvd",
    ),
    uncompressed(
        "pcm_dvd_24",
        "as on a DVD: 24 bits at 96 kHz",
        "mpg",
        "@picture @stereo -s 720x576 -c:v mpeg2video -g 15 -bf 2 -b:v 3M -aspect 4:3 -c:a pcm_dvd -sample_fmt s32 -ar 96000 -f vob",
    ),
    uncompressed(
        "pcm_blu_ray",
        "as on a Blu-ray Disc: 16 bits",
        "m2ts",
        "@picture @stereo @x264 -c:a pcm_bluray -sample_fmt s16",
    ),
    uncompressed(
        "pcm_blu_ray_24",
        "as on a Blu-ray Disc: 24 bits in one channel, beside which there is one that fills",
        "m2ts",
        "@picture @sound @x264 -c:a pcm_bluray -sample_fmt s32 -ac 1",
    ),
    uncompressed(
        "pcm_blu_ray_surround",
        "as on a Blu-ray Disc: six channels in another order",
        "m2ts",
        "@picture @stereo @x264 -af pan=5.1|FL=FL|FR=FR|FC=0.3*FL|LFE=0.1*FR|BL=0.5*FL|BR=0.6*FR -c:a pcm_bluray -sample_fmt s16",
    ),
];
