//! Failover between directors that share one address: keepalived moves it, and the kernels exchange
//! their connections.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use reelway_ipvs::{SyncRole, Table};
use reelway_sys::children;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::net::unix::pipe::{OpenOptions, Receiver};
use tokio::process::{Child, Command};
use tracing::{debug, info, warn};

use crate::board::Board;
use crate::child::attach;
use crate::config::Config;
use crate::setup::run as run_program;
use crate::vrrp::{self, State};

/// Time between keepalived's exit and its restart.
const PAUSE: Duration = Duration::from_secs(2);
/// Names of the FIFO to which keepalived writes its state changes, and of its configuration.
const STATES: &str = "states";
const CONFIGURATION: &str = "keepalived.conf";
/// Both halves of connection synchronisation.
const ROLES: [SyncRole; 2] = [SyncRole::Receive, SyncRole::Send];

/// Connection synchronisation between this kernel and those of the other directors. It ends when
/// this is dropped.
pub(crate) struct Sync<'a> {
    table: &'a Table,
    started: Vec<SyncRole>,
    /// A file that marks the synchronisation as this director's. If it is killed, the next one
    /// stops it.
    mark: PathBuf,
    stays: bool,
}

impl<'a> Sync<'a> {
    /// Starts the halves that do not run yet.
    pub fn start(
        table: &'a Table,
        config: &Config,
        interface: &str,
        dir: &Path,
    ) -> anyhow::Result<Sync<'a>> {
        let mark = dir.join("synchronised");
        let is_ours = mark.exists();
        let mut sync = Sync {
            table,
            started: Vec::new(),
            mark,
            stays: false,
        };
        // Both halves run on every director: the one with the address sends, and the others have
        // nothing to send.
        for role in ROLES {
            if table.start_sync(role, interface, config.failover.router)? || is_ours {
                sync.started.push(role);
            }
        }
        std::fs::write(&sync.mark, "")?;
        Ok(sync)
    }

    /// Leaves the synchronisation running.
    pub fn leave(mut self) {
        self.stays = true;
    }
}

impl Drop for Sync<'_> {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        for role in self.started.drain(..) {
            if let Err(error) = self.table.stop_sync(role) {
                warn!("{error}");
            }
        }
        let _ = std::fs::remove_file(&self.mark);
    }
}

/// The keepalived process. It runs until this is stopped or dropped.
pub(crate) struct Failover {
    address: IpAddr,
    /// Directory of its configuration, FIFO and PID files.
    dir: PathBuf,
    states: Lines<BufReader<Receiver>>,
    board: Arc<Board>,
    keepalived: Child,
}

impl Failover {
    /// Starts keepalived with its files in this directory.
    pub fn start(
        config: &Config,
        interface: &str,
        dir: &Path,
        board: Arc<Board>,
    ) -> anyhow::Result<Failover> {
        let address = config.virtual_address()?;
        let states = dir.join(STATES);
        // A FIFO of a director that was killed.
        let _ = std::fs::remove_file(&states);
        let words = ["mkfifo".to_owned(), states.display().to_string()];
        run_program(&words, "").map_err(anyhow::Error::msg)?;
        let text = vrrp::configuration(config, address, interface, &states);
        std::fs::write(dir.join(CONFIGURATION), text)?;
        // Opened for reading and writing, so that the FIFO does not report its end while keepalived
        // is down.
        let states = OpenOptions::new().read_write(true).open_receiver(&states)?;
        Ok(Failover {
            address,
            states: BufReader::new(states).lines(),
            board,
            keepalived: keepalived(dir)?,
            dir: dir.to_owned(),
        })
    }

    /// Logs state changes, and restarts keepalived when it ends. Runs until it is dropped.
    pub async fn watch(&mut self) {
        loop {
            tokio::select! {
                line = self.states.next_line() => match line {
                    Ok(Some(line)) => self.say(&line),
                    // Not expected: this process itself is a writer of the FIFO.
                    Ok(None) | Err(_) => tokio::time::sleep(PAUSE).await,
                },
                status = self.keepalived.wait() => {
                    warn!("keepalived ended ({}); restarting it", status.map_or_else(|error| error.to_string(), |status| status.to_string()));
                    tokio::time::sleep(PAUSE).await;
                    match keepalived(&self.dir) {
                        Ok(child) => self.keepalived = child,
                        Err(error) => warn!("{error:#}"),
                    }
                }
            }
        }
    }

    fn say(&self, line: &str) {
        let address = self.address;
        let state = vrrp::state(line);
        if let Some(state) = state {
            self.board.show_failover(state);
        }
        match state {
            Some(State::Active) => info!("this director has {address}"),
            Some(State::Standby) => info!("this director stands by for {address}"),
            Some(State::Fault) => {
                warn!("this director cannot take {address}: its interface is down")
            }
            None => {}
        }
    }

    /// Ends keepalived, so that another director gets the address at once.
    pub async fn stop(mut self) {
        if let Some(id) = self.keepalived.id() {
            let _ = children::terminate(id);
        }
        let _ = self.keepalived.wait().await;
    }
}

impl Drop for Failover {
    fn drop(&mut self) {
        // Keepalived removes its PID files.
        for name in [STATES, CONFIGURATION] {
            let _ = std::fs::remove_file(self.dir.join(name));
        }
    }
}

/// Starts keepalived with the configuration in this directory. It ends with this program and then
/// gives up the address.
fn keepalived(dir: &Path) -> anyhow::Result<Child> {
    let mut command = Command::new("keepalived");
    command
        .args(["--vrrp", "--dont-fork", "--log-console", "--no-syslog"])
        .arg("--use-file")
        .arg(dir.join(CONFIGURATION))
        .arg("--pid")
        .arg(dir.join("pid"))
        .arg("--vrrp_pid")
        .arg(dir.join("vrrp.pid"));
    let mut child = attach(&mut command)
        .spawn()
        .context("keepalived cannot be started (Debian's package keepalived)")?;
    show(child.stdout.take());
    show(child.stderr.take());
    Ok(child)
}

/// Logs the output of a program at debug level.
fn show(output: Option<impl AsyncRead + Unpin + Send + 'static>) {
    let Some(output) = output else { return };
    tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            debug!("keepalived: {line}");
        }
    });
}
