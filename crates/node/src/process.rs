//! A server for an experiment: another process, on a core of its own.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use reelway_sys::children;

/// A running `reelway serve`. It ends when this is dropped, or when the thread that started it ends
/// for any reason.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Its RTSP address.
    pub rtsp: SocketAddr,
    /// Its HTTP address.
    pub http: SocketAddr,
}

impl Server {
    /// Starts this very binary on `films`, on core 0 alone, and waits until every film is ready.
    ///
    /// # Errors
    /// It does not start, or is not ready within a minute.
    pub fn start(films: &Path, state: &Path, extra: &[&str]) -> anyhow::Result<Server> {
        Server::start_on(0, films, state, extra)
    }

    /// Like [`Server::start`], on core `core`, which this program may use or has left to the
    /// server.
    ///
    /// # Errors
    /// Those of [`Server::start`].
    pub fn start_on(
        core: usize,
        films: &Path,
        state: &Path,
        extra: &[&str],
    ) -> anyhow::Result<Server> {
        let program = std::env::current_exe()?;
        let (rtsp, http) = (free_port()?, free_port()?);
        // Always explicit: a child process inherits its parent's cores.
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string()]).arg(program);
        command.arg("serve").arg(films).arg("--state").arg(state);
        command.args([
            "--rtsp",
            &rtsp.to_string(),
            "--http",
            &http.to_string(),
            "--rtp-ports",
            "0,0",
            "--log",
            "warn",
        ]);
        command
            .args(extra)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = children::end_with_parent(&mut command)
            .spawn()
            .context("starting the server (taskset is in util-linux)")?;
        // The output is drained, so that the server never blocks on a full pipe.
        let output = BufReader::new(child.stdout.take().context("its output")?);
        std::thread::spawn(move || output.lines().for_each(drop));
        let mut server = Server { child, rtsp, http };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        for _ in 0..600 {
            ensure!(
                self.child.try_wait()?.is_none(),
                "the server ended at once; see its message above"
            );
            if let Ok(answer) = get(self.http, "/readyz")
                && answer.starts_with("HTTP/1.1 200")
            {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("the server was not ready after a minute")
    }

    /// Returns its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the server's user and system time so far in seconds, from the kernel's accounting.
    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in parentheses may contain anything; numbers follow it.
        let (_, numbers) = stat.rsplit_once(')').context("/proc/PID/stat")?;
        let field = |number: usize| {
            numbers
                .split_whitespace()
                .nth(number)
                .and_then(|text| text.parse::<f64>().ok())
        };
        let ticks = field(11)
            .zip(field(12))
            .map(|(user, system)| user + system)
            .context("/proc/PID/stat")?;
        // USER_HZ is 100 on every Linux architecture in use.
        Ok(ticks / 100.0)
    }

    /// Returns the peak of its resident memory in bytes.
    pub fn peak_memory(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .context("VmHWM")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes * 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Sends a small HTTP request and returns the whole answer as text.
pub fn get(server: SocketAddr, path: &str) -> anyhow::Result<String> {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
