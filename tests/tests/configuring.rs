//! How a server is configured, and what it reports: configuration, addresses, logs.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use reelway_tests::network::{Network, OTHER, VIEWER, VIEWER_V6};
use reelway_tests::ports::Ports;
use reelway_tests::rtsp::{Client, Rtp};
use reelway_tests::server::Options;
use reelway_tests::{films, http, wait};
use serde_json::Value;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn flags_go_over_the_environment_and_that_over_the_file() {
    let library = films::library(&["video_only"]);
    let answers = |at: &str| http::get(at.parse().expect("an address"), "/healthz").is_ok();
    let soon = |at: &str| wait::until(seconds(20), || answers(at).then_some(())).is_some();
    let ports = [Ports::local(), Ports::local()];
    let [of_environment, of_flag] = ports.each_ref().map(|ports| ports.at().to_string());

    // The file says "human" and has another port.
    let server = Options::new(library.path())
        .set("log.format", "\"human\"")
        .env("REELWAY_LOG_FORMAT", "json")
        .env("REELWAY_HTTP", &of_environment)
        .spawn();
    assert!(soon(&of_environment), "{}", server.log());
    assert!(!answers(&server.http.to_string()), "the file's port");
    let said = server.wait_for_log(&["films are ready"], seconds(20));
    let line: Value = serde_json::from_str(&said).expect("a line of JSON");
    assert_eq!(line["level"], "INFO");
    drop(server);

    let server = Options::new(library.path())
        .env("REELWAY_LOG_FORMAT", "json")
        .flag("--log-format", "human")
        .env("REELWAY_HTTP", &of_environment)
        .flag("--http", &of_flag)
        .spawn();
    assert!(soon(&of_flag), "{}", server.log());
    assert!(!answers(&of_environment), "the environment's port");
    let said = server.wait_for_log(&["films are ready"], seconds(20));
    assert!(serde_json::from_str::<Value>(&said).is_err(), "{said}");
}

#[test]
fn a_session_s_story_is_one_line_of_json() {
    let library = films::library(&["seeks"]);
    let server = Options::new(library.path())
        .set("log.format", "\"json\"")
        .start();
    server.wait_indexed();
    let mut client = Client::connect(server.rtsp).expect("a connection");
    let url = server.rtsp_url("seeks");
    client.setup_tcp(&url).expect("SETUP");
    assert_eq!(client.request("PLAY", &url, &[]).expect("PLAY").status, 200);
    // More packets than one turn sends: the sender counts those of earlier turns before these
    // arrive.
    for _ in 0..40 {
        client.frame(seconds(5)).expect("a packet");
    }
    client.request("TEARDOWN", &url, &[]).expect("TEARDOWN");
    let line = server.wait_for_log(&["session ended"], seconds(10));
    let line: Value = serde_json::from_str(&line).expect("a line of JSON");
    let story = &line["fields"];
    assert_eq!(story["message"], "session ended: left", "{line}");
    assert_eq!(
        (&story["protocol"], &story["title"]),
        (&Value::from("rtsp/tcp"), &Value::from("seeks"))
    );
    assert_eq!(story["peer"], client.local().to_string(), "{line}");
    assert!(story["packets"].as_u64() > Some(0), "{line}");
    assert!(story["seconds"].is_number() && story["bytes"].is_number());
    let stories = server.log().matches("session ended").count();
    assert_eq!(stories, 1);
}

#[test]
fn a_pool_beyond_what_may_be_locked_is_used_all_the_same_and_the_limit_is_told() {
    let library = films::library(&["faststart"]);
    let server = Options::new(library.path())
        .under(&[
            "prlimit",
            "--memlock=65536:65536",
            "setpriv",
            "--bounding-set=-ipc_lock",
        ])
        .start();
    server.wait_indexed();
    let wanted = ["block pool of", "the limit is 64 KiB", "ulimit -l"];
    server.wait_for_log(&wanted, seconds(10));
    assert_eq!(server.get("/faststart/file").status, 200);
}

#[test]
fn a_pool_larger_than_the_memory_is_refused_with_what_there_is() {
    let output = Command::new(reelway_tests::server::binary())
        .args(["serve", "--pool", "900TiB", "/tmp"])
        .output()
        .expect("the server");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("memory") && said.contains("smaller"),
        "{said}"
    );
}

#[test]
fn the_limit_of_descriptors_is_raised() {
    let library = films::library(&["video_only"]);
    let server = Options::new(library.path())
        .under(&["prlimit", "--nofile=256:5000"])
        .start();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid()));
    let limits = limits.expect("the limits of a child");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3));
    assert_eq!(soft, Some("5000"), "{limits}");
}

/// Receives RTP of the first track over UDP from the server at `rtsp`, and returns its source
/// address.
fn origin_of_media(rtsp: SocketAddr, title: &str) -> IpAddr {
    let mut client = Client::connect(rtsp).expect("a connection");
    let url = format!("rtsp://{rtsp}/{title}");
    let tracks = client.setup_udp(&url).expect("SETUP");
    assert_eq!(client.request("PLAY", &url, &[]).expect("PLAY").status, 200);
    let socket: &UdpSocket = &tracks[0].rtp;
    socket
        .set_read_timeout(Some(seconds(10)))
        .expect("a socket");
    let mut packet = [0; 2048];
    let (length, from) = socket.recv_from(&mut packet).expect("a packet");
    Rtp::parse(&packet[..length]).expect("RTP");
    from.ip()
}

#[test]
fn media_leaves_from_the_address_that_rtsp_was_given_by_flag() {
    let library = films::library(&["seeks"]);
    let mut server = Options::new(library.path())
        .flag("--rtsp", "127.0.0.2:0")
        .flag("--rtp-ports", "0,0")
        .start();
    server.wait_indexed();
    // Port 0 means any free port: the log shows the one that is bound.
    let said = server.wait_for_log(&["RTSP ", "rtsp://127.0.0.2:"], seconds(10));
    let address = said.split("rtsp://").nth(1).expect("an address");
    let address = address.split('/').next().expect("an address");
    server.rtsp = address.parse().expect("an address");
    assert_eq!(origin_of_media(server.rtsp, "seeks"), server.rtsp.ip());
}

#[test]
fn opened_to_the_network_it_prints_every_address_the_ports_and_a_code_for_telephones() {
    let library = films::library(&["seeks"]);
    let network = Network::new();
    // A host with two IPv4 addresses and one IPv6 address, and without a route to anywhere else.
    let server = network.as_viewer(|| {
        let server = Options::new(library.path())
            .namespace(network.viewer(), VIEWER)
            .set("listen", "\"lan\"")
            .start();
        server.wait_indexed();
        server
    });
    let said = server.log();
    let says = |words: &str| assert!(said.contains(words), "no \"{words}\" in\n{said}");
    says(&format!("page   http://{}/\n", server.http));
    says(&format!("RTSP   rtsp://{}/TITLE\n", server.rtsp));
    says(&format!("reached by {OTHER}, [{VIEWER_V6}] as well"));
    let (rtsp, http, rtp) = (server.rtsp.port(), server.http.port(), server.rtp);
    says(&format!(
        "open to the network: let TCP {rtsp}, UDP {rtp} and {}, TCP {http} through the firewall",
        rtp + 1
    ));
    // The smallest QR code has 21 modules and a margin of 4 on each side; one line shows two rows.
    let rows = said
        .lines()
        .filter(|line| line.contains('█') && line.chars().count() >= 29);
    assert!(rows.count() >= 12, "{said}");

    // The addresses work from another host, and media is sent from the address of the request.
    for ip in [VIEWER, OTHER, VIEWER_V6] {
        let at = SocketAddr::new(ip, http);
        let page = network.as_server(|| http::get(at, "/healthz"));
        assert_eq!(page.expect("an answer").status, 200, "{at}");
        let at = SocketAddr::new(ip, rtsp);
        assert_eq!(network.as_server(|| origin_of_media(at, "seeks")), ip);
    }
}
