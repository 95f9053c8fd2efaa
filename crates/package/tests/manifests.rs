//! Playlists and manifests, compared verbatim.

mod common;

use common::{Made, even, film, gops, picture, sound};
use reelway_media::{Codec, VpConfig};
use reelway_package::{
    FrameRate, Links, Misaligned, Options, Package, Recording, Rendition, StableIds, Subtitles,
    check_alignment, media_playlist, mpd, multivariant_playlist, stable_ids, subtitle_playlist,
};
use reelway_time::Real;

const LINKS: Links = Links {
    playlists: Some("s=TOKEN"),
    segments: Some("v=1&s=TOKEN"),
    steering: None,
    servers: &[],
    subtitles: &[],
    renditions: &[],
    recording: None,
};

fn package(tracks: Vec<Made>) -> Package {
    let (title, tables) = film(tracks);
    Package::new(title, &tables, Options::default()).unwrap()
}

/// 14 s of pictures with B-frames at 25 pictures per second, and two sound tracks.
fn usual() -> Package {
    let mut english = sound(2, 48_000, -1024, even(657, 1 << 20, 341, 1024));
    english.track.language = Some("eng".into());
    let mut german = sound(3, 48_000, -1024, even(657, 1 << 30, 341, 1024));
    german.track.language = Some("deu".into());
    german.track.name = Some("Director's \"cut\" & more".into());
    german.track.enabled = false;
    package(vec![
        picture(1, 25, -1, gops(350, 50, 0, 1)),
        english,
        german,
    ])
}

#[test]
fn multivariant_playlist_of_a_usual_film() {
    assert_eq!(
        multivariant_playlist(&usual(), LINKS),
        r#"#EXTM3U
#EXT-X-VERSION:7
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="sound-mp4a",NAME="en",LANGUAGE="en",DEFAULT=YES,AUTOSELECT=YES,CHANNELS="2",URI="2.m3u8?s=TOKEN"
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="sound-mp4a",NAME="Director's 'cut' & more",LANGUAGE="de",DEFAULT=NO,AUTOSELECT=YES,CHANNELS="2",URI="3.m3u8?s=TOKEN"
#EXT-X-STREAM-INF:BANDWIDTH=365963,AVERAGE-BANDWIDTH=365688,CODECS="avc1.64001f,mp4a.40.2",RESOLUTION=1280x720,FRAME-RATE=25.000,AUDIO="sound-mp4a"
1.m3u8?s=TOKEN
"#
    );
}

#[test]
fn a_player_learns_where_to_ask_which_server_to_use_and_where_else_the_film_is() {
    let servers = [
        "http://edge1:8080/a%20film".to_owned(),
        "http://edge2:8080/a%20film".to_owned(),
        "http://edge3:8080/a%20film".to_owned(),
    ];
    let links = Links {
        steering: Some("http://edge2:8080/a%20film/hls/steering.json?at=edge1:8080&s=TOKEN"),
        servers: &servers,
        ..LINKS
    };
    let package = usual();
    assert_eq!(
        multivariant_playlist(&package, links),
        r#"#EXTM3U
#EXT-X-VERSION:7
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-CONTENT-STEERING:SERVER-URI="http://edge2:8080/a%20film/hls/steering.json?at=edge1:8080&s=TOKEN",PATHWAY-ID="."
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="sound-mp4a",NAME="en",LANGUAGE="en",DEFAULT=YES,AUTOSELECT=YES,CHANNELS="2",STABLE-RENDITION-ID="2",URI="2.m3u8?s=TOKEN"
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="sound-mp4a",NAME="Director's 'cut' & more",LANGUAGE="de",DEFAULT=NO,AUTOSELECT=YES,CHANNELS="2",STABLE-RENDITION-ID="3",URI="3.m3u8?s=TOKEN"
#EXT-X-STREAM-INF:BANDWIDTH=365963,AVERAGE-BANDWIDTH=365688,CODECS="avc1.64001f,mp4a.40.2",RESOLUTION=1280x720,FRAME-RATE=25.000,AUDIO="sound-mp4a",STABLE-VARIANT-ID="1-sound-mp4a"
1.m3u8?s=TOKEN
"#
    );
    let said = |id: &str, address: &str| (id.to_owned(), address.to_owned());
    assert_eq!(
        stable_ids(&package, &[]),
        StableIds {
            variants: vec![said("1-sound-mp4a", "1.m3u8")],
            renditions: vec![said("2", "2.m3u8"), said("3", "3.m3u8")],
        }
    );
    let bases = r#"
  <BaseURL serviceLocation="1">http://edge1:8080/a%20film/dash/</BaseURL>
  <BaseURL serviceLocation="2">http://edge2:8080/a%20film/dash/</BaseURL>
  <BaseURL serviceLocation="3">http://edge3:8080/a%20film/dash/</BaseURL>
  <Period "#;
    let with = mpd(&package, links);
    assert!(with.contains(bases), "{with}");
    assert_eq!(with.replace(bases, "\n  <Period "), mpd(&package, LINKS));
}

/// The same picture in two smaller renditions, one of them with another codec.
#[test]
fn players_may_change_to_other_renditions_while_they_play() {
    let film = usual();
    let low = package(vec![picture(7, 12_800, -512, gops(350, 50, 0, 512))]);
    let mut other = picture(1, 25, -1, gops(350, 50, 0, 1));
    other.track.codec = Codec::Vp9(VpConfig {
        profile: 0,
        level: 31,
        depth: 8,
    });
    let vp9 = package(vec![other]);
    let rendition = |package, path| Rendition {
        package,
        path,
        segments: Some("v=2&s=TOKEN"),
    };
    let renditions = [
        rendition(&vp9, "../../a.set/vp9"),
        rendition(&low, "../../a.set/low"),
    ];
    for other in [&low, &vp9] {
        assert_eq!(check_alignment(&film, other), Ok(()));
    }
    let links = Links {
        renditions: &renditions,
        ..LINKS
    };
    let playlist = multivariant_playlist(&film, links);
    let own = multivariant_playlist(&film, LINKS);
    assert_eq!(
        playlist.strip_prefix(&own).unwrap(),
        r#"#EXT-X-STREAM-INF:BANDWIDTH=365963,AVERAGE-BANDWIDTH=365688,CODECS="vp09.00.31.08,mp4a.40.2",RESOLUTION=1280x720,FRAME-RATE=25.000,AUDIO="sound-mp4a"
../../a.set/vp9/hls/1.m3u8?s=TOKEN
#EXT-X-STREAM-INF:BANDWIDTH=365963,AVERAGE-BANDWIDTH=365688,CODECS="avc1.64001f,mp4a.40.2",RESOLUTION=1280x720,FRAME-RATE=25.000,AUDIO="sound-mp4a"
../../a.set/low/hls/7.m3u8?s=TOKEN
"#
    );
    let ids = stable_ids(&film, &renditions).variants;
    let ids: Vec<&str> = ids.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["1-sound-mp4a", "r1-1-sound-mp4a", "r2-7-sound-mp4a"]);
    let manifest = mpd(&film, links);
    let sets: Vec<&str> = manifest.split("<AdaptationSet ").skip(1).collect();
    let of = |set: &str| -> Vec<String> {
        let parts = set.split("<Representation id=\"").skip(1);
        parts
            .map(|part| part.split('"').next().unwrap().to_owned())
            .collect()
    };
    let sets_of: Vec<Vec<String>> = sets.iter().map(|set| of(set)).collect();
    assert_eq!(
        sets_of,
        [vec!["1", "r2-7"], vec!["r1-1"], vec!["2"], vec!["3"]]
    );
    for (set, main) in [(0, true), (1, false), (2, true), (3, false)] {
        assert_eq!(sets[set].contains("value=\"main\""), main, "{set}");
    }
    let address = r#"initialization="../../a.set/low/seg/7/init.mp4?v=2&amp;s=TOKEN" media="../../a.set/low/seg/7/$Number$.m4s?v=2&amp;s=TOKEN""#;
    assert!(sets[0].contains(address), "{manifest}");
    assert!(sets[0].contains("timescale=\"12800\""), "{manifest}");
}

#[test]
fn renditions_that_do_not_align_say_what_and_where() {
    let film = usual();
    let why = |other: &Package| check_alignment(&film, other).unwrap_err().to_string();
    let with = |samples| package(vec![picture(1, 25, -1, samples)]);
    let cut_elsewhere = with(gops(350, 70, 0, 1));
    assert_eq!(
        why(&cut_elsewhere),
        "its segment 2 begins at 5.600 s, that of the best rendition at 6.000 s: both need key frames at the same times"
    );
    let longer = with(gops(360, 50, 0, 1));
    assert_eq!(
        why(&longer),
        "it is 14.400 s long, the best rendition 14.000 s"
    );
    let much_longer = with(gops(650, 50, 0, 1));
    assert_eq!(
        why(&much_longer),
        "its segment 4 begins at 18.000 s, that of the best rendition at 14.000 s: both need key frames at the same times"
    );
    let sound_alone = package(vec![sound(1, 48_000, 0, even(657, 0, 341, 1024))]);
    assert_eq!(why(&sound_alone), "it has no picture");
    let other_way_round = check_alignment(&sound_alone, &film).unwrap_err();
    assert_eq!(
        other_way_round.to_string(),
        "the best rendition has no picture"
    );
}

/// A recording that began at noon, a minute later.
const GROWING: Links = Links {
    recording: Some(Recording {
        began: Real::from_nanos(43_200 * 1_000_000_000),
        now: Real::from_nanos(43_260 * 1_000_000_000),
    }),
    ..LINKS
};

#[test]
fn the_playlist_of_a_recording_has_what_stays_and_no_end() {
    let whole = media_playlist(&usual().tracks()[0], LINKS);
    // The last segment lasts two seconds, so it is the only one that may change.
    let expected = whole
        .replace("TARGETDURATION:6", "TARGETDURATION:9")
        .replace("TYPE:VOD", "TYPE:EVENT")
        .replace(
            "#EXTINF:2.0,\n../seg/1/3.m4s?v=1&s=TOKEN\n#EXT-X-ENDLIST\n",
            "",
        );
    assert_eq!(media_playlist(&usual().tracks()[0], GROWING), expected);
    // If a recording has just begun, no segment is final.
    let short = package(vec![picture(1, 25, -1, gops(60, 50, 0, 1))]);
    let playlist = media_playlist(&short.tracks()[0], GROWING);
    assert!(!playlist.contains("#EXTINF"), "{playlist}");
}

#[test]
fn the_manifest_of_a_recording_is_dynamic() {
    let manifest = mpd(&usual(), GROWING);
    for part in [
        " type=\"dynamic\" availabilityStartTime=\"1970-01-01T12:00:00Z\" publishTime=\"1970-01-01T12:01:00Z\" \
         minimumUpdatePeriod=\"PT6S\" suggestedPresentationDelay=\"PT18S\" minBufferTime=",
        "</Period>\n  <UTCTiming schemeIdUri=\"urn:mpeg:dash:utc:direct:2014\" value=\"1970-01-01T12:01:00Z\"/>\n</MPD>",
        "<S t=\"0\" d=\"150\" r=\"1\"/>\n          </SegmentTimeline>",
    ] {
        assert!(manifest.contains(part), "{part}: {manifest}");
    }
    assert!(
        !manifest.contains("mediaPresentationDuration"),
        "{manifest}"
    );
}

#[test]
fn media_playlists_of_a_usual_film() {
    let package = usual();
    assert_eq!(
        media_playlist(&package.tracks()[0], LINKS),
        r#"#EXTM3U
#EXT-X-VERSION:7
#EXT-X-TARGETDURATION:6
#EXT-X-MEDIA-SEQUENCE:1
#EXT-X-PLAYLIST-TYPE:VOD
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-MAP:URI="../seg/1/init.mp4?v=1&s=TOKEN"
#EXTINF:6.0,
../seg/1/1.m4s?v=1&s=TOKEN
#EXTINF:6.0,
../seg/1/2.m4s?v=1&s=TOKEN
#EXTINF:2.0,
../seg/1/3.m4s?v=1&s=TOKEN
#EXT-X-ENDLIST
"#
    );
    assert_eq!(
        media_playlist(&package.tracks()[1], Links::default()),
        r#"#EXTM3U
#EXT-X-VERSION:7
#EXT-X-TARGETDURATION:6
#EXT-X-MEDIA-SEQUENCE:1
#EXT-X-PLAYLIST-TYPE:VOD
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-MAP:URI="../seg/2/init.mp4"
#EXTINF:6.016,
../seg/2/1.m4s
#EXTINF:5.994666667,
../seg/2/2.m4s
#EXTINF:1.984,
../seg/2/3.m4s
#EXT-X-ENDLIST
"#
    );
}

#[test]
fn mpd_of_a_usual_film() {
    assert_eq!(
        mpd(&usual(), LINKS),
        r#"<?xml version="1.0" encoding="UTF-8"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" profiles="urn:mpeg:dash:profile:isoff-live:2011" type="static" mediaPresentationDuration="PT14.001S" minBufferTime="PT6.016S" maxSegmentDuration="PT6.016S">
  <ProgramInformation><Title>A &lt;film&gt;</Title></ProgramInformation>
  <Period id="0" start="PT0S">
    <AdaptationSet id="1" contentType="video" mimeType="video/mp4" segmentAlignment="true" startWithSAP="1" par="16:9">
      <Role schemeIdUri="urn:mpeg:dash:role:2011" value="main"/>
      <Representation id="1" codecs="avc1.64001f" bandwidth="235959" width="1280" height="720" sar="1:1" frameRate="25">
        <SegmentTemplate timescale="25" startNumber="1" initialization="../seg/1/init.mp4?v=1&amp;s=TOKEN" media="../seg/1/$Number$.m4s?v=1&amp;s=TOKEN">
          <SegmentTimeline>
            <S t="0" d="150" r="1"/>
            <S d="50"/>
          </SegmentTimeline>
        </SegmentTemplate>
      </Representation>
    </AdaptationSet>
"#
        .to_owned()
            + r#"    <AdaptationSet id="2" contentType="audio" mimeType="audio/mp4" segmentAlignment="true" startWithSAP="1" lang="en">
      <Role schemeIdUri="urn:mpeg:dash:role:2011" value="main"/>
      <Representation id="2" codecs="mp4a.40.2" bandwidth="130004" audioSamplingRate="48000">
        <AudioChannelConfiguration schemeIdUri="urn:mpeg:dash:23003:3:audio_channel_configuration:2011" value="2"/>
        <SegmentTemplate timescale="48000" startNumber="1" initialization="../seg/2/init.mp4?v=1&amp;s=TOKEN" media="../seg/2/$Number$.m4s?v=1&amp;s=TOKEN">
          <SegmentTimeline>
            <S t="0" d="289792"/>
            <S d="287744"/>
            <S d="95232"/>
          </SegmentTimeline>
        </SegmentTemplate>
      </Representation>
    </AdaptationSet>
    <AdaptationSet id="3" contentType="audio" mimeType="audio/mp4" segmentAlignment="true" startWithSAP="1" lang="de">
      <Label>Director&apos;s &quot;cut&quot; &amp; more</Label>
      <Role schemeIdUri="urn:mpeg:dash:role:2011" value="alternate"/>
      <Representation id="3" codecs="mp4a.40.2" bandwidth="130004" audioSamplingRate="48000">
        <AudioChannelConfiguration schemeIdUri="urn:mpeg:dash:23003:3:audio_channel_configuration:2011" value="2"/>
        <SegmentTemplate timescale="48000" startNumber="1" initialization="../seg/3/init.mp4?v=1&amp;s=TOKEN" media="../seg/3/$Number$.m4s?v=1&amp;s=TOKEN">
          <SegmentTimeline>
            <S t="0" d="289792"/>
            <S d="287744"/>
            <S d="95232"/>
          </SegmentTimeline>
        </SegmentTemplate>
      </Representation>
    </AdaptationSet>
  </Period>
</MPD>
"#
    );
}

#[test]
fn a_film_without_sound_has_no_groups() {
    let text = multivariant_playlist(
        &package(vec![picture(7, 25, -1, gops(350, 50, 0, 1))]),
        Links::default(),
    );
    assert!(
        !text.contains("AUDIO") && text.ends_with("\n7.m3u8\n"),
        "{text}"
    );
}

#[test]
fn one_sound_alone_is_a_variant() {
    let text = multivariant_playlist(
        &package(vec![sound(4, 48_000, 0, even(900, 0, 300, 1024))]),
        Links::default(),
    );
    assert_eq!(
        text,
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n\
         #EXT-X-STREAM-INF:BANDWIDTH=114285,AVERAGE-BANDWIDTH=114214,CODECS=\"mp4a.40.2\"\n4.m3u8\n"
    );
}

#[test]
fn several_sounds_alone_are_a_variant_and_a_group() {
    let tracks = vec![
        sound(1, 48_000, 0, even(900, 0, 300, 1024)),
        sound(2, 48_000, 0, even(900, 0, 600, 1024)),
    ];
    let text = multivariant_playlist(&package(tracks), Links::default());
    assert_eq!(text.matches("#EXT-X-MEDIA:").count(), 2);
    assert!(
        text.contains("NAME=\"Sound 1\"") && text.contains("NAME=\"Sound 2\""),
        "{text}"
    );
    assert!(text.contains("AUDIO=\"sound-mp4a\"\n1.m3u8\n"), "{text}");
}

#[test]
fn each_codec_of_sound_is_a_variant_with_its_own_bandwidth() {
    let mut ac3 = sound(3, 48_000, 0, even(400, 1 << 30, 1536, 1536));
    ac3.track.codec = Codec::Ac3;
    let aac = sound(2, 48_000, 0, even(600, 1 << 20, 300, 1024));
    let text = multivariant_playlist(
        &package(vec![picture(1, 25, -1, gops(300, 50, 0, 1)), aac, ac3]),
        Links::default(),
    );
    assert_eq!(text.matches("#EXT-X-STREAM-INF:").count(), 2);
    assert!(
        text.contains("CODECS=\"avc1.64001f,mp4a.40.2\"")
            && text.contains("CODECS=\"avc1.64001f,ac-3\""),
        "{text}"
    );
    let bandwidths: Vec<u64> = text
        .split("#EXT-X-STREAM-INF:BANDWIDTH=")
        .skip(1)
        .map(|rest| rest.split(',').next().unwrap().parse().unwrap())
        .collect();
    assert!(bandwidths[1] > bandwidths[0] + 200_000, "{bandwidths:?}");
}

#[test]
fn names_in_one_group_differ() {
    let mut tracks = vec![picture(1, 25, -1, gops(300, 50, 0, 1))];
    for id in 2..5 {
        let mut track = sound(id, 48_000, 0, even(600, 1 << 20, 300, 1024));
        track.track.language = Some("eng".into());
        tracks.push(track);
    }
    let text = multivariant_playlist(&package(tracks), Links::default());
    for name in ["\"en\"", "\"en (2)\"", "\"en (3)\""] {
        assert!(text.contains(&format!("NAME={name}")), "{text}");
    }
    assert_eq!(
        text.matches("AUTOSELECT=YES").count(),
        1,
        "nothing tells the others apart"
    );
}

#[test]
fn a_turned_picture_is_shown_upright_and_wide_pixels_wide() {
    let mut made = picture(1, 25, -1, gops(300, 50, 0, 1));
    if let Some(picture) = &mut made.track.picture {
        picture.matrix = [0, 0x1_0000, 0, -0x1_0000, 0, 0, 720 << 16, 0, 0x4000_0000];
        picture.pixel_aspect = (4, 3);
    }
    let package = package(vec![made]);
    assert!(multivariant_playlist(&package, Links::default()).contains("RESOLUTION=720x1706"));
    let mpd = mpd(&package, Links::default());
    assert!(
        mpd.contains("width=\"1280\" height=\"720\" sar=\"4:3\"") && mpd.contains("par=\"64:27\""),
        "{mpd}"
    );
}

#[test]
fn frame_rates_are_named_as_usual() {
    for (timescale, duration, hls, dash) in [
        (30_000, 1001, "29.970", "30000/1001"),
        (1000, 42, "23.810", "2381/100"),
        (90_000, 3600, "25.000", "25"),
    ] {
        let package = package(vec![picture(1, timescale, 0, gops(500, 50, 0, duration))]);
        assert!(
            multivariant_playlist(&package, Links::default())
                .contains(&format!("FRAME-RATE={hls}"))
        );
        assert!(
            mpd(&package, Links::default()).contains(&format!("frameRate=\"{dash}\"")),
            "{timescale}"
        );
    }
}

#[test]
fn a_frame_rate_is_the_usual_one_if_it_differs_by_no_more_than_rounding() {
    let rate = |pictures, timescale, ticks| {
        let mut track = picture(1, timescale, 0, gops(50, 50, 0, 1)).track;
        (track.samples, track.duration) = (pictures, ticks);
        FrameRate::of(&track).map(|rate| rate.to_string())
    };
    for usual in [24u32, 25, 30, 48, 50, 60, 100, 120] {
        let text = usual.to_string();
        assert_eq!(rate(600, usual * 1000, 600_000), Some(text));
        let text = format!("{usual}000/1001");
        assert_eq!(rate(600, usual * 1000, 600_600), Some(text));
    }
    for (pictures, timescale, ticks, text) in [
        (120, 1, 10, "12"),
        (150, 1, 10, "15"),
        (10, 1, 10, "1"),
        // 29.97 pictures per second, counted in milliseconds.
        (1000, 1000, 33_367, "30000/1001"),
        // A deviation of half a thousandth is allowed.
        (1000, 1000, 1_000_500, "1"),
        (1000, 1000, 1_000_501, "999/1000"),
        (1000, 1000, 999_501, "1"),
        (1000, 1000, 999_500, "1001/1000"),
        // Thousandths, rounded to nearest and reduced.
        (1000, 1000, 70_000, "7143/500"),
        (1000, 1000, 30_120, "33201/1000"),
        (1, 1, 10_000, "1/1000"),
    ] {
        assert_eq!(
            rate(pictures, timescale, ticks).as_deref(),
            Some(text),
            "{pictures} in {ticks}/{timescale}"
        );
    }
    assert_eq!(rate(0, 25, 100), None);
    assert_eq!(rate(100, 25, 0), None);
}

#[test]
fn the_sound_that_is_enabled_is_the_default_one() {
    let mut tracks = vec![picture(1, 25, -1, gops(300, 50, 0, 1))];
    for id in 2..5 {
        let mut track = sound(id, 48_000, 0, even(600, 1 << 20, 300, 1024));
        track.track.language = Some("eng".into());
        track.track.enabled = id == 3;
        tracks.push(track);
    }
    let package = package(tracks);
    let text = multivariant_playlist(&package, Links::default());
    let chosen: Vec<&str> = text
        .lines()
        .filter_map(|line| Some(line.split_once("DEFAULT=")?.1.split_once(",CH")?.0))
        .collect();
    // RFC 8216 4.3.4.1: the default track may also be selected automatically.
    assert_eq!(
        chosen,
        [
            "NO,AUTOSELECT=YES",
            "YES,AUTOSELECT=YES",
            "NO,AUTOSELECT=NO"
        ]
    );
    let mpd = mpd(&package, Links::default());
    let roles: Vec<&str> = mpd
        .lines()
        .filter_map(|line| line.split_once("role:2011\" value=\"")?.1.split_once('"'))
        .map(|(role, _)| role)
        .collect();
    assert_eq!(roles, ["main", "alternate", "main", "alternate"]);
}

#[test]
fn sound_whose_channels_have_no_number_is_the_default_one_only_where_there_is_no_other() {
    let unnumbered = |id| {
        let mut track = sound(id, 48_000, 0, even(600, 1 << 20, 300, 1024));
        if let Codec::Aac(aac) = &mut track.track.codec {
            aac.config = vec![0x11, 0x80, 0x04, 0xc4, 0x04, 0x00, 0x21, 0x10, 0];
        }
        track
    };
    let numbered = sound(3, 48_000, 0, even(600, 1 << 20, 300, 1024));
    let defaults = |tracks| {
        let text = multivariant_playlist(&package(tracks), Links::default());
        let default = text.lines().filter(|line| line.contains("DEFAULT=YES"));
        let address = |line: &str| {
            Some(
                line.split_once("URI=\"")?
                    .1
                    .trim_end_matches('"')
                    .to_owned(),
            )
        };
        default.filter_map(address).collect::<Vec<_>>()
    };
    assert_eq!(defaults(vec![unnumbered(2), numbered]), ["3.m3u8"]);
    assert_eq!(defaults(vec![unnumbered(2), unnumbered(3)]), ["2.m3u8"]);
}

#[test]
fn sound_of_one_codec_family_is_one_group_whose_variant_takes_the_most() {
    let bandwidth = |tracks| {
        let text = multivariant_playlist(&package(tracks), Links::default());
        let start = text.find("#EXT-X-STREAM-INF:").expect("a variant");
        let rates = text[start..].split_once(",CODECS").expect("codecs").0;
        (rates.to_owned(), text)
    };
    let small = || sound(1, 48_000, 0, even(900, 0, 300, 1024));
    let large = || {
        let mut large = sound(2, 48_000, 0, even(900, 0, 600, 1024));
        if let Codec::Aac(config) = &mut large.track.codec {
            config.object_type = 5;
        }
        large.track.name = Some("\u{7}".into());
        large
    };
    let (both, text) = bandwidth(vec![small(), large()]);
    assert_eq!(both, bandwidth(vec![large()]).0);
    assert_ne!(both, bandwidth(vec![small()]).0);
    assert_eq!(text.matches("#EXT-X-STREAM-INF:").count(), 1);
    assert!(text.contains("CODECS=\"mp4a.40.2,mp4a.40.5\""), "{text}");
    assert!(
        text.contains("NAME=\"Sound 2\""),
        "a name without letters: {text}"
    );
}

#[test]
fn segments_of_open_gops_are_not_called_independent() {
    let mut samples = gops(300, 50, 0, 1);
    for gop in samples.chunks_mut(50) {
        // The sync sample is shown after the two that follow it.
        for (sample, cts) in gop.iter_mut().zip([3, 0, 0]) {
            sample.cts = cts;
        }
    }
    let package = package(vec![picture(1, 25, -3, samples)]);
    let track = &package.tracks()[0];
    assert!(!track.independent());
    let closed = self::package(vec![picture(1, 25, -1, gops(300, 50, 0, 1))]);
    assert_eq!(
        check_alignment(&closed, &package),
        Err(Misaligned::OpenGroups)
    );
    assert_eq!(
        check_alignment(&package, &closed),
        Err(Misaligned::BestHasOpenGroups)
    );
    for text in [
        multivariant_playlist(&package, LINKS),
        media_playlist(track, LINKS),
        mpd(&package, LINKS),
    ] {
        assert!(
            !text.contains("INDEPENDENT") && !text.contains("startWithSAP"),
            "{text}"
        );
    }
}

#[test]
fn subtitles_are_renditions_of_hls_and_adaptation_sets_of_dash() {
    let subtitles = [
        Subtitles {
            number: 1,
            label: "en",
            language: Some("en"),
            forced: false,
            default: true,
            sdh: false,
        },
        Subtitles {
            number: 2,
            label: "de \"SDH\" & more",
            language: Some("de"),
            forced: false,
            default: false,
            sdh: true,
        },
    ];
    let links = Links {
        subtitles: &subtitles,
        ..LINKS
    };
    let package = usual();
    let playlist = multivariant_playlist(&package, links);
    let lines: Vec<&str> = playlist
        .lines()
        .filter(|line| line.contains("SUBTITLES"))
        .collect();
    assert_eq!(
        lines,
        [
            r#"#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="subtitles",NAME="en",LANGUAGE="en",DEFAULT=YES,AUTOSELECT=YES,FORCED=NO,URI="subtitles-1.m3u8?s=TOKEN""#,
            r#"#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="subtitles",NAME="de 'SDH' & more",LANGUAGE="de",DEFAULT=NO,AUTOSELECT=YES,FORCED=NO,CHARACTERISTICS="public.accessibility.transcribes-spoken-dialog,public.accessibility.describes-music-and-sound",URI="subtitles-2.m3u8?s=TOKEN""#,
            r#"#EXT-X-STREAM-INF:BANDWIDTH=365963,AVERAGE-BANDWIDTH=365688,CODECS="avc1.64001f,mp4a.40.2",RESOLUTION=1280x720,FRAME-RATE=25.000,AUDIO="sound-mp4a",SUBTITLES="subtitles""#,
        ]
    );
    // A group has one default, however many tracks claim to be it.
    let both = [1, 2].map(|number| Subtitles {
        number,
        default: true,
        ..subtitles[0]
    });
    let of_both = Links {
        subtitles: &both,
        ..LINKS
    };
    let playlist = multivariant_playlist(&package, of_both);
    let defaults: Vec<bool> = (playlist.lines())
        .filter(|line| line.contains("TYPE=SUBTITLES"))
        .map(|line| line.contains("DEFAULT=YES"))
        .collect();
    assert_eq!(defaults, [true, false]);
    assert_eq!(
        subtitle_playlist(&package, 2),
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:14\n#EXT-X-MEDIA-SEQUENCE:1\n#EXT-X-PLAYLIST-TYPE:VOD\n\
         #EXTINF:14.0,\n../subtitles/2.vtt\n#EXT-X-ENDLIST\n"
    );
    let sets = r#"    <AdaptationSet contentType="text" mimeType="text/vtt" lang="en">
      <Label>en</Label>
      <Role schemeIdUri="urn:mpeg:dash:role:2011" value="main"/>
      <Role schemeIdUri="urn:mpeg:dash:role:2011" value="subtitle"/>
      <Representation id="subtitles-1" bandwidth="1000">
        <BaseURL>../subtitles/1.vtt</BaseURL>
      </Representation>
    </AdaptationSet>
    <AdaptationSet contentType="text" mimeType="text/vtt" lang="de">
      <Label>de &quot;SDH&quot; &amp; more</Label>
      <Role schemeIdUri="urn:mpeg:dash:role:2011" value="caption"/>
      <Representation id="subtitles-2" bandwidth="1000">
        <BaseURL>../subtitles/2.vtt</BaseURL>
      </Representation>
    </AdaptationSet>
  </Period>
"#;
    let manifest = mpd(&package, links);
    assert!(manifest.contains(sets), "{manifest}");
}
