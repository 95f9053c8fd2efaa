//! `reelway bench http --bodies`: the cost of a megabyte for each way of sending a film's bytes
//! over TCP.
//!
//! For each way, a server that does nothing else is started on core 0, with one thread per
//! connection. Requests, bytes and accounting are the same as for whole servers. All bytes are in
//! memory: in the page cache, or in the process's own memory, like film blocks.

use std::convert::Infallible;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use nix::fcntl::{FcntlArg, SpliceFFlags, fcntl, splice};
use nix::sys::sendfile::sendfile;
use nix::unistd::pipe;
use reelway_sys::region::Region;

use super::kind::{ServerKind, on};
use super::load::SEGMENT;
use super::segments::HOT;
use crate::bed::{Child, cores};

/// Requested size of a pipe in bytes: the most for an ordinary user.
const PIPE: i32 = 1 << 20;
/// Bytes per read if they are copied twice.
const BUFFER: usize = 64 << 10;

/// Starts a server that sends `film` in one way; returns it and its address.
pub fn start(kind: ServerKind, film: &Path) -> anyhow::Result<(Child, SocketAddr)> {
    let program = std::env::current_exe()?;
    let program = program
        .to_str()
        .context("this program's path is not UTF-8")?;
    let mut command = on(&cores::server(), program);
    command.args([
        "bench",
        "http",
        "--serve-bodies",
        kind.way().context("no way to send")?,
    ]);
    let mut child = Child::start(command.arg("--film").arg(film))?;
    let line = child.lines().recv_timeout(Duration::from_secs(30));
    let at = line.context("it did not start")?;
    Ok((child, at.parse().context(at)?))
}

/// Where the bytes are, and how they are sent.
enum Way {
    /// From pinned memory, by `write`: one copy.
    Memory(Region),
    /// From the page cache, by `read` and `write`: two copies.
    Read(File),
    /// From the page cache, by `sendfile`: no copy.
    Sendfile(File),
    /// From the page cache, by `splice` over a pipe: no copy.
    Splice(File),
}

impl Way {
    fn open(name: &str, film: &Path) -> anyhow::Result<Way> {
        let file = File::open(film).with_context(|| film.display().to_string())?;
        Ok(match name {
            "write" => {
                let mut region = Region::map(HOT as usize, SEGMENT as usize)?;
                for (number, page) in (0..).zip(&mut region.pages) {
                    file.read_exact_at(page, number * SEGMENT)?;
                }
                Way::Memory(region)
            }
            "read" => Way::Read(file),
            "sendfile" => Way::Sendfile(file),
            "splice" => Way::Splice(file),
            _ => bail!("there is no way named '{name}'"),
        })
    }

    fn send(&self, segment: u64, mut to: &TcpStream) -> anyhow::Result<()> {
        let (begin, end) = (segment * SEGMENT, (segment + 1) * SEGMENT);
        match self {
            Way::Memory(region) => {
                let page = region.pages.get(segment as usize);
                to.write_all(page.context("no such segment")?)?;
            }
            Way::Read(file) => {
                let mut buffer = vec![0; BUFFER];
                let mut at = begin;
                while at < end {
                    let most = buffer.len().min((end - at) as usize);
                    let read = file.read_at(&mut buffer[..most], at)?;
                    ensure!(read > 0, "the film is too short");
                    to.write_all(&buffer[..read])?;
                    at += read as u64;
                }
            }
            Way::Sendfile(file) => {
                let mut at = begin as i64;
                while at < end as i64 {
                    let left = (end as i64 - at) as usize;
                    let sent = sendfile(to, file, Some(&mut at), left)?;
                    ensure!(sent > 0, "the film is too short");
                }
            }
            Way::Splice(file) => {
                let (from_pipe, to_pipe) = pipe()?;
                fcntl(&to_pipe, FcntlArg::F_SETPIPE_SZ(PIPE))?;
                let mut at = begin as i64;
                while at < end as i64 {
                    let most = ((end as i64 - at) as usize).min(PIPE as usize);
                    let flags = SpliceFFlags::SPLICE_F_MORE;
                    let mut held = splice(file, Some(&mut at), &to_pipe, None, most, flags)?;
                    ensure!(held > 0, "the film is too short");
                    while held > 0 {
                        held -= splice(&from_pipe, None, to, None, held, flags)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Runs the server: prints its address, and answers requests until it is killed.
pub fn serve(way: &str, film: &Path) -> anyhow::Result<Infallible> {
    let way = Arc::new(Way::open(way, film)?);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, way) = (listener.accept()?.0, Arc::clone(&way));
        std::thread::spawn(move || {
            if let Err(error) = answer(&stream, &way) {
                eprintln!("http: a connection: {error:#}");
            }
        });
    }
}

/// Answers requests for segments, each a range of the film, until the connection ends.
fn answer(stream: &TcpStream, way: &Way) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream);
    let (mut line, mut begin) = (String::new(), None);
    loop {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let text = line.trim_end();
        if let Some(range) = text.strip_prefix("Range: bytes=") {
            begin = range
                .split('-')
                .next()
                .and_then(|from| from.parse::<u64>().ok());
        }
        if text.is_empty() {
            let begin = begin.take().context("a request without a range")?;
            let mut to = stream;
            to.write_all(
                format!("HTTP/1.1 206 Partial Content\r\nContent-Length: {SEGMENT}\r\n\r\n")
                    .as_bytes(),
            )?;
            way.send(begin / SEGMENT, stream)?;
        }
    }
}
