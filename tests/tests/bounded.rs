//! Memory is bounded: 200 viewers of 20 films at different positions, 20 of whom are TCP clients
//! that stopped reading; the others lose nothing. Needs root for the control group.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use reelway_tests::cgroup::Cgroup;
use reelway_tests::films::{self, temp_dir};
use reelway_tests::rtsp::{Client, Rtp, rtp_info};
use reelway_tests::server::Options;
use reelway_tests::wait::Deadline;

const FILMS: usize = 20;
const WATCHING: usize = 180;
const STOPPED: usize = 20;
const POOL: u64 = 96 << 20;
/// Memory per viewer in addition to the pool.
const PER_VIEWER: u64 = 64 << 10;
/// Memory of the server in addition to pool and viewers.
const SERVER: u64 = 64 << 20;
/// How long all of them watch at the same time.
const TIME: Duration = Duration::from_secs(20);

/// A viewer over UDP.
struct Viewer {
    client: Client,
    url: String,
    title: usize,
    ssrcs: Vec<u32>,
}

/// The packets received from one SSRC.
#[derive(Default)]
struct Counted {
    next: Option<u16>,
    packets: u64,
    holes: u64,
}

#[test]
fn two_hundred_viewers_of_twenty_films_stay_within_their_memory_and_the_readers_lose_nothing() {
    // Each film is a separate file, so that no block serves two of them.
    let dir = temp_dir("library");
    let copy = |from: &str, to: String| {
        fs::copy(films::film(from).path, dir.path().join(to)).expect("a copy");
    };
    fs::hard_link(films::film("huge").path, dir.path().join("film0.mp4")).expect("a link");
    (1..FILMS).for_each(|n| copy("seeks", format!("film{n}.mp4")));
    copy("load", "stopped.mp4".into());

    let group = Cgroup::new("bounded").expect("a control group");
    let server = Options::new(dir.path())
        .set("pool.size", format!("{POOL}"))
        .set("log.level", "\"warn\"")
        .cgroup(group.dir())
        .start();
    server.wait_indexed();

    // One socket pair per film: its viewers are distinguished by their SSRC.
    let sockets: Vec<(UdpSocket, UdpSocket, u16)> = (0..FILMS).map(|_| socket_pair()).collect();
    let mut viewers = Vec::new();
    for n in 0..WATCHING {
        let title = n % FILMS;
        let url = server.rtsp_url(&format!("film{title}"));
        let mut client = Client::connect(server.rtsp).expect("a connection");
        let (_, media) = client.describe(&url).expect("DESCRIBE");
        let port = sockets[title].2;
        let transport = format!("RTP/AVP;unicast;client_port={port}-{}", port + 1);
        let setup = |control: &String| {
            let answer = client
                .request("SETUP", control, &[("Transport", &transport)])
                .expect("SETUP");
            let ssrc = answer
                .header("transport")
                .split("ssrc=")
                .nth(1)
                .map(|rest| rest.split(';').next().unwrap_or(""));
            u32::from_str_radix(ssrc.expect("an SSRC"), 16).expect("eight hex digits")
        };
        let ssrcs = media.iter().map(setup).collect();
        viewers.push(Viewer {
            client,
            url,
            title,
            ssrcs,
        });
    }
    let mut stopped: Vec<Client> = (0..STOPPED)
        .map(|n| stop_reading(server.rtsp, &server.rtsp_url("stopped"), n))
        .collect();

    let mut counted: HashMap<u32, Counted> = HashMap::new();
    let deadline = Deadline::after(TIME);
    for (n, viewer) in viewers.iter_mut().enumerate() {
        // From 0 to 18 s, so that nobody reaches the end at 40 s.
        let range = format!("npt={:.1}-", n as f64 / 10.0);
        let answer = viewer
            .client
            .request("PLAY", &viewer.url, &[("Range", &range)])
            .expect("PLAY");
        assert_eq!(
            answer.status, 200,
            "viewer {n} of film{}: {answer:?}",
            viewer.title
        );
        let infos = rtp_info(answer.header("rtp-info")).expect("RTP-Info");
        for (ssrc, info) in viewer.ssrcs.iter().zip(&infos) {
            counted.insert(
                *ssrc,
                Counted {
                    next: Some(info.seq),
                    ..Counted::default()
                },
            );
        }
        receive(&sockets, &mut counted);
    }
    while !deadline.over() {
        if !receive(&sockets, &mut counted) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    let peak = group.peak().expect("the peak");
    let resident = server.memory().1;
    let limit = POOL + PER_VIEWER * (WATCHING + STOPPED) as u64 + SERVER;
    eprintln!(
        "peak: {} MiB in the control group, {} MiB resident; limit {} MiB",
        peak >> 20,
        resident >> 20,
        limit >> 20
    );
    assert!(
        peak <= limit,
        "{peak} bytes in the control group, {limit} allowed\n{}",
        group.story()
    );
    assert!(
        resident <= limit,
        "{resident} bytes resident, {limit} allowed"
    );

    // Audio is sent in eight or nine packets per second.
    let least = TIME.as_secs() * 6;
    for viewer in &viewers {
        for ssrc in &viewer.ssrcs {
            let of = &counted[ssrc];
            assert_eq!(of.holes, 0, "a viewer of film{} lost packets", viewer.title);
            assert!(
                of.packets > least,
                "a viewer of film{} got {} packets",
                viewer.title,
                of.packets
            );
        }
    }
    // Viewers that stopped fall behind alone: beyond the lag their sessions end, or they still hold
    // what is theirs.
    stopped.clear();
    drop(viewers);
    drop(server);
}

/// Receives all packets that have arrived; returns whether there were any.
fn receive(sockets: &[(UdpSocket, UdpSocket, u16)], counted: &mut HashMap<u32, Counted>) -> bool {
    let mut buffer = [0; 2048];
    let mut any = false;
    for (rtp, rtcp, _) in sockets {
        loop {
            match rtp.recv(&mut buffer) {
                Ok(len) => {
                    any = true;
                    let packet = Rtp::parse(&buffer[..len]).expect("RTP");
                    // Packets that arrive before the response to PLAY was read are counted from
                    // their sequence number on.
                    let of = counted.entry(packet.ssrc).or_default();
                    let expected = of.next.unwrap_or(packet.seq);
                    let ahead = packet.seq.wrapping_sub(expected) as i16;
                    if ahead >= 0 {
                        of.holes += ahead as u64;
                        of.packets += 1;
                        of.next = Some(packet.seq.wrapping_add(1));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        while rtcp.recv(&mut buffer).is_ok() {}
    }
    any
}

fn socket_pair() -> (UdpSocket, UdpSocket, u16) {
    for _ in 0..500 {
        let first = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let port = first.local_addr().expect("an address").port();
        if port.is_multiple_of(2)
            && let Ok(second) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port + 1))
        {
            first.set_nonblocking(true).expect("a socket");
            second.set_nonblocking(true).expect("a socket");
            socket2::SockRef::from(&first)
                .set_recv_buffer_size(4 << 20)
                .ok();
            return (first, second, port);
        }
    }
    panic!("no pair of free ports");
}

/// Plays over TCP with a small window, and stops reading after the response to PLAY.
fn stop_reading(server: SocketAddr, url: &str, number: usize) -> Client {
    let socket =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small window");
    socket.connect(&server.into()).expect("a connection");
    let mut client = Client::from_stream(TcpStream::from(socket));
    client.setup_tcp(url).expect("SETUP");
    let range = format!("npt={number}-");
    let answer = client
        .request("PLAY", url, &[("Range", &range)])
        .expect("PLAY");
    assert_eq!(answer.status, 200, "{answer:?}");
    client
}
