//! Virtual viewers against real servers: Reelway, and GStreamer's; and that they can fail.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reelway_tests::films::{film, library};
use reelway_tests::server::Server;
use reelway_tests::wait;
use reelway_tests::yardstick::yardstick;
use serde_json::Value;

/// A process that is ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// GStreamer's server of one film: its address.
fn gstreamer(path: &Path) -> (Ended, String) {
    let address = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port");
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/bench/src/density/gst_server.py");
    let server = Command::new("/usr/bin/python3")
        .arg(script)
        .args(["127.0.0.1", &address.port().to_string()])
        .arg(path)
        .stdin(Stdio::null())
        .spawn()
        .expect("python3");
    let server = Ended(server);
    let ready = wait::until(Duration::from_secs(30), || {
        TcpStream::connect(address).ok().map(drop)
    });
    assert!(ready.is_some(), "GStreamer's server does not answer");
    (server, format!("rtsp://{address}/film0"))
}

fn count(told: &Value, what: &str) -> u64 {
    told[what]
        .as_u64()
        .unwrap_or_else(|| panic!("{what}: {told:#}"))
}

#[test]
fn many_viewers_pause_and_seek_and_each_gets_every_packet() {
    let films = library(&["progressive", "faststart"]);
    let server = Server::start(films.path());
    let url = |name| format!("rtsp://{}/{name}", server.rtsp);
    let (code, printed, told) = yardstick(&[
        &url("progressive"),
        &url("faststart"),
        "--clients=40",
        "--arrivals=poisson:40",
        "--films=weights:3,1",
        "--pause=30",
        "--seek=30",
        "--fast-play=20",
        // The machine may be busy: this is about packets, not about times.
        "--buffer=60",
    ]);
    assert_eq!((code, count(&told, "lost")), (0, 0), "{printed}");
    assert!(printed.contains("40 viewers: played well"), "{printed}");
    assert_eq!(count(&told, "admitted"), 40);
    let each = told["each"].as_array().expect("stories");
    let did = |what: &str| {
        let does = |viewer: &&Value| viewer["events"].to_string().contains(what);
        each.iter().filter(does).count()
    };
    for deed in ["pauses", "goes on", "seeks", "fast play"] {
        assert!(did(deed) > 0, "nobody {deed}: {told:#}");
    }
    let watched = |name: &str| {
        let watches = |viewer: &&Value| {
            viewer["url"]
                .as_str()
                .is_some_and(|url| url.ends_with(name))
        };
        each.iter().filter(watches).count()
    };
    assert!(watched("progressive") > watched("faststart"));
    assert_eq!(watched("progressive") + watched("faststart"), 40);
}

#[test]
fn gstreamers_server_is_measured_like_any_other() {
    let (_server, url) = gstreamer(&film("progressive").path);
    let (code, printed, told) = yardstick(&[
        &url,
        "--clients=8",
        "--pause=40",
        "--seek=40",
        "--buffer=60",
    ]);
    assert_eq!((code, count(&told, "lost")), (0, 0), "{printed}");
    assert_eq!(count(&told, "admitted"), 8);
    assert!(count(&told, "packets") > 8 * 100, "{told:#}");
}

#[test]
fn those_who_find_nothing_are_refused_and_it_is_told_why() {
    let films = library(&["progressive"]);
    let server = Server::start(films.path());
    let there = format!("rtsp://{}/progressive", server.rtsp);
    let missing = format!("rtsp://{}/missing", server.rtsp);
    let (code, printed, told) = yardstick(&[
        &there,
        &missing,
        "--arrivals=burst:20",
        "--watch=1s",
        "--buffer=60",
    ]);
    assert_eq!(code, 1, "{printed}");
    let (admitted, refused) = (count(&told, "admitted"), count(&told, "refused"));
    assert!(admitted > 0 && refused > 0, "{printed}");
    assert_eq!((admitted + refused, count(&told, "harmed")), (20, 0));
    assert!(printed.contains("404"), "{printed}");
}
