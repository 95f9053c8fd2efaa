//! Viewers against real servers: Reelway, GStreamer's, and VLC's; and the faults that they must
//! report.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reelway_tests::between::{Between, HONEST, Manner};
use reelway_tests::films::{film, library, temp_dir};
use reelway_tests::network::{Network, SERVER};
use reelway_tests::players::vlc;
use reelway_tests::ports::Ports;
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;
use reelway_tests::yardstick::yardstick;
use serde_json::Value;

/// A process that is killed when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Starts GStreamer's server with one film; returns it with its ports, and the film's address.
fn gstreamer(path: &Path) -> ((Ended, Ports), String) {
    let ports = Ports::local();
    let address = ports.at();
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
    ((server, ports), format!("rtsp://{address}/film0"))
}

fn count(report: &Value, what: &str) -> u64 {
    report[what]
        .as_u64()
        .unwrap_or_else(|| panic!("{what}: {report:#}"))
}

#[test]
fn many_viewers_pause_and_seek_and_each_gets_every_packet() {
    let films = library(&["progressive", "faststart"]);
    let server = Server::start(films.path());
    let url = |name| format!("rtsp://{}/{name}", server.rtsp);
    let (code, printed, report) = yardstick(&[
        &url("progressive"),
        &url("faststart"),
        "--clients=40",
        "--arrivals=poisson:40",
        "--films=weights:3,1",
        "--pause=30",
        "--seek=30",
        "--fast-play=20",
        // The machine may be busy: this is about packets, not times.
        "--buffer=60",
    ]);
    assert_eq!((code, count(&report, "lost")), (0, 0), "{printed}");
    assert!(printed.contains("40 viewers: played well"), "{printed}");
    assert_eq!(count(&report, "admitted"), 40);
    let each = report["each"].as_array().expect("stories");
    let did = |what: &str| {
        let does = |viewer: &&Value| viewer["events"].to_string().contains(what);
        each.iter().filter(does).count()
    };
    for deed in ["pauses", "goes on", "seeks", "fast play"] {
        assert!(did(deed) > 0, "nobody {deed}: {report:#}");
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
fn viewers_of_several_addresses_begin_again_until_the_run_is_over() {
    let films = library(&["progressive"]);
    let server = Server::start(films.path());
    for url in [
        format!("rtsp://{}/progressive", server.rtsp),
        format!("http://{}/progressive/hls/main.m3u8", server.http),
    ] {
        let (code, printed, story) = yardstick(&[
            &url,
            "--clients=2",
            "--arrivals=burst:2",
            "--sources=127.0.0.2-127.0.0.3",
            "--watch=1s",
            "--again",
            "--duration=6",
            "--buffer=60",
        ]);
        assert_eq!((code, count(&story, "refused")), (0, 0), "{printed}");
        let each = story["each"].as_array().expect("stories");
        for viewer in [1, 2] {
            let films = each.iter().filter(|film| film["viewer"] == viewer).count();
            assert!(films >= 2, "viewer {viewer}: {films} films: {story:#}");
        }
        assert!(each.iter().all(|film| film["viewer"].as_u64() <= Some(2)));
    }
}

#[test]
fn gstreamers_server_is_measured_like_any_other() {
    let (_server, url) = gstreamer(&film("progressive").path);
    let (code, printed, report) = yardstick(&[
        &url,
        "--clients=8",
        "--pause=40",
        "--seek=40",
        "--buffer=60",
    ]);
    assert_eq!((code, count(&report, "lost")), (0, 0), "{printed}");
    assert_eq!(count(&report, "admitted"), 8);
    assert!(count(&report, "packets") > 8 * 100, "{report:#}");
}

#[test]
fn those_who_find_nothing_are_refused_and_it_is_told_why() {
    let films = library(&["progressive"]);
    let server = Server::start(films.path());
    let there = format!("rtsp://{}/progressive", server.rtsp);
    let missing = format!("rtsp://{}/missing", server.rtsp);
    let (code, printed, report) = yardstick(&[
        &there,
        &missing,
        "--arrivals=burst:20",
        "--watch=1s",
        "--buffer=60",
    ]);
    assert_eq!(code, 1, "{printed}");
    let (admitted, refused) = (count(&report, "admitted"), count(&report, "refused"));
    assert!(admitted > 0 && refused > 0, "{printed}");
    assert_eq!((admitted + refused, count(&report, "harmed")), (20, 0));
    assert!(printed.contains("404"), "{printed}");
}

/// Removes the SSRC from a server's response.
fn without_ssrc(answer: String) -> String {
    let Some(at) = answer.find(";ssrc=") else {
        return answer;
    };
    let end = answer[at + 1..]
        .find([';', '\r'])
        .map_or(answer.len(), |end| at + 1 + end);
    format!("{}{}", &answer[..at], &answer[end..])
}

#[test]
fn viewers_of_a_trace_come_as_it_says_each_with_sockets_of_their_own_where_streams_have_no_names() {
    let films = library(&["progressive", "faststart"]);
    let server = Server::start(films.path());
    let manner = Manner {
        answer: without_ssrc,
        ..HONEST
    };
    let between = Between::start(server.rtsp, manner);
    let dir = temp_dir("trace");
    let trace = dir.path().join("trace.csv");
    std::fs::write(&trace, "# as it was\n0,1,1\n0.3,2,1\n0.3,2,0.5\n0.6,1\n").expect("a trace");
    let url = |name| format!("rtsp://{}/{name}", between.address);
    let (code, printed, report) = yardstick(&[
        &url("progressive"),
        &url("faststart"),
        &format!("--arrivals=trace:{}", trace.display()),
        "--watch=2s",
        "--buffer=60",
    ]);
    assert_eq!((code, count(&report, "lost")), (0, 0), "{printed}");
    let each = report["each"].as_array().expect("stories");
    let films: Vec<&str> = each
        .iter()
        .filter_map(|viewer| viewer["url"].as_str()?.rsplit('/').next())
        .collect();
    assert_eq!(
        films,
        ["progressive", "faststart", "faststart", "progressive"]
    );
    let watched = |number: usize| {
        let at = |what: &str| each[number][what].as_f64().expect("a time");
        at("left_s") - at("came_s")
    };
    assert!(watched(2) < watched(3), "{report:#}");
    for (viewer, least) in each.iter().zip([40, 40, 20, 60]) {
        assert!(viewer["packets"].as_u64() > Some(least), "{viewer:#}");
    }
}

#[test]
fn viewers_over_tcp_pause_and_seek_too() {
    let films = library(&["progressive"]);
    let server = Server::start(films.path());
    let (code, printed, report) = yardstick(&[
        &format!("rtsp://{}/progressive", server.rtsp),
        "--tcp",
        "--clients=20",
        "--arrivals=poisson:40",
        "--watch=2s",
        "--pause=30",
        "--seek=30",
        "--fast-play=20",
        "--buffer=60",
    ]);
    assert_eq!((code, count(&report, "lost")), (0, 0), "{printed}");
    assert_eq!(count(&report, "admitted"), 20);
    let each = report["each"].as_array().expect("stories");
    assert!(
        each.iter()
            .all(|viewer| viewer["protocol"] == "RTSP over TCP")
    );
    assert!(
        each.iter()
            .all(|viewer| viewer["packets"].as_u64() > Some(20))
    );
}

/// Searches for the limit of a server; returns it, and the output.
fn limit(url: &str) -> (Option<f64>, String) {
    let (_, printed, report) = yardstick(&[
        url,
        "--find-limit=20",
        "--runs=1",
        "--clients=3",
        "--arrivals=burst:20",
        "--watch=1s",
        "--buffer=60",
    ]);
    (report["limit"].as_f64(), printed)
}

#[test]
fn the_limit_of_a_server_that_takes_no_more_than_three_is_three() {
    let films = library(&["progressive"]);
    let server = Options::new(films.path())
        .set("admission.per_address", 3)
        .start();
    server.wait_indexed();
    let (limit, printed) = limit(&server.rtsp_url("progressive"));
    assert_eq!(limit, Some(3.0), "{printed}");
    assert!(
        printed.contains("3.0 viewers, none of them harmed"),
        "{printed}"
    );
    assert!(printed.contains("harmed or refused (refused)"), "{printed}");
}

#[test]
fn the_limit_of_a_server_that_takes_anybody_and_breaks_over_three_is_three() {
    let films = library(&["progressive"]);
    let server = Server::start(films.path());
    let manner = Manner {
        deed: |_, packet| match packet.clients > 3 && packet.number % 10 == 5 {
            true => vec![],
            false => vec![0],
        },
        ..HONEST
    };
    let between = Between::start(server.rtsp, manner);
    let (limit, printed) = limit(&format!("rtsp://{}/progressive", between.address));
    assert_eq!(limit, Some(3.0), "{printed}");
    assert!(printed.contains("(lost)"), "{printed}");
}

#[test]
fn the_report_shows_every_machine_that_is_named() {
    let films = library(&["progressive"]);
    let network = Network::new();
    let options = Options::new(films.path()).namespace(network.server(), SERVER);
    let (server, metrics) = network.as_viewer(|| {
        let server = options.start();
        server.wait_indexed();
        let metrics = server.http_url("metrics");
        (server, metrics)
    });
    let dir = temp_dir("report");
    let report = dir.path().join("report.html");
    let (code, printed, _) = network.as_viewer(|| {
        yardstick(&[
            &server.rtsp_url("progressive"),
            "--clients=5",
            "--watch=2200ms",
            "--buffer=60",
            &format!("--report={}", report.display()),
            &format!("--metrics={metrics}"),
            &format!("--machine={metrics}"),
            &format!("--machine=netns:{}", network.server()),
        ])
    });
    assert_eq!(code, 0, "{printed}");
    let text = std::fs::read_to_string(&report).expect("a report");
    let data = text.split("application/json\">").nth(1).expect("data");
    let data = data.split("</script>").next().expect("its end");
    let data: Value = serde_json::from_str(data).expect("JSON");
    let machines = data["machines"].as_array().expect("machines");
    assert_eq!(machines.len(), 3, "{machines:#?}");
    let grew = |machine: &Value, what: &str| {
        let values = machine["series"]["values"][what].as_array();
        let values: Vec<f64> = values
            .into_iter()
            .flatten()
            .filter_map(Value::as_f64)
            .collect();
        values.last().copied().unwrap_or(0.0) - values.first().copied().unwrap_or(0.0)
    };
    // The first machine is the viewers' side of the cable, where the server's output arrives.
    for (machine, what) in [(0, "wire in"), (1, "all out"), (2, "wire out")] {
        assert_eq!(machines[machine]["series"]["trouble"], Value::Null);
        assert!(grew(&machines[machine], what) > 50_000.0, "{machines:#?}");
    }
    for machine in machines {
        assert!(machine["series"]["values"]["cpu"].is_array(), "{machine:#}");
    }
    drop(server);
}

#[test]
fn vlcs_server_is_measured_like_any_other() {
    use std::os::unix::fs::PermissionsExt;
    // VLC treats the address on which it listens as a part of its films' names, so it listens on
    // all addresses.
    let net = Network::new();
    let dir = temp_dir("vlc");
    let everybody = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), everybody).expect("others may read");
    let source = film("progressive").path;
    let (copy, films) = (dir.path().join("film.mp4"), dir.path().join("films"));
    std::fs::copy(&source, &copy).expect("a copy");
    let named = format!(
        "new film vod enabled\nsetup film input {}\n",
        copy.display()
    );
    std::fs::write(&films, named).expect("its films");
    let arguments = [
        "--rtsp-port=8554".to_owned(),
        format!("--vlm-conf={}", films.display()),
    ];
    let started = net.as_server(|| {
        vlc(&arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    });
    let _server = Ended(started.expect("VLC"));
    let url = format!("rtsp://{SERVER}:8554/film");
    net.as_viewer(|| {
        let ready = || TcpStream::connect((SERVER, 8554)).ok();
        assert!(
            wait::until(Duration::from_secs(60), ready).is_some(),
            "VLC's server does not answer"
        );
        let against = format!("--against={}", source.display());
        let (_, printed, report) = yardstick(&[&url, &against, "--duration=4", "--buffer=60"]);
        assert_eq!(count(&report, "lost"), 0, "{printed}");
        assert!(count(&report, "packets") > 50, "{printed}");
        // Its sender reports for audio and video are inaccurate, sometimes by so much that it is a
        // fault.
        let mut faults = printed.lines().filter(|line| line.contains('✗'));
        assert!(
            faults.all(|line| line.contains("sender reports")),
            "{printed}"
        );
    });
}
