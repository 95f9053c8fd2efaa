//! Initialisation segments, box by box (ISO/IEC 14496-12).

mod common;

use common::{Made, even, film, find, gops, picture, sound, u32_at};
use reelway_package::{Options, Package};

/// Returns the `moov` of a film's only track.
fn moov(made: Made) -> Vec<u8> {
    let (title, tables) = film(vec![made]);
    let package = Package::new(title, &tables, Options::default()).unwrap();
    let init = package.tracks()[0].init();
    assert_eq!(&init[..28], b"\0\0\0\x1cftypiso6\0\0\0\0iso6cmf2dash");
    assert_eq!(names(init), ["ftyp", "moov"]);
    find(init, b"moov").to_vec()
}

/// Returns the names of consecutive boxes that fill all of `bytes`.
fn names(mut bytes: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    while !bytes.is_empty() {
        names.push(String::from_utf8_lossy(&bytes[4..8]).into_owned());
        bytes = &bytes[u32_at(bytes, 0) as usize..];
    }
    names
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// 14 s of pictures.
fn pictures() -> Made {
    picture(7, 25, -1, gops(350, 50, 0, 1))
}

/// 10.7 s of sound that needs no priming.
fn sounds() -> Made {
    sound(9, 48_000, 0, even(500, 0, 300, 1024))
}

#[test]
fn a_picture_has_its_size_and_its_matrix_and_no_volume() {
    let mut made = pictures();
    let matrix = [0, 0x1_0000, 0, -0x1_0000, 0, 0, 720 << 16, 0, 0x4000_0000];
    made.track.picture.as_mut().unwrap().matrix = matrix;
    made.track.name = Some("Main\0 angle".into());
    let moov = moov(made);
    assert_eq!(names(&moov), ["mvhd", "trak", "mvex"]);
    let trak = find(&moov, b"trak");
    assert_eq!(names(trak), ["tkhd", "mdia"], "no edit list");
    let tkhd = find(trak, b"tkhd");
    assert_eq!((tkhd.len(), u32_at(tkhd, 0), u32_at(tkhd, 12)), (84, 7, 7));
    // Alternate group and volume.
    assert_eq!((u16_at(tkhd, 34), u16_at(tkhd, 36)), (0, 0));
    let told: Vec<i32> = (0..9).map(|n| u32_at(tkhd, 40 + 4 * n) as i32).collect();
    assert_eq!(told, matrix);
    assert_eq!(
        (u32_at(tkhd, 76), u32_at(tkhd, 80)),
        (1280 << 16, 720 << 16)
    );
    let mdia = find(trak, b"mdia");
    assert_eq!(names(mdia), ["mdhd", "hdlr", "minf"]);
    let hdlr = find(mdia, b"hdlr");
    assert_eq!(
        (&hdlr[8..12], &hdlr[24..]),
        (&b"vide"[..], &b"Main angle\0"[..])
    );
    let minf = find(mdia, b"minf");
    assert_eq!(names(minf), ["vmhd", "dinf", "stbl"]);
    let vmhd = find(minf, b"vmhd");
    assert_eq!((vmhd.len(), u32_at(vmhd, 0)), (12, 1), "its flags are 1");
}

#[test]
fn sound_has_a_volume_and_no_size() {
    let moov = moov(sounds());
    let trak = find(&moov, b"trak");
    let tkhd = find(trak, b"tkhd");
    assert_eq!((tkhd.len(), u32_at(tkhd, 12)), (84, 9));
    assert_eq!((u16_at(tkhd, 34), u16_at(tkhd, 36)), (1, 0x100));
    assert_eq!(
        (u32_at(tkhd, 40), u32_at(tkhd, 76), u32_at(tkhd, 80)),
        (0x1_0000, 0, 0)
    );
    let mdia = find(trak, b"mdia");
    let hdlr = find(mdia, b"hdlr");
    assert_eq!((&hdlr[8..12], &hdlr[24..]), (&b"soun"[..], &b"\0"[..]));
    let minf = find(mdia, b"minf");
    assert_eq!(names(minf), ["smhd", "dinf", "stbl"]);
    assert_eq!(find(minf, b"smhd"), [0; 8]);
}

#[test]
fn the_movie_is_counted_in_milliseconds_and_its_length_is_beside_the_fragments() {
    let moov = moov(pictures());
    let mvhd = find(&moov, b"mvhd");
    assert_eq!(
        (mvhd.len(), u32_at(mvhd, 12), u32_at(mvhd, 16)),
        (100, 1000, 0)
    );
    // Rate, volume, unity, and the next track_ID.
    assert_eq!((u32_at(mvhd, 20), u16_at(mvhd, 24)), (0x1_0000, 0x100));
    assert_eq!(
        (u32_at(mvhd, 36), u32_at(mvhd, 52), u32_at(mvhd, 68)),
        (0x1_0000, 0x1_0000, 0x4000_0000)
    );
    assert_eq!(u32_at(mvhd, 96), 8);
    let mvex = find(&moov, b"mvex");
    assert_eq!(names(mvex), ["mehd", "trex"]);
    assert_eq!(
        find(mvex, b"mehd"),
        [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x36, 0xb0],
        "14,000 ms"
    );
    let trex = find(mvex, b"trex");
    assert_eq!((trex.len(), u32_at(trex, 4), u32_at(trex, 8)), (24, 7, 1));
}

#[test]
fn the_sample_tables_are_empty_and_the_sample_entry_is_the_film_s() {
    let moov = moov(pictures());
    let minf = find(find(find(&moov, b"trak"), b"mdia"), b"minf");
    let dref = find(find(minf, b"dinf"), b"dref");
    assert_eq!(
        (u32_at(dref, 4), names(&dref[8..])),
        (1, vec!["url ".to_owned()])
    );
    assert_eq!(u32_at(dref, 16), 1, "the media are in this file");
    let stbl = find(minf, b"stbl");
    assert_eq!(names(stbl), ["stsd", "stts", "stsc", "stsz", "stco"]);
    let stsd = find(stbl, b"stsd");
    assert_eq!(u32_at(stsd, 4), 1);
    assert_eq!(&stsd[8..], b"\0\0\0\x10test\0\0\0\0\0\0\0\x01");
    assert_eq!(find(stbl, b"stsz"), [0; 12]);
    for kind in [b"stts", b"stsc", b"stco"] {
        assert_eq!(find(stbl, kind), [0; 8]);
    }
}

#[test]
fn a_language_of_three_letters_is_packed_and_any_other_is_spelt_out() {
    // Five bits per letter: "deu" is 4, 5, 21 and "und" is 21, 14, 4.
    for (language, packed, spelt) in [
        (None, 0x55c4, None),
        (Some("deu"), 0x10b5, None),
        (Some("aaz"), 0x043a, None),
        (Some("pt-BR"), 0x55c4, Some("pt-BR")),
        (Some("de"), 0x55c4, Some("de")),
        (Some("DEU"), 0x55c4, Some("DEU")),
        (Some("d\0e"), 0x55c4, Some("de")),
    ] {
        let mut made = sounds();
        made.track.language = language.map(str::to_owned);
        let moov = moov(made);
        let mdia = find(find(&moov, b"trak"), b"mdia");
        let mdhd = find(mdia, b"mdhd");
        assert_eq!((mdhd.len(), u32_at(mdhd, 12)), (24, 48_000));
        assert_eq!(u16_at(mdhd, 20), packed, "{language:?}");
        let expected = spelt.map(|spelt| [&[0; 4], spelt.as_bytes(), &[0]].concat());
        let found = names(mdia).contains(&"elng".to_owned());
        assert_eq!(
            found.then(|| find(mdia, b"elng").to_vec()),
            expected,
            "{language:?}"
        );
    }
}
