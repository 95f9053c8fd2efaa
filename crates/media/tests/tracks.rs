//! Which tracks are played, their names, and the notes on the others.

mod common;

use common::*;
use reelway_media::{
    Codec, IndexError, IndexErrorKind, IndexOptions, Kind, Sound, TextForm, Title,
};

fn title_of(tracks: &[Track]) -> Result<Title, IndexError> {
    index(&write(tracks).0).map(|index| index.title)
}

/// Video, and an audio track with this sample entry.
fn with_sound(entry: Vec<u8>) -> Title {
    let mut sound = Track::sound(2, 10);
    sound.entries = vec![entry];
    title_of(&[Track::picture(1, 10, 5), sound]).unwrap()
}

/// A video track with this sample entry, and audio.
fn with_picture(entry: Vec<u8>) -> Title {
    let mut picture = Track::picture(1, 10, 5);
    picture.entries = vec![entry];
    title_of(&[picture, Track::sound(2, 10)]).unwrap()
}

#[test]
fn languages_names_and_defaults() {
    let mut tracks = [
        Track::picture(1, 10, 5),
        Track::sound(2, 10),
        Track::sound(3, 10),
        Track::sound(4, 10),
    ];
    tracks[1].language = 0x15c7; // eng
    tracks[2].language = 0x10b5; // deu
    tracks[2].enabled = false;
    tracks[2].name = b"Kommentar der Regie\0";
    tracks[3].language = 0x15c7;
    tracks[3].in_mdia = vec![boxed(b"elng", &[&[0; 4], b"pt-BR\0"])];
    let data = boxed(b"data", &[&be(&[1, 0]), b"Gro\xc3\x9fer Hase"]);
    let ilst = boxed(b"ilst", &[&boxed(b"\xa9nam", &[&data])]);
    let hdlr = full(b"hdlr", 0, 0, &[0, u32::from_be_bytes(*b"mdir"), 0, 0, 0]);
    let udta = boxed(b"udta", &[&boxed(b"meta", &[&[0; 4], &hdlr, &ilst])]);
    let title = index(&write_with(&tracks, &udta).0).unwrap().title;
    assert_eq!(title.name.as_deref(), Some("Großer Hase"));
    let said: Vec<_> = title
        .tracks
        .iter()
        .map(|track| {
            (
                track.language.as_deref(),
                track.name.as_deref(),
                track.enabled,
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            (None, None, true),
            (Some("eng"), None, true),
            (Some("deu"), Some("Kommentar der Regie"), false),
            (Some("pt-BR"), None, true)
        ]
    );
}

#[test]
fn how_a_picture_is_shown_is_kept() {
    let mut picture = Track::picture(1, 10, 5);
    picture.entries = vec![avc1(&boxed(b"pasp", &[&be(&[4, 3])]))];
    let title = title_of(&[picture]).unwrap();
    let picture = title.tracks[0].picture.clone().unwrap();
    assert_eq!(
        (picture.width, picture.height, picture.pixel_aspect),
        (320, 180, (4, 3))
    );
    assert_eq!(
        picture.matrix,
        [1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30]
    );
    assert_eq!(picture.display, (320 << 16, 180 << 16));
    assert_eq!(
        title.tracks[0].sample_entry,
        avc1(&boxed(b"pasp", &[&be(&[4, 3])])),
        "verbatim"
    );
}

#[test]
fn tracks_of_other_uses_are_passed_over_with_a_note() {
    let mut picture = Track::picture(1, 10, 5);
    picture.in_trak = vec![boxed(b"tref", &[&boxed(b"chap", &[&be(&[5])])])];
    let other =
        |id, handler: &[u8; 4]| Track::new(id, handler, boxed(b"text", &[&[0; 60]]), 1000, vec![]);
    let mut art = Track::picture(7, 1, 1);
    art.entries = vec![visual(b"jpeg", &[])];
    let mut still = Track::picture(8, 1, 1);
    still.id = 8;
    let tracks = [
        picture,
        other(3, b"tmcd"),
        other(4, b"sbtl"),
        other(5, b"text"),
        other(6, b"meta"),
        art,
        still,
    ];
    let title = title_of(&tracks).unwrap();
    assert_eq!(
        title
            .tracks
            .iter()
            .map(|track| track.id)
            .collect::<Vec<_>>(),
        [1]
    );
    assert_eq!(
        title.notes,
        [
            "track 3 (time code) skipped",
            "track 4 (subtitles, text) skipped",
            "track 5: its chapters cannot be read",
            "track 6 (metadata) skipped",
            "track 7 (cover art or Motion JPEG) skipped",
            "track 8 (cover art) skipped",
        ]
    );
}

#[test]
fn a_single_picture_with_sound_is_a_film() {
    let title = title_of(&[Track::picture(1, 1, 1), Track::sound(2, 10)]).unwrap();
    assert_eq!(title.tracks.len(), 2);
}

#[test]
fn codecs_that_are_not_known_are_named_in_a_note() {
    assert_eq!(
        with_sound(audio(b"mp4a", &esds(0xa9, &[]))).notes,
        ["track 2 (DTS sound) skipped"]
    );
    assert_eq!(
        with_sound(audio(b"alac", &[])).notes,
        ["track 2 (Apple Lossless sound) skipped"]
    );
    assert_eq!(
        with_sound(audio(b"xyz ", &[])).notes,
        ["track 2 (sound in xyz ) skipped"]
    );
    assert_eq!(
        with_sound(audio(b"enca", &[])).notes,
        ["track 2 (encrypted) skipped"]
    );
    assert_eq!(
        with_picture(visual(b"vp09", &[])).notes,
        ["track 1 (vp09 picture without its configuration) skipped"]
    );
    assert_eq!(
        with_picture(visual(b"vvc1", &[])).notes,
        ["track 1 (H.266 picture) skipped"]
    );
    assert_eq!(
        with_picture(visual(b"mp4v", &esds(0x21, &[]))).notes,
        ["track 1 (picture of an unknown kind in mp4v) skipped"]
    );
    assert_eq!(
        with_picture(visual(b"avc1", &[])).notes,
        ["track 1 (avc1 picture without its configuration) skipped"]
    );
}

#[test]
fn a_film_without_a_track_that_can_be_played_says_why() {
    let mut picture = Track::picture(1, 10, 5);
    picture.entries = vec![visual(b"encv", &[])];
    let mut sound = Track::sound(2, 10);
    sound.entries = vec![audio(b"fLaC", &[])];
    let error = title_of(&[picture, sound]).unwrap_err();
    assert_eq!(error.kind, IndexErrorKind::Unplayable);
    assert_eq!(
        error.problem,
        "no track can be played: track 1 (encrypted) skipped; track 2 (FLAC sound without its configuration) skipped"
    );
    assert_eq!(title_of(&[]).unwrap_err().problem, "no track can be played");
}

#[test]
fn every_known_codec_is_told_by_its_sample_entry() {
    let hvcc = [
        &[1, 1, 0x60, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 93][..],
        &[0xf0, 0, 0xfc, 0xfd, 0xf8, 0xf8, 0, 0, 0x0f, 0],
    ]
    .concat();
    let picture = |entry: Vec<u8>| with_picture(entry).tracks[0].codec.rfc6381();
    assert_eq!(picture(avc1(&[])), "avc1.64001f");
    assert_eq!(
        picture(visual(
            b"avc3",
            &boxed(b"avcC", &[&[1, 77, 0, 30, 0xff, 0xe0, 0]])
        )),
        "avc3.4d001e"
    );
    assert_eq!(
        picture(visual(b"hvc1", &boxed(b"hvcC", &[&hvcc]))),
        "hvc1.1.6.L93.90"
    );
    assert_eq!(
        picture(visual(b"hev1", &boxed(b"hvcC", &[&hvcc]))),
        "hev1.1.6.L93.90"
    );
    // With parameter sets: one of each kind, two bytes each.
    let sets = [32, 33, 34].map(|kind| [0x80 | kind, 0, 1, 0, 2, kind << 1, 1]);
    let all = [&hvcc[..22], &[3], &sets.concat()].concat();
    let title = with_picture(visual(b"hev1", &boxed(b"hvcC", &[&all])));
    assert_eq!(title.tracks[0].codec.rfc6381(), "hvc1.1.6.L93.90");
    assert_eq!(title.tracks[0].sample_entry[4..8], *b"hvc1");
    assert_eq!(
        picture(visual(b"av01", &boxed(b"av1C", &[&[0x81, 4, 0x0c, 0]]))),
        "av01.0.04M.08"
    );
    let vpcc = boxed(b"vpcC", &[&[1, 0, 0, 0, 2, 41, 0xa2, 9, 14, 9, 0, 0]]);
    assert_eq!(picture(visual(b"vp09", &vpcc)), "vp09.02.41.10");
    let vpcc = boxed(b"vpcC", &[&[1, 0, 0, 0, 0, 0, 0x82, 2, 2, 2, 0, 0]]);
    assert_eq!(picture(visual(b"vp08", &vpcc)), "vp08.00.00.08");
    let simple = esds(0x20, &[0, 0, 1, 0xb0, 3]);
    assert_eq!(picture(visual(b"mp4v", &simple)), "mp4v.20.3");

    let sound = |entry: Vec<u8>| {
        let track = with_sound(entry).tracks.remove(1);
        assert_eq!(track.kind, Kind::Audio);
        (track.codec.name(), track.sound.unwrap())
    };
    assert_eq!(
        sound(mp4a(&[0x11, 0x90])),
        (
            "AAC-LC".into(),
            Sound {
                rate: 48000,
                channels: 2
            }
        )
    );
    // STREAMINFO of 96 kHz and 6 channels.
    let mut dfla = vec![0, 0, 0, 0, 0x80, 0, 0, 34];
    dfla.extend([0; 10]);
    dfla.extend((96_000u64 << 44 | 5 << 41 | 23 << 36).to_be_bytes());
    dfla.extend([0; 16]);
    let flac = Sound {
        rate: 96_000,
        channels: 6,
    };
    assert_eq!(
        sound(audio(b"fLaC", &boxed(b"dfLa", &[&dfla]))),
        ("FLAC".into(), flac)
    );
    assert_eq!(
        sound(mp4a(&[0x2b, 0x11, 0x88, 0])),
        (
            "HE-AAC".into(),
            Sound {
                rate: 48000,
                channels: 2
            }
        )
    );
    assert_eq!(
        sound(mp4a(&[0xeb, 0x09, 0x88, 0])),
        (
            "HE-AAC v2".into(),
            Sound {
                rate: 48000,
                channels: 2
            }
        )
    );
    assert_eq!(
        sound(audio(b"ac-3", &boxed(b"dac3", &[&[0x10, 0x3d, 0x40]]))),
        (
            "AC-3".into(),
            Sound {
                rate: 48000,
                channels: 6
            }
        )
    );
    assert_eq!(
        sound(audio(b"ec-3", &boxed(b"dec3", &[&[6, 0, 0x20, 0x0f, 0]]))).0,
        "E-AC-3"
    );
    let dops = [
        &[0, 2][..],
        &312u16.to_be_bytes(),
        &be(&[44100]),
        &[0, 0, 0],
    ]
    .concat();
    assert_eq!(
        sound(audio(b"Opus", &boxed(b"dOps", &[&dops]))),
        (
            "Opus".into(),
            Sound {
                rate: 48000,
                channels: 2
            }
        )
    );
}

#[test]
fn quicktimes_sound_description_becomes_one_of_iso() {
    let old = boxed(
        b"mp4a",
        &[
            &[0; 7],
            &[1],
            &[0, 1, 0, 0, 0, 0, 0, 0],
            &[0, 2, 0, 16, 255, 254, 0, 0],
            &be(&[48000 << 16]),
            &[0; 16],
            &boxed(
                b"wave",
                &[
                    &boxed(b"frma", &[b"mp4a"]),
                    &esds(0x40, &[0x11, 0x90]),
                    &[0; 8],
                ],
            ),
        ],
    );
    let title = with_sound(old);
    assert!(matches!(&title.tracks[1].codec, Codec::Aac(aac) if aac.rate == 48000));
    assert_eq!(title.tracks[1].sample_entry, mp4a(&[0x11, 0x90]));
}

#[test]
fn a_track_that_changes_its_configuration_is_passed_over() {
    let mut picture =
        Track::picture(1, 10, 5).with_table(table(b"stsc", 0, 2, &[1, 5, 1, 2, 5, 2]));
    picture.entries = vec![avc1(&[]), avc1(&[])];
    assert_eq!(
        title_of(&[picture.clone()]).unwrap().notes,
        Vec::<String>::new(),
        "the same twice is no change"
    );
    picture.entries[1] = avc1(&boxed(b"pasp", &[&be(&[4, 3])]));
    let error = title_of(&[picture]).unwrap_err();
    assert!(
        error
            .problem
            .contains("changes its codec configuration on the way"),
        "{error}"
    );
}

#[test]
fn media_in_another_file_cannot_be_played() {
    let (mut film, _) = write(&[Track::picture(1, 10, 5)]);
    let url = film.windows(4).position(|kind| kind == b"url ").unwrap();
    film[url + 7] = 0; // without an address, this means the same file
    assert!(index(&film).is_ok());

    let dref = boxed(
        b"dref",
        &[&be(&[0, 1]), &boxed(b"url ", &[&[0; 4], b"a.mp4\0"])],
    );
    let old = boxed(b"dref", &[&be(&[0, 1]), &full(b"url ", 0, 1, &[])]);
    let mut film = write(&[Track::picture(1, 10, 5)]).0;
    let at = film
        .windows(old.len())
        .position(|window| window == old)
        .unwrap();
    film.splice(at..at + old.len(), dref);
    for kind in [b"dinf", b"minf", b"mdia", b"trak", b"moov"] {
        let at = film.windows(4).position(|window| window == kind).unwrap() - 4;
        let size = u32::from_be_bytes(film[at..at + 4].try_into().unwrap()) + 6;
        film[at..at + 4].copy_from_slice(&size.to_be_bytes());
    }
    assert!(
        index(&film)
            .unwrap_err()
            .problem
            .contains("its media is in another file")
    );
}

#[test]
fn two_tracks_with_one_id_are_an_error() {
    let error = title_of(&[Track::picture(1, 10, 5), Track::sound(1, 10)]).unwrap_err();
    assert_eq!(
        (error.kind, error.path.as_str()),
        (IndexErrorKind::Damaged, "moov/trak 2")
    );
}

#[test]
fn more_tracks_than_any_film_has_are_refused() {
    let tracks: Vec<Track> = (1..=1025).map(|id| Track::sound(id, 0)).collect();
    let error = title_of(&tracks).unwrap_err();
    assert_eq!(
        (error.kind, error.path.as_str()),
        (IndexErrorKind::TooLarge, "moov/trak 1025")
    );
}

#[test]
fn timed_text_becomes_a_document_on_the_films_timeline() {
    let texts: [&[u8]; 3] = [b"\0\x05Hello", b"\0\0", b"\0\x0ctwo <b> & \xc3\xb6"];
    let samples = texts.iter().map(|text| Spec {
        size: text.len() as u32,
        duration: 1500,
        cts: 0,
        sync: true,
    });
    // displayFlags: every sample is forced.
    let entry = boxed(b"tx3g", &[&[0; 8], &be(&[0x8000_0000]), &[0; 20]]);
    let mut track = Track::new(9, b"sbtl", entry, 1000, samples.collect());
    track.name = b"Signs\0";
    // Delayed by 0.5 s.
    track.edits = vec![(500, -1), (4500, 0)];
    let (mut film, places) = write(&[Track::picture(1, 10, 5), track]);
    for (place, text) in places[1].iter().zip(texts) {
        film[place.start as usize..place.end as usize].copy_from_slice(text);
    }
    let index = index(&film).unwrap();
    assert!(index.title.notes.is_empty(), "{:?}", index.title.notes);
    let [text] = &index.title.texts[..] else {
        panic!("{:?}", index.title.texts);
    };
    assert_eq!((text.id, text.name.as_deref()), (9, Some("Signs")));
    assert!(text.forced && text.default && text.form == TextForm::WebVtt);
    let expected = "WEBVTT\n\n00:00:00.500 --> 00:00:02.000\nHello\n\n\
        00:00:03.500 --> 00:00:05.000\ntwo &lt;b&gt; &amp; ö\n\n";
    assert_eq!(text.document.read().as_deref(), Some(expected.as_bytes()));

    let few = IndexOptions {
        max_texts: 1,
        ..IndexOptions::default()
    };
    let index = index_with(&film, few).unwrap();
    assert!(index.title.texts.is_empty());
    let notes = [
        "track 9: its 2 subtitles are not read, one by one",
        "track 9 (subtitles without text) skipped",
    ];
    assert_eq!(index.title.notes, notes);
}
