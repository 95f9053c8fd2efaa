//! A link that downloads fill: packets marked as media go first, and viewers notice nothing.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use reelway_tests::films;
use reelway_tests::network::{Network, SERVER};
use reelway_tests::rtsp::{Client, UdpTrack};
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

use super::{after, by_ssrc, second, ssrc};

/// The lateness in nanoseconds from which a packet counts as late: a part of the time in the link's
/// queue.
const LATE: i64 = 120_000_000;
/// The bytes that the link carries in this time.
const CARRIED_IN_LATE: f64 = 20e6 / 8.0 * LATE as f64 / 1e9;

/// Clients that read a film over HTTP as fast as possible until they are stopped. There are many,
/// as the kernel lets each connection have only a few packets in the link's queue.
struct Downloads {
    stop: Arc<AtomicBool>,
    reader: JoinHandle<()>,
}

impl Downloads {
    fn begin(network: &Network, server: SocketAddr, count: usize) -> Downloads {
        let stop = Arc::new(AtomicBool::new(false));
        let request = format!("GET /load/file HTTP/1.1\r\nHost: {server}\r\n\r\n");
        let connect = |_| {
            let stream = TcpStream::connect(server).expect("a connection");
            stream.set_nonblocking(true).expect("a socket");
            stream
        };
        let mut streams: Vec<_> = network.as_viewer(|| (0..count).map(connect).collect());
        for stream in &mut streams {
            stream.write_all(request.as_bytes()).expect("a request");
        }
        let its = Arc::clone(&stop);
        let reader = std::thread::spawn(move || {
            let mut bytes = vec![0; 64 << 10];
            while !its.load(Ordering::Relaxed) {
                for stream in &mut streams {
                    while stream.read(&mut bytes).is_ok_and(|read| read > 0) {}
                }
                std::thread::sleep(second(0.002));
            }
        });
        Downloads { stop, reader }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.reader.join().expect("the reader");
    }
}

/// The packets that viewers received in some time.
#[derive(Debug, Default)]
struct Seen {
    packets: usize,
    late: usize,
    missing: usize,
    /// Bytes over TCP.
    bulk: usize,
}

/// Watches the cable for some time. `bases` has the earliest arrival seen for RTP time 0 of each
/// stream.
fn see(
    network: &Network,
    server: &Server,
    pictures: &[u32],
    bases: &mut BTreeMap<u32, i64>,
    seconds: f64,
) -> Seen {
    let capture = network.capture();
    std::thread::sleep(second(seconds));
    let packets = capture.finish().expect("a capture");
    let mut seen = Seen::default();
    for packet in packets.iter().filter(|packet| packet.from == server.http) {
        seen.bulk += packet.payload.len();
    }
    for (ssrc, came) in by_ssrc(&packets, server) {
        // Video only: audio has a different clock, and few packets.
        if !pictures.contains(&ssrc) {
            continue;
        }
        let begin = |at: u64, time: u32| at as i64 - i64::from(time) * 1_000_000_000 / 90_000;
        for came in &came {
            let base = bases.entry(ssrc).or_insert(i64::MAX);
            *base = (*base).min(begin(came.at, came.rtp.time));
            seen.packets += 1;
            seen.late += usize::from(begin(came.at, came.rtp.time) - *base > LATE);
        }
        for pair in came.windows(2) {
            seen.missing += usize::from(after(pair[1].rtp.seq, pair[0].rtp.seq) != 1);
        }
    }
    seen
}

/// Waits until unmarked packets wait in their queue for longer than [`LATE`].
fn wait_for_full_queue(network: &Network) {
    let full = wait::until(second(20.0), || {
        let shown = network.on_server("tc -s class show dev wire classid 1:20");
        let waits = shown.split_once("backlog ")?.1.split_once("b ")?.0;
        // In K or M if it is a round number, and 1.5e+06 for a million and a half.
        let (number, unit) = match (waits.strip_suffix('K'), waits.strip_suffix('M')) {
            (Some(number), _) => (number, 1024.0),
            (_, Some(number)) => (number, 1024.0 * 1024.0),
            _ => (waits, 1.0),
        };
        let bytes = number.parse::<f64>().ok()? * unit;
        (bytes > CARRIED_IN_LATE).then_some(())
    });
    assert!(full.is_some(), "downloads do not fill the link");
}

#[test]
fn downloads_that_fill_the_link_do_not_hold_up_media() {
    let network = Network::new();
    let library = films::library(&["load"]);
    // Downloads are as fast as the link.
    let options = Options::new(library.path())
        .set("http.ahead", 3600)
        .namespace(network.server(), SERVER);
    let server = network.as_viewer(|| {
        let server = options.start();
        server.wait_indexed();
        server
    });
    // A link of 20 Mbit/s that prefers AF41, as routers at home and at work do.
    network.on_server("tc qdisc add dev wire root handle 1: htb default 20");
    network.on_server("tc class add dev wire parent 1: classid 1:1 htb rate 20mbit ceil 20mbit");
    network.on_server(
        "tc class add dev wire parent 1:1 classid 1:10 htb rate 14mbit ceil 20mbit prio 0",
    );
    network.on_server(
        "tc class add dev wire parent 1:1 classid 1:20 htb rate 6mbit ceil 20mbit prio 1",
    );
    network.on_server(
        "tc filter add dev wire parent 1: protocol ip prio 1 u32 match ip tos 0x88 0xfc flowid 1:10",
    );
    // Count packets by the priority that this machine's queues use.
    network.on_server("nft add table inet marks");
    network.on_server("nft add chain inet marks out { type filter hook postrouting priority 0 ; }");
    for (name, what) in [
        ("total", ""),
        ("urgent", "meta priority 0:6 "),
        ("marked", "ip dscp af41 "),
    ] {
        network.on_server(&format!("nft add counter inet marks {name}"));
        network.on_server(&format!(
            "nft add rule inet marks out udp sport {} {what}counter name {name}",
            server.rtp
        ));
    }
    let mut viewers: Vec<(Client, Vec<UdpTrack>)> = network.as_viewer(|| {
        let url = server.rtsp_url("load");
        (0..2)
            .map(|_| {
                let mut client = Client::connect(server.rtsp).expect("a connection");
                let tracks = client.setup_udp(&url).expect("SETUP");
                let answer = client.request("PLAY", &url, &[]).expect("PLAY");
                assert_eq!(answer.status, 200, "{answer:?}");
                (client, tracks)
            })
            .collect()
    });
    let pictures: Vec<u32> = viewers.iter().map(|(_, tracks)| ssrc(&tracks[0])).collect();
    let mut bases = BTreeMap::new();
    // The film's first picture alone exceeds what the link carries in the picture's time.
    std::thread::sleep(second(0.6));
    let alone = see(&network, &server, &pictures, &mut bases, 0.6);
    let downloads = Downloads::begin(&network, server.http, 200);
    wait_for_full_queue(&network);
    let beside = see(&network, &server, &pictures, &mut bases, 0.7);
    // The same without a separate queue shows the effect of the marks.
    network.on_server("tc filter del dev wire parent 1: prio 1");
    wait_for_full_queue(&network);
    let unsorted = see(&network, &server, &pictures, &mut bases, 0.7);
    downloads.end();
    viewers.clear();
    // Nothing more is sent, so that everything is counted.
    drop(server);

    println!("alone: {alone:?}\nbeside downloads: {beside:?}\nunsorted: {unsorted:?}");
    assert!(alone.packets > 300 && beside.packets > 500, "media came");
    assert!(
        beside.bulk > alone.bulk + 500_000,
        "downloads filled the link"
    );
    assert_eq!((alone.missing, beside.missing), (0, 0), "nothing is lost");
    let in_time = |seen: &Seen| seen.packets - seen.late;
    assert!(
        in_time(&beside) > 4 * in_time(&unsorted),
        "sorted by its mark media comes in time, and otherwise waits or is lost behind downloads"
    );
    let count = |name: &str| {
        let said = network.on_server(&format!("nft list counter inet marks {name}"));
        let mut words = said.split_whitespace();
        words.find(|word| *word == "packets");
        let count = words.next().and_then(|count| count.parse::<u64>().ok());
        count.unwrap_or_else(|| panic!("no count: {said}"))
    };
    let all = count("total");
    assert!(all > 300, "{all} runs of packets");
    assert_eq!(
        (count("urgent"), count("marked")),
        (all, all),
        "all carry both marks"
    );
}
