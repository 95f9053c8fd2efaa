//! Connections that send requests at a fixed rate, and count and discard the bytes they receive.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use nix::sys::socket::{MsgFlags, recv};

/// Size of a segment in bytes.
pub const SEGMENT: u64 = 2 << 20;
/// The most bytes that one call discards.
const CHUNK: usize = 1 << 20;

/// The target of requests.
#[derive(Clone, Debug)]
pub enum Target {
    /// A file for each segment, at `/NUMBER` below this path.
    Files(SocketAddr, &'static str),
    /// Ranges of one file.
    Parts(SocketAddr, &'static str),
}

impl Target {
    fn server(&self) -> SocketAddr {
        let (Target::Files(server, _) | Target::Parts(server, _)) = self;
        *server
    }

    fn request(&self, (segment, bytes): (u64, u64), connection: usize) -> String {
        let (path, range) = match self {
            Target::Files(_, path) => (format!("{path}/{segment}"), String::new()),
            Target::Parts(_, path) => {
                let from = segment * bytes;
                let to = from + bytes - 1;
                ((*path).to_owned(), format!("Range: bytes={from}-{to}\r\n"))
            }
        };
        format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: bench-{connection}\r\n{range}\r\n",
            self.server()
        )
    }
}

/// A load: connections, request rate and target.
#[derive(Clone, Debug)]
pub struct Load {
    pub target: Target,
    pub connections: usize,
    /// Segments per second, over all connections.
    pub rate: f64,
    /// Number of segments.
    pub segments: u64,
    /// Size of each in bytes: [`SEGMENT`], or less.
    pub bytes: u64,
    /// Whether they are requested in an order in which read-ahead cannot guess the next.
    pub shuffled: bool,
}

/// Result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub requests: u64,
    pub bytes: u64,
    /// Requests made more than one period of their connection after they were due.
    pub late: u64,
}

/// A connection.
struct Asker {
    number: usize,
    stream: BufReader<TcpStream>,
    waste: Vec<u8>,
}

impl Asker {
    fn new(load: &Load, number: usize) -> anyhow::Result<Asker> {
        let server = load.target.server();
        let stream = TcpStream::connect(server).with_context(|| server.to_string())?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Asker {
            number,
            // Small, since the part of the body that arrives with the head is copied.
            stream: BufReader::with_capacity(1024, stream),
            waste: vec![0; CHUNK],
        })
    }

    /// Sends a request and reads the head of the response.
    fn ask(&mut self, load: &Load, segment: u64) -> anyhow::Result<()> {
        let request = load.target.request((segment, load.bytes), self.number);
        self.stream.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        let mut length = None;
        for number in 0..100 {
            line.clear();
            (&mut self.stream).take(4096).read_line(&mut line)?;
            let text = line.trim_end();
            if number == 0 {
                let is_good = matches!(text.split(' ').nth(1), Some("200" | "206"));
                ensure!(is_good, "segment {segment} was answered with '{text}'");
                continue;
            }
            if text.is_empty() {
                break;
            }
            if let Some((name, value)) = text.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok();
            }
        }
        ensure!(
            length == Some(load.bytes),
            "segment {segment} has {length:?} bytes"
        );
        Ok(())
    }

    /// Has the kernel discard the body of the response.
    fn waste(&mut self, load: &Load) -> anyhow::Result<()> {
        let ahead = self.stream.buffer().len();
        self.stream.consume(ahead);
        let mut left = (load.bytes as usize).saturating_sub(ahead);
        let fd = self.stream.get_ref().as_raw_fd();
        while left > 0 {
            let most = left.min(CHUNK);
            match recv(fd, &mut self.waste[..most], MsgFlags::MSG_TRUNC) {
                Ok(0) => bail!("the server closed in the middle of an answer"),
                Ok(bytes) => left -= bytes,
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error).context("the server sends no more"),
            }
        }
        Ok(())
    }
}

impl Load {
    /// Returns the segment of the `turn`th request.
    fn segment(&self, turn: u64) -> u64 {
        // An odd factor reaches all segments, whose number is a power of two.
        let factor = if self.shuffled { 197 } else { 1 };
        turn.wrapping_mul(factor) % self.segments
    }

    /// Requests some segments, and compares them with the film.
    pub fn compare(&self, film: &Path) -> anyhow::Result<()> {
        let film = File::open(film)?;
        let mut asker = Asker::new(self, 0)?;
        let bytes = self.bytes as usize;
        let (mut got, mut right) = (vec![0; bytes], vec![0; bytes]);
        for segment in [0, 1, self.segments - 1] {
            asker.ask(self, segment)?;
            asker.stream.read_exact(&mut got)?;
            film.read_exact_at(&mut right, segment * self.bytes)?;
            ensure!(got == right, "segment {segment} came with other bytes");
        }
        Ok(())
    }

    /// Requests these segments, one after the other.
    pub fn fetch(&self, segments: impl IntoIterator<Item = u64>) -> anyhow::Result<()> {
        let mut asker = Asker::new(self, 0)?;
        for segment in segments {
            asker.ask(self, segment)?;
            asker.waste(self)?;
        }
        Ok(())
    }

    /// Sends requests for `time`, from the `first`th turn on; calls `after` for each segment
    /// received.
    pub fn run(
        &self,
        time: Duration,
        first: u64,
        after: &(dyn Fn(u64) + Sync),
    ) -> anyhow::Result<Done> {
        let began = reelway_clock::now();
        let period = self.connections as f64 / self.rate;
        let of_one = |number: usize| -> anyhow::Result<Done> {
            let mut asker = Asker::new(self, number)?;
            let mut done = Done::default();
            for nth in 0.. {
                let turn = nth * self.connections as u64 + number as u64;
                let due = Duration::from_secs_f64((turn + 1) as f64 / self.rate);
                if due > time {
                    break;
                }
                let now = reelway_clock::now().since(began);
                std::thread::sleep(due.saturating_sub(now));
                done.late += u64::from(now > due + Duration::from_secs_f64(period));
                let segment = self.segment(first + turn);
                asker.ask(self, segment)?;
                asker.waste(self)?;
                after(segment);
                done.requests += 1;
                done.bytes += self.bytes;
            }
            Ok(done)
        };
        let of_one = &of_one;
        let done: Vec<anyhow::Result<Done>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.connections)
                .map(|number| scope.spawn(move || of_one(number)))
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined
                .map(|done| done.unwrap_or_else(|_| bail!("a connection's thread ended")))
                .collect()
        });
        let mut sum = Done::default();
        for done in done {
            let done = done?;
            sum.requests += done.requests;
            sum.bytes += done.bytes;
            sum.late += done.late;
        }
        Ok(sum)
    }
}
