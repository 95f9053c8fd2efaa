//! A Reelway server under test: the real binary, as a process, on free ports.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::certificates::Certificate;
use crate::films::{target_dir, temp_dir};
use crate::ports::Ports;
use crate::{http, wait};

/// Installs a filter (`struct sock_fprog`) with which the kernel rejects a system call with EPERM:
/// its number is the first argument. Then executes the program in the other arguments.
const WITHOUT_CALL: &str = "
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x15, 0, 1, int(sys.argv[1])), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]
rules = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *line) for line in code))
program = struct.pack('HxxxxxxP', len(code), ctypes.addressof(rules))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0, ctypes.get_errno()
os.execvp(sys.argv[2], sys.argv[2:])
";

/// How a server is started.
#[derive(Debug)]
pub struct Options {
    command: &'static str,
    films: Vec<PathBuf>,
    settings: Vec<(String, String)>,
    environment: Vec<(String, String)>,
    flags: Vec<String>,
    prefix: Vec<String>,
    address: IpAddr,
    state: Option<PathBuf>,
    cgroup: Option<PathBuf>,
    check_ports: bool,
}

/// A running server; it is killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The address for RTSP.
    pub rtsp: SocketAddr,
    /// The address for HTTP.
    pub http: SocketAddr,
    /// The address for HTTP over TLS, if enabled.
    pub https: SocketAddr,
    /// The RTP port; RTCP is the next one.
    pub rtp: u16,
    state: PathBuf,
    log: File,
    ports: Arc<Ports>,
    _dir: tempfile::TempDir,
}

impl Options {
    /// A server of the films in `films`, with default settings.
    pub fn new(films: impl AsRef<Path>) -> Options {
        Options {
            command: "serve",
            films: vec![films.as_ref().to_owned()],
            settings: Vec::new(),
            environment: Vec::new(),
            flags: Vec::new(),
            prefix: Vec::new(),
            address: Ipv4Addr::LOCALHOST.into(),
            state: None,
            cgroup: None,
            check_ports: true,
        }
    }

    /// A server without films.
    pub fn nothing() -> Options {
        let mut options = Options::new("");
        options.films.clear();
        options
    }

    /// An edge whose origin is the server at this address.
    pub fn edge(origin: &str) -> Options {
        Options {
            command: "edge",
            ..Options::new(origin)
        }
    }

    /// Adds a directory of films.
    pub fn films(mut self, films: impl AsRef<Path>) -> Options {
        self.films.push(films.as_ref().to_owned());
        self
    }

    /// Sets a key of the configuration file (`rtsp.timeout`) to a TOML value.
    pub fn set(mut self, key: &str, value: impl std::fmt::Display) -> Options {
        self.settings.push((key.to_owned(), value.to_string()));
        self
    }

    /// Also serves over TLS, with this certificate.
    pub fn tls(self, certificate: &Certificate) -> Options {
        self.set("tls.certificate", quoted(&certificate.chain))
            .set("tls.key", quoted(&certificate.key))
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl std::fmt::Display) -> Options {
        self.environment.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds a flag and its value.
    pub fn flag(mut self, name: &str, value: impl std::fmt::Display) -> Options {
        self.flags.extend([name.to_owned(), value.to_string()]);
        self
    }

    /// Lets the kernel reject the system call with this number (of x86-64) with EPERM, as Docker's
    /// seccomp profile rejects some.
    pub fn without_call(self, number: u32) -> Options {
        self.under(&["python3", "-c", WITHOUT_CALL, &number.to_string()])
    }

    /// Runs the server through a program that executes it, such as `prlimit`.
    pub fn under(mut self, program: &[&str]) -> Options {
        self.prefix = program.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Runs in a network namespace of `ip netns`, listening on an address there.
    pub fn namespace(mut self, name: &str, address: IpAddr) -> Options {
        self.prefix = ["ip", "netns", "exec", name].map(str::to_owned).to_vec();
        self.address = address;
        self.check_ports = false;
        self
    }

    /// Drops no frames and moves no timetables: the whole film is sent with its own times even if
    /// the machine is busy or stands still. For tests of what is sent, not when.
    pub fn patient(self) -> Options {
        self.set("sender.drop_after", 60_000)
            .set("sender.catch_up", 60_000)
    }

    /// Runs with a real-time priority: players on the same machine must not keep the processor from
    /// it.
    pub fn goes_first(mut self) -> Options {
        self.prefix.extend(["chrt", "-r", "10"].map(str::to_owned));
        self
    }

    /// Runs as nobody, to whom permissions apply.
    pub fn unprivileged(mut self) -> Options {
        self.prefix = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ]
        .map(str::to_owned)
        .to_vec();
        self
    }

    /// Listens on this address.
    pub fn address(mut self, address: IpAddr) -> Options {
        self.address = address;
        self
    }

    /// Keeps its state here instead of in a new directory.
    pub fn state(mut self, dir: impl AsRef<Path>) -> Options {
        self.state = Some(dir.as_ref().to_owned());
        self
    }

    /// Runs in this control group (a directory with `cgroup.procs`).
    pub fn cgroup(mut self, dir: impl AsRef<Path>) -> Options {
        self.cgroup = Some(dir.as_ref().to_owned());
        self
    }

    /// Starts the server and waits until it is ready.
    #[track_caller]
    pub fn start(self) -> Server {
        let mut server = self.spawn();
        let ready = wait::until(Duration::from_secs(30), || {
            if !server.running() {
                return Some(false);
            }
            let answer = server.ask("/readyz")?;
            (answer.status == 200).then_some(true)
        });
        assert!(
            ready == Some(true),
            "the server did not become ready (readyz: {ready:?}):\n{}",
            server.log()
        );
        server
    }

    /// Starts the server without waiting.
    #[track_caller]
    pub fn spawn(self) -> Server {
        let dir = temp_dir("server");
        let ports = Ports::take(self.check_ports.then_some(self.address));
        let state = self.state.unwrap_or_else(|| dir.path().join("state"));
        let mut keys: BTreeMap<&str, String> = [
            ("listen", format!("\"{}\"", self.address)),
            ("state", quoted(&state)),
            ("rtsp.port", ports.first.to_string()),
            ("http.port", (ports.first + 1).to_string()),
            ("rtp.port", (ports.first + 2).to_string()),
            ("rtp.rtcp_port", (ports.first + 3).to_string()),
            ("tls.port", (ports.first + 4).to_string()),
            ("pool.size", "\"32MiB\"".to_owned()),
        ]
        .into();
        keys.extend(
            self.settings
                .iter()
                .map(|(key, value)| (key.as_str(), value.clone())),
        );
        let config: String = keys
            .iter()
            .map(|(key, value)| format!("{key} = {value}\n"))
            .collect();
        let config_path = dir.path().join("reelway.toml");
        fs::write(&config_path, config).expect("a configuration file");
        // For a server that runs as nobody.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777))
            .expect("a directory of ours");

        let log_path = dir.path().join("log");
        let log = File::create(&log_path).expect("a log file");
        let mut words: Vec<&OsStr> = self.prefix.iter().map(OsStr::new).collect();
        let binary = binary();
        words.push(binary.as_os_str());
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .arg(self.command)
            .args(&self.films)
            .arg("--config")
            .arg(&config_path)
            .args(&self.flags);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("REELWAY_") {
                command.env_remove(name);
            }
        }
        command.envs(self.environment.iter().cloned());
        if let Some(cgroup) = &self.cgroup {
            // The shell enters the group and becomes the server.
            let inner = command;
            command = Command::new("sh");
            command
                .args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""])
                .arg(cgroup);
            command.arg(inner.get_program()).args(inner.get_args());
            inner.get_envs().for_each(|(name, value)| {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            });
        }
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Server {
            child,
            rtsp: SocketAddr::new(self.address, ports.first),
            http: SocketAddr::new(self.address, ports.first + 1),
            https: SocketAddr::new(self.address, ports.first + 4),
            rtp: ports.first + 2,
            state,
            log: File::open(log_path).expect("the log file"),
            ports: Arc::new(ports),
            _dir: dir,
        }
    }
}

impl Server {
    /// Starts a server of the films in a directory, or of one film, and waits until it is ready and
    /// has indexed all of them.
    #[track_caller]
    pub fn start(films: impl AsRef<Path>) -> Server {
        let server = Options::new(films).start();
        server.wait_indexed();
        server
    }

    /// Waits until all films are indexed.
    #[track_caller]
    pub fn wait_indexed(&self) {
        let done = wait::until(Duration::from_secs(30), || {
            let node = self.ask("/api/node")?.json();
            let films = &node["films"];
            let known = films["ready"].as_u64()?
                + films["unplayable"].as_u64()?
                + films["not_ready"].as_u64()?;
            (films["indexing"] == 0 && known > 0).then_some(())
        });
        assert!(
            done.is_some(),
            "the films were not indexed in time:\n{}",
            self.log()
        );
    }

    /// GETs a path.
    #[track_caller]
    pub fn get(&self, path: &str) -> http::Response {
        http::get(self.http, path)
            .unwrap_or_else(|error| panic!("GET {path}: {error:#}\n{}", self.log()))
    }

    /// Ends a session of `/api/sessions` as the operator.
    #[track_caller]
    pub fn end_session(&self, session: &serde_json::Value) {
        let path = format!("/api/sessions/{}", session["id"].as_str().expect("an id"));
        let bearer = format!("Bearer {}", self.token());
        let headers = [("Authorization", bearer.as_str())];
        let answer = http::request(self.http, "DELETE", &path, &headers).expect("an answer");
        assert_eq!(answer.status, 204);
    }

    /// The value of a metric; `name` includes its labels, if it has any.
    #[track_caller]
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").text();
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no {name} in\n{text}"));
        value.parse().expect("a number")
    }

    fn ask(&self, path: &str) -> Option<http::Response> {
        http::get(self.http, path).ok()
    }

    /// `rtsp://…/TITLE`.
    pub fn rtsp_url(&self, title: &str) -> String {
        format!("rtsp://{}/{title}", self.rtsp)
    }

    /// `https://…/PATH`.
    pub fn https_url(&self, path: &str) -> String {
        format!("https://{}/{path}", self.https)
    }

    /// `http://…/PATH`.
    pub fn http_url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.http)
    }

    /// The API's token.
    #[track_caller]
    pub fn token(&self) -> String {
        let path = self.state.join("token");
        let token =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        token.trim().to_owned()
    }

    /// What the server wrote to its log.
    pub fn log(&self) -> String {
        let mut bytes = vec![0; self.log.metadata().map_or(0, |data| data.len() as usize)];
        let read = self.log.read_at(&mut bytes, 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }

    /// Waits for a log line that contains all these words.
    #[track_caller]
    pub fn wait_for_log(&self, words: &[&str], limit: Duration) -> String {
        let line = wait::until(limit, || {
            let log = self.log();
            log.lines()
                .find(|line| words.iter().all(|word| line.contains(word)))
                .map(str::to_owned)
        });
        line.unwrap_or_else(|| panic!("no line of the log has {words:?}:\n{}", self.log()))
    }

    /// Kills the server. As long as its ports are held, no other test's server uses its addresses.
    pub fn into_ports(self) -> Arc<Ports> {
        Arc::clone(&self.ports)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn running(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("waiting for a child")
            .is_none()
    }

    /// Waits for it to exit, and returns its exit code.
    #[track_caller]
    pub fn wait(&mut self, limit: Duration) -> Option<i32> {
        let status = wait::until(limit, || {
            self.child.try_wait().expect("waiting for a child")
        });
        status
            .unwrap_or_else(|| panic!("the server did not end:\n{}", self.log()))
            .code()
    }

    /// Sends it a signal (`TERM`, `INT`, …).
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args(["-s", name, &self.pid().to_string()])
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "kill -s {name}"
        );
    }

    /// Current and peak memory in bytes (`VmRSS`, `VmHWM`).
    pub fn memory(&self) -> (u64, u64) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace()
                .nth(1)?
                .parse::<u64>()
                .ok()
                .map(|kib| kib * 1024)
        };
        (field("VmRSS:").unwrap_or(0), field("VmHWM:").unwrap_or(0))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            eprintln!("--- the server's log ---\n{}", self.log());
        }
    }
}

/// The binary: `REELWAY_BIN`, or the build's own, built once if necessary.
pub fn binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        if let Some(path) = std::env::var_os("REELWAY_BIN") {
            return path.into();
        }
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command
            .args([
                "build",
                "--quiet",
                "-p",
                "reelway",
                "--bin",
                "reelway",
                "--manifest-path",
            ])
            .arg(manifest);
        let status = command.status().expect("cargo");
        assert!(status.success(), "the reelway binary could not be built");
        target_dir().join("debug/reelway")
    };
    BINARY.get_or_init(build).clone()
}

/// A path as a TOML string.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}
