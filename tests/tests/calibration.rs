//! `reelway serve --calibrate` end to end: it measures the machine, the next start takes its limits from the result, and nothing
//! of it runs on.

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
use serde_json::Value;

const FILM: &str = "seeks";
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

/// The limit of a resource as the API reports it; `None`: it is not limited.
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

#[test]
fn what_calibration_finds_limits_disk_and_processor_from_the_next_start_on() {
    let (library, state) = (library(), temp_dir("state"));
    let before = server(library.path(), state.path(), None);
    assert_eq!(limit(&before, "disk"), None);
    assert_eq!(limit(&before, "processor"), None);
    assert_eq!(before.get("/api/calibration").status, 404);
    drop(before);

    let mut calibrating = Command::new(binary());
    calibrating.arg("serve").arg(library.path());
    calibrating
        .arg("--calibrate=10")
        .arg("--state")
        .arg(state.path());
    let ran = run(calibrating, Duration::from_secs(240)).expect("--calibrate");
    let said = String::from_utf8_lossy(&ran.out);
    let path = |name: &str| state.path().join(name);
    for name in ["calibration.json", "calibration.svg"] {
        assert!(said.contains(&*path(name).to_string_lossy()), "{said}");
    }
    let text = fs::read_to_string(path("calibration.json")).expect("what was found");
    let found: Value = serde_json::from_str(&text).expect("JSON");
    let chart = fs::read_to_string(path("calibration.svg")).expect("a chart");
    assert!(chart.starts_with("<svg") && chart.trim_end().ends_with("</svg>"));
    let disk = found["disk"].as_u64().expect("what the disk gives");
    assert!(disk > 1_000_000, "{disk} bytes a second: {text}");
    let cpu = found["cpu"]
        .as_u64()
        .unwrap_or_else(|| panic!("nobody could be served: {said}"));
    let tried = found["tried"].as_array().expect("tries");
    let well = tried.iter().filter(|tried| tried["well"] == true);
    let most = well.filter_map(|tried| tried["viewers"].as_u64()).max();
    let cores = std::thread::available_parallelism().expect("cores").get() as u64;
    // Viewers of 4 Mbit/s of picture with sound and headers, the same number on every core.
    let each = cpu / cores / most.expect("a number that was kept up with");
    assert!(
        (520_000..600_000).contains(&each),
        "{each} bytes a second each: {text}"
    );

    // 2 % is headroom; the processor's unit is bits.
    let usable = |bytes: u64| bytes * 98 / 100;
    let after = server(library.path(), state.path(), None);
    assert_eq!(limit(&after, "disk"), Some(usable(disk)));
    assert_eq!(limit(&after, "processor"), Some(8 * usable(cpu)));
    assert_eq!(after.get("/api/calibration").text(), text);
    assert_eq!(after.get("/api/calibration.svg").text(), chart);
    drop(after);

    // A share of about 4 Mbit/s, which a few viewers fill.
    let thousandths = (500_000_000 / cpu).clamp(1, 1000);
    let share = format!("{}", thousandths as f64 / 1000.0);
    let narrow = server(library.path(), state.path(), Some(&share));
    let bits = 8 * usable(cpu * thousandths / 1000);
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

/// Whether this process serves with a state below `state`. One that has ended, but was not waited for, has no command line.
fn is_ours(process: &str, state: &Path) -> bool {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    line.contains(&*state.to_string_lossy()) && line.contains("--rtp-ports")
}
