//! Unmodified third-party programs under the library.
//!
//! Each test checks that the program works and shows the right time, and, by the library's own
//! counts, that it used the library.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{Preloaded, directory, finish, need, path};
use reelway_clock::real;
use reelway_tests::ports::Ports;
use reelway_tests::wait;

const LIMIT: Duration = Duration::from_secs(120);

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

/// Connects as soon as a server listens.
fn connect(port: u16) -> TcpStream {
    let limit = Duration::from_secs(30);
    let stream = wait::until(limit, || TcpStream::connect(("127.0.0.1", port)).ok());
    let stream = stream.unwrap_or_else(|| panic!("nobody listens on {port}"));
    stream.set_read_timeout(Some(limit)).expect("a socket");
    stream
}

#[test]
fn python() {
    need(&["python3"]);
    for (variable, value) in [("REELWAY_CLOCK", "auto"), ("REELWAY_CLOCK_EFAULT", "guard")] {
        let run = Preloaded::new("python3")
            .arg(source("clock.py"))
            .env(variable, value);
        let (said, counts) = run.expect(LIMIT);
        assert!(said.contains("python: ok"), "{said}");
        assert!(counts.of("clock_gettime") > 100_000, "{counts:?}");
    }
}

#[test]
fn java() {
    need(&["java", "javac"]);
    let classes = directory("java");
    let classes = classes.path();
    let status = Command::new("javac")
        .arg("-d")
        .arg(classes)
        .arg(source("Clock.java"))
        .env("PATH", path())
        .status()
        .expect("javac runs");
    assert!(status.success());
    for (variable, value) in [("REELWAY_CLOCK", "auto"), ("REELWAY_CLOCK_EFAULT", "guard")] {
        let run = Preloaded::new("java")
            .arg("-cp")
            .arg(classes)
            .arg("Clock")
            .arg((real().nanos() / 1_000_000).to_string())
            .env(variable, value);
        let (said, counts) = run.expect(LIMIT);
        assert!(said.contains("java: ok"), "{said}");
        assert!(counts.of("clock_gettime") > 1_000_000, "{counts:?}");
    }
}

#[test]
fn go_with_cgo() {
    need(&["go", "cc"]);
    let dir = directory("go");
    let dir = dir.path();
    let program = dir.join("clock");
    let status = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(source("clock.go"))
        .current_dir(dir)
        .env("PATH", path())
        .env("CGO_ENABLED", "1")
        .env("GO111MODULE", "off")
        .env("GOFLAGS", "")
        .env("GOCACHE", dir.join("cache"))
        .status()
        .expect("go runs");
    assert!(status.success());
    let (said, counts) = Preloaded::new(&program).expect(LIMIT);
    assert!(said.contains("go: ok"), "{said}");
    assert!(counts.of("clock_gettime") >= 1_600_000, "{counts:?}");
}

#[test]
fn nginx() {
    need(&["nginx"]);
    let dir = directory("nginx");
    let dir = dir.path();
    let ports = Ports::local();
    let port = ports.first;
    let here = dir.display();
    let config = format!(
        "daemon off; worker_processes 2; pid {here}/pid; error_log {here}/error.log;
         events {{ worker_connections 64; }}
         http {{
           log_format times '$msec $request_time'; access_log {here}/access.log times;
           client_body_temp_path {here}/a; proxy_temp_path {here}/b; fastcgi_temp_path {here}/c;
           uwsgi_temp_path {here}/d; scgi_temp_path {here}/e;
           server {{ listen 127.0.0.1:{port}; location / {{ return 200 'hello'; }} }}
         }}"
    );
    std::fs::write(dir.join("conf"), config).expect("a configuration");
    let begin = real();
    let mut run = Preloaded::new("nginx")
        .arg("-p")
        .arg(dir)
        .arg("-c")
        .arg(dir.join("conf"))
        .arg("-e")
        .arg(dir.join("error.log"));
    let child = run.start();
    for _ in 0..200 {
        let mut stream = connect(port);
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"),
            "{answer}"
        );
    }
    child.signal("-QUIT");
    let output = finish(child, LIMIT);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let end = real();
    let log = std::fs::read_to_string(dir.join("access.log")).expect("a log");
    let times: Vec<f64> = log
        .lines()
        .filter_map(|line| line.split(' ').next()?.parse().ok())
        .collect();
    assert_eq!(times.len(), 200);
    for time in times {
        let (begin, end) = (begin.nanos() as f64 / 1e9, end.nanos() as f64 / 1e9);
        assert!(
            time >= begin - 0.002 && time <= end + 0.002,
            "{begin} {time} {end}"
        );
    }
    let counts = run.counts();
    assert!(counts.processes() >= 3, "master and workers: {counts:?}");
    assert!(
        counts.of("gettimeofday") + counts.of("clock_gettime") > 200,
        "{counts:?}"
    );
}

#[test]
fn redis() {
    need(&["redis-server"]);
    let dir = directory("redis");
    let dir = dir.path();
    let ports = Ports::local();
    let port = ports.first;
    let mut run = Preloaded::new("redis-server").args([
        "--port",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        dir.to_str().expect("a path in UTF-8"),
    ]);
    let child = run.start();
    let mut stream = connect(port);
    let mut ask = |command: &str| -> String {
        stream
            .write_all(format!("{command}\r\n").as_bytes())
            .expect("a command");
        let mut answer = [0; 4096];
        let count = stream.read(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer[..count]).into_owned()
    };
    for _ in 0..1000 {
        let before = real().nanos() / 1000;
        let answer = ask("TIME");
        let after = real().nanos() / 1000;
        // *2 $10 SECONDS $N MICROSECONDS
        let parts: Vec<&str> = answer.split("\r\n").collect();
        let micros = parts[2].parse::<u64>().expect("seconds") * 1_000_000
            + parts[4].parse::<u64>().expect("microseconds");
        assert!(
            micros + 6 >= before && micros <= after + 6,
            "{before} {micros} {after}"
        );
    }
    assert_eq!(ask("SET a 1 PX 150"), "+OK\r\n");
    assert_eq!(ask("GET a"), "$1\r\n1\r\n");
    // By the server's own clock.
    let expired = || (ask("GET a") == "$-1\r\n").then_some(());
    assert!(
        wait::until(Duration::from_secs(5), expired).is_some(),
        "it expires"
    );
    child.signal("-TERM");
    let output = finish(child, LIMIT);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let counts = run.counts();
    assert!(
        counts.of("gettimeofday") + counts.of("clock_gettime") > 3_000,
        "{counts:?}"
    );
}

/// PostgreSQL refuses to run as root, so it runs as its own user then.
fn postgres(program: &str, dir: &Path) -> Preloaded {
    if std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(dir).expect("the directory")) == 0 {
        // `setpriv` changes the user without a session; the library stays in the environment.
        Preloaded::new("setpriv").args([
            "--reuid=postgres",
            "--regid=postgres",
            "--clear-groups",
            program,
        ])
    } else {
        Preloaded::new(program)
    }
}

#[test]
fn postgresql() {
    need(&["postgres", "initdb", "psql", "pg_test_timing"]);
    let dir = directory("postgresql");
    let dir = dir.path();
    let data = dir.join("data");
    std::fs::create_dir(&data).expect("a directory");
    if let Ok(id) = Command::new("id").args(["-u", "postgres"]).output()
        && let Ok(id) = String::from_utf8_lossy(&id.stdout).trim().parse::<u32>()
    {
        for path in [dir, &data] {
            // Not root: it is ours already.
            let _ = std::os::unix::fs::chown(path, Some(id), None);
        }
    }
    let root = std::env::temp_dir();
    postgres("initdb", &root)
        .args(["--no-sync", "--auth=trust", "--username=test", "-D"])
        .arg(&data)
        .env("LD_PRELOAD", "")
        .expect(LIMIT);

    let ports = Ports::local();
    let port = ports.first.to_string();
    let mut run = postgres("postgres", &root)
        .arg("-D")
        .arg(&data)
        .args(["-F", "-c", "listen_addresses=127.0.0.1", "-p", &port, "-k"])
        .arg(dir);
    let child = run.start();
    connect(port.parse().expect("a port"));
    let ask = |sql: &str| -> String {
        let answer = wait::until(Duration::from_secs(30), || {
            let output = Command::new("psql")
                .args([
                    "-h",
                    "127.0.0.1",
                    "-p",
                    &port,
                    "-U",
                    "test",
                    "-d",
                    "postgres",
                    "-XAtc",
                ])
                .arg(sql)
                .env("PATH", path())
                .output()
                .expect("psql runs");
            let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() {
                return Some(said);
            }
            assert!(error.contains("starting up"), "{sql}: {error}");
            None
        });
        answer.unwrap_or_else(|| panic!("{sql}: PostgreSQL does not start"))
    };
    let before = real().nanos() as f64 / 1e9;
    let time: f64 = ask("select extract(epoch from clock_timestamp())")
        .parse()
        .expect("a time");
    let after = real().nanos() as f64 / 1e9;
    assert!(
        before - 1e-5 <= time && time <= after + 1e-5,
        "{before} {time} {after}"
    );
    // The clock is read before and after every row.
    let plan = ask("explain (analyze, timing on) select count(*) from generate_series(1, 200000)");
    assert!(plan.contains("Execution Time"), "{plan}");
    let backwards = ask(
        "select count(*) from (select clock_timestamp() t, lag(clock_timestamp()) over () l \
         from generate_series(1, 1000)) x where t < l",
    );
    assert_eq!(backwards, "0");
    child.signal("-INT");
    let output = finish(child, LIMIT);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let counts = run.counts();
    assert!(counts.of("clock_gettime") > 200_000, "{counts:?}");

    // PostgreSQL's own test of a machine's clock: it fails if the clock goes back.
    let (said, counts) = postgres("pg_test_timing", &root)
        .args(["-d", "2"])
        .expect(LIMIT);
    assert!(said.contains("Per loop time"), "{said}");
    assert!(counts.of("clock_gettime") > 1_000_000, "{counts:?}");
}

#[test]
fn ffmpeg() {
    need(&["ffmpeg"]);
    let begin = reelway_clock::now();
    let run = Preloaded::new("ffmpeg").args([
        "-nostdin",
        "-v",
        "error",
        "-benchmark",
        "-re",
        "-f",
        "lavfi",
        "-i",
        "testsrc=size=160x120:rate=25:duration=2",
        "-f",
        "null",
        "-",
    ]);
    let (_, counts) = run.expect(LIMIT);
    // Read at its native rate: ffmpeg's own clock paces it.
    let took = reelway_clock::now() - begin;
    assert!(took >= Duration::from_millis(1900), "paced: {took:?}");
    assert!(
        counts.of("clock_gettime") + counts.of("gettimeofday") > 50,
        "{counts:?}"
    );
}
