//! The servers compared: installation, and start on core 0 with the same bytes.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};

use super::bodies;
use super::kind::{ServerKind, on};
use super::load::Target;
use super::segments::Bytes;
use crate::bed::machine::cpu_of;
use crate::bed::{Child, cores, packages};
use reelway_node::process::Server;

/// Installs the Debian packages of all peers.
pub fn install() -> anyhow::Result<()> {
    packages::install(&["nginx", "varnish", "squid"])
}

/// A running server.
pub enum Running {
    Ours(Server),
    Body {
        server: Child,
        at: SocketAddr,
    },
    Theirs {
        server: Child,
        at: SocketAddr,
        /// The origin of a cache.
        origin: Option<Child>,
        _litter: Litter,
    },
}

/// Shared memory that Squid leaves behind when it is killed, by its service name.
pub struct Litter(String);

impl Drop for Litter {
    fn drop(&mut self) {
        for part in ["metadata", "queues", "readers"] {
            // Other servers have no such files.
            let _ = std::fs::remove_file(format!("/dev/shm/{}-cf__{part}.shm", self.0));
        }
    }
}

/// Pool of our server with zero copy, an eighth of which must hold all hot segments.
const ZERO_COPY_POOL: &str = "1536MiB";

/// Pool of our server: enough for the hot segments from memory; a tenth of all segments from disk.
pub const POOLS: [&str; 2] = ["512MiB", "96MiB"];

impl Running {
    /// Starts it; `pool` is the memory for film blocks of our server.
    pub fn start(kind: ServerKind, bytes: &Bytes, pool: &str) -> anyhow::Result<Running> {
        if kind == ServerKind::Reelway {
            let server = Server::start(&bytes.films, &bytes.state, &["--pool", pool])?;
            return Ok(Running::Ours(server));
        }
        if kind == ServerKind::ReelwayZeroCopy {
            let config = bytes.state.join("zero-copy.toml");
            std::fs::write(&config, "[http]\nzero_copy = true\n")?;
            let config = config.to_str().context("a folder's name that is no text")?;
            let args = ["--pool", ZERO_COPY_POOL, "--config", config];
            let server = Server::start(&bytes.films, &bytes.state, &args)?;
            return Ok(Running::Ours(server));
        }
        if kind.way().is_some() {
            let (server, at) = bodies::start(kind, &bytes.film())?;
            return Ok(Running::Body { server, at });
        }
        let at = free_port()?;
        let (server, origin) = match kind {
            ServerKind::NginxSendfile => {
                (nginx(at, bytes, "sendfile on;", &cores::server())?, None)
            }
            ServerKind::NginxCopying => {
                (nginx(at, bytes, "sendfile off;", &cores::server())?, None)
            }
            ServerKind::NginxDirect => {
                let direct = "sendfile off; aio threads; directio 1m; output_buffers 2 512k;";
                (nginx(at, bytes, direct, &cores::server())?, None)
            }
            _ => {
                let origin = free_port()?;
                let behind = nginx(origin, bytes, "sendfile on;", &cores::viewers())?;
                wait_for(origin)?;
                let server = match kind {
                    ServerKind::Varnish => varnish(at, origin, &bytes.state)?,
                    _ => squid(at, origin, &bytes.state)?,
                };
                (server, Some(behind))
            }
        };
        wait_for(at).with_context(|| kind.name())?;
        Ok(Running::Theirs {
            server,
            at,
            origin,
            _litter: Litter(squid_name(at)),
        })
    }

    /// Returns its small files, or parts of the film from servers of whole films.
    pub fn small(&self) -> Target {
        match self.target() {
            Target::Files(at, _) => Target::Files(at, "/small"),
            parts => parts,
        }
    }

    /// Returns its segments.
    pub fn target(&self) -> Target {
        match self {
            Running::Ours(server) => Target::Parts(server.http, "/film/file"),
            Running::Body { at, .. } => Target::Parts(*at, "/"),
            Running::Theirs { at, .. } => Target::Files(*at, "/seg"),
        }
    }

    /// Returns the process IDs of this program, the server, its origin and their children.
    pub fn pids(&self) -> Vec<u32> {
        let mut all = vec![std::process::id()];
        match self {
            Running::Ours(server) => all.push(server.id()),
            Running::Body { server, .. } => all.push(server.id()),
            Running::Theirs { server, origin, .. } => {
                for child in std::iter::once(server).chain(origin) {
                    all.push(child.id());
                    all.extend(children(child.id()));
                }
            }
        }
        all
    }

    /// Waits until it has finished its work: it uses less than a hundredth of a core.
    pub fn settle(&self) -> anyhow::Result<()> {
        for _ in 0..40 {
            let before = self.cpu()?;
            std::thread::sleep(Duration::from_millis(500));
            if self.cpu()?.saturating_sub(before) < Duration::from_millis(5) {
                return Ok(());
            }
        }
        eprintln!("http: a server does not come to rest; what it does counts");
        Ok(())
    }

    /// Returns the CPU time charged to its processes so far.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        match self {
            Running::Ours(server) => cpu_of(server.id()),
            Running::Body { server, .. } => cpu_of(server.id()),
            Running::Theirs { server, .. } => {
                // The process itself and its children, all of which keep running.
                let mut sum = cpu_of(server.id())?;
                for child in children(server.id()) {
                    sum += cpu_of(child).unwrap_or_default();
                }
                Ok(sum)
            }
        }
    }
}

/// Returns the children of a process.
fn children(of: u32) -> Vec<u32> {
    let file = format!("/proc/{of}/task/{of}/children");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

fn wait_for(at: SocketAddr) -> anyhow::Result<()> {
    for _ in 0..300 {
        if TcpStream::connect(at).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    bail!("nobody listens at {at} after 30 s");
}

fn nginx(at: SocketAddr, bytes: &Bytes, how: &str, cores: &str) -> anyhow::Result<Child> {
    let dir = bytes.state.join(format!("nginx-{}", at.port()));
    std::fs::create_dir_all(&dir)?;
    let root = bytes.segments.parent().context("the segments' folder")?;
    let config = format!(
        "daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log; user root;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; {how} tcp_nopush on; keepalive_requests 100000000;\n\
         client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c;\n\
         uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e;\n\
         server {{ listen {at}; root {}; expires 1h; }} }}\n",
        root.display(),
        dir = dir.display(),
    );
    let file = dir.join("nginx.conf");
    std::fs::write(&file, config)?;
    Child::start_quiet(on(cores, "nginx").arg("-c").arg(file))
}

fn varnish(at: SocketAddr, origin: SocketAddr, state: &Path) -> anyhow::Result<Child> {
    let dir = state.join("varnish");
    std::fs::create_dir_all(&dir)?;
    let mut command = on(&cores::server(), "varnishd");
    command.args(["-F", "-j", "none", "-s", "malloc,1g", "-a"]);
    command
        .arg(at.to_string())
        .arg("-b")
        .arg(origin.to_string());
    Child::start_quiet(command.arg("-n").arg(dir))
}

fn squid_name(at: SocketAddr) -> String {
    format!("reelwaybench{}", at.port())
}

fn squid(at: SocketAddr, origin: SocketAddr, state: &Path) -> anyhow::Result<Child> {
    let dir = state.join("squid");
    std::fs::create_dir_all(&dir)?;
    // Squid drops root privileges, but must write there.
    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o777))?;
    let config = format!(
        "http_port {at} accel defaultsite=origin\n\
         cache_peer 127.0.0.1 parent {} 0 no-query no-digest originserver\n\
         http_access allow all\ncache_mem 512 MB\nmaximum_object_size_in_memory 4 MB\n\
         maximum_object_size 4 MB\naccess_log none\ncache_log {dir}/log\ncache_store_log none\n\
         pid_filename none\ncoredump_dir {dir}\npinger_enable off\nnetdb_filename none\n\
         memory_cache_shared off\nvisible_hostname bench\n",
        origin.port(),
        dir = dir.display(),
    );
    let file = dir.join("squid.conf");
    std::fs::write(&file, config)?;
    let mut command = on(&cores::server(), "squid");
    // The name distinguishes it from other Squids, and from shared memory that a killed one left.
    let name = squid_name(at);
    Child::start_quiet(command.args(["-N", "-n", &name, "-f"]).arg(file))
}
