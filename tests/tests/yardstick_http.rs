//! The yardstick over HLS and DASH: against Reelway, and against nginx with ffmpeg's segments. It
//! detects whatever a proxy changes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use reelway_tests::films::{film, library, temp_dir};
use reelway_tests::ports::Ports;
use reelway_tests::server::Server;
use reelway_tests::wait;
use reelway_tests::yardstick::yardstick;
use serde_json::Value;

fn faults(report: &Value) -> Vec<&str> {
    let findings = report["each"][0]["verdict"]["findings"].as_array();
    findings
        .into_iter()
        .flatten()
        .filter_map(|finding| finding["fault"].as_str())
        .collect()
}

struct Nginx {
    child: Child,
    address: SocketAddr,
    dir: tempfile::TempDir,
    _ports: Ports,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Nginx {
    /// Serves a folder that `fill` writes.
    fn start(fill: impl FnOnce(&Path)) -> Nginx {
        let dir = temp_dir("nginx");
        let ports = Ports::local();
        let address = ports.at();
        let path = dir.path().display();
        let mut settings = format!(
            "user root; daemon off; master_process off; worker_processes 1; pid {path}/pid; error_log {path}/error.log;\n\
             events {{}}\nhttp {{ access_log off; types {{}} default_type application/octet-stream;\n"
        );
        for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            settings.push_str(&format!("{kind}_temp_path {path}/temp;\n"));
        }
        settings.push_str(&format!(
            "server {{ listen {address}; root {path}/www; }} }}\n"
        ));
        std::fs::write(dir.path().join("nginx.conf"), settings).expect("its settings");
        std::fs::create_dir(dir.path().join("www")).expect("its root");
        fill(&dir.path().join("www"));
        let child = Command::new("nginx")
            .arg("-p")
            .arg(dir.path())
            .arg("-c")
            .arg(dir.path().join("nginx.conf"))
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx");
        let ready = wait::until(Duration::from_secs(30), || {
            TcpStream::connect(address).ok().map(drop)
        });
        let nginx = Nginx {
            child,
            address,
            dir,
            _ports: ports,
        };
        let log = || std::fs::read_to_string(nginx.dir.path().join("error.log"));
        assert!(ready.is_some(), "nginx does not answer: {:?}", log());
        nginx
    }
}

/// Makes HLS of a film with ffmpeg, in segments of one second.
fn hls(film: &Path, folder: &Path, name: &str, kind: &str) {
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-i"])
        .arg(film)
        .args([
            "-c",
            "copy",
            "-f",
            "hls",
            "-hls_time",
            "1",
            "-hls_playlist_type",
            "vod",
        ])
        .args(["-hls_segment_type", kind])
        .args(["-hls_fmp4_init_filename", &format!("{name}.init.mp4")])
        .arg(folder.join(format!("{name}.m3u8")))
        .status()
        .expect("ffmpeg");
    assert!(status.success(), "ffmpeg made no HLS");
}

#[test]
fn reelways_hls_and_dash_are_the_film() {
    let films = library(&["progressive"]);
    let server = Server::start(films.path());
    let path = film("progressive").path;
    let against = format!("--against={}", path.display());
    for (address, protocol) in [("hls/main.m3u8", "HLS"), ("dash/main.mpd", "DASH")] {
        let url = format!("http://{}/progressive/{address}", server.http);
        let (code, printed, report) = yardstick(&[&url, &against, "--buffer=1", "--duration=2"]);
        assert_eq!((code, faults(&report)), (0, vec![]), "{printed}");
        assert_eq!(report["each"][0]["protocol"], protocol);
        let compared = report["each"][0]["compared"].as_u64().unwrap_or(0);
        assert!(compared > 300, "{protocol}: {compared} frames compared");
    }
    // Many viewers that only count.
    let url = format!("http://{}/progressive/hls/main.m3u8", server.http);
    let (code, printed, report) = yardstick(&[
        &url,
        "--clients=30",
        "--arrivals=poisson:60",
        "--watch=1s",
        "--buffer=0.5",
    ]);
    assert_eq!(code, 0, "{printed}");
    assert_eq!(report["admitted"], 30);
    assert!(report["bytes"].as_u64() > Some(30 * 100_000), "{printed}");
}

/// Makes DASH of a film with ffmpeg, in segments of one second; with a timeline, or with one
/// duration for all.
fn dash(film: &Path, folder: &Path, name: &str, timeline: &str) {
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-i"])
        .arg(film)
        .args(["-c", "copy", "-f", "dash", "-seg_duration", "1"])
        .args(["-use_timeline", timeline, "-use_template", "1"])
        .args(["-init_seg_name", &format!("{name}$RepresentationID$.mp4")])
        .args([
            "-media_seg_name",
            &format!("{name}$RepresentationID$-$Number%03d$.m4s"),
        ])
        .arg(folder.join(format!("{name}.mpd")))
        .status()
        .expect("ffmpeg");
    assert!(status.success(), "ffmpeg made no DASH");
}

#[test]
fn what_ffmpeg_made_and_nginx_serves_is_played_too() {
    let path = film("progressive").path;
    let nginx = Nginx::start(|root| {
        hls(&path, root, "fragments", "fmp4");
        hls(&path, root, "transport", "mpegts");
        dash(&path, root, "timeline", "1");
        dash(&path, root, "numbers", "0");
    });
    let against = format!("--against={}", path.display());
    for (name, compared) in [("fragments", 350), ("transport", 0)] {
        let url = format!("http://{}/{name}.m3u8", nginx.address);
        let (code, printed, report) = yardstick(&[&url, &against, "--buffer=1", "--duration=3"]);
        assert_eq!((code, faults(&report)), (0, vec![]), "{printed}");
        assert!(
            report["each"][0]["compared"].as_u64() >= Some(compared),
            "{printed}"
        );
        assert_eq!(report["each"][0]["packets"], 5, "{printed}");
    }
    for name in ["timeline", "numbers"] {
        let url = format!("http://{}/{name}.mpd", nginx.address);
        let (code, printed, report) = yardstick(&[&url, &against, "--buffer=1", "--duration=2"]);
        assert_eq!((code, faults(&report)), (0, vec![]), "{printed}");
        assert_eq!(report["each"][0]["protocol"], "DASH");
        assert!(
            report["each"][0]["compared"].as_u64() >= Some(350),
            "{printed}"
        );
    }
    // A folder is not a film.
    let (code, _, report) = yardstick(&[&format!("http://{}/missing.m3u8", nginx.address)]);
    assert_eq!((code, report["verdict"].as_str()), (1, Some("refused")));
}

/// What happens to a response: gets the requested path and the whole response, and returns how long
/// the response is delayed.
type Deed = fn(&str, &mut Vec<u8>) -> Duration;

/// Starts a proxy between a player and `server`.
fn between(server: SocketAddr, deed: Deed) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || serve(client, server, deed));
        }
    });
    address
}

fn serve(mut client: TcpStream, server: SocketAddr, deed: Deed) {
    let (mut request, mut bytes) = (Vec::new(), [0; 4096]);
    while !request.ends_with(b"\r\n\r\n") {
        match client.read(&mut bytes) {
            Ok(read @ 1..) => request.extend_from_slice(&bytes[..read]),
            _ => return,
        }
    }
    let text = String::from_utf8_lossy(&request).into_owned();
    let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
    // Every response is the last on its connection.
    let text = text.replacen("HTTP/1.1\r\n", "HTTP/1.1\r\nConnection: close\r\n", 1);
    // One segment in place of another.
    let text = text.replace("/swapped2.m4s", "/swapped4.m4s");
    let mut answer = Vec::new();
    let Ok(mut upstream) = TcpStream::connect(server) else {
        return;
    };
    upstream.write_all(text.as_bytes()).ok();
    upstream.read_to_end(&mut answer).ok();
    thread::sleep(deed(&path, &mut answer));
    client.write_all(&answer).ok();
}

const AT_ONCE: Duration = Duration::ZERO;

#[test]
fn whatever_goes_wrong_over_http_is_caught_and_named() {
    let path = film("progressive").path;
    let nginx = Nginx::start(|root| {
        for name in ["film", "swapped"] {
            hls(&path, root, name, "fmp4");
        }
    });
    let cases: [(&str, &str, Deed, Option<&str>, i32); 9] = [
        ("nothing", "film", |_, _| AT_ONCE, None, 0),
        (
            "refuses a segment",
            "film",
            |path, answer| {
                if path.ends_with("film3.m4s") {
                    *answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec();
                }
                AT_ONCE
            },
            Some("broken_off"),
            1,
        ),
        (
            "breaks off within a segment",
            "film",
            |path, answer| {
                if path.ends_with("film3.m4s") {
                    answer.truncate(answer.len() / 2);
                }
                AT_ONCE
            },
            Some("broken_off"),
            1,
        ),
        (
            "is slower than the film",
            "film",
            |path, _| match path.ends_with("film3.m4s") {
                true => Duration::from_secs(5),
                false => AT_ONCE,
            },
            Some("stalled"),
            1,
        ),
        (
            "falls silent",
            "film",
            |path, _| match path.ends_with("film3.m4s") {
                true => Duration::from_secs(60),
                false => AT_ONCE,
            },
            Some("broken_off"),
            1,
        ),
        (
            "changes a byte",
            "film",
            |path, answer| {
                if path.ends_with("film2.m4s") {
                    let middle = answer.len() - 100;
                    answer[middle] ^= 1;
                }
                AT_ONCE
            },
            Some("changed"),
            1,
        ),
        (
            "lies about a length",
            "film",
            |path, answer| {
                if path.ends_with(".m3u8") {
                    let text = String::from_utf8_lossy(answer).into_owned();
                    // The length stays the same, so that the header stays correct.
                    *answer = text.replacen("#EXTINF:1.0", "#EXTINF:1.7", 1).into_bytes();
                }
                AT_ONCE
            },
            Some("timeline"),
            0,
        ),
        (
            "gives another segment",
            "swapped",
            |_, _| AT_ONCE,
            Some("timeline"),
            1,
        ),
        (
            "has a page for people",
            "film",
            |_, answer| {
                *answer = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>".to_vec();
                AT_ONCE
            },
            Some("no_film"),
            1,
        ),
    ];
    let against = format!("--against={}", path.display());
    let wrong: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = cases
            .into_iter()
            .map(|(name, film, deed, fault, code)| {
                let (server, against) = (nginx.address, &against);
                scope.spawn(move || {
                    let url = format!("http://{}/{film}.m3u8", between(server, deed));
                    let patience = if name == "falls silent" { "2" } else { "10" };
                    let (told_code, printed, report) = yardstick(&[
                        &url,
                        against,
                        "--buffer=1",
                        &format!("--patience={patience}"),
                    ]);
                    let named = faults(&report);
                    let right = match fault {
                        Some(fault) => named.contains(&fault),
                        None => named.is_empty(),
                    };
                    (!right || told_code != code)
                        .then(|| format!("one who {name}: code {told_code}, {printed}"))
                })
            })
            .collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().expect("a case"));
        joined.flatten().collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
