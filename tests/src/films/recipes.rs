//! The list of films.
//!
//! Words in ffmpeg's arguments: those in [`SHORT`] stand for the text beside them, `@film:NAME` for
//! the path of another film, `@data:FILE` for the path of a file in `tests/data`.

use super::FilmKind::{Big, NotRtp, Plain, Viewed};
use super::Make::{Data, Ffmpeg, Rewrap};
use super::{Recipe, custom, matroska as matroska_films, transport};

/// Abbreviations.
pub(super) const SHORT: [(&str, &str); 9] = [
    (
        "@picture",
        "-f lavfi -i testsrc2=size=320x180:rate=25:duration=5",
    ),
    (
        "@sound",
        "-f lavfi -i aevalsrc=0.3*sin(2*PI*(300+100*t)*t):s=48000:d=5",
    ),
    ("@both", "@picture @sound"),
    (
        "@x264",
        "-c:v libx264 -preset veryfast -threads 1 -pix_fmt yuv420p -g 25",
    ),
    ("@x265", "-c:v libx265 -preset ultrafast -pix_fmt yuv420p"),
    (
        "@x265p",
        "-x265-params log-level=error:keyint=25:bframes=3:pools=1:frame-threads=1",
    ),
    (
        "@vp9",
        "-c:v libvpx-vp9 -b:v 500k -g 25 -deadline realtime -cpu-used 8 -threads 1",
    ),
    ("@aac", "-c:a aac -b:a 96k"),
    ("@plain", "@x264 @aac"),
];

const fn made(name: &'static str, what: &'static str, arguments: &'static str) -> Recipe {
    Recipe {
        name,
        what,
        kind: Plain,
        extension: "mp4",
        make: Ffmpeg(arguments),
    }
}

const fn matroska(name: &'static str, what: &'static str, arguments: &'static str) -> Recipe {
    Recipe {
        name,
        what,
        kind: Plain,
        extension: "mkv",
        make: Ffmpeg(arguments),
    }
}

const fn streamed(name: &'static str, what: &'static str, arguments: &'static str) -> Recipe {
    Recipe {
        name,
        what,
        kind: Viewed,
        extension: "ts",
        make: Ffmpeg(arguments),
    }
}

const fn program(name: &'static str, what: &'static str, arguments: &'static str) -> Recipe {
    Recipe {
        name,
        what,
        kind: Viewed,
        extension: "mpg",
        make: Ffmpeg(arguments),
    }
}

const fn relaid(
    name: &'static str,
    what: &'static str,
    extension: &'static str,
    with: super::custom::With,
) -> Recipe {
    Recipe {
        name,
        what,
        kind: Viewed,
        extension,
        make: Rewrap("transport", with),
    }
}

const fn rewrapped(
    name: &'static str,
    what: &'static str,
    from: &'static str,
    with: super::custom::With,
) -> Recipe {
    Recipe {
        name,
        what,
        kind: Plain,
        extension: "mp4",
        make: Rewrap(from, with),
    }
}

/// All films.
pub(super) const RECIPES: &[Recipe] = &[
    // Matroska.
    matroska(
        "matroska",
        "clusters with SimpleBlocks and cues",
        "@both @plain",
    ),
    matroska(
        "matroska_live",
        "neither sizes nor cues, as recorders write it",
        "@both @plain -f matroska -live 1",
    ),
    matroska(
        "matroska_hevc_opus",
        "H.265 with an open GOP, and Opus",
        "@both @x265 @x265p -c:a libopus -b:a 64k",
    ),
    matroska(
        "matroska_microseconds",
        "times of pictures that do not fit milliseconds",
        "-f lavfi -i testsrc2=size=320x180:rate=30000/1001:duration=5 @sound @x264 @aac -ar 44100",
    ),
    matroska(
        "matroska_vp9_opus",
        "VP9 and Opus, as WebM has them",
        "@both @vp9 -c:a libopus -b:a 64k",
    ),
    matroska(
        "matroska_vp8_opus",
        "VP8 and Opus, as WebM has them",
        "@both -c:v libvpx -b:v 500k -g 25 -deadline realtime -cpu-used 8 -threads 1 -c:a libopus -b:a 64k",
    ),
    matroska(
        "matroska_vp8_vorbis",
        "VP8 and Vorbis, as WebM had them first",
        "@both -c:v libvpx -b:v 500k -g 25 -deadline realtime -cpu-used 8 -threads 1 -c:a libvorbis -ac 2 -b:a 96k",
    ),
    matroska(
        "matroska_mpeg4",
        "MPEG-4 Visual with pictures that are shown in another order",
        "@both -c:v mpeg4 -bf 2 -g 25 -b:v 800k @aac",
    ),
    Recipe {
        name: "matroska_flac",
        what: "FLAC",
        kind: NotRtp,
        extension: "mkv",
        make: Ffmpeg("@both @x264 -c:a flac"),
    },
    matroska(
        "matroska_dolby",
        "sound of AC-3",
        "@both @x264 -c:a ac3 -b:a 192k",
    ),
    Recipe {
        name: "matroska_stripped",
        what: "frames without what all of their track begin with",
        kind: Viewed,
        extension: "mkv",
        make: Rewrap("matroska_dolby", matroska_films::stripped),
    },
    Recipe {
        name: "matroska_stripped_picture",
        what: "pictures without what all of them begin with, and sound as it is",
        kind: Viewed,
        extension: "mkv",
        make: Rewrap("matroska_mpeg4", matroska_films::stripped),
    },
    // Transport streams.
    streamed("transport", "H.264 and AAC", "@both @plain -f mpegts"),
    relaid(
        "transport_timed",
        "packets of 192 bytes",
        "m2ts",
        transport::timed,
    ),
    relaid(
        "transport_corrected",
        "packets of 204 bytes",
        "ts",
        transport::corrected,
    ),
    relaid(
        "transport_cut",
        "begins and ends in the middle of a picture",
        "ts",
        transport::cut,
    ),
    streamed(
        "transport_latm",
        "sound of AAC in LATM",
        "@both @plain -f mpegts -mpegts_flags latm",
    ),
    streamed(
        "transport_opus",
        "sound of Opus",
        "@both @x264 -c:a libopus -ac 2 -b:a 64k -f mpegts",
    ),
    streamed(
        "transport_hevc",
        "H.265 with an open GOP",
        "@both @x265 @x265p @aac -f mpegts",
    ),
    streamed(
        "transport_dolby",
        "fields, and sound in AC-3 and E-AC-3",
        "@both @sound -map 0 -map 1 -map 2 @x264 -flags +ildct+ilme -x264-params interlaced=1:slices=4 -c:a:0 ac3 -c:a:1 eac3 -metadata:s:a:1 language=deu -f mpegts",
    ),
    streamed(
        "transport_programmes",
        "two programmes, the second of which has picture",
        "@both @sound -map 1 -map 0 -map 2 -program title=radio:st=0 -program title=film:st=1:st=2 @plain -f mpegts",
    ),
    streamed(
        "transport_wrapped",
        "times that begin again after 26.5 hours",
        "@both @plain -f mpegts -output_ts_offset 95441",
    ),
    streamed(
        "transport_mpeg2",
        "MPEG-2 picture in fields, and sound of layer II",
        "@both -c:v mpeg2video -flags +ildct+ilme -g 12 -bf 2 -b:v 1M -aspect 16:9 -c:a mp2 -b:a 128k -f mpegts",
    ),
    streamed(
        "transport_mp3",
        "sound of layer III, beside which packets lie apart in time",
        "@both @x264 -c:a libmp3lame -b:a 96k -f mpegts -muxdelay 2",
    ),
    streamed(
        "transport_mpeg4",
        "MPEG-4 Visual with pictures that are shown in another order",
        "@both -c:v mpeg4 -bf 2 -g 25 -b:v 800k @aac -f mpegts",
    ),
    program(
        "program_mpeg4",
        "MPEG-4 Visual, most of whose pictures have no time of their own",
        "@both -c:v mpeg4 -bf 2 -g 25 -b:v 300k -c:a mp2 -b:a 128k -f vob",
    ),
    program(
        "program",
        "MPEG-2 picture and sound of layer II",
        "@both -c:v mpeg2video -g 12 -bf 2 -b:v 1M -c:a mp2 -b:a 128k -f vob",
    ),
    program(
        "program_dvd",
        "as on a DVD: MPEG-2 picture, AC-3 in a private stream",
        "@picture @sound -s 720x576 -c:v mpeg2video -g 15 -bf 2 -b:v 3M -aspect 4:3 -c:a ac3 -b:a 192k -f dvd",
    ),
    program(
        "system",
        "the packets of MPEG-1, and the paper's picture: 352 × 288, 25 a second",
        "@picture @sound -s 352x288 -c:v mpeg1video -g 12 -bf 2 -b:v 1150k -c:a mp2 -b:a 224k -f mpeg",
    ),
    // The layout of the file.
    made("progressive", "moov after mdat", "@both @plain"),
    made(
        "faststart",
        "moov before mdat",
        "@both @plain -movflags +faststart",
    ),
    made(
        "fragmented",
        "moof with default-base-is-moof",
        "@both @plain -movflags frag_keyframe+empty_moov+default_base_moof",
    ),
    made(
        "fragmented_base_offset",
        "moof with base_data_offset in tfhd",
        "@both @plain -movflags frag_keyframe+empty_moov",
    ),
    made(
        "fragmented_no_base",
        "moof, tfhd with neither base",
        "@both @plain -movflags frag_keyframe+empty_moov+omit_tfhd_offset",
    ),
    made(
        "fragmented_sidx",
        "moof with one sidx over all",
        "@both @plain -movflags frag_keyframe+empty_moov+default_base_moof+dash+global_sidx",
    ),
    made(
        "fragmented_every_frame",
        "a moof for every picture",
        "@both @plain -movflags frag_every_frame+empty_moov+default_base_moof",
    ),
    made(
        "fragmented_signed",
        "trun version 1 with negative offsets, edit list",
        "@both @plain -movflags frag_keyframe+delay_moov+negative_cts_offsets+default_base_moof",
    ),
    made(
        "fragmented_hybrid",
        "first samples in moov, the others in moof",
        "@both @plain -movflags frag_keyframe",
    ),
    rewrapped("co64", "64-bit chunk offsets", "progressive", custom::co64),
    rewrapped(
        "wide_boxes",
        "64-bit sizes at every box",
        "progressive",
        custom::wide_boxes,
    ),
    rewrapped(
        "several_mdats",
        "five mdat with free between them",
        "progressive",
        custom::several_mdats,
    ),
    rewrapped(
        "not_interleaved",
        "all of the picture, then all of the sound",
        "progressive",
        custom::not_interleaved,
    ),
    rewrapped(
        "shuffled",
        "chunks in no order",
        "progressive",
        custom::shuffled,
    ),
    rewrapped(
        "one_sample_chunks",
        "every sample its own chunk",
        "progressive",
        custom::one_sample_chunks,
    ),
    rewrapped(
        "mdat_to_eof",
        "mdat to the end of the file",
        "faststart",
        custom::mdat_to_eof,
    ),
    rewrapped(
        "moov_to_eof",
        "moov to the end of the file",
        "progressive",
        custom::moov_to_eof,
    ),
    Recipe {
        name: "huge",
        what: "over 4 GB, sparse: half of it behind the 32-bit border",
        kind: Plain,
        extension: "mp4",
        make: Rewrap("seeks", custom::huge),
    },
    rewrapped(
        "stz2_16",
        "sizes in 16 bits",
        "progressive",
        custom::stz2_16,
    ),
    rewrapped("stz2_8", "sizes in 8 bits", "tiny_sound", custom::stz2_8),
    rewrapped("stz2_4", "sizes in 4 bits", "tiniest_sound", custom::stz2_4),
    // Sync samples and their order.
    made(
        "seeks",
        "40 s with GOPs of uneven length",
        "-f lavfi -i testsrc2=size=320x180:rate=25:duration=40 -f lavfi -i aevalsrc=0.3*sin(2*PI*(300+5*t)*t):s=44100:d=40 @x264 -g 250 -force_key_frames 0.4,2,3,7.2,9,14,14.6,20,26.5,30,35 -ac 2 @aac -movflags +faststart",
    ),
    rewrapped("no_stss", "intra only, no stss", "intra", custom::no_stss),
    made(
        "intra",
        "every picture a sync sample",
        "@both @x264 -g 1 @aac",
    ),
    made(
        "open_gop_h264",
        "open GOPs: recovery points that are no IDR",
        "@both @x264 -x264-params open-gop=1:bframes=3:b-adapt=0 @aac",
    ),
    made(
        "open_gop_h265",
        "open GOPs: CRA with leading pictures",
        "@both @x265 -x265-params log-level=error:keyint=25:bframes=3:open-gop=1:pools=1:frame-threads=1 @aac",
    ),
    made(
        "baseline",
        "no B-frames, no ctts",
        "@both @x264 -profile:v baseline @aac",
    ),
    made(
        "b_pyramid",
        "deep B-frames",
        "@both @x264 -bf 7 -x264-params b-pyramid=normal:b-adapt=0 @aac",
    ),
    made(
        "ctts_v1",
        "ctts version 1 with negative offsets",
        "@both @plain -movflags negative_cts_offsets",
    ),
    rewrapped(
        "ctts_v0_signed",
        "ctts version 0 that is really signed",
        "ctts_v1",
        custom::ctts_v0_signed,
    ),
    // Edit lists.
    made(
        "no_edit_list",
        "no edit list",
        "@both @plain -use_editlist 0",
    ),
    made(
        "late_sound",
        "leading empty edit of the sound",
        "@picture -itsoffset 0.7 @sound @plain",
    ),
    made(
        "late_picture",
        "leading empty edit of the picture",
        "-itsoffset 0.52 -i @film:video_only -i @film:audio_only -map 0 -map 1 -c copy",
    ),
    made(
        "start_offset",
        "edit that begins in the middle of a GOP",
        "-ss 3.5 -i @film:seeks -c copy",
    ),
    rewrapped(
        "priming_2112",
        "sound edit at 2112 ticks",
        "progressive",
        custom::priming_2112,
    ),
    made(
        "opus",
        "Opus with its pre-skip",
        "@both @x264 -c:a libopus -b:a 64k",
    ),
    made(
        "opus_stereo_60ms",
        "Opus, stereo, 60 ms packets",
        "@both @x264 -ac 2 -c:a libopus -frame_duration 60",
    ),
    rewrapped(
        "edit_in_two",
        "two edits with a cut between them",
        "progressive",
        custom::edit_in_two,
    ),
    rewrapped(
        "edit_empty_and_offset",
        "empty edit, then one with an offset",
        "progressive",
        custom::edit_empty_and_offset,
    ),
    rewrapped(
        "edit_zero_length",
        "edit of length 0: to the end",
        "progressive",
        custom::edit_zero_length,
    ),
    rewrapped(
        "edit_dwell",
        "edit with media_rate 0 (a dwell) before the real one",
        "progressive",
        custom::edit_dwell,
    ),
    // Times.
    made(
        "variable_rate",
        "variable frame rate",
        "@both -vf select=not(mod(n\\,7))+not(mod(n\\,3)) -fps_mode vfr @plain",
    ),
    made(
        "ntsc",
        "30000/1001 pictures a second, 44.1 kHz",
        "-f lavfi -i testsrc2=size=320x180:rate=30000/1001:duration=5 -f lavfi -i aevalsrc=0.3*sin(2*PI*(300+100*t)*t):s=44100:d=5 @plain",
    ),
    // Sets of tracks.
    made("audio_only", "no picture", "@sound -ac 2 @aac"),
    made("video_only", "no sound", "@picture @x264"),
    made(
        "languages",
        "three sounds with languages",
        "@both @sound @sound -map 0 -map 1 -map 2 -map 3 @plain -b:a:1 64k -b:a:2 48k -metadata:s:a:0 language=eng -metadata:s:a:1 language=kor -metadata:s:a:2 language=fra -metadata:s:a:2 handler_name=Commentaire -disposition:a:1 0 -disposition:a:2 0 -metadata title=Babel",
    ),
    made(
        "chapters",
        "chapter track",
        "@both -f ffmetadata -i @data:chapters.txt -map_metadata 2 -map_chapters 2 -map 0 -map 1 @plain",
    ),
    made(
        "cover",
        "cover art as a track",
        "@both -f lavfi -i testsrc=size=64x64:rate=1:duration=1 -map 0 -map 1 -map 2 @x264 @aac -c:v:1 mjpeg -disposition:v:1 0 -frames:v:1 1",
    ),
    made(
        "rotated",
        "turned by 90 degrees, pixels 4:3",
        "-i @film:progressive -c copy -metadata:s:v:0 rotate=90 -aspect:v 64:27",
    ),
    // Codecs.
    made(
        "avc3",
        "H.264 as avc3",
        "@both @x264 -tag:v avc3 -bsf:v dump_extra=freq=keyframe @aac",
    ),
    made(
        "hvc1",
        "H.265 as hvc1",
        "@both @x265 @x265p -tag:v hvc1 @aac",
    ),
    made(
        "hev1",
        "H.265 as hev1",
        "@both @x265 @x265p -tag:v hev1 -bsf:v dump_extra=freq=keyframe @aac",
    ),
    made(
        "hevc_10bit",
        "H.265 Main 10",
        "@both @x265 @x265p -pix_fmt yuv420p10le -tag:v hvc1 @aac",
    ),
    Recipe {
        name: "av1",
        what: "AV1",
        kind: NotRtp,
        extension: "mp4",
        make: Ffmpeg(
            "-f lavfi -i testsrc2=size=160x90:rate=25:duration=3 @sound -c:v libsvtav1 -preset 10 -g 25 -svtav1-params lp=1 -pix_fmt yuv420p @aac -t 3",
        ),
    },
    Recipe {
        name: "av1_large",
        what: "AV1 whose pictures take many packets each",
        kind: NotRtp,
        extension: "mp4",
        make: Ffmpeg(
            "-f lavfi -i testsrc2=size=640x360:rate=25:duration=3,noise=alls=30:allf=t @sound -c:v libsvtav1 -preset 10 -g 25 -qp 44 -svtav1-params lp=1 -pix_fmt yuv420p @aac -t 3",
        ),
    },
    Recipe {
        name: "ac3",
        what: "AC-3",
        kind: Plain,
        extension: "mp4",
        make: Ffmpeg("@both @x264 -c:a ac3"),
    },
    Recipe {
        name: "eac3",
        what: "Enhanced AC-3",
        kind: NotRtp,
        extension: "mp4",
        make: Ffmpeg("@both @x264 -c:a eac3"),
    },
    made(
        "mpeg2",
        "MPEG-2 picture of fields and MP2",
        "@both -c:v mpeg2video -flags +ildct+ilme -g 12 -bf 2 -b:v 1M -c:a mp2 -b:a 128k",
    ),
    made(
        "mpeg1",
        "MPEG-1 picture and MP3",
        "@both -c:v mpeg1video -g 12 -bf 2 -b:v 1M -c:a libmp3lame -b:a 96k",
    ),
    made("vp9", "VP9", "@both @vp9 @aac"),
    made(
        "mpeg4",
        "MPEG-4 Visual",
        "@both -c:v mpeg4 -g 25 -b:v 800k @aac",
    ),
    made(
        "vorbis",
        "Vorbis",
        "@both @x264 -c:a libvorbis -ac 2 -b:a 96k",
    ),
    Recipe {
        name: "flac",
        what: "FLAC",
        kind: NotRtp,
        extension: "mp4",
        make: Ffmpeg("@both @x264 -c:a flac -strict -2"),
    },
    made(
        "surround",
        "AAC in 5.1",
        "@both @x264 -ac 6 -c:a aac -b:a 256k",
    ),
    rewrapped(
        "he_aac_explicit",
        "HE-AAC, signalled explicitly (object type 5)",
        "half_rate",
        custom::he_aac_explicit,
    ),
    rewrapped(
        "he_aac_compatible",
        "HE-AAC, signalled compatibly (sync extension)",
        "half_rate",
        custom::he_aac_compatible,
    ),
    made(
        "half_rate",
        "AAC-LC at 24 kHz",
        "@both @x264 -ar 24000 @aac",
    ),
    rewrapped(
        "nal_1",
        "NAL lengths of one byte",
        "small_slices",
        custom::nal_1,
    ),
    rewrapped(
        "nal_2",
        "NAL lengths of two bytes",
        "small_slices",
        custom::nal_2,
    ),
    made(
        "small_slices",
        "many NALs below 200 bytes a picture",
        "@both @x264 -vf scale=160x90 -qp 40 -x264-params slice-max-size=190:aud=1 -bsf:v filter_units=remove_types=6 @aac",
    ),
    made(
        "big_pictures",
        "pictures of some hundred kilobytes",
        "-f lavfi -i testsrc2=size=1280x720:rate=5:duration=2,noise=alls=30:allf=t -f lavfi -i aevalsrc=0.3*sin(2*PI*(300+100*t)*t):s=48000:d=2 -c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 4 -qp 30 @aac",
    ),
    Recipe {
        name: "tiny_sound",
        what: "sound frames below 256 bytes",
        kind: Plain,
        extension: "mp4",
        make: Ffmpeg("@sound -c:a aac -b:a 32k"),
    },
    Recipe {
        name: "tiniest_sound",
        what: "sound frames below 16 bytes",
        kind: Plain,
        extension: "mp4",
        make: Ffmpeg("-f lavfi -i anullsrc=r=16000:cl=mono -t 5 -c:a aac -b:a 8k"),
    },
    Recipe {
        name: "bunny",
        what: "Big Buck Bunny, of others' making",
        kind: Plain,
        extension: "mp4",
        make: Data("bbb_prog_10s.mp4"),
    },
    // For load tests.
    Recipe {
        name: "two_hours",
        what: "172,800 pictures and 337,500 sound frames",
        kind: Big,
        extension: "mp4",
        make: Rewrap("eight_seconds", custom::two_hours),
    },
    made(
        "eight_seconds",
        "24 pictures a second at 64x36",
        "-f lavfi -i testsrc2=size=64x36:rate=24:duration=8.1 -f lavfi -i aevalsrc=0.3*sin(2*PI*(300+100*t)*t):s=48000:d=8.1 @x264 -g 48 -aq-mode 0 -c:a aac -b:a 16k -map_metadata -1",
    ),
    Recipe {
        name: "load",
        what: "4 Mb/s for a minute",
        kind: Big,
        extension: "mp4",
        make: Ffmpeg(
            "-f lavfi -i testsrc2=size=640x360:rate=25:duration=60,noise=alls=25:allf=t -f lavfi -i aevalsrc=0.3*sin(2*PI*(300+5*t)*t):s=48000:d=60 -c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 50 -b:v 3900k -maxrate 3900k -bufsize 3900k @aac -movflags +faststart",
        ),
    },
    Recipe {
        name: "sparse",
        what: "ten small pictures a second for two minutes, 8 kb/s",
        kind: Big,
        extension: "mp4",
        make: Ffmpeg("-f lavfi -i testsrc2=size=64x36:rate=10:duration=120 @x264 -g 20 -an"),
    },
];
