//! Forty viewers press play within a second on a link that carries 22 of them: nobody who is
//! admitted loses a packet.
//!
//! The players are ffmpeg, which reports missing packets; the link's queue counts what it drops.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reelway_tests::films;
use reelway_tests::network::{Network, SERVER};
use reelway_tests::players::{self, Running};
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

fn second(count: f64) -> Duration {
    Duration::from_secs_f64(count)
}

/// One crowd at a time, as each takes most of a small machine.
static ALONE: Mutex<()> = Mutex::new(());

/// The number of viewers.
const VIEWERS: usize = 40;
/// The link's capacity in bits per second.
const RATE: f64 = 100e6;

/// A viewer who tries again when refused.
struct Viewer {
    player: Running,
    url: String,
    tried: u32,
}

impl Viewer {
    fn comes(network: &Network, url: String) -> Viewer {
        let player = play(network, &url);
        Viewer {
            player,
            url,
            tried: 1,
        }
    }

    fn comes_again(&mut self, network: &Network) {
        let said = self.player.said();
        let refused = ["453", "503", "Server returned 5XX"];
        let refused = refused.iter().any(|status| said.contains(status));
        assert!(refused, "a player ended: {said}");
        self.player = play(network, &self.url);
        self.tried += 1;
    }

    /// The seconds of the film that a viewer over HTTP has received.
    fn got(&self) -> Option<f64> {
        let said = self.player.said();
        let (_, last) = said.rsplit_once("out_time_us=")?;
        let micros: f64 = last.lines().next()?.trim().parse().ok()?;
        Some(micros / 1e6)
    }
}

fn play(network: &Network, url: &str) -> Running {
    let mut command = std::process::Command::new("ip");
    command.args(["netns", "exec", network.viewer(), "ffmpeg"]);
    command.args(["-hide_banner", "-nostdin", "-loglevel", "verbose"]);
    if url.starts_with("rtsp") {
        // The socket buffer bridges times when the player does not get the processor.
        command.args(["-rtsp_transport", "udp", "-buffer_size", "4000000"]);
    } else {
        command.args(["-stats_period", "0.1", "-progress", "pipe:2"]);
    }
    command.args(["-i", url, "-map", "0", "-c", "copy", "-f", "null", "-"]);
    players::start(command)
}

/// The bytes and packets that the link has carried, and the packets that its queue has dropped.
fn carried(network: &Network) -> (u64, u64, u64) {
    let shown = network.on_server("tc -s qdisc show dev wire root");
    let words: Vec<&str> = shown.split_whitespace().collect();
    let after = |name: &str, nth: usize| -> u64 {
        let at = words.iter().position(|word| *word == name);
        let at = at.unwrap_or_else(|| panic!("no {name} in {shown}"));
        let word = words[at + nth].trim_matches(|c: char| !c.is_ascii_digit());
        word.parse().unwrap_or_else(|_| panic!("{word} in {shown}"))
    };
    (after("Sent", 1), after("Sent", 3), after("(dropped", 1))
}

/// The rate on the wire over `time` in bits per second, counted as Ethernet does: 24 bytes more per
/// packet than the kernel counts.
fn rate(network: &Network, time: Duration) -> f64 {
    let before = carried(network);
    std::thread::sleep(time);
    let after = carried(network);
    let bytes = (after.0 - before.0) + 24 * (after.1 - before.1);
    bytes as f64 * 8.0 / time.as_secs_f64()
}

fn node(network: &Network, server: &Server) -> serde_json::Value {
    let answer = network.as_viewer(|| server.get("/api/node"));
    serde_json::from_slice(&answer.body).expect("JSON")
}

fn playing(network: &Network, server: &Server) -> u64 {
    let node = node(network, server);
    node["sessions"]["playing"].as_u64().expect("a count")
}

/// How the viewers of a crowd watch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Watch {
    Rtsp,
    /// Every other viewer over HLS.
    RtspAndHls,
}

/// Starts the crowd. Returns how many play once all are admitted or have given up, and the link's
/// rate then.
fn crowd(watch: Watch, policy: &str, queue_ms: u32) -> (u64, f64) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let network = Network::new();
    let library = films::library(&["load"]);
    let options = Options::new(library.path())
        .set("capacity.net", "\"100Mbit\"")
        .set("admission.policy", format!("\"{policy}\""))
        .set("capacity.queue", queue_ms.min(20))
        .namespace(network.server(), SERVER)
        .goes_first();
    let server = network.as_viewer(|| {
        let server = options.start();
        server.wait_indexed();
        server
    });
    network.on_server(&format!(
        "tc qdisc add dev wire root tbf rate 100mbit burst 64kb latency {queue_ms}ms"
    ));
    let mut viewers = Vec::new();
    for number in 0..VIEWERS {
        let url = match watch {
            Watch::RtspAndHls if number % 2 == 1 => server.http_url("load/hls/main.m3u8"),
            _ => server.rtsp_url("load"),
        };
        viewers.push(Viewer::comes(&network, url));
        std::thread::sleep(second(1.0 / VIEWERS as f64));
    }
    // Refused viewers try again, as others may make room. The film is long enough that the first
    // viewers are still there at the end.
    let steady = wait::until(second(30.0), || {
        for viewer in &mut viewers {
            if !viewer.player.running() && viewer.tried < 4 {
                viewer.comes_again(&network);
            }
        }
        std::thread::sleep(second(1.0));
        viewers
            .iter_mut()
            .all(|viewer| viewer.player.running() || viewer.tried == 4)
            .then_some(())
    });
    let tries: Vec<(bool, u32)> = viewers
        .iter_mut()
        .map(|viewer| (viewer.player.running(), viewer.tried))
        .collect();
    assert!(
        steady.is_some(),
        "viewers neither play nor are refused: who runs, and how often they have tried: {tries:?}"
    );
    // Refused players take a moment to exit, admitted ones a moment to begin.
    let admitted = wait::until(second(30.0), || {
        let players = viewers.iter_mut();
        let running = players.filter_map(|viewer| viewer.player.running().then_some(()));
        let running = running.count() as u64;
        (playing(&network, &server) == running).then_some(running)
    });
    let admitted = admitted.expect("as many who play as players that run");
    let got: Vec<_> = viewers.iter().map(Viewer::got).collect();
    let rate = rate(&network, second(15.0));
    assert_eq!(
        playing(&network, &server),
        admitted,
        "nobody who was admitted has left"
    );
    for (viewer, before) in viewers.iter_mut().zip(got) {
        if !viewer.player.running() {
            continue;
        }
        if let Some((before, after)) = before.zip(viewer.got()) {
            assert!(
                after - before >= 14.0,
                "{} s of film in 15 s over HTTP",
                after - before
            );
        }
        let said = viewer.player.said();
        let missed: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("missed") || line.contains("max delay"))
            .collect();
        assert!(missed.is_empty(), "{missed:?}");
    }
    let (_, _, dropped) = carried(&network);
    println!(
        "{watch:?}, {policy}, {queue_ms} ms: {admitted} admitted, {:.1} Mbit/s, {dropped} dropped; {}",
        rate / 1e6,
        node(&network, &server)["sending"]
    );
    assert_eq!(dropped, 0, "packets that the link's queue threw away");
    let left_out = &node(&network, &server)["sending"]["dropped_frames"];
    assert_eq!(left_out, 0, "pictures that came too late to be sent");
    drop(viewers);
    (admitted, rate)
}

#[test]
fn forty_who_come_within_a_second_fill_the_link_and_none_of_those_admitted_loses_a_packet() {
    let (admitted, rate) = crowd(Watch::Rtsp, "exact", 60);
    assert!(
        admitted >= 22 && rate >= 0.95 * RATE,
        "{admitted} admitted, {rate} bit/s"
    );
}

#[test]
fn the_same_is_true_of_films_sent_ahead_by_a_schedule() {
    let (admitted, rate) = crowd(Watch::Rtsp, "smoothed:10", 60);
    assert!(
        admitted >= 22 && rate >= 0.95 * RATE,
        "{admitted} admitted, {rate} bit/s"
    );
}

#[test]
fn a_queue_of_five_milliseconds_is_enough_where_the_server_knows_of_it() {
    let (admitted, _) = crowd(Watch::Rtsp, "exact", 5);
    assert!(admitted >= 21, "{admitted} admitted");
}

#[test]
fn viewers_over_http_beside_them_take_nothing_from_those_over_rtp() {
    let (admitted, _) = crowd(Watch::RtspAndHls, "exact", 60);
    assert!(admitted >= 15, "{admitted} admitted");
}
