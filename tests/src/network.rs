//! Two hosts connected by a cable: network namespaces and a veth pair, with a capture of all
//! traffic on the cable. Needs root.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use nix::sched::{CloneFlags, setns};

use crate::capture::Packet;
use crate::players::{Running, start};
use crate::wait;

/// A server's and a viewer's host. Removed when dropped; drop everything that runs in them first.
#[derive(Debug)]
pub struct Network {
    server: String,
    viewer: String,
}

/// The server's address.
pub const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1));
/// The viewer's address.
pub const VIEWER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 2));
/// The server's IPv6 address.
pub const SERVER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 1));
/// The viewer's IPv6 address.
pub const VIEWER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 2));
/// A second address of the viewer's host.
pub const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 3));

impl Network {
    /// Creates the hosts and the cable.
    ///
    /// Panics without permission to do so: these tests need root.
    pub fn new() -> Network {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |host: &str| format!("reelway-{}-{number}-{host}", std::process::id());
        let network = Network {
            server: name("server"),
            viewer: name("viewer"),
        };
        let (server, viewer) = (&network.server, &network.viewer);
        ip(&format!("netns add {server}"));
        ip(&format!("netns add {viewer}"));
        ip(&format!(
            "link add wire netns {server} type veth peer name wire netns {viewer}"
        ));
        for (host, address, v6) in [(server, SERVER, SERVER_V6), (viewer, VIEWER, VIEWER_V6)] {
            ip(&format!("-n {host} addr add {address}/24 dev wire"));
            // Duplicate address detection takes too long.
            ip(&format!("-n {host} addr add {v6}/64 dev wire nodad"));
            ip(&format!("-n {host} link set lo up"));
            // A veth passes on large packets that the kernel would split only for a real card. They
            // must be split before, so that the capture shows what a cable would carry.
            ip(&format!("-n {host} link set wire gso_max_segs 1 up"));
            on_one_processor(host);
        }
        ip(&format!("-n {viewer} addr add {OTHER}/24 dev wire"));
        network
    }

    /// The server's namespace.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The viewer's namespace.
    pub fn viewer(&self) -> &str {
        &self.viewer
    }

    /// Runs `what` on a thread in the viewer's namespace.
    pub fn as_viewer<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        inside(&self.viewer, what)
    }

    /// Runs `what` on a thread in the server's namespace.
    pub fn as_server<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        inside(&self.server, what)
    }

    /// Runs a command (words between spaces) on the server's host, and returns its output.
    #[track_caller]
    pub fn on_server(&self, command: &str) -> String {
        run_in(&self.server, command)
    }

    /// Runs a command (words between spaces) on the viewer's host, and returns its output.
    #[track_caller]
    pub fn on_viewer(&self, command: &str) -> String {
        run_in(&self.viewer, command)
    }

    /// Pulls the cable.
    pub fn cut(&self) {
        ip(&format!("-n {} link set wire down", self.viewer));
    }

    /// Begins to capture what arrives at the viewer's end of the cable.
    #[track_caller]
    pub fn capture(&self) -> Capture {
        let file = crate::films::temp_dir("capture");
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            &self.viewer,
            "tcpdump",
            "-i",
            "wire",
            "-U",
            "--immediate-mode",
            "-Z",
            "root",
        ]);
        command
            .args([
                "--time-stamp-precision=nano",
                "-B",
                "65536",
                "-s",
                "0",
                "-w",
            ])
            .arg(file.path().join("pcap"));
        let tcpdump = start(command);
        let listening = wait::until(Duration::from_secs(10), || {
            tcpdump.said().contains("listening on").then_some(())
        });
        assert!(
            listening.is_some(),
            "tcpdump does not listen: {}",
            tcpdump.said()
        );
        Capture { tcpdump, file }
    }
}

impl Default for Network {
    fn default() -> Self {
        Network::new()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in [&self.server, &self.viewer] {
            Command::new("ip")
                .args(["netns", "del", host])
                .status()
                .ok();
        }
    }
}

fn inside<T: Send>(host: &str, what: impl FnOnce() -> T + Send) -> T {
    let namespace = Path::new("/run/netns").join(host);
    let inside = || {
        let file = File::open(&namespace).expect("the namespace");
        setns(file, CloneFlags::CLONE_NEWNET).expect("entering the namespace");
        what()
    };
    std::thread::scope(|scope| match scope.spawn(inside).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Lets a single processor receive what arrives over the cable. If two process the end of a
/// handshake and the following request at the same time, one of them may find neither the half-open
/// connection nor the open one and reset it (Linux 6.18: 50 of 403,146 connections over a narrow
/// link, to a server that was just `accept` and `send`; none of 709,328 with one processor).
#[track_caller]
fn on_one_processor(host: &str) {
    let set = "echo 1 > /sys/class/net/wire/queues/rx-0/rps_cpus";
    let output = Command::new("ip")
        .args(["netns", "exec", host, "sh", "-c", set])
        .output();
    let output = output.expect("ip");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{set}: {said}");
}

#[track_caller]
fn run_in(host: &str, command: &str) -> String {
    ip(&format!("netns exec {host} {command}"))
}

#[track_caller]
fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.unwrap_or_else(|error| {
        panic!("ip could not be started: {error}; apt-get install iproute2")
    });
    assert!(
        output.status.success(),
        "ip {arguments}: {} (tests of what is on the wire need root; apt-get install iproute2 nftables)",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A running capture.
#[derive(Debug)]
pub struct Capture {
    tcpdump: Running,
    file: tempfile::TempDir,
}

impl Capture {
    /// Ends the capture and returns all packets in order. Fails if tcpdump lost some.
    pub fn finish(self) -> Result<Vec<Packet>> {
        // The most recent packets are still on their way through tcpdump.
        std::thread::sleep(Duration::from_millis(200));
        self.tcpdump.signal("INT");
        let ran = self.tcpdump.finish(Duration::from_secs(20));
        ensure!(
            ran.err.contains("\n0 packets dropped by kernel"),
            "the capture is not whole: {}",
            ran.err
        );
        crate::capture::read(&std::fs::read(self.file.path().join("pcap"))?)
    }
}
