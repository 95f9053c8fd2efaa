//! The Rust client retina, from a film's start to its end: every picture and every access unit of
//! the audio with its time, and no packet lost.

mod rtsp_viewers;

use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt;
use reelway_tests::films::{film, library};
use reelway_tests::server::Options;
use retina::client::{PlayOptions, Session, SessionOptions, SetupOptions, Transport};
use retina::codec::{CodecItem, FrameFormat};
use rtsp_viewers::{Expected, Unit, nals};

const FILMS: [&str; 4] = ["bunny", "hvc1", "ntsc", "b_pyramid"];

/// The received units of one track: time in seconds, and parts.
type Came = Vec<(f64, Vec<Vec<u8>>)>;

async fn watch(url: &str, transport: Transport, expected: &Expected) -> HashMap<String, Came> {
    let mut session = Session::describe(url.parse().unwrap(), SessionOptions::default())
        .await
        .expect("DESCRIBE");
    let media: Vec<(String, bool)> = session
        .streams()
        .iter()
        .map(|stream| (stream.media().to_owned(), stream.encoding_name() == "h265"))
        .collect();
    for nth in 0..media.len() {
        let options = SetupOptions::default()
            .transport(transport.clone())
            .frame_format(FrameFormat::MP4);
        session.setup(nth, options).await.expect("SETUP");
    }
    let mut playing = session
        .play(PlayOptions::default())
        .await
        .expect("PLAY")
        .demuxed()
        .expect("known formats");
    let mut came: HashMap<String, Came> = HashMap::new();
    loop {
        let item = tokio::time::timeout(Duration::from_secs(5), playing.next()).await;
        match item.expect("nothing came for five seconds") {
            Some(Ok(CodecItem::VideoFrame(frame))) => {
                assert_eq!(frame.loss(), 0);
                let (kind, hevc) = &media[frame.stream_id()];
                let at = frame.timestamp().elapsed_secs();
                came.entry(kind.clone())
                    .or_default()
                    .push((at, nals(frame.data(), *hevc)));
            }
            Some(Ok(CodecItem::AudioFrame(frame))) => {
                assert_eq!(frame.loss(), 0);
                let at = frame.timestamp().elapsed_secs();
                came.entry(media[frame.stream_id()].0.clone())
                    .or_default()
                    .push((at, vec![frame.data().to_vec()]));
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => panic!("{error}"),
            None => break,
        }
        let whole = |kind: &str| came.get(kind).map_or(0, Vec::len) == expected.units(kind).len();
        if whole("video") && whole("audio") {
            break;
        }
    }
    came
}

fn equal(name: &str, came: &Came, expected: &[Unit]) {
    assert_eq!(came.len(), expected.len(), "{name}");
    for (nth, ((at, parts), unit)) in came.iter().zip(expected).enumerate() {
        assert!(*parts == unit.parts, "{name}: unit {nth} differs");
        // A tick of the video's 90,000 per second, and of the audio's sampling rate.
        assert!(
            (at - unit.at).abs() < 1.5 / 44_100.0,
            "{name}: unit {nth} at {at}, not {}",
            unit.at
        );
    }
}

fn films_arrive(transport: fn() -> Transport) {
    let library = library(&FILMS);
    let server = Options::new(library.path()).patient().start();
    server.wait_indexed();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let watching = FILMS.map(|name| {
        let url = server.rtsp_url(name);
        runtime.spawn(async move {
            let expected = Expected::of(&film(name).path);
            let came = watch(&url, transport(), &expected).await;
            equal(
                &format!("picture of {name}"),
                &came["video"],
                &expected.video,
            );
            equal(&format!("sound of {name}"), &came["audio"], &expected.audio);
        })
    });
    for one in watching {
        runtime.block_on(one).expect("as the film is");
    }
}

#[test]
fn retina_gets_the_whole_film_over_tcp() {
    films_arrive(|| Transport::Tcp(Default::default()));
}

#[test]
fn retina_gets_the_whole_film_over_udp() {
    films_arrive(|| Transport::Udp(Default::default()));
}
