//! Viewers, in a process of their own, that do not read what they are sent or keep asking for
//! retransmissions: `unread SERVER URL COUNT SOURCES MANNER`.
//!
//! Each plays the film at URL from a different position, with a small receive buffer, from one of
//! SOURCES loopback addresses. MANNER is `stop` (over TCP, reads nothing more), `drip` (over TCP,
//! reads a byte per second) or `again` (over UDP, requests the packets of the last two seconds
//! again, four times per second). When all have tried to play, the program prints how many were
//! admitted. Until it reads a line from standard input, viewers only play. It exits at the end of
//! standard input.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use reelway_tests::rtsp::{Client, Rtp, UdpTrack};

/// The number of threads that start viewers.
const THREADS: usize = 8;

/// The interval between a viewer's requests, and their number in two seconds.
const ASKS: Duration = Duration::from_millis(250);
const TWO_SECONDS: usize = 8;

/// The number of groups into which viewers are divided; the groups act one after the other.
const PARTS: usize = 50;

/// The number of packets that one entry of a request names (RFC 4585, section 6.2.1).
const RUN: u16 = 17;

/// How viewers behave.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    Stop,
    Drip,
    Again,
}

struct Viewer {
    client: Client,
    /// The tracks of a viewer over UDP; empty over TCP.
    tracks: Vec<Asking>,
}

/// A track over UDP, and the last sequence numbers found in its buffer, newest first.
struct Asking {
    track: UdpTrack,
    last: VecDeque<u16>,
}

impl Asking {
    /// Requests everything that was sent in the two seconds before the last packet in the buffer.
    fn ask_again(&mut self, server: SocketAddr) {
        let mut buffer = [0; 2048];
        let mut last = None;
        while let Ok(len) = self.track.rtp.recv(&mut buffer) {
            last = Rtp::parse(&buffer[..len]).ok().map(|packet| packet.seq);
        }
        let Some(seq) = last else {
            return;
        };
        self.last.push_front(seq);
        self.last.truncate(TWO_SECONDS);
        let sent = self.last.back().map_or(0, |first| seq.wrapping_sub(*first));
        let runs: Vec<(u16, u16)> = (1..=sent.div_ceil(RUN).clamp(1, 6))
            .map(|run| (seq.wrapping_sub(RUN * run), u16::MAX))
            .collect();
        self.track.ask_again(server.ip(), &runs);
    }
}

impl Viewer {
    /// Reads a byte. A closed connection stays closed.
    fn drip(&self) -> Result<()> {
        self.client.stream().set_nonblocking(true)?;
        let _ = self.client.stream().read(&mut [0]);
        Ok(())
    }
}

struct Crowd {
    server: SocketAddr,
    url: String,
    count: usize,
    sources: usize,
    manner: Manner,
    next: AtomicUsize,
    viewers: Mutex<Vec<Viewer>>,
}

impl Crowd {
    fn connect(&self, number: usize) -> Result<TcpStream> {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        socket.set_recv_buffer_size(4096)?;
        let source = Ipv4Addr::new(127, 0, 3, 1 + (number % self.sources) as u8);
        socket.bind(&SocketAddr::from((source, 0)).into())?;
        socket.connect_timeout(&self.server.into(), Duration::from_secs(10))?;
        Ok(socket.into())
    }

    fn play(&self, number: usize) -> Result<Viewer> {
        let mut client = Client::from_stream(self.connect(number)?);
        let tracks = match self.manner {
            Manner::Again => client.setup_udp_as("RTP/AVPF", &self.url)?,
            Manner::Stop | Manner::Drip => {
                client.setup_tcp(&self.url)?;
                Vec::new()
            }
        };
        for track in &tracks {
            // A few packets: those in the buffer are recent.
            socket2::SockRef::from(&track.rtp).set_recv_buffer_size(4096)?;
            track.rtp.set_nonblocking(true)?;
        }
        // Positions are 0.1 s apart, in no order: in the first 50 s, or in the first 20 s for
        // viewers that play on.
        let places = if self.manner == Manner::Again {
            200
        } else {
            500
        };
        let range = format!("npt={:.1}-", (number * 77 % places) as f64 / 10.0);
        client.send("PLAY", &self.url, &[("Range", &range)])?;
        let answer = client.response(Duration::from_secs(60))?;
        ensure!(answer.status == 200, "PLAY: {answer:?}");
        let asking = |track| Asking {
            track,
            last: VecDeque::new(),
        };
        let tracks = tracks.into_iter().map(asking).collect();
        Ok(Viewer { client, tracks })
    }

    fn come(&self) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count {
                return;
            }
            match self.play(number) {
                Ok(viewer) => self.viewers.lock().expect("the viewers").push(viewer),
                Err(error) => eprintln!("viewer {number}: {error:#}"),
            }
        }
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [server, url, count, sources, manner] = words.as_slice() else {
        bail!("unread SERVER URL COUNT SOURCES stop|drip|again");
    };
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let manner = match manner.as_str() {
        "stop" => Manner::Stop,
        "drip" => Manner::Drip,
        "again" => Manner::Again,
        other => bail!("{other}: stop, drip, or again"),
    };
    let crowd = Crowd {
        manner,
        server: server.parse()?,
        url: url.clone(),
        count: count.parse()?,
        sources: sources.parse::<usize>()?.clamp(1, 250),
        next: AtomicUsize::new(0),
        viewers: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| crowd.come());
        }
    });
    let Crowd {
        server, viewers, ..
    } = crowd;
    let mut viewers = viewers.into_inner().ok().context("the viewers")?;
    println!("{}", viewers.len());
    io::stdout().flush()?;
    io::stdin().read_line(&mut String::new())?;
    let ended = std::thread::spawn(|| io::stdin().read_to_end(&mut Vec::new()));
    let pause = match manner {
        Manner::Again => ASKS,
        Manner::Stop | Manner::Drip => Duration::from_secs(1),
    };
    // Viewers act at different times, as people do.
    let mut part = 0;
    while !ended.is_finished() {
        for viewer in viewers.iter_mut().skip(part).step_by(PARTS) {
            match manner {
                Manner::Stop => {}
                Manner::Drip => viewer.drip()?,
                Manner::Again => viewer
                    .tracks
                    .iter_mut()
                    .for_each(|track| track.ask_again(server)),
            }
        }
        part = (part + 1) % PARTS;
        std::thread::sleep(pause / PARTS as u32);
    }
    Ok(())
}
