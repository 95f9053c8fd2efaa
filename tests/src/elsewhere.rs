//! Servers for remote films: a real nginx, a server that speaks S3 (moto), and a proxy that spoils
//! responses as a test demands.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::films::{target_dir, temp_dir};
use crate::ports::Ports;
use crate::{http, wait};

/// A server process that is killed when dropped, and its address.
#[derive(Debug)]
pub struct Elsewhere {
    child: Child,
    /// Its address.
    pub at: SocketAddr,
    dir: tempfile::TempDir,
    _ports: Ports,
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn started(command: &mut Command, ports: Ports, dir: tempfile::TempDir) -> Elsewhere {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = child
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let at = ports.at();
    let server = Elsewhere {
        child,
        at,
        dir,
        _ports: ports,
    };
    let answers = || http::get(at, "/").ok();
    let answer = wait::until(Duration::from_secs(60), answers);
    answer.unwrap_or_else(|| panic!("{command:?} does not answer"));
    server
}

/// Starts an nginx that serves a folder and lists its entries.
pub fn nginx(folder: &Path) -> Elsewhere {
    nginx_that(&format!("root {}; autoindex on;", folder.display()))
}

/// Starts an nginx with these rules for its only server.
pub fn nginx_that(rules: &str) -> Elsewhere {
    let dir = temp_dir("nginx");
    let ports = Ports::local();
    let at = ports.at();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("  {name}_temp_path {}/{name};\n", dir.path().display()))
        .concat();
    let config = format!(
        "daemon off; master_process off; pid {0}/pid; error_log {0}/error.log;\n\
         events {{}}\n\
         http {{\n{temporary}  log_format asked '$request_uri [$http_authorization]';\n\
           access_log {0}/asked asked;\n\
           server {{ listen {at}; {rules} }}\n}}\n",
        dir.path().display(),
    );
    let path = dir.path().join("nginx.conf");
    std::fs::write(&path, config).expect("a configuration");
    // It is not in everybody's `PATH`.
    let program = if Path::new("/usr/sbin/nginx").exists() {
        "/usr/sbin/nginx"
    } else {
        "nginx"
    };
    let mut command = Command::new(program);
    command
        .arg("-c")
        .arg(&path)
        .arg("-e")
        .arg(dir.path().join("error.log"));
    started(&mut command, ports, dir)
}

/// Starts a server that speaks S3, with one bucket.
pub fn s3(bucket: &str) -> Elsewhere {
    let dir = temp_dir("s3");
    let ports = Ports::local();
    let own = target_dir().join("moto/bin/moto_server");
    let mut command = Command::new(if own.exists() {
        own.as_path()
    } else {
        Path::new("moto_server")
    });
    command.args(["-H", "127.0.0.1", "-p", &ports.first.to_string()]);
    let server = started(&mut command, ports, dir);
    server.put(&format!("/{bucket}"), &[]);
    server
}

impl Elsewhere {
    /// Returns nginx's requests: each line has a path and, in brackets, the value of
    /// `Authorization` (`-` if there was none).
    pub fn asked(&self) -> String {
        // nginx is a single process here and logs a request only after it has sent the response. So
        // once it responds to this request, the log has all earlier ones.
        const LAST: &str = "/the-last-request";
        http::get(self.at, LAST).expect("nginx answers");
        let log = std::fs::read_to_string(self.dir.path().join("asked")).expect("nginx has a log");
        let lines = log.lines().filter(|line| !line.starts_with(LAST));
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// PUTs an object, or a bucket if the path is just its name.
    #[track_caller]
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let signed = [(
            "Authorization",
            "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0",
        )];
        let answer = http::send(self.at, "PUT", path, &signed, bytes).expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// Kills the process, as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What is wrong with a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoil {
    /// Nothing.
    Not,
    /// The connection is closed after this many bytes of the body.
    Cut(usize),
    /// Nothing follows this many bytes of the body until the client closes the connection.
    Stall(usize),
    /// The response is delayed by this time.
    Slow(Duration),
    /// The range that is announced and sent begins one byte too early.
    WrongRange,
    /// The whole film is sent, with status 200.
    NoRange,
    /// The entity tag is replaced by this one.
    Tag(&'static str),
    /// The status is this one, and there is no body.
    Status(u16),
}

type Plan = Box<dyn FnMut(&str, Option<u64>) -> Spoil + Send>;

/// A proxy that spoils the responses of another server.
pub struct Spoiler {
    /// Its address.
    pub at: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: Mutex<SocketAddr>,
    plan: Mutex<Plan>,
    closed: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Spoiler {
    /// Starts a proxy in front of `upstream`, which spoils nothing at first.
    pub fn of(upstream: SocketAddr) -> Spoiler {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream),
            plan: Mutex::new(Box::new(|_, _| Spoil::Not)),
            closed: AtomicBool::new(false),
        });
        let its = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if its.closed.load(Ordering::SeqCst) {
                    return;
                }
                let its = Arc::clone(&its);
                // A client that closes the connection early is no failure here.
                std::thread::spawn(move || drop(its.answer(stream)));
            }
        });
        Spoiler { at, shared }
    }

    /// Sets the server for further requests.
    pub fn leads_to(&self, upstream: SocketAddr) {
        *lock(&self.shared.upstream) = upstream;
    }

    /// Sets the function that decides, by the path and the first byte of the range, how each
    /// further response is spoilt.
    pub fn spoil(&self, plan: impl FnMut(&str, Option<u64>) -> Spoil + Send + 'static) {
        *lock(&self.shared.plan) = Box::new(plan);
    }
}

impl Drop for Spoiler {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for a connection.
        TcpStream::connect(self.at).ok();
    }
}

impl Shared {
    fn answer(&self, stream: TcpStream) -> Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut words = line.split_whitespace();
        let method = words.next().context("a method")?.to_owned();
        let path = words.next().context("a path")?.to_owned();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            let name = name.to_ascii_lowercase();
            if !matches!(name.as_str(), "host" | "connection") {
                headers.push((name, value.trim().to_owned()));
            }
        }
        let range = headers
            .iter()
            .find(|(name, _)| name == "range")
            .map(|(_, value)| value.clone());
        let bounds = range.and_then(|range| {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?))
        });
        let spoil = (lock(&self.plan))(&path, bounds.map(|(first, _)| first));
        if spoil == Spoil::WrongRange
            && let Some((first @ 1.., last)) = bounds
        {
            headers.retain(|(name, _)| name != "range");
            headers.push(("range".into(), format!("bytes={}-{}", first - 1, last - 1)));
        }
        if spoil == Spoil::NoRange {
            headers.retain(|(name, _)| name != "range");
        }
        if let Spoil::Tag(_) = spoil {
            // A server whose film has changed no longer satisfies conditions on the old version.
            headers.retain(|(name, _)| !name.starts_with("if-"));
        }
        let given: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let upstream = *lock(&self.upstream);
        let mut answer = http::request(upstream, &method, &path, &given)?;
        match spoil {
            Spoil::Status(status) => {
                answer.status = status;
                answer.headers.retain(|name, _| name == "date");
                answer.body.clear();
            }
            Spoil::Tag(tag) => {
                answer.headers.insert("etag".into(), tag.into());
            }
            _ => {}
        }
        answer.headers.remove("transfer-encoding");
        answer.headers.remove("connection");
        answer
            .headers
            .insert("content-length".into(), answer.body.len().to_string());
        let mut head = format!(
            "HTTP/1.1 {} As told\r\nConnection: close\r\n",
            answer.status
        );
        for (name, value) in &answer.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut stream = reader.into_inner();
        if let Spoil::Slow(time) = spoil {
            // Waits, but returns early if the client closes the connection.
            stream.set_read_timeout(Some(time))?;
            if let Ok(0) = stream.read(&mut [0]) {
                return Ok(());
            }
        }
        stream.write_all(format!("{head}\r\n").as_bytes())?;
        let sent = match spoil {
            Spoil::Cut(bytes) | Spoil::Stall(bytes) => bytes.min(answer.body.len()),
            _ => answer.body.len(),
        };
        stream.write_all(&answer.body[..sent])?;
        if let Spoil::Stall(_) = spoil {
            // Waits until the client closes the connection.
            stream.set_read_timeout(Some(Duration::from_secs(60)))?;
            while stream.read(&mut [0; 64])? > 0 {}
        }
        Ok(())
    }
}
