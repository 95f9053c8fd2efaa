//! Which tracks of a file are available over RTP, and how they are described.

use std::net::Ipv4Addr;

use reelway_media::{Codec, Kind, OpusConfig, SECOND, Sound, Title, Track};
use reelway_rtp::PayloadOptions;
use reelway_rtp::sdp::Profile;
use reelway_rtsp::film::{Film, FilmError, Form, Identity};

const OPUS: Codec = Codec::Opus(OpusConfig {
    channels: 2,
    pre_skip: 312,
    input_rate: 48_000,
});

fn file(codecs: &[Codec]) -> Title {
    let track = |codec: &Codec| Track {
        sound: Some(Sound {
            rate: 48_000,
            channels: 2,
        }),
        ..Track::new(1, Kind::Audio, codec.clone(), 48_000)
    };
    Title {
        duration: 90 * SECOND,
        ..Title::new(codecs.iter().map(track).collect())
    }
}

fn film(codecs: &[Codec]) -> Result<Film<()>, FilmError> {
    let identity = Identity { id: 7, version: 3 };
    let options = PayloadOptions::default();
    Film::new(
        "concerts/first",
        &file(codecs),
        identity,
        Form::Tracks,
        options,
        (),
    )
}

#[test]
fn tracks_that_do_not_go_over_rtp_are_left_out_and_the_others_keep_their_numbers() {
    let film = film(&[OPUS, Codec::Flac, OPUS]).unwrap();
    let tracks = film.tracks.iter();
    let tracks: Vec<_> = tracks
        .map(|track| (track.number, track.payload_type, track.clock_rate))
        .collect();
    assert_eq!(tracks, [(1, 96, 48_000), (3, 97, 48_000)]);
    let sdp = film.sdp(Ipv4Addr::LOCALHOST.into(), Profile::Avp);
    assert!(sdp.starts_with("v=0\r\no=- 7 3 IN IP4 127.0.0.1\r\ns=first\r\n"));
    let lines = |start: &str| -> Vec<&str> {
        let lines = sdp.lines().filter(|line| line.starts_with(start));
        lines.collect()
    };
    assert_eq!(
        lines("m="),
        ["m=audio 0 RTP/AVP 96 112", "m=audio 0 RTP/AVP 97 113"]
    );
    assert_eq!(
        lines("a=control:"),
        ["a=control:*", "a=control:track=1", "a=control:track=3"]
    );
}

#[test]
fn a_film_without_such_a_track_says_why() {
    let Err(FilmError::Unplayable(words)) = film(&[Codec::Flac]) else {
        panic!("FLAC does not go over RTP")
    };
    assert_eq!(
        words,
        "film 'concerts/first' does not play over RTSP: there is no RTP payload format for FLAC; HLS and DASH play this film"
    );
}

#[test]
fn there_are_no_more_tracks_than_payload_types() {
    let film = film(&vec![OPUS; 40]).unwrap();
    assert_eq!(film.tracks.len(), 32);
    assert_eq!(film.tracks[31].payload_type, 127);
    assert_eq!(film.media.len(), 32);
}
