//! `reelway serve --calibrate` end to end: it measures the machine, the next start takes its limits
//! from the result, and none of its processes keeps running.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use reelway_tests::films::{self, temp_dir};
use reelway_tests::knock::watch;
use reelway_tests::players::run;
use reelway_tests::server::{Options, Server, binary};
use reelway_tests::wait;
use serde_json::{Value, json};

const FILM: &str = "seeks";
/// The files that a calibration writes to the state directory.
const REPORT: &str = "calibration.json";
const CHART: &str = "calibration.svg";
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Films with enough bytes for random reads: one of them has 160 MB of padding.
fn library() -> tempfile::TempDir {
    const PADDING: u32 = 160_000_000;
    let library = films::library(&[FILM]);
    let path = library.path().join("large.mp4");
    fs::copy(films::film("faststart").path, &path).expect("a film");
    let mut file = fs::File::options().append(true).open(path).expect("it");
    file.write_all(&PADDING.to_be_bytes()).expect("room");
    file.write_all(b"free").expect("room");
    let block: Vec<u8> = (0..1 << 20)
        .map(|at: u32| (at * 31 + at / 255) as u8)
        .collect();
    for left in (0..PADDING as usize - 8).rev().step_by(block.len()) {
        file.write_all(&block[..block.len().min(left + 1)])
            .expect("room");
    }
    library
}

/// The limit of a resource as the API reports it; `None` if it is not limited.
fn limit(server: &Server, name: &str) -> Option<u64> {
    let told = server.get("/api/admission").json();
    let mut resources = told["resources"].as_array().expect("resources").iter();
    let resource = resources.find(|resource| resource["name"] == name)?;
    resource["limit"].as_u64()
}

fn server(library: &Path, state: &Path, cpu: Option<&str>) -> Server {
    let options = Options::new(library).state(state);
    let options = match cpu {
        Some(share) => options.set("capacity.cpu", format!("\"{share}\"")),
        None => options,
    };
    let server = options.start();
    server.wait_indexed();
    server
}

/// Calibrates for ten seconds, and returns the stored report; `None` if the machine was too busy to
/// serve one viewer on time, which must be reported.
fn calibrate(library: &Path, state: &Path) -> Option<String> {
    let mut calibrating = Command::new(binary());
    calibrating.arg("serve").arg(library);
    calibrating.arg("--calibrate=10").arg("--state").arg(state);
    let ran = run(calibrating, Duration::from_secs(240));
    let stored = [REPORT, CHART].map(|name| state.join(name));
    if !ran.status.expect("its end").success() {
        let why = ran.err;
        assert!(why.contains("not even one viewer"), "{why}");
        assert!(!stored.iter().any(|path| path.exists()), "{why}");
        return None;
    }
    let said = String::from_utf8_lossy(&ran.out);
    for path in &stored {
        assert!(said.contains(&*path.to_string_lossy()), "{said}");
    }
    Some(fs::read_to_string(&stored[0]).expect("the report"))
}

/// Starts a server on a state with a calibration of this many bytes per second, and checks its
/// limits.
fn has_limits(library: &Path, state: &Path, (disk, cpu): (u64, u64)) {
    let after = server(library, state, None);
    assert_eq!(limit(&after, "disk"), Some(usable(disk)));
    assert_eq!(limit(&after, "processor"), Some(8 * usable(cpu)));
    let stored = |name| fs::read_to_string(state.join(name)).expect("it");
    assert_eq!(after.get("/api/calibration").text(), stored(REPORT));
    assert_eq!(after.get("/api/calibration.svg").text(), stored(CHART));
}

/// What remains after 2 % of headroom.
fn usable(rate: u64) -> u64 {
    rate * 98 / 100
}

#[test]
fn a_calibration_stores_what_it_measured_unless_the_machine_is_too_busy() {
    let (library, state) = (library(), temp_dir("state"));
    let before = server(library.path(), state.path(), None);
    assert_eq!(limit(&before, "disk"), None);
    assert_eq!(limit(&before, "processor"), None);
    assert_eq!(before.get("/api/calibration").status, 404);
    drop(before);

    let Some(text) = calibrate(library.path(), state.path()) else {
        return;
    };
    let found: Value = serde_json::from_str(&text).expect("JSON");
    let chart = fs::read_to_string(state.path().join(CHART)).expect("a chart");
    assert!(chart.starts_with("<svg") && chart.trim_end().ends_with("</svg>"));
    let disk = found["disk"].as_u64().expect("what the disk gives");
    let cpu = found["cpu"].as_u64().expect("what the processor sends");
    assert!(disk > 1_000_000, "{disk} bytes a second: {text}");
    let tried = found["tried"].as_array().expect("tries");
    let well = tried.iter().filter(|tried| tried["well"] == true);
    let most = well.filter_map(|tried| tried["viewers"].as_u64()).max();
    let cores = std::thread::available_parallelism().expect("cores").get() as u64;
    // Viewers of 4 Mbit/s of video, plus audio and headers, the same number on every core.
    let each = cpu / cores / most.expect("a number that was kept up with");
    assert!(
        (520_000..600_000).contains(&each),
        "{each} bytes a second each: {text}"
    );
    has_limits(library.path(), state.path(), (disk, cpu));
}

#[test]
fn a_stored_calibration_limits_disk_and_processor() {
    const DISK: u64 = 150_000_000;
    const CPU: u64 = 125_000_000;
    let (library, state) = (films::library(&[FILM]), temp_dir("state"));
    let report = json!({
        "when": "2026-01-01T00:00:00Z", "cpu": CPU, "disk": DISK,
        "tried": [{"viewers": 114, "well": true, "late_ms": 1.5}],
    });
    fs::write(state.path().join(REPORT), report.to_string()).expect("a report");
    fs::write(state.path().join(CHART), "<svg></svg>").expect("a chart");
    has_limits(library.path(), state.path(), (DISK, CPU));

    // A share of 4 Mbit/s, which a few viewers use up.
    let narrow = server(library.path(), state.path(), Some("0.004"));
    let bits = 8 * usable(CPU * 4 / 1000);
    assert_eq!(limit(&narrow, "processor"), Some(bits));
    let mut viewers = Vec::new();
    let most = bits / 200_000;
    let refused = loop {
        match watch(&narrow, FILM, HERE) {
            Ok(viewer) => viewers.push(viewer),
            Err(refused) => break refused,
        }
        assert!(
            (viewers.len() as u64) < most,
            "{most} viewers, and nobody is refused"
        );
    };
    assert_eq!(refused.status, 453);
    assert!(refused.reason.contains("processor"), "{refused:?}");
    assert!(!viewers.is_empty());
}

#[test]
fn a_calibration_that_is_killed_leaves_no_server_behind() {
    let (library, state) = (films::library(&[FILM]), temp_dir("state"));
    let mut calibrating = Command::new(binary());
    calibrating.arg("serve").arg(library.path());
    calibrating
        .arg("--calibrate=60")
        .arg("--state")
        .arg(state.path())
        .stdout(Stdio::null());
    let mut calibrating = calibrating.spawn().expect("--calibrate");
    let path = format!("/proc/{0}/task/{0}/children", calibrating.id());
    let server = wait::until(Duration::from_secs(60), || {
        let children = fs::read_to_string(&path).expect("its children");
        let server = children.split_whitespace().next()?.to_owned();
        is_ours(&server, state.path()).then_some(server)
    });
    calibrating.kill().expect("killing it");
    calibrating.wait().expect("its end");
    let server = server.expect("its server");
    let gone = wait::until(Duration::from_secs(30), || {
        (!is_ours(&server, state.path())).then_some(())
    });
    assert!(gone.is_some(), "process {server} runs on");
}

/// Whether this process serves with a state below `state`. A process that has ended, but was not
/// waited for, has no command line.
fn is_ours(process: &str, state: &Path) -> bool {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    line.contains(&*state.to_string_lossy()) && line.contains("--rtp-ports")
}
