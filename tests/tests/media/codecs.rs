//! What the index contains about codecs, video, audio and languages.

use reelway_media::{Codec, Container};
use reelway_tests::films::{self, FilmKind};
use reelway_tests::probe::Edits;

use super::{good, playable};

#[test]
fn containers_and_codecs_are_told_apart() {
    for film in films::playable() {
        let title = good(&film).title;
        let container = match film.is_mp4() {
            false => Container::Matroska,
            true if film.name.starts_with("fragmented") => Container::FragmentedMp4,
            true => Container::Mp4,
        };
        assert_eq!(title.container, container, "{}", film.name);
        for stream in playable(&film, Edits::Ignore) {
            let of = |track: &&reelway_media::Track| track.id == stream.id;
            let track = title.tracks.iter().find(of).expect("a track");
            let codec = match &track.codec {
                Codec::H264(config) => ("h264", std::str::from_utf8(&config.fourcc).unwrap_or("?")),
                Codec::H265(config) => ("hevc", std::str::from_utf8(&config.fourcc).unwrap_or("?")),
                Codec::Av1(_) => ("av1", "av01"),
                Codec::Aac(_) => ("aac", "mp4a"),
                Codec::Ac3 => ("ac3", "ac-3"),
                Codec::Eac3 => ("eac3", "ec-3"),
                Codec::Opus(_) => ("opus", "Opus"),
                Codec::MpegVideo(video) if video.is_mpeg1() => ("mpeg1video", "mp4v"),
                Codec::MpegVideo(_) => ("mpeg2video", "mp4v"),
                Codec::Mpeg4Visual(_) => ("mpeg4", "mp4v"),
                Codec::Vp8(_) => ("vp8", "vp08"),
                Codec::Vp9(_) => ("vp9", "vp09"),
                Codec::Flac => ("flac", "fLaC"),
                Codec::Vorbis(_) => ("vorbis", "mp4a"),
                Codec::MpegAudio(_) => (stream.codec.as_str(), "mp4a"),
                Codec::Pcm(_) => panic!("{}: uncompressed sound", film.name),
                Codec::TransportStream(_) => panic!("{}: a track of all tracks", film.name),
            };
            assert_eq!(codec.0, stream.codec, "{}", film.name);
            // ffmpeg writes all parameter sets into the sample entry, so players may get the
            // stricter code.
            let tag = match stream.tag.as_str() {
                "hev1" => "hvc1",
                tag => tag,
            };
            // Matroska has no such codes.
            assert!(!film.is_mp4() || codec.1 == tag, "{}", film.name);
        }
        // FLAC has no payload format; the others have one that ffmpeg does not support.
        let rtp = title
            .tracks
            .iter()
            .all(|track| !matches!(track.codec, Codec::Av1(_) | Codec::Eac3 | Codec::Flac));
        assert_eq!(rtp, film.kind == FilmKind::Plain, "{}", film.name);
    }
}

#[test]
fn nal_lengths_of_one_two_and_four_bytes_are_seen() {
    for (name, size) in [("nal_1", 1), ("nal_2", 2), ("small_slices", 4)] {
        let index = good(&films::film(name));
        let Codec::H264(config) = &index.title.tracks[0].codec else {
            panic!("{name} is H.264")
        };
        assert_eq!(config.length_size, size, "{name}");
        assert_eq!((config.sps.len(), config.pps.len()), (1, 1), "{name}");
    }
}

#[test]
fn audio_configurations_are_read_however_they_are_signalled() {
    let aac = |name: &str| {
        let index = good(&films::film(name));
        let (_, track) = index.title.audio().next().expect("sound");
        let Codec::Aac(config) = &track.codec else {
            panic!("{name} is AAC")
        };
        config.clone()
    };
    let (lc, explicit, compatible) = (
        aac("half_rate"),
        aac("he_aac_explicit"),
        aac("he_aac_compatible"),
    );
    assert_eq!(
        (lc.object_type, lc.rate, lc.channels, lc.frame_length),
        (2, 24000, 1, 1024)
    );
    assert_eq!(
        (explicit.object_type, explicit.rate, explicit.channels),
        (5, 24000, 1)
    );
    assert_eq!(
        (compatible.object_type, compatible.rate, compatible.channels),
        (5, 24000, 1)
    );
    assert_eq!(
        compatible.config.len(),
        5,
        "the configuration is kept as it is"
    );
    let surround = aac("surround");
    assert_eq!(
        (surround.object_type, surround.rate, surround.channels),
        (2, 48000, 6)
    );

    let index = good(&films::film("opus_stereo_60ms"));
    let Codec::Opus(config) = &index.title.tracks[1].codec else {
        panic!("Opus")
    };
    assert_eq!(
        (config.channels, config.pre_skip, config.input_rate),
        (2, 312, 48000)
    );
}

#[test]
fn rotation_and_pixel_shape_are_kept() {
    let index = good(&films::film("rotated"));
    let picture = index.title.tracks[0].picture.as_ref().expect("a picture");
    assert_eq!(picture.pixel_aspect, (4, 3));
    assert_eq!((picture.width, picture.height), (320, 180));
    assert_eq!(
        picture.matrix[..2]
            .iter()
            .map(|n| n.abs())
            .collect::<Vec<_>>(),
        [0, 1 << 16]
    );
    let plain = good(&films::film("progressive"));
    assert_eq!(
        plain.title.tracks[0]
            .picture
            .as_ref()
            .expect("a picture")
            .pixel_aspect,
        (1, 1)
    );
}

#[test]
fn languages_names_and_the_title_are_read() {
    let title = good(&films::film("languages")).title;
    let languages: Vec<Option<&str>> = title
        .audio()
        .map(|(_, track)| track.language.as_deref())
        .collect();
    assert_eq!(languages, [Some("eng"), Some("kor"), Some("fra")]);
    let enabled: Vec<bool> = title.audio().map(|(_, track)| track.enabled).collect();
    assert_eq!(enabled, [true, false, false]);
    assert_eq!(
        title
            .audio()
            .nth(2)
            .and_then(|(_, track)| track.name.clone())
            .as_deref(),
        Some("Commentaire")
    );
    assert_eq!(title.name.as_deref(), Some("Babel"));
}

#[test]
fn chapters_are_no_track_and_cover_art_is_passed_over_with_a_note() {
    let title = good(&films::film("chapters")).title;
    assert_eq!((title.tracks.len(), title.notes.len()), (2, 0));
    assert!(!title.chapters.is_empty());
    let title = good(&films::film("cover")).title;
    assert_eq!(title.tracks.len(), 2);
    assert!(
        title.notes.iter().any(|note| note.contains("track 3")),
        "{:?}",
        title.notes
    );
    assert_eq!(
        good(&films::film("progressive")).title.notes,
        Vec::<String>::new()
    );
}
