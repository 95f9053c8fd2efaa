//! The yardstick can fail: between it and a real server stands one who loses, delays, reorders, repeats,
//! bursts, freezes, lies, and changes bytes; each is caught and named. And what is no server at all.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use reelway_tests::films::{film, library, temp_dir};
use reelway_tests::server::{Server, binary};
use serde_json::Value;
use socket2::{Domain, Socket, Type};

/// What stands between does with a packet: when it goes on, in ms, and how it looks then; nothing is
/// dropping it.
type Deed = fn(&mut Vec<u8>, Packet) -> Vec<u64>;

/// Which packet it is.
#[derive(Clone, Copy)]
struct Packet {
    /// 0 is the picture, 1 the sound.
    track: usize,
    is_report: bool,
    /// How many came before it on its way.
    number: u64,
    /// ms since the first.
    at: u64,
}

impl Packet {
    fn is_picture(self) -> bool {
        self.track == 0 && !self.is_report
    }
}

/// Somebody between a client and a server.
struct Between {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Drop for Between {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the one who waits for a client.
        TcpStream::connect(self.address).ok();
    }
}

impl Between {
    /// Stands before `server`; `deed` has the packets, `answer` the answers' heads.
    fn start(server: SocketAddr, deed: Deed, answer: fn(String) -> String) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        thread::spawn(move || {
            let Ok((client, _)) = listener.accept() else {
                return;
            };
            if !stopped.load(Ordering::Relaxed) {
                serve(client, server, deed, answer, &stopped);
            }
        });
        Between { address, stop }
    }
}

fn serve(
    mut client: TcpStream,
    server: SocketAddr,
    deed: Deed,
    answer: fn(String) -> String,
    stop: &Arc<AtomicBool>,
) {
    let mut server = TcpStream::connect(server).expect("the real server");
    let mut back = server.try_clone().expect("a descriptor");
    let mut to_client = client.try_clone().expect("a descriptor");
    thread::spawn(move || {
        let mut bytes = [0; 65536];
        while let Ok(read @ 1..) = back.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            if to_client.write_all(answer(text).as_bytes()).is_err() {
                break;
            }
        }
    });
    let (mut bytes, mut track) = ([0; 65536], 0);
    while let Ok(read @ 1..) = client.read(&mut bytes) {
        let mut text = String::from_utf8_lossy(&bytes[..read]).into_owned();
        if let Some(at) = text.find("client_port=") {
            let ports = text[at + 12..]
                .split("\r\n")
                .next()
                .expect("a line")
                .to_owned();
            let port: u16 = ports
                .split('-')
                .next()
                .and_then(|port| port.parse().ok())
                .expect("a port");
            let (rtp, rtcp) = pair();
            let own = rtp.local_addr().expect("an address").port();
            text = text.replace(&ports, &format!("{own}-{}", own + 1));
            for (socket, port, is_report) in [(rtp, port, false), (rtcp, port + 1, true)] {
                let stop = Arc::clone(stop);
                thread::spawn(move || forward(&socket, port, (track, is_report), deed, &stop));
            }
            track += 1;
        }
        server.write_all(text.as_bytes()).ok();
    }
    stop.store(true, Ordering::Relaxed);
}

fn pair() -> (UdpSocket, UdpSocket) {
    loop {
        let rtp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = rtp.local_addr().expect("an address").port();
        if port.is_multiple_of(2)
            && let Ok(rtcp) = UdpSocket::bind(("127.0.0.1", port + 1))
        {
            return (rtp, rtcp);
        }
    }
}

fn forward(
    socket: &UdpSocket,
    to: u16,
    (track, is_report): (usize, bool),
    deed: Deed,
    stop: &AtomicBool,
) {
    let millis = || reelway_clock::now().nanos() / 1_000_000;
    socket
        .set_read_timeout(Some(Duration::from_millis(2)))
        .expect("a timeout");
    let (mut bytes, mut number, mut first) = ([0; 65536], 0_u64, None);
    // By when they are to go, and in order of coming.
    let mut waiting: BTreeMap<(u64, u64), Vec<u8>> = BTreeMap::new();
    while !stop.load(Ordering::Relaxed) {
        if let Ok(read) = socket.recv(&mut bytes) {
            let mut packet = bytes[..read].to_vec();
            let now = millis();
            let at = now - *first.get_or_insert(now);
            let which = Packet {
                track,
                is_report,
                number,
                at,
            };
            for (copy, delay) in deed(&mut packet, which).into_iter().enumerate() {
                waiting.insert((now + delay, number * 4 + copy as u64), packet.clone());
            }
            number += 1;
        }
        let later = waiting.split_off(&(millis() + 1, 0));
        for packet in std::mem::replace(&mut waiting, later).values() {
            socket.send_to(packet, ("127.0.0.1", to)).ok();
        }
    }
}

fn as_it_is(_: &mut Vec<u8>, _: Packet) -> Vec<u64> {
    vec![0]
}

fn same(answer: String) -> String {
    answer
}

/// Runs the yardstick: exit code, and what it wrote for machines.
fn yardstick(url: &str, more: &[&str]) -> (i32, Value) {
    let dir = temp_dir("yardstick");
    let json = dir.path().join("verdict.json");
    let output = Command::new(binary())
        .args(["yardstick", url, "--json"])
        .arg(&json)
        .args(more)
        .output()
        .expect("the yardstick");
    let text = std::fs::read_to_string(&json).unwrap_or_else(|_| {
        panic!("no JSON: {}", String::from_utf8_lossy(&output.stderr));
    });
    let value = serde_json::from_str(&text).expect("JSON");
    (output.status.code().expect("an exit code"), value)
}

fn faults(verdict: &Value) -> Vec<String> {
    let findings = verdict["each"][0]["verdict"]["findings"].as_array();
    let fault = |finding: &Value| finding["fault"].as_str().unwrap_or_default().to_owned();
    findings.into_iter().flatten().map(fault).collect()
}

/// What is done, the fault by which it is to be named (none: none at all), and whether a viewer sees it.
struct Case {
    name: &'static str,
    deed: Deed,
    answer: fn(String) -> String,
    fault: Option<&'static str>,
    seen: bool,
    more: &'static [&'static str],
}

fn case(name: &'static str, deed: Deed, fault: &'static str, seen: bool) -> Case {
    Case {
        name,
        deed,
        answer: same,
        fault: Some(fault),
        seen,
        more: &[],
    }
}

/// RTP-Info that puts the picture (the first entry) a second beside where it is.
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

/// RTP-Info whose first packet is another.
fn lie_in_rtp_info_seq(answer: String) -> String {
    let Some(at) = answer.find("seq=").filter(|_| answer.contains("rtptime=")) else {
        return answer;
    };
    let (head, tail) = answer.split_at(at + 4);
    let digits = tail
        .find(|c: char| !c.is_ascii_digit())
        .expect("more after it");
    let seq: u16 = tail[..digits].parse().expect("a number");
    format!("{head}{}{}", seq.wrapping_add(5000), &tail[digits..])
}

fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case {
            fault: None,
            ..case("nothing", as_it_is, "", false)
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
                    // A second later, in the 32 bits of seconds of its clock.
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
        answer,
        ..case(name, as_it_is, fault, false)
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
    // All at once: most of the time is waiting.
    let wrong: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = cases()
            .into_iter()
            .map(|case| {
                let server = &server;
                scope.spawn(move || {
                    let between = Between::start(server.rtsp, case.deed, case.answer);
                    let url = format!("rtsp://{}/progressive", between.address);
                    let mut more = vec!["--against", path, "--buffer", "1.5"];
                    more.extend(case.more);
                    let (code, verdict) = yardstick(&url, &more);
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

/// Listens, and answers whoever comes in its own way.
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
    for (address, verdict, words) in [
        (closed, "unreachable", "is the server running there?"),
        (web, "no_film", "a web server answers there"),
        (endless, "no_film", "answer"),
        (endless_headers, "no_film", "longer than"),
        (gone, "no_film", "closed the connection"),
    ] {
        let (code, told) = yardstick(&format!("rtsp://{address}/a"), &[]);
        assert_eq!(
            (code, told["verdict"].as_str()),
            (1, Some(verdict)),
            "{told:#}"
        );
        let said = told["each"][0]["verdict"]["findings"][0]["words"]
            .as_str()
            .unwrap_or_default();
        assert!(said.contains(words), "{said}");
    }
}
