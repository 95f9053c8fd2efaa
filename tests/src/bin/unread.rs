//! Viewers who do not read what they are sent, as a process of its own: `unread SERVER URL COUNT SOURCES MANNER`.
//!
//! Each plays the film at URL over TCP from a place of its own, with a small receive buffer, from one of SOURCES loopback
//! addresses. MANNER is `stop` (reads nothing more), or `drip` (a byte a second). When all have tried, it prints how many
//! were let in; it ends when its input does.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use reelway_tests::rtsp::Client;

/// Threads that let viewers come.
const THREADS: usize = 8;

struct Crowd {
    server: SocketAddr,
    url: String,
    count: usize,
    sources: usize,
    next: AtomicUsize,
    viewers: Mutex<Vec<Client>>,
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

    fn play(&self, number: usize) -> Result<Client> {
        let mut client = Client::from_stream(self.connect(number)?);
        client.setup_tcp(&self.url)?;
        // Places a tenth of a second apart in the first 50 s, in no order.
        let range = format!("npt={:.1}-", (number * 77 % 500) as f64 / 10.0);
        client.send("PLAY", &self.url, &[("Range", &range)])?;
        let answer = client.response(Duration::from_secs(60))?;
        ensure!(answer.status == 200, "PLAY: {answer:?}");
        Ok(client)
    }

    fn come(&self) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count {
                return;
            }
            match self.play(number) {
                Ok(client) => self.viewers.lock().expect("the viewers").push(client),
                Err(error) => eprintln!("viewer {number}: {error:#}"),
            }
        }
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [server, url, count, sources, manner] = words.as_slice() else {
        bail!("unread SERVER URL COUNT SOURCES stop|drip");
    };
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let crowd = Crowd {
        server: server.parse()?,
        url: url.clone(),
        count: count.parse()?,
        sources: sources.parse::<usize>()?.clamp(1, 250),
        next: AtomicUsize::new(0),
        viewers: Mutex::default(),
    };
    let drips = match manner.as_str() {
        "stop" => false,
        "drip" => true,
        other => bail!("{other}: stop or drip"),
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| crowd.come());
        }
    });
    let viewers = crowd.viewers.into_inner().ok().context("the viewers")?;
    println!("{}", viewers.len());
    io::stdout().flush()?;
    let ended = std::thread::spawn(|| io::stdin().read_to_end(&mut Vec::new()));
    while !ended.is_finished() {
        if drips {
            for viewer in &viewers {
                viewer.stream().set_nonblocking(true)?;
                // One that was closed stays closed.
                let _ = viewer.stream().read(&mut [0]);
            }
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
