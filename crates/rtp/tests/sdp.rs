//! Session descriptions, parsed by an independent parser.

mod common;

use common::{aac, h264, h265, opus, payload, track};
use reelway_media::{Group, SECOND, Track};
use reelway_rtp::sdp::{Description, Profile, Section, npt};
use sdp_types::Session;

fn describe(tracks: &[Track], name: &str, server: &str) -> Session {
    let media: Vec<_> = tracks
        .iter()
        .map(|track| payload(track, 1440).sdp().clone())
        .collect();
    let controls: Vec<String> = tracks
        .iter()
        .map(|track| format!("track={}", track.id))
        .collect();
    let sections: Vec<Section> = (96..)
        .zip(media.iter().zip(&controls))
        .map(|(payload_type, (media, control))| Section {
            media,
            payload_type,
            control,
            rtx: Some(payload_type ^ 16),
        })
        .collect();
    let text = Description {
        id: 1,
        version: 2,
        server: server.parse().unwrap(),
        name,
        tool: "Reelway",
        duration: 90 * SECOND + SECOND / 2,
        profile: Profile::Avp,
        sections: &sections,
    }
    .to_text();
    assert!(
        text.ends_with("\r\n") && text.lines().all(|line| line.as_bytes()[1] == b'='),
        "{text}"
    );
    Session::parse(text.as_bytes()).unwrap()
}

fn attribute<'a>(session: &'a Session, section: usize, name: &'a str) -> Option<&'a str> {
    session.medias[section]
        .get_first_attribute_value(name)
        .flatten()
}

#[test]
fn a_film_of_picture_and_sound_says_all_a_player_needs() {
    let mut sound = track(aac(48_000, 2), 48_000);
    (sound.id, sound.language) = (7, Some("deu".into()));
    let session = describe(
        &[track(h264(4), 90_000), sound],
        "Käse & Brot 🧀",
        "192.0.2.1",
    );
    assert_eq!(session.session_name, "Käse & Brot 🧀");
    assert_eq!(
        session.get_first_attribute_value("control").unwrap(),
        Some("*")
    );
    assert_eq!(
        session.get_first_attribute_value("range").unwrap(),
        Some("npt=0-90.5")
    );
    assert_eq!(session.medias[0].media, "video");
    assert_eq!(attribute(&session, 0, "rtpmap"), Some("96 H264/90000"));
    assert_eq!(attribute(&session, 0, "control"), Some("track=1"));
    assert_eq!(
        attribute(&session, 0, "fmtp"),
        Some("96 packetization-mode=1;profile-level-id=64001F;sprop-parameter-sets=Z2QAH6w=,aOvj")
    );
    assert_eq!(attribute(&session, 0, "framesize"), Some("96 640-360"));
    assert_eq!(session.medias[1].media, "audio");
    assert_eq!(
        attribute(&session, 1, "rtpmap"),
        Some("97 mpeg4-generic/48000/2")
    );
    // Retransmission is offered to players that support it; the profile is the one that all players
    // know.
    assert_eq!(session.medias[1].proto, "RTP/AVP");
    assert_eq!(session.medias[1].fmt, "97 113");
    assert_eq!(attribute(&session, 1, "rtcp-fb"), Some("97 nack"));
    let of_rtx = |attribute: &&sdp_types::Attribute| {
        attribute
            .value
            .as_ref()
            .is_some_and(|value| value.starts_with("113 "))
    };
    let of_rtx: Vec<_> = session.medias[1].attributes.iter().filter(of_rtx).collect();
    assert_eq!(of_rtx[0].value.as_deref(), Some("113 rtx/48000"));
    assert_eq!(of_rtx[1].value.as_deref(), Some("113 apt=97;rtx-time=2000"));
    assert_eq!(attribute(&session, 1, "control"), Some("track=7"));
    assert_eq!(attribute(&session, 1, "lang"), Some("deu"));
    assert_eq!(
        attribute(&session, 1, "fmtp"),
        Some(
            "97 streamtype=5;profile-level-id=41;mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;constantDuration=1024;config=1190"
        )
    );
}

#[test]
fn h265_tells_its_parameter_sets_by_kind() {
    let session = describe(&[track(h265(4), 90_000)], "x", "::1");
    assert_eq!(attribute(&session, 0, "rtpmap"), Some("96 H265/90000"));
    assert_eq!(
        attribute(&session, 0, "fmtp"),
        Some(
            "96 profile-space=0;profile-id=1;tier-flag=0;level-id=93;interop-constraints=900000000000;profile-compatibility-indicator=60000000;sprop-vps=QAEM;sprop-sps=QgEBAQ==;sprop-pps=RAHB"
        )
    );
    assert_eq!(session.connection.unwrap().connection_address, "::");
}

#[test]
fn opus_is_always_called_48000_2_and_says_what_it_is() {
    let session = describe(
        &[track(opus(2), 48_000), track(opus(1), 48_000)],
        "x",
        "127.0.0.1",
    );
    assert_eq!(attribute(&session, 0, "rtpmap"), Some("96 opus/48000/2"));
    assert_eq!(attribute(&session, 0, "fmtp"), Some("96 sprop-stereo=1"));
    assert_eq!(attribute(&session, 1, "fmtp"), Some("97 sprop-stereo=0"));
}

#[test]
fn a_name_cannot_add_lines() {
    let session = describe(
        &[track(opus(2), 48_000)],
        "evil\r\na=control:rtsp://elsewhere/\0",
        "127.0.0.1",
    );
    assert_eq!(session.session_name, "evil  a=control:rtsp://elsewhere/");
    assert_eq!(
        describe(&[track(opus(2), 48_000)], " \n", "127.0.0.1").session_name,
        "-"
    );
}

#[test]
fn the_bandwidth_is_that_of_the_busiest_second() {
    let mut track = track(h264(4), 1000);
    // Half-second groups of 10 kB, except for two of 100 kB.
    for nth in 0..20 {
        let bytes = if matches!(nth, 8 | 9) {
            100_000
        } else {
            10_000
        };
        track.groups.push(Group {
            first: nth * 12,
            count: 12,
            dts: i64::from(nth) * 500,
            cts: 0,
            bytes,
            sync: true,
        });
        track.bytes += u64::from(bytes);
    }
    (track.samples, track.duration) = (240, 10_000);
    let media = payload(&track, 1440).sdp().clone();
    let packets = 24 + 200_000 / 1440;
    assert_eq!(
        media.bandwidth_kbps,
        (200_000u32 + packets * 60) * 8 / 1000 + 1
    );
}

#[test]
fn the_bandwidth_of_a_film_without_groups_is_its_mean() {
    let mut track = track(h264(4), 1000);
    (track.samples, track.bytes, track.duration) = (300, 3_000_000, 10_000);
    // 300 + 2083 packets with 60 bytes of headers each: 3,142,980 bytes in 10 s.
    assert_eq!(payload(&track, 1440).sdp().bandwidth_kbps, 2515);
    // A duration below one second counts as one second: 4 packets, 3240 bytes.
    (track.samples, track.bytes, track.duration) = (2, 3000, 500);
    assert_eq!(payload(&track, 1440).sdp().bandwidth_kbps, 26);
    // 125 bytes per second are 1 kbit/s.
    (track.samples, track.bytes, track.duration) = (1, 65, 1000);
    assert_eq!(payload(&track, 1440).sdp().bandwidth_kbps, 1);
}

#[test]
fn the_bandwidth_is_counted_in_whole_groups() {
    let mut track = track(h264(4), 1000);
    // Groups of 0.4 s: three of them are the shortest window of at least a second.
    for nth in 0..25 {
        let bytes = if (8..11).contains(&nth) {
            100_000
        } else {
            10_000
        };
        track.groups.push(Group {
            first: nth * 12,
            count: 12,
            dts: i64::from(nth) * 400,
            cts: 0,
            bytes,
            sync: true,
        });
        track.bytes += u64::from(bytes);
    }
    (track.samples, track.duration) = (300, 10_000);
    // 36 + 208 packets: 300,000 + 14,640 bytes in 1.2 s.
    assert_eq!(payload(&track, 1440).sdp().bandwidth_kbps, 2098);
}

#[test]
fn h265_says_profile_tier_and_level_as_hvcc_does() {
    // general_profile_space 2, tier 1, profile 4, then compatibility and constraint flags, level
    // 150.
    let mut codec = h265(4);
    if let reelway_media::Codec::H265(config) = &mut codec {
        config.profile = [0xa4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 150];
        (config.vps, config.sps, config.pps) = (vec![], vec![], vec![]);
    }
    assert_eq!(
        payload(&track(codec, 90_000), 1440).sdp().fmtp,
        "profile-space=2;profile-id=4;tier-flag=1;level-id=150;interop-constraints=05060708090A;profile-compatibility-indicator=01020304"
    );
}

#[test]
fn h264_without_parameter_sets_offers_none() {
    let mut codec = h264(4);
    if let reelway_media::Codec::H264(config) = &mut codec {
        (config.sps, config.pps) = (vec![vec![]], vec![]);
    }
    assert_eq!(
        payload(&track(codec, 90_000), 1440).sdp().fmtp,
        "packetization-mode=1;profile-level-id=64001F"
    );
}

#[test]
fn the_profile_is_named_as_players_expect() {
    assert_eq!(Profile::Avp.name(), "RTP/AVP");
    assert_eq!(Profile::Avpf.name(), "RTP/AVPF");
}

#[test]
fn times_are_written_with_the_decimals_they_need() {
    for (at, text) in [
        (0, "0"),
        (SECOND, "1"),
        (1_500_000_000, "1.5"),
        (10_026_666_667, "10.026667"),
        (999_999_999, "1"),
        (-5, "0"),
        (100 * SECOND, "100"),
    ] {
        assert_eq!(npt(at), text);
    }
}
