//! The savings by the preload library in real programs: PostgreSQL's `EXPLAIN ANALYZE`, which reads
//! the clock twice per row, and Redis, which reads it several times per command.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use reelway_sys::children::end_with_parent;
use serde::Serialize;

use super::cost::said;
use super::tools::Tools;
use crate::stats::Spread;

/// The ways, which take turns.
const WAYS: [&str; 3] = ["without", "ordered", "unordered"];

/// A program's figures.
#[derive(Debug, Serialize)]
pub struct Program {
    /// Name of the program and of its work.
    pub name: String,
    /// Unit of its figure.
    pub unit: String,
    /// Whether more is better.
    pub more_is_better: bool,
    /// The figure without the library, with it, and with it unordered: one value per round.
    pub figures: [Vec<f64>; 3],
    /// Calls of the library in one round.
    pub calls: u64,
    /// Duration of that round in seconds.
    pub seconds: f64,
}

impl Program {
    fn new(name: &str, unit: &str, more_is_better: bool) -> Program {
        Program {
            name: name.into(),
            unit: unit.into(),
            more_is_better,
            figures: Default::default(),
            calls: 0,
            seconds: 0.0,
        }
    }

    /// Returns a way's figure over the rounds.
    pub fn figure(&self, way: usize) -> Spread {
        Spread::of(self.figures[way].clone())
    }

    /// Returns a way's figure divided by the one without the library, paired by rounds.
    pub fn ratio(&self, way: usize) -> Spread {
        let pairs = self.figures[way].iter().zip(&self.figures[0]);
        Spread::of(pairs.map(|(with, without)| with / without).collect())
    }

    /// Returns the calls of clock functions per second.
    pub fn calls_a_second(&self) -> f64 {
        self.calls as f64 / self.seconds
    }
}

/// Measures both programs.
pub fn measure(tools: &Tools, folder: &Path, rounds: u32) -> anyhow::Result<Vec<Program>> {
    Ok(vec![
        postgresql(tools, folder, rounds)?,
        redis(tools, folder, rounds)?,
    ])
}

/// Adds the library to a command, unless the way is without it.
fn with(command: &mut Command, tools: &Tools, way: usize) {
    if way > 0 {
        command.env("LD_PRELOAD", &tools.library);
        command.env(
            "REELWAY_CLOCK_ORDER",
            if way == 2 { "none" } else { "auto" },
        );
    }
}

/// Returns the sum of the calls in the library's lines of counts.
fn calls(counts: &str) -> u64 {
    counts
        .split([',', ':', '\n'])
        .filter_map(|part| part.trim().split_once(' '))
        .filter(|(name, _)| ["clock_gettime", "gettimeofday", "time"].contains(name))
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .sum()
}

/// Finds a program of PostgreSQL, which Debian installs outside `PATH`.
fn of_postgresql(name: &str) -> anyhow::Result<PathBuf> {
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    let versions = (11..=20)
        .rev()
        .map(|v| PathBuf::from(format!("/usr/lib/postgresql/{v}/bin")));
    std::env::split_paths(&dirs)
        .chain(versions)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("no {name} (apt-get install postgresql), or --program-rounds 0"))
}

/// Returns a command for the program; as root, it runs as PostgreSQL's own user, since PostgreSQL
/// refuses to run as root.
fn as_its_user(program: &Path) -> Command {
    if nix::unistd::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=postgres", "--regid=postgres", "--clear-groups"])
            .arg(program);
        command
    } else {
        Command::new(program)
    }
}

fn postgresql(tools: &Tools, folder: &Path, rounds: u32) -> anyhow::Result<Program> {
    const ROWS: u32 = 2_000_000;
    let (postgres, data) = (of_postgresql("postgres")?, folder.join("postgresql"));
    std::fs::create_dir_all(&data)?;
    if nix::unistd::geteuid().is_root() {
        let user = nix::unistd::User::from_name("postgres")?.context("no user postgres")?;
        nix::unistd::chown(&data, Some(user.uid), Some(user.gid))?;
        open_to_all(folder)?;
    }
    let initdb = of_postgresql("initdb")?;
    said(
        as_its_user(&initdb)
            .args(["--no-sync", "--auth=trust", "-D"])
            .arg(&data),
    )?;
    let query = format!(
        "explain (analyze, timing on) select count(*) from generate_series(1, {ROWS}) as row;\n"
    );
    let once = |way: usize, counts: Option<&Path>| -> anyhow::Result<f64> {
        let mut command = as_its_user(&postgres);
        command.args(["--single", "-D"]).arg(&data).arg("postgres");
        with(&mut command, tools, way);
        if let Some(path) = counts {
            command.env("REELWAY_CLOCK_STATISTICS", path);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = Running(end_with_parent(&mut command).spawn().context("postgres")?);
        let mut input = child.0.stdin.take().context("postgres has no input")?;
        input.write_all(query.as_bytes())?;
        drop(input);
        let mut text = String::new();
        child
            .0
            .stdout
            .take()
            .context("postgres has no output")?
            .read_to_string(&mut text)?;
        child.0.wait()?;
        // `"Execution Time: 123.456 ms"`
        let (_, after) = text
            .split_once("Execution Time: ")
            .with_context(|| format!("PostgreSQL has not explained: {text}"))?;
        let number = after
            .split(' ')
            .next()
            .and_then(|number| number.parse().ok());
        number.context("PostgreSQL's time is no number")
    };
    let name = format!("PostgreSQL, EXPLAIN ANALYZE of {ROWS} rows");
    let mut program = Program::new(&name, "ms", false);
    once(0, None)?;
    for _ in 0..rounds {
        for (way, figures) in program.figures.iter_mut().enumerate() {
            figures.push(once(way, None)?);
        }
    }
    let counts = counts_file(folder)?;
    program.seconds = once(1, Some(&counts))? / 1e3;
    program.calls = calls(&std::fs::read_to_string(&counts)?);
    Ok(program)
}

fn open_to_all(path: &Path) -> anyhow::Result<()> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path, mode).with_context(|| path.display().to_string())
}

/// Creates an empty file to which any user may append.
fn counts_file(folder: &Path) -> anyhow::Result<PathBuf> {
    let path = folder.join("counts");
    std::fs::write(&path, "")?;
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666))?;
    Ok(path)
}

/// A child process that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Redis server that runs in one way.
struct Redis {
    child: Running,
    port: u16,
}

impl Redis {
    fn start(tools: &Tools, way: usize, counts: Option<&Path>) -> anyhow::Result<Redis> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
        ]);
        with(&mut command, tools, way);
        if let Some(path) = counts {
            command.env("REELWAY_CLOCK_STATISTICS", path);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = end_with_parent(&mut command)
            .spawn()
            .context("no redis-server (apt-get install redis-server), or --program-rounds 0")?;
        let redis = Redis {
            child: Running(child),
            port,
        };
        for _ in 0..500 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(redis);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("redis-server does not answer on port {port}");
    }

    /// Measures commands per second: `count` GETs over one connection, in batches of 64.
    fn throughput(&self, count: u32) -> anyhow::Result<f64> {
        const PIPELINE: u32 = 64;
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        let mut answers = BufReader::new(stream.try_clone()?);
        let batch = "*2\r\n$3\r\nGET\r\n$1\r\na\r\n".repeat(PIPELINE as usize);
        let mut line = String::new();
        let begin = reelway_clock::now();
        for _ in 0..count / PIPELINE {
            stream.write_all(batch.as_bytes())?;
            for _ in 0..PIPELINE {
                line.clear();
                answers.read_line(&mut line)?;
                if line != "$-1\r\n" {
                    bail!("Redis answers {line:?}");
                }
            }
        }
        Ok(f64::from(count) / (reelway_clock::now() - begin).as_secs_f64())
    }

    /// Ends it with SIGTERM, so that the library writes its counts.
    fn stop(mut self) -> anyhow::Result<()> {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.0.id())?);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)?;
        self.child.0.wait()?;
        Ok(())
    }
}

fn redis(tools: &Tools, folder: &Path, rounds: u32) -> anyhow::Result<Program> {
    const COMMANDS: u32 = 256_000;
    let mut program = Program::new("Redis, pipelined GET", "commands/s", true);
    let servers: Vec<Redis> = (0..WAYS.len())
        .map(|way| Redis::start(tools, way, None))
        .collect::<anyhow::Result<_>>()?;
    for server in &servers {
        server.throughput(COMMANDS / 8)?;
    }
    for _ in 0..rounds {
        for (server, figures) in servers.iter().zip(&mut program.figures) {
            figures.push(server.throughput(COMMANDS)?);
        }
    }
    drop(servers);
    let counts = counts_file(folder)?;
    let server = Redis::start(tools, 1, Some(&counts))?;
    program.seconds = f64::from(COMMANDS) / server.throughput(COMMANDS)?;
    server.stop()?;
    program.calls = calls(&std::fs::read_to_string(&counts)?);
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_summed_over_functions_and_processes() {
        let counts = "reelway-clock[1]: clock_gettime 10, gettimeofday 5, passed on 99, real: looks 3\n\
                      reelway-clock[2]: time 7\n";
        assert_eq!(calls(counts), 22);
    }

    #[test]
    fn ratios_are_paired_by_rounds() {
        let mut program = Program::new("a", "ms", false);
        program.figures = [vec![10.0, 20.0, 30.0], vec![9.0, 16.0, 30.0], vec![]];
        assert_eq!(
            program.ratio(1),
            Spread {
                low: 0.8,
                median: 0.9,
                high: 1.0
            }
        );
    }
}
