//! The yardstick detects faults: a proxy in front of a real server loses, delays, reorders,
//! repeats, bursts, freezes, lies, and changes bytes; each is caught and named. The same for
//! servers that are not RTSP servers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use reelway_tests::between::{Between, Deed, HONEST, Manner};
use reelway_tests::films::{film, library, temp_dir};
use reelway_tests::probe;
use reelway_tests::server::Server;
use reelway_tests::yardstick::yardstick;
use serde_json::Value;
use socket2::{Domain, Socket, Type};

fn faults(verdict: &Value) -> Vec<String> {
    let findings = verdict["each"][0]["verdict"]["findings"].as_array();
    let fault = |finding: &Value| finding["fault"].as_str().unwrap_or_default().to_owned();
    findings.into_iter().flatten().map(fault).collect()
}

/// What the proxy does, the fault that must be named (`None`: no fault), and whether a viewer
/// notices it.
struct Case {
    name: &'static str,
    manner: Manner,
    fault: Option<&'static str>,
    seen: bool,
    more: &'static [&'static str],
}

fn case(name: &'static str, deed: Deed, fault: &'static str, seen: bool) -> Case {
    Case {
        name,
        manner: Manner { deed, ..HONEST },
        fault: Some(fault),
        seen,
        more: &[],
    }
}

/// Changes RTP-Info so that the video (the first entry) is off by a second.
fn lie_in_rtp_info(answer: String) -> String {
    let Some(at) = answer.find("rtptime=") else {
        return answer;
    };
    let (head, tail) = answer.split_at(at + 8);
    let digits = tail
        .find(|c: char| !c.is_ascii_digit())
        .expect("more after it");
    let time: u32 = tail[..digits].parse().expect("a number");
    format!("{head}{}{}", time.wrapping_sub(90_000), &tail[digits..])
}

/// Changes RTP-Info so that it names another first packet of the video: far away, or shortly after
/// the first.
fn lie_in_rtp_info_seq(answer: String) -> String {
    raise_seq(answer, 5000)
}

fn raise_rtp_info_seq_by_7(answer: String) -> String {
    raise_seq(answer, 7)
}

fn raise_seq(answer: String, by: u16) -> String {
    let Some(at) = answer.find("seq=").filter(|_| answer.contains("rtptime=")) else {
        return answer;
    };
    let (head, tail) = answer.split_at(at + 4);
    let digits = tail
        .find(|c: char| !c.is_ascii_digit())
        .expect("more after it");
    let seq: u16 = tail[..digits].parse().expect("a number");
    format!("{head}{}{}", seq.wrapping_add(by), &tail[digits..])
}

fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case {
            fault: None,
            ..case("nothing", HONEST.deed, "", false)
        },
        case(
            "loses",
            |_, packet| match packet.is_picture() && packet.number % 40 == 20 {
                true => vec![],
                false => vec![0],
            },
            "lost",
            true,
        ),
        Case {
            more: &["--repair"],
            ..case(
                "loses, and sends again what is asked for,",
                |bytes, packet| {
                    let again = bytes[1] & 0x7f != 96 && bytes[1] & 0x7f != 97;
                    match !packet.is_report && !again && packet.number % 40 == 20 {
                        true => vec![],
                        false => vec![0],
                    }
                },
                "repaired",
                false,
            )
        },
        case(
            "delays",
            |_, packet| vec![if packet.at > 1500 { 4000 } else { 0 }],
            "stalled",
            true,
        ),
        case(
            "delays one",
            |_, packet| {
                let one = packet.is_picture() && packet.number == 30;
                vec![if one { 3000 } else { 0 }]
            },
            "skipped",
            true,
        ),
        case(
            "reorders",
            |_, packet| {
                vec![if !packet.is_report && packet.number % 20 == 10 {
                    200
                } else {
                    0
                }]
            },
            "reordered",
            false,
        ),
        case(
            "repeats",
            |_, packet| match packet.number % 20 {
                10 => vec![0, 5],
                _ => vec![0],
            },
            "repeated",
            false,
        ),
        Case {
            more: &["--burst", "16"],
            ..case(
                "bursts",
                |_, packet| vec![1000 - packet.at % 1000],
                "burst",
                true,
            )
        },
        Case {
            more: &["--patience", "2"],
            ..case(
                "freezes",
                |_, packet| match packet.at > 1500 || packet.is_report {
                    true => vec![],
                    false => vec![0],
                },
                "broken_off",
                true,
            )
        },
        case(
            "changes a byte",
            |bytes, packet| {
                if packet.is_picture() && packet.number == 40 {
                    *bytes.last_mut().expect("a byte") ^= 1;
                }
                vec![0]
            },
            "changed",
            true,
        ),
        case(
            "lies in the sender reports of the sound",
            |bytes, packet| {
                if packet.is_report && packet.track == 1 && bytes[1] == 200 {
                    // Adds a second to the 32 bits of seconds in its NTP time.
                    let seconds = u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
                    bytes[8..12].copy_from_slice(&(seconds + 1).to_be_bytes());
                }
                vec![0]
            },
            "sync",
            true,
        ),
    ];
    let lie = |name, answer, fault| Case {
        manner: Manner { answer, ..HONEST },
        ..case(name, HONEST.deed, fault, false)
    };
    cases.push(Case {
        seen: true,
        ..lie("lies in RTP-Info's time", lie_in_rtp_info, "rtp_info")
    });
    cases.push(lie(
        "lies in RTP-Info's number",
        lie_in_rtp_info_seq,
        "rtp_info",
    ));
    cases
}

#[test]
fn whatever_a_server_does_wrong_is_caught_and_named() {
    let films = library(&["progressive"]);
    let server = Server::start(films.path());
    let path = film("progressive").path;
    let path = path.to_str().expect("a path of text");
    // All at the same time: most of the time is waiting.
    let wrong: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = cases()
            .into_iter()
            .map(|case| {
                let server = &server;
                scope.spawn(move || {
                    let between = Between::start(server.rtsp, case.manner);
                    let url = format!("rtsp://{}/progressive", between.address);
                    let mut more = vec![&url[..], "--against", path, "--buffer", "1.5"];
                    more.extend(case.more);
                    let (code, _, verdict) = yardstick(&more);
                    let named = faults(&verdict);
                    let right = match case.fault {
                        Some(fault) => named.iter().any(|name| name == fault),
                        None => named.is_empty(),
                    };
                    let right = right && code == i32::from(case.seen);
                    (!right).then(|| format!("one who {}: code {code}, {verdict:#}", case.name))
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

#[test]
fn what_is_said_of_a_raised_sequence_number_is_true() {
    let films = library(&["progressive"]);
    let server = Server::start(films.path());
    let manner = Manner {
        answer: raise_rtp_info_seq_by_7,
        ..HONEST
    };
    let between = Between::start(server.rtsp, manner);
    let url = format!("rtsp://{}/progressive", between.address);
    let (_, printed, verdict) = yardstick(&[&url, "--duration", "2"]);
    assert_eq!(faults(&verdict), ["rtp_info"], "{printed}");
    let findings = &verdict["each"][0]["verdict"]["findings"];
    let said = findings[0]["words"].as_str().expect("words");
    let number = |before: &str| -> u16 {
        let (_, rest) = said.split_once(before).expect(said);
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..digits].parse().expect(said)
    };
    let announced = number("sequence number ");
    assert_eq!(
        number("first that came is "),
        announced.wrapping_sub(7),
        "{said}"
    );
    assert!(said.contains("(7 earlier)"), "{said}");
    assert!(
        said.ends_with(&format!("{announced} came as packet 8")),
        "{said}"
    );
}

#[test]
fn a_film_from_two_senders_at_once_is_put_together_and_fed_to_a_player() {
    let films = library(&["progressive"]);
    let server = Server::start(films.path());
    let manner = Manner {
        two_senders: true,
        ..HONEST
    };
    let between = Between::start(server.rtsp, manner);
    let film = film("progressive").path;
    let against = format!("--against={}", film.display());
    let dir = temp_dir("pipe");
    let (fed, page) = (dir.path().join("fed.ts"), dir.path().join("report.html"));
    let (code, printed, report) = yardstick(&[
        &format!("rtsp://{}/progressive", between.address),
        &against,
        "--buffer=60",
        &format!("--pipe=cat > {}", fed.display()),
        &format!("--report={}", page.display()),
    ]);
    assert_eq!((code, faults(&report)), (0, vec![]), "{printed}");
    let senders = report["each"][0]["senders"].as_object().expect("senders");
    // Each track has two senders: one of them at the second address.
    assert_eq!(senders.len(), 4, "{senders:?}");
    assert!(printed.contains("from 4 senders"), "{printed}");
    // The player receives every picture, whole and in order, and the audio.
    let seen = |path: &Path| {
        probe::receive(&probe::Wanted {
            before: &[],
            input: path.to_str().expect("a path of text"),
            picture: Some("h264"),
            sound: true,
            decode: true,
            limit: Duration::from_secs(60),
        })
    };
    let (sent, got) = (seen(&film), seen(&fed));
    assert!(!sent.frames.frames.is_empty());
    assert_eq!(sent.frames.hashes(), got.frames.hashes(), "{printed}");
    assert!(sent.nals == got.nals, "other NAL units");
    let (sent, got) = (sent.sound.frames.len(), got.sound.frames.len());
    // Priming samples are not played.
    assert!(
        (sent - 3..=sent).contains(&got),
        "{got} of {sent} of the sound"
    );
    let text = std::fs::read_to_string(&page).expect("a report");
    let data = text.split("application/json\">").nth(1).expect("data");
    let data = data.split("</script>").next().expect("its end");
    let data: Value = serde_json::from_str(data).expect("JSON");
    let samples = data["story"]["samples"].as_array().expect("a course");
    let packets: u64 = samples
        .iter()
        .filter_map(|sample| sample["packets"].as_u64())
        .sum();
    assert_eq!(Some(packets), report["packets"].as_u64());
    assert!(samples.len() >= 5, "{samples:?}");
}

#[test]
fn opus_is_fed_to_a_player_too() {
    let films = library(&["opus"]);
    let server = Server::start(films.path());
    let dir = temp_dir("opus");
    let fed = dir.path().join("fed.ts");
    let (code, printed, report) = yardstick(&[
        &format!("rtsp://{}/opus", server.rtsp),
        "--buffer=60",
        "--duration=2",
        &format!("--pipe=cat > {}", fed.display()),
    ]);
    assert_eq!((code, faults(&report)), (0, vec![]), "{printed}");
    assert!(!printed.contains("left out"), "{printed}");
    let got = probe::receive(&probe::Wanted {
        before: &[],
        input: fed.to_str().expect("a path of text"),
        picture: Some("h264"),
        sound: true,
        decode: true,
        limit: Duration::from_secs(60),
    });
    assert!(
        got.frames.frames.len() > 20 && got.sound.frames.len() > 40,
        "{printed}"
    );
}

/// Starts a server that responds to every client with `answer`.
fn listener(answer: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || answer(client));
        }
    });
    address
}

#[test]
fn what_is_no_server_is_told_in_clear_words() {
    // Bound and not listening: nobody else gets the port meanwhile.
    let nobody = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    nobody.bind(&any.into()).expect("a port");
    let closed = nobody
        .local_addr()
        .ok()
        .and_then(|address| address.as_socket())
        .expect("an address");
    let web = listener(|mut client| {
        let _request = client.read(&mut [0; 4096]);
        client
            .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            .ok();
    });
    let endless = listener(|mut client| while client.write_all(&[b'x'; 4096]).is_ok() {});
    let endless_headers = listener(|mut client| {
        client.write_all(b"RTSP/1.0 200 OK\r\n").ok();
        while client.write_all(b"A: b\r\n").is_ok() {}
    });
    let gone = listener(|mut client| {
        let _request = client.read(&mut [0; 4096]);
    });
    let chunks = listener(|mut client| {
        client
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            .ok();
        let chunk = [b"1000\r\n", &[b'x'; 0x1000][..], b"\r\n"].concat();
        while client.write_all(&chunk).is_ok() {}
    });
    let drops = listener(|mut client| {
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok();
        while client.write_all(b"#").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    for (address, words, patience) in [(chunks, "a body over", "10"), (drops, "within", "0.5")] {
        let url = format!("http://{address}/a.m3u8");
        let (code, printed, _) = yardstick(&[&url, "--patience", patience]);
        assert_eq!(code, 1, "{printed}");
        assert!(printed.contains(words), "{printed}");
    }
    for (address, verdict, words) in [
        (closed, "unreachable", "is the server running there?"),
        (web, "no_film", "a web server answers there"),
        (endless, "no_film", "answer"),
        (endless_headers, "no_film", "longer than"),
        (gone, "no_film", "closed the connection"),
    ] {
        let (code, _, report) = yardstick(&[&format!("rtsp://{address}/a")]);
        assert_eq!(
            (code, report["verdict"].as_str()),
            (1, Some(verdict)),
            "{report:#}"
        );
        let said = report["each"][0]["verdict"]["findings"][0]["words"]
            .as_str()
            .unwrap_or_default();
        assert!(said.contains(words), "{said}");
    }
}
