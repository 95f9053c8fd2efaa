//! HTTP over TLS: fetched by curl, played by ffmpeg and by an edge; certificates that are renewed
//! or wrong; clients that do not use TLS.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use reelway_tests::certificates::{Authority, Certificate};
use reelway_tests::players::{Ran, ffmpeg, run};
use reelway_tests::server::{Options, Server};
use reelway_tests::{films, lab, wait};

const LIMIT: Duration = Duration::from_secs(30);

/// Runs curl, which trusts only this authority.
fn curl(authority: &Authority, flags: &[&str], url: &str) -> Ran {
    let mut command = Command::new("curl");
    command
        .args(["--silent", "--show-error", "--fail", "--cacert"])
        .arg(authority.file())
        .args(flags)
        .arg(url);
    run(command, LIMIT)
}

/// Starts a server with a certificate; returns the authority that signed it, too.
fn server(films: &Path) -> (Server, Authority, tempfile::TempDir) {
    let (authority, dir) = (Authority::new(), films::temp_dir("certificate"));
    let server = Options::new(films).tls(&authority.sign(dir.path())).start();
    server.wait_indexed();
    (server, authority, dir)
}

/// The number of handshakes with this result.
fn handshakes(server: &Server, result: &str) -> u64 {
    let text = server.get("/metrics").text();
    let name = format!("reelway_http_tls_handshakes_total{{result=\"{result}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&*name));
    line.and_then(|count| count.parse().ok()).expect("a metric")
}

#[test]
fn films_are_fetched_with_every_cipher_of_both_versions() {
    let library = films::library(&["faststart"]);
    let (server, authority, _dir) = server(library.path());
    let film = fs::read(films::film("faststart").path).expect("the film");
    let old = [
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
    ];
    let new = [
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
    ];
    let old = old.map(|cipher| ["--tls-max", "1.2", "--ciphers", cipher]);
    let new = new.map(|cipher| ["--tlsv1.3", "--tls-max", "1.3", "--tls13-ciphers", cipher]);
    let all = old
        .iter()
        .map(|flags| &flags[..])
        .chain(new.iter().map(|flags| &flags[..]));
    for flags in all {
        let got = curl(&authority, flags, &server.https_url("faststart/file")).expect("curl");
        assert!(got.out == film, "{flags:?}");
    }
    assert_eq!(
        handshakes(&server, "kernel") + handshakes(&server, "library"),
        6
    );
    // Several requests over one connection.
    let twice = server.https_url("faststart/file");
    let got = curl(
        &authority,
        &[
            "--next",
            "--cacert",
            &authority.file().display().to_string(),
            &twice,
        ],
        &twice,
    );
    assert!(got.expect("curl").out == [&film[..], &film[..]].concat());
    assert_eq!(
        handshakes(&server, "kernel") + handshakes(&server, "library"),
        7
    );
    assert_eq!(handshakes(&server, "failed"), 0);
}

#[test]
fn a_player_gets_the_same_frames_as_without() {
    let library = films::library(&["faststart"]);
    let (server, _authority, _dir) = server(library.path());
    for path in ["faststart/hls/main.m3u8", "faststart/dash/main.mpd"] {
        let [with, without] = [server.https_url(path), server.http_url(path)].map(|url| {
            let arguments = [
                "-v", "error", "-i", &url, "-map", "0:v", "-f", "framemd5", "-",
            ];
            run(ffmpeg(arguments), LIMIT).expect("ffmpeg").out
        });
        assert!(with.len() > 1000 && with == without, "{path}");
    }
}

#[test]
fn the_page_changes_what_it_may() {
    let library = films::library(&["faststart"]);
    let (server, authority, _dir) = server(library.path());
    let origin = format!("Origin: https://{}", server.https);
    let token = format!("Authorization: Bearer {}", server.token());
    let flags = ["-X", "DELETE", "-H", &token, "-H"];
    let url = server.https_url("api/cache/faststart");
    let own = [&flags[..], &[&origin]].concat();
    curl(&authority, &own, &url).expect("a purge by the server's own page");
    let foreign = [&flags[..], &["Origin: https://evil.example"]].concat();
    let refused = curl(&authority, &foreign, &url);
    assert!(refused.err.contains("403"), "{}", refused.err);
}

#[test]
fn an_edge_gets_films_over_tls() {
    let library = films::library(&["faststart"]);
    let (origin, authority, _dir) = server(library.path());
    let edge = Options::edge(&origin.https_url(""))
        .env("SSL_CERT_FILE", authority.file().display())
        .start();
    edge.wait_indexed();
    let film = fs::read(films::film("faststart").path).expect("the film");
    assert!(edge.get("/faststart/file").body == film);
    assert!(handshakes(&origin, "kernel") + handshakes(&origin, "library") > 0);
}

#[test]
fn a_renewed_certificate_is_used_without_a_restart_and_a_broken_one_is_not() {
    let library = films::library(&["faststart"]);
    let (server, old, dir) = server(library.path());
    let url = server.https_url("healthz");
    let new = Authority::new();
    let is_trusted = || {
        let status = curl(&new, &[], &url).status.expect("curl");
        status.success()
    };
    assert!(!is_trusted(), "the first certificate is another's");
    curl(&old, &[], &url).expect("the first certificate");
    let files = new.sign(dir.path());
    let renewed = wait::until(LIMIT, || is_trusted().then_some(()));
    renewed.expect("the renewed certificate");
    fs::write(&files.chain, "no certificate").expect("a file");
    let said = server.wait_for_log(&["the previous certificate stays in use"], LIMIT);
    assert!(
        said.contains("tls.certificate") && said.contains("no certificate in it"),
        "{said}"
    );
    curl(&new, &[], &url).expect("the previous certificate");
}

#[test]
fn a_certificate_that_cannot_be_used_is_an_error_that_names_its_file() {
    let library = films::library(&["faststart"]);
    let (authority, dir, other) = (
        Authority::new(),
        films::temp_dir("certificate"),
        films::temp_dir("certificate"),
    );
    let good = authority.sign(dir.path());
    let text = dir.path().join("text");
    fs::write(&text, "text").expect("a file");
    let (chain, key) = (&good.chain, &good.key);
    let gone = &dir.path().join("gone.pem");
    for (chain, key, words) in [
        (gone, key, ["tls.certificate", "gone.pem: No such file"]),
        (
            &text,
            key,
            ["tls.certificate", "text: no certificate in it"],
        ),
        (chain, gone, ["tls.key", "gone.pem: No such file"]),
        (chain, &text, ["tls.key", "text: no private key in it"]),
        (
            chain,
            &authority.sign(other.path()).key,
            ["tls.key", "tv.key: of no use with"],
        ),
    ] {
        let files = Certificate {
            chain: chain.clone(),
            key: key.clone(),
        };
        let mut server = Options::new(library.path()).tls(&files).spawn();
        let status = server.wait(LIMIT);
        let said = server.log();
        assert!(status.is_some_and(|status| status != 0), "{said}");
        assert!(
            words.iter().all(|words| said.contains(words)),
            "{words:?}: {said}"
        );
    }
}

#[test]
fn who_does_not_speak_tls_is_sent_off_and_disturbs_nobody() {
    let library = films::library(&["faststart"]);
    let (server, authority, _dir) = server(library.path());
    let connect = || {
        let stream = TcpStream::connect(server.https).expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        stream
    };
    let _silent: Vec<TcpStream> = (0..100).map(|_| connect()).collect();
    let long = [&b"\x16\x03\x01\xff\xff"[..], &[0; 70_000]].concat();
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
        &[0; 3000],
        &long,
    ] {
        let mut stream = connect();
        // If this fails, the response shows why.
        let _ = stream.write_all(bytes);
        let mut came = Vec::new();
        let _ = stream.read_to_end(&mut came);
        assert!(came.len() < 100 && !came.starts_with(b"HTTP"), "{came:?}");
    }
    let url = server.https_url("faststart/file");
    curl(&authority, &[], &url).expect("a film beside them");
    assert_eq!(handshakes(&server, "failed"), 3);
}

/// Runs in the lab, as this machine's kernel may lack TLS.
#[test]
fn where_the_kernel_encrypts_films_are_the_same_and_cost_less() {
    lab::run("tls");
}
