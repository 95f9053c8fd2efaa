//! Viewers over TCP who do not read, and viewers over UDP who request old packets all the time:
//! however many are admitted, the part of the block pool that they pin is bounded, other viewers
//! lose nothing, and newcomers get responses. Attackers, server and yardstick are separate
//! processes.
//!
//! A thousand attackers for ten seconds. With `REELWAY_LONG`, four thousand for a minute, and other
//! viewers are on time: that is measured only there, as it needs an otherwise idle machine.
//! Attackers over UDP are sent the film, so they watch one of 8 kbit/s, for half a minute at most;
//! a fortieth as many watch one of 4 Mbit/s.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use reelway_clock::now;
use reelway_tests::films::{self, temp_dir};
use reelway_tests::rtsp::Client;
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;
use reelway_tests::yardstick::yardstick;

/// Films of 30 MB each; the pool holds one.
const FILMS: usize = 4;
const POOL: u64 = 32 << 20;
const BLOCK: u64 = 256 << 10;
const BLOCKS: u64 = POOL / BLOCK;

/// Longer than a group of any film here. Viewers hold the blocks of the groups that they are sent,
/// so what they pin together varies with the beginnings of groups.
const GROUP: Duration = Duration::from_millis(2500);

/// The size of the test.
struct Size {
    attackers: usize,
    /// How many seconds others watch.
    seconds: u32,
    /// Whether others must be on time.
    timed: bool,
}

fn size() -> Size {
    match std::env::var_os("REELWAY_LONG") {
        None => Size {
            attackers: 1000,
            seconds: 10,
            timed: false,
        },
        Some(_) => Size {
            attackers: 4000,
            seconds: 55,
            timed: true,
        },
    }
}

/// How much later than before the latest picture over UDP may be, in ms.
const LATE: f64 = 20.0;

/// The same over TCP, where a picture may wait for its connection and for the client, which shares
/// the machine with the attackers: without bounds it is seconds.
const LATE_OVER_TCP: f64 = 500.0;

/// How long PLAY may take, in ms.
const PLAY: f64 = 100.0;

/// The attackers. They only play until they get the signal to begin, and leave when this is
/// dropped.
struct Attack {
    child: Child,
    input: Option<ChildStdin>,
    let_in: usize,
}

impl Attack {
    fn let_in(server: &Server, film: &str, count: usize, sources: usize, manner: &str) -> Attack {
        let mut child = Command::new(env!("CARGO_BIN_EXE_unread"))
            .args([&server.rtsp.to_string(), &server.rtsp_url(film)])
            .args([&count.to_string(), &sources.to_string(), manner])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the attackers");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        Attack {
            input: child.stdin.take(),
            let_in: line.trim().parse().expect("a number"),
            child,
        }
    }

    fn begin(&mut self) {
        let mut input = self.input.as_ref().expect("their input");
        input.write_all(b"begin\n").expect("the attackers");
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// What others experience, in ms: the lateness of the latest picture over UDP and over TCP, and the
/// second longest of a hundred PLAYs.
#[derive(Debug)]
struct Seen {
    udp: f64,
    tcp: f64,
    play: f64,
}

/// Ten viewers over UDP, ten over TCP, and meanwhile a hundred newcomers, each at a different
/// position.
fn others(server: &Server, seconds: u32) -> Seen {
    let watch = |tcp: bool, film: &str| {
        let (url, watch) = (server.rtsp_url(film), format!("--watch={seconds}s"));
        let mut words = vec![url.as_str(), "--clients=10", "--arrivals=burst:10", &watch];
        words.extend(["--buffer=60"]);
        words.extend(tcp.then_some("--tcp"));
        let (code, printed, told) = yardstick(&words);
        assert_eq!(code, 0, "{printed}");
        assert_eq!(
            (&told["admitted"], &told["lost"]),
            (&10.into(), &0.into()),
            "{printed}"
        );
        told["late_max_ms"].as_f64().expect("a number")
    };
    let come = |number: usize| {
        let url = server.rtsp_url(&format!("film{}", number % FILMS));
        let mut client = Client::connect(server.rtsp).expect("a connection");
        let _tracks = client.setup_udp(&url).expect("SETUP");
        let range = format!("npt={:.1}-", (number * 131 % 550) as f64 / 10.0);
        let before = now();
        let answer = client.request("PLAY", &url, &[("Range", &range)]);
        let took = now().since(before).as_secs_f64() * 1e3;
        assert_eq!(answer.expect("PLAY").status, 200);
        client.request("TEARDOWN", &url, &[]).expect("TEARDOWN");
        took
    };
    std::thread::scope(|scope| {
        let udp = scope.spawn(|| watch(false, "film1"));
        let tcp = scope.spawn(|| watch(true, "film2"));
        std::thread::sleep(Duration::from_secs(1));
        let mut plays: Vec<f64> = (0..100).map(come).collect();
        plays.sort_by(f64::total_cmp);
        let [udp, tcp] = [udp, tcp].map(|late| late.join().expect("viewers"));
        Seen {
            udp,
            tcp,
            play: plays[98],
        }
    })
}

/// The most blocks that are pinned at the same time while the longest group is sent.
fn most_pinned(server: &Server) -> u64 {
    let mut most = 0;
    let _: Option<()> = wait::until(GROUP, || {
        let pinned = server.metric("reelway_pool_used_bytes") as u64 / BLOCK;
        most = most.max(pinned);
        None
    });
    most
}

/// Lets `attackers` watch `film`, while others watch the rest.
fn attack(sources: usize, manner: &str, film: &str, attackers: usize) {
    let dir = temp_dir("unread");
    for number in 0..FILMS {
        let path = dir.path().join(format!("film{number}.mp4"));
        std::fs::copy(films::film("load").path, path).expect("a copy");
    }
    std::fs::copy(films::film("sparse").path, dir.path().join("sparse.mp4")).expect("a copy");
    let server = Options::new(dir.path())
        .set("pool.size", POOL)
        // All are admitted: this is about the effects of admitted viewers.
        .set("capacity.mem", "\"none\"")
        .set("rtsp.offer_retransmission", true)
        // Slow viewers are not disconnected.
        .set("rtsp.max_lag", 600)
        .set("rtsp.timeout", 600)
        .set("log.level", "\"warn\"")
        .start();
    server.wait_indexed();
    let Size {
        mut seconds, timed, ..
    } = size();
    if manner == "again" {
        seconds = seconds.min(30);
    }
    let before = others(&server, seconds);
    let mut attack = Attack::let_in(&server, film, attackers, sources, manner);
    assert_eq!(attack.let_in, attackers, "all were to be let in");
    let again = manner == "again";
    let playing = again.then(|| most_pinned(&server));
    attack.begin();
    let during = others(&server, seconds);
    println!(
        "{attackers} of {film} from {sources} addresses, {manner}: before {before:?}, during {during:?}"
    );
    if timed {
        assert!(
            during.udp <= before.udp + LATE && during.tcp <= before.tcp + LATE_OVER_TCP,
            "others were late: {during:?}, {before:?} before"
        );
        assert!(
            during.play <= PLAY,
            "PLAY took {:.1} ms, {:.1} before",
            during.play,
            before.play
        );
    }
    // All attackers are still there, and pin little: a quarter of the pool, or, in addition to what
    // they play, the part of it that the server keeps for groups that are read again.
    let pinned = most_pinned(&server);
    let bound = playing.map_or(BLOCKS / 4, |playing| playing + BLOCKS / 16);
    println!("{pinned} of {BLOCKS} blocks are pinned, and {bound} may be");
    assert!(
        pinned <= bound,
        "{pinned} of {BLOCKS} blocks are pinned, and {bound} may be"
    );
    if again {
        let resent = server.metric("reelway_rtp_resent_packets_total");
        assert!(
            resent > attackers as f64,
            "{resent} packets were sent again"
        );
    }
}

#[test]
fn viewers_who_never_read_from_one_address_pin_little_and_others_lose_nothing() {
    attack(1, "stop", "film0", size().attackers);
}

#[test]
fn viewers_who_never_read_from_many_addresses_pin_little_and_others_lose_nothing() {
    attack(64, "stop", "film0", size().attackers);
}

#[test]
fn viewers_who_read_a_byte_a_second_pin_little_and_others_lose_nothing() {
    attack(64, "drip", "film0", size().attackers);
}

#[test]
fn viewers_who_ask_for_old_packets_all_the_time_pin_little_and_others_lose_nothing() {
    attack(1, "again", "film0", size().attackers / 40);
    attack(64, "again", "sparse", size().attackers);
}
