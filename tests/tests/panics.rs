//! Panics injected into threads and tasks while viewers watch: the part restarts, or what depends
//! on it ends with a reason; the log, `/metrics` and `/healthz` show it.

use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use reelway_skip::skipped;
use reelway_tests::films::{self, film, temp_dir};
use reelway_tests::rtsp::{Client, Rtp, UdpTrack, is_timeout};
use reelway_tests::server::{Options, Server};
use reelway_tests::{http, tier, wait};

const LIMIT: Duration = Duration::from_secs(10);

/// A server into which a test injects panics.
struct Patient {
    server: Server,
    asks: File,
    /// The number of lines written to it.
    asked: usize,
    library: tempfile::TempDir,
    dir: tempfile::TempDir,
}

/// Starts a server of these films; `None` if the binary under test was built without injection.
fn patient(films: &[&str], set: impl FnOnce(Options) -> Options) -> Option<Patient> {
    patient_from_the_start(&[], films, set)
}

/// The same with points that panic once while it starts.
fn patient_from_the_start(
    points: &[&str],
    films: &[&str],
    set: impl FnOnce(Options) -> Options,
) -> Option<Patient> {
    let (library, dir) = (films::library(films), temp_dir("inject"));
    let path: PathBuf = dir.path().join("panics");
    let mut asks = File::create(&path).expect("a file");
    for point in points {
        writeln!(asks, "{point} 1").expect("a line");
    }
    let options = Options::new(library.path()).env("REELWAY_INJECT", path.display());
    let server = set(options).start();
    server.wait_indexed();
    server
        .log()
        .contains("panics are injected")
        .then_some(Patient {
            server,
            asks,
            asked: points.len(),
            library,
            dir,
        })
}

const RELEASE: &str = "the server was built without debug assertions: it injects no panics";

impl Patient {
    /// Makes the next `count` passes of this point panic.
    fn inject(&mut self, point: &str, count: u32) {
        writeln!(self.asks, "{point} {count}").expect("a line");
        self.asked += 1;
        // The server reads the file every 10 ms.
        let armed = || (self.server.log().matches("armed: ").count() >= self.asked).then_some(());
        assert!(wait::until(LIMIT, armed).is_some(), "{point} is not armed");
    }

    /// The number of panics of this part in `/metrics`.
    fn panics(&self, part: &str) -> u64 {
        let metrics = self.server.get("/metrics").text();
        let name = format!("reelway_thread_panics_total{{thread=\"{part}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.map_or(0, |count| count.parse().expect("a number"))
    }

    /// Waits until this many panics of a part are counted: they are in the log, and `/healthz` and
    /// `/api/node` name the part.
    #[track_caller]
    fn shows(&self, part: &str, point: &str, count: u64) {
        let counted = wait::until(LIMIT, || (self.panics(part) >= count).then_some(()));
        assert!(
            counted.is_some(),
            "{part}: {} of {count} panics\n{}",
            self.panics(part),
            self.server.log()
        );
        self.server
            .wait_for_log(&["ERROR", "panic", &format!("injected at {point}")], LIMIT);
        let health = self.server.get("/healthz");
        assert_eq!(health.status, 200, "{}", health.text());
        assert!(
            health.text().contains(&format!("recovered: {part}\n")),
            "{}",
            health.text()
        );
        let node = self.server.get("/api/node").json();
        let problems = node["problems"].as_array().expect("problems");
        let of_part = problems.iter().find(|problem| problem["what"] == part);
        let of_part = of_part.unwrap_or_else(|| panic!("{part} is not in {problems:?}"));
        assert_eq!(of_part["severity"], "recovered");
        let message = of_part["detail"].as_str().expect("words");
        assert!(message.contains("injected at"), "{message}");
    }
}

/// A viewer over UDP.
struct Viewer {
    client: Client,
    url: String,
    tracks: Vec<UdpTrack>,
}

impl Viewer {
    /// Sets up a film and sends PLAY; returns the status as well.
    fn asks(server: &Server, title: &str) -> (Viewer, u16) {
        let mut client = Client::connect(server.rtsp).expect("a connection");
        let url = server.rtsp_url(title);
        let tracks = client.setup_udp(&url).expect("SETUP");
        let answer = client
            .request("PLAY", &url, &[])
            .expect("an answer to PLAY");
        let viewer = Viewer {
            client,
            url,
            tracks,
        };
        (viewer, answer.status)
    }

    /// Plays a film.
    #[track_caller]
    fn plays(server: &Server, title: &str) -> Viewer {
        let (viewer, status) = Viewer::asks(server, title);
        assert_eq!(status, 200, "PLAY {title}\n{}", server.log());
        viewer.gets_media(server);
        viewer
    }

    /// Whether new packets arrive.
    fn receives(&self) -> bool {
        let socket = &self.tracks[0].rtp;
        let mut buffer = [0; 2000];
        socket.set_nonblocking(true).expect("a socket");
        while socket.recv(&mut buffer).is_ok() {}
        socket.set_nonblocking(false).expect("a socket");
        socket
            .set_read_timeout(Some(Duration::from_secs(2)))
            .expect("a socket");
        match socket.recv(&mut buffer) {
            Ok(bytes) => Rtp::parse(&buffer[..bytes]).is_ok(),
            Err(error) if is_timeout(&error) => false,
            Err(error) => panic!("{error}"),
        }
    }

    #[track_caller]
    fn gets_media(&self, server: &Server) {
        assert!(self.receives(), "no packet within 2 s\n{}", server.log());
    }

    /// Checks that the connection responds.
    #[track_caller]
    fn is_answered(&mut self) {
        let url = self.url.clone();
        let answer = self.client.request("OPTIONS", &url, &[]);
        assert_eq!(answer.expect("an answer").status, 200);
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        // Otherwise the stream would go on until the session expires.
        let _ = self.client.request("TEARDOWN", &self.url, &[]);
    }
}

/// Makes a thread or task panic twice, as `trigger` makes it pass the point: it restarts each time,
/// and a viewer who watches meanwhile gets their packets.
#[track_caller]
fn runs_again(patient: &mut Patient, part: &str, point: &str, trigger: impl Fn(&Server, &Viewer)) {
    let mut viewer = Viewer::plays(&patient.server, "load");
    for count in 1..=2 {
        patient.inject(point, 1);
        trigger(&patient.server, &viewer);
        patient.shows(part, point, count);
        viewer.gets_media(&patient.server);
        viewer.is_answered();
    }
    Viewer::plays(&patient.server, "load");
}

/// A receiver report from an unknown SSRC.
const REPORT: [u8; 8] = [0x80, 201, 0, 1, 0, 0, 0, 7];

#[test]
fn the_thread_that_hears_receivers_runs_again() {
    let Some(mut patient) = patient(&["load"], |options| options) else {
        return skipped!("{RELEASE}");
    };
    runs_again(&mut patient, "rtcp-0", "rtcp", |server, viewer| {
        let to = SocketAddr::new(server.rtsp.ip(), server.rtp + 1);
        viewer.tracks[0]
            .rtcp
            .send_to(&REPORT, to)
            .expect("a report");
    });
}

#[test]
fn loops_that_accept_connections_run_again_and_their_connections_live() {
    let Some(mut patient) = patient(&["load"], |options| options) else {
        return skipped!("{RELEASE}");
    };
    runs_again(&mut patient, "rtsp accept", "rtsp.accept", |server, _| {
        // This connection is lost.
        drop(Client::connect(server.rtsp));
    });
    runs_again(&mut patient, "http accept", "http.accept", |server, _| {
        let lost = http::get(server.http, "/api/films");
        assert!(lost.is_err(), "{lost:?}");
    });
}

#[test]
fn tasks_that_run_every_second_run_again() {
    let Some(mut patient) = patient(&["load"], |options| options) else {
        return skipped!("{RELEASE}");
    };
    runs_again(&mut patient, "server tick", "server.tick", |_, _| {});
    runs_again(&mut patient, "http events", "http.events", |_, _| {});
}

#[test]
fn a_request_that_panics_is_answered_with_500_and_a_connection_that_panics_ends() {
    let Some(mut patient) = patient(&["load"], |options| options) else {
        return skipped!("{RELEASE}");
    };
    runs_again(&mut patient, "http request", "http.request", |server, _| {
        assert_eq!(server.get("/api/films").status, 500);
    });
    let before = Viewer::plays(&patient.server, "load");
    patient.inject("rtsp.connection", 1);
    let mut client = Client::connect(patient.server.rtsp).expect("a connection");
    let answer = client.request("OPTIONS", "*", &[]);
    assert!(answer.is_err(), "{answer:?}");
    patient.shows("rtsp connection", "rtsp.connection", 1);
    before.gets_media(&patient.server);
}

#[test]
fn a_viewer_whose_beginning_or_plan_panics_gets_an_error_at_once_and_others_play() {
    let set = |options: Options| options.set("sender.threads", 1);
    let Some(mut patient) = patient(&["bunny", "load"], set) else {
        return skipped!("{RELEASE}");
    };
    let parts = [
        ("planner.locate", "planner locate"),
        ("planner.read", "planner read"),
        ("planner.plan", "planner plan"),
    ];
    for (point, part) in parts {
        patient.inject(point, 1);
        let began = reelway_clock::now();
        let (_viewer, status) = Viewer::asks(&patient.server, "load");
        let took = reelway_clock::now().since(began);
        assert!(status >= 400, "{point}: PLAY was answered with {status}");
        assert!(took < Duration::from_secs(5), "{point}: after {took:?}");
        patient.shows(part, point, 1);
        Viewer::plays(&patient.server, "load");
    }
    // Both threads that make plans, one after the other.
    for _ in 0..2 {
        patient.inject("planner.take_up", 1);
        let (_viewer, status) = Viewer::asks(&patient.server, "bunny");
        assert!(status >= 400, "PLAY was answered with {status}");
        Viewer::plays(&patient.server, "bunny");
    }
    assert_eq!(patient.panics("plan-0") + patient.panics("plan-1"), 2);
}

#[test]
fn a_sender_thread_that_panics_ends_its_streams_with_a_reason_and_sends_new_ones() {
    let Some(mut patient) = patient(&["load"], |options| options.set("sender.threads", 1)) else {
        return skipped!("{RELEASE}");
    };
    let viewer = Viewer::plays(&patient.server, "load");
    patient.inject("send", 1);
    patient.shows("send-0", "send", 1);
    patient.server.wait_for_log(
        &["session ended", "ended by a fault of this program"],
        LIMIT,
    );
    let silent = wait::until(LIMIT, || (!viewer.receives()).then_some(()));
    assert!(silent.is_some(), "its stream goes on");
    Viewer::plays(&patient.server, "load");
}

#[test]
fn rtsp_starts_anew_when_its_state_may_be_torn_and_ends_sessions_with_a_reason() {
    let Some(mut patient) = patient(&["load"], |options| options) else {
        return skipped!("{RELEASE}");
    };
    for count in 1..=2 {
        let viewer = Viewer::plays(&patient.server, "load");
        patient.inject("rtsp.hub", 1);
        patient.shows("rtsp hub", "rtsp.hub", count);
        patient.server.wait_for_log(
            &["session ended", "ended by a fault of this program"],
            LIMIT,
        );
        let silent = wait::until(LIMIT, || (!viewer.receives()).then_some(()));
        assert!(silent.is_some(), "its stream goes on");
        let sessions = patient.server.get("/api/sessions").json();
        assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(0));
    }
    Viewer::plays(&patient.server, "load");
}

#[test]
fn a_disk_thread_that_panics_fails_the_read_and_reads_again() {
    let Some(mut patient) = patient(&["bunny", "load"], |options| options) else {
        return skipped!("{RELEASE}");
    };
    // The short film comes first: none of its reads are still running when the long one follows.
    for (count, title) in [(1, "bunny"), (2, "load")] {
        patient.inject("disk", 1);
        let (_viewer, status) = Viewer::asks(&patient.server, title);
        assert!(status >= 400, "PLAY was answered with {status}");
        let words = "reading was ended by a fault of this program";
        patient.server.wait_for_log(&[title, words], LIMIT);
        // Until it runs again, its other reads fail, too, and so do requests for their blocks.
        let again = |log: String| log.matches("restarts after a panic").count() as u64;
        let runs = || (again(patient.server.log()) >= count).then_some(());
        assert!(wait::until(LIMIT, runs).is_some(), "the thread runs again");
        let metrics = patient.server.get("/metrics").text();
        let panics: u64 = metrics
            .lines()
            .filter_map(|line| line.strip_prefix("reelway_thread_panics_total{thread=\"read-"))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum();
        assert_eq!(panics, count, "{metrics}");
        // Failed reads are not kept: the same bytes are read now.
        Viewer::plays(&patient.server, title);
    }
}

#[test]
fn the_thread_that_makes_memory_ready_runs_again() {
    let set = |options: Options| options.set("pool.size", "\"256MiB\"");
    // Within one piece of its work, and between two of them.
    let points = ["pool-ahead.touch", "pool-ahead"];
    let Some(patient) = patient_from_the_start(&points, &["load"], set) else {
        return skipped!("{RELEASE}");
    };
    patient.shows("pool-ahead", "pool-ahead", 2);
    let is_ready = || {
        let metrics = patient.server.get("/metrics").text();
        let ready = format!("reelway_pool_ready_bytes {}\n", 256 << 20);
        metrics.contains(&ready).then_some(())
    };
    assert!(wait::until(LIMIT, is_ready).is_some());
    Viewer::plays(&patient.server, "load").gets_media(&patient.server);
}

#[test]
fn the_thread_that_reads_films_needs_runs_again_and_the_film_plays() {
    let set = |options: Options| options.flag("--capacity", "net=1Gbit");
    let Some(mut patient) = patient(&["bunny", "load"], set) else {
        return skipped!("{RELEASE}");
    };
    patient.inject("needs.film", 1);
    let viewer = Viewer::plays(&patient.server, "bunny");
    patient.shows("needs of a film", "needs.film", 1);
    patient.inject("needs", 1);
    Viewer::plays(&patient.server, "load");
    patient.shows("reelway-needs", "needs", 1);
    viewer.gets_media(&patient.server);
}

#[test]
fn the_library_looks_again_and_a_film_that_cannot_be_indexed_is_alone_in_that() {
    let Some(mut patient) = patient(&["load"], |options| options) else {
        return skipped!("{RELEASE}");
    };
    let viewer = Viewer::plays(&patient.server, "load");
    let add = |patient: &Patient, title: &str| {
        let name = format!("{title}.mp4");
        // Visible only when it is complete.
        let copy = patient.dir.path().join(&name);
        fs::copy(film("bunny").path, &copy).expect("a copy");
        fs::rename(copy, patient.library.path().join(name)).expect("a film");
    };
    let state = |patient: &Patient, title: &str| {
        let answer = patient.server.get(&format!("/api/films/{title}"));
        let state = answer.json()["state"].clone();
        state.as_str().unwrap_or_default().to_owned()
    };
    for (count, point) in [(1, "library.look"), (2, "library.list")] {
        patient.inject(point, 1);
        let title = format!("film{count}");
        add(&patient, &title);
        patient.shows("library", point, count);
        let ready = || (state(&patient, &title) == "ready").then_some(());
        assert!(wait::until(LIMIT, ready).is_some(), "{title} is not there");
        Viewer::plays(&patient.server, &title);
        Viewer::plays(&patient.server, "load");
    }
    patient.inject("library.index", 1);
    add(&patient, "bad");
    let out = || (state(&patient, "bad") == "unplayable").then_some(());
    assert!(
        wait::until(LIMIT, out).is_some(),
        "{}",
        state(&patient, "bad")
    );
    patient.shows("indexing", "library.index", 1);
    add(&patient, "good");
    let ready = || (state(&patient, "good") == "ready").then_some(());
    assert!(wait::until(LIMIT, ready).is_some(), "good is not there");
    viewer.gets_media(&patient.server);
}

#[test]
fn what_panics_again_and_again_makes_the_server_unhealthy() {
    let Some(mut patient) = patient(&["load"], |options| options) else {
        return skipped!("{RELEASE}");
    };
    patient.inject("server.tick", 5);
    let health = || {
        let health = patient.server.get("/healthz");
        (health.status == 503).then(|| health.text())
    };
    let health = wait::until(LIMIT, health).expect("/healthz tells");
    assert!(health.contains("failed: server tick\n"), "{health}");
    let node = patient.server.get("/api/node").json();
    assert_eq!(node["problems"][0]["severity"], "failed", "{node}");
    assert_eq!(node["problems"][0]["panics"], 5, "{node}");
    Viewer::plays(&patient.server, "load");
}

#[test]
fn a_torn_pool_or_torn_bookings_end_the_process_with_a_reason() {
    for (point, words) in [
        ("pool", "the block pool"),
        ("judge", "the bookings of admission"),
    ] {
        let set = |options: Options| options.flag("--capacity", "net=1Gbit");
        let Some(mut patient) = patient(&["load"], set) else {
            return skipped!("{RELEASE}");
        };
        patient.inject(point, 1);
        // It does not matter what happens to this viewer.
        let began = Client::connect(patient.server.rtsp).map(|mut client| {
            let url = patient.server.rtsp_url("load");
            let tracks = client.setup_udp(&url);
            (client.request("PLAY", &url, &[]), tracks)
        });
        drop(began);
        // The next one to take the lock ends the process.
        let _ = http::get(patient.server.http, "/metrics");
        let code = patient.server.wait(LIMIT);
        assert_eq!(code, None, "it was not ended by a signal");
        patient
            .server
            .wait_for_log(&["ERROR", words, "the server ends"], LIMIT);
    }
}

#[test]
fn blocks_that_the_tier_fails_to_read_come_from_their_origin() {
    let origin_library = films::library(&["load"]);
    let whole = fs::read(film("load").path).expect("a film");
    let origin = Server::start(origin_library.path());
    let set = |options: Options| {
        options
            .set("source", format!("[{{ url = 'http://{}/' }}]", origin.http))
            .set("http.ahead", 3600)
            .set("pool.size", "'8MiB'")
            // With small blocks, more of them may wait to be written.
            .set("pool.block", "'64KiB'")
            .set("tier.size", "'64MiB'")
            .set("tier.admit", 1)
    };
    let Some(mut patient) = patient(&[], set) else {
        return skipped!("{RELEASE}");
    };
    let get = |patient: &Patient| http::get(patient.server.http, "/load/file");
    tier::fill(&patient.server, "/load/file", &whole);
    // A panic while a block is read or compared with its checksum.
    patient.inject("tier.read", 1);
    assert!(get(&patient).expect("the film").body == whole);
    patient.shows("tier read", "tier.read", 1);
    // A panic of the reading thread when it has finished a block.
    patient.inject("tier", 1);
    assert!(get(&patient).expect("the film").body == whole);
    let ended = wait::until(LIMIT, || {
        let log = patient.server.log();
        let points = log
            .lines()
            .filter_map(|line| line.split("injected at ").nth(1));
        points
            .filter_map(|said| said.split_whitespace().next())
            .any(|point| point == "tier")
            .then_some(())
    });
    assert!(ended.is_some(), "{}", patient.server.log());
    assert!(get(&patient).expect("the film").body == whole);
    // A panic in the books, which cannot be relied on from then on.
    patient.inject("tier.books", 1);
    let _ = get(&patient);
    // The next access to them notices.
    let _ = get(&patient);
    patient
        .server
        .wait_for_log(&["tier: switched off by a panic"], LIMIT);
    assert!(get(&patient).expect("the film").body == whole);
    let health = patient.server.get("/healthz");
    assert_eq!(health.status, 200);
    assert!(
        health.text().contains("degraded: tier\n"),
        "{}",
        health.text()
    );
}
