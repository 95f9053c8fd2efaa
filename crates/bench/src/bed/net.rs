//! The network between server and viewers: as root, two network namespaces joined by a cable
//! (veth); otherwise the loopback interface. Traffic never leaves the machine.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::children::{Undo, output, remember, undo};
use super::cores;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const VIEWERS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// Name of the cable's interface in both namespaces.
const CABLE: &str = "media0";

/// A network for a server and its viewers.
#[derive(Debug)]
pub struct Net {
    /// Names of the server's and the viewers' namespaces; `None` for loopback.
    names: Option<(String, String)>,
    undo: Vec<Undo>,
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

impl Net {
    /// Creates the namespaces if permitted.
    pub fn make() -> anyhow::Result<Net> {
        if !is_root() || !super::children::is_installed("ip") {
            return Ok(Net {
                names: None,
                undo: Vec::new(),
            });
        }
        let name = |side: &str| format!("reelway-{}-{side}", std::process::id());
        let (server, viewers) = (name("server"), name("viewers"));
        let mut net = Net {
            names: Some((server.clone(), viewers.clone())),
            undo: Vec::new(),
        };
        for space in [&server, &viewers] {
            output("ip", &["netns", "add", space])?;
            let words = ["ip", "netns", "delete", space].map(str::to_owned);
            net.undo.push(Undo::Run(words.to_vec()));
            remember(Undo::Run(words.to_vec()));
        }
        output(
            "ip",
            &[
                "-n", &server, "link", "add", CABLE, "type", "veth", "peer", "name", CABLE,
                "netns", &viewers,
            ],
        )?;
        for (space, address) in [(&server, SERVER), (&viewers, VIEWERS)] {
            output(
                "ip",
                &[
                    "-n",
                    space,
                    "address",
                    "add",
                    &format!("{address}/24"),
                    "dev",
                    CABLE,
                ],
            )?;
            output("ip", &["-n", space, "link", "set", "lo", "up"])?;
            output("ip", &["-n", space, "link", "set", CABLE, "up"])?;
        }
        // Static neighbours, so that no packet waits for ARP.
        let mac = |space: &str| -> anyhow::Result<String> {
            let shown = output("ip", &["-n", space, "-o", "link", "show", CABLE])?;
            let mut words = shown
                .split_whitespace()
                .skip_while(|word| *word != "link/ether");
            Ok(words.nth(1).context("a hardware address")?.to_owned())
        };
        for (space, address, peer) in [(&server, VIEWERS, &viewers), (&viewers, SERVER, &server)] {
            let (address, mac) = (address.to_string(), mac(peer)?);
            output(
                "ip",
                &[
                    "-n",
                    space,
                    "neighbour",
                    "replace",
                    &address,
                    "lladdr",
                    &mac,
                    "dev",
                    CABLE,
                ],
            )?;
        }
        Ok(net)
    }

    /// Returns the name of the cable's interface at the server's end.
    pub fn cable(&self) -> &'static str {
        CABLE
    }

    /// Describes the network in a few words.
    pub fn describe(&self) -> &'static str {
        match self.names {
            Some(_) => "two network namespaces joined by veth",
            None => "loopback (namespaces need root and iproute2)",
        }
    }

    /// Whether there are namespaces.
    pub fn has_namespaces(&self) -> bool {
        self.names.is_some()
    }

    /// Returns the server's address.
    pub fn server(&self) -> IpAddr {
        self.names
            .as_ref()
            .map_or(Ipv4Addr::LOCALHOST, |_| SERVER)
            .into()
    }

    /// Returns the viewers' address.
    pub fn viewers(&self) -> IpAddr {
        self.names
            .as_ref()
            .map_or(Ipv4Addr::LOCALHOST, |_| VIEWERS)
            .into()
    }

    /// Returns a command that runs in the server's namespace, on the server's core.
    pub fn server_command(&self, program: impl AsRef<Path>) -> Command {
        placed(
            self.names.as_ref().map(|names| &*names.0),
            &cores::server(),
            program.as_ref(),
        )
    }

    /// Returns a command that runs in the viewers' namespace, on the viewers' cores.
    pub fn viewer_command(&self, program: impl AsRef<Path>) -> Command {
        placed(
            self.names.as_ref().map(|names| &*names.1),
            &cores::viewers(),
            program.as_ref(),
        )
    }

    /// Returns a command that runs in the server's namespace, on the viewers' cores: its requests
    /// to the server do not pass the cable.
    pub fn beside_server_command(&self, program: impl AsRef<Path>) -> Command {
        placed(
            self.names.as_ref().map(|names| &*names.0),
            &cores::viewers(),
            program.as_ref(),
        )
    }

    /// Starts or stops dropping UDP where it arrives at the viewers. Returns false, and does
    /// nothing, without namespaces.
    pub fn drop_at_viewers(&self, yes: bool) -> anyhow::Result<bool> {
        let Some((_, viewers)) = &self.names else {
            return Ok(false);
        };
        let rules = if yes {
            format!(
                "add table netdev sink; add chain netdev sink arrive {{ type filter hook ingress device {CABLE} priority 0; }}; \
                 flush chain netdev sink arrive; add rule netdev sink arrive meta l4proto udp drop"
            )
        } else {
            "add table netdev sink; delete table netdev sink".to_owned()
        };
        output("ip", &["netns", "exec", viewers, "nft", &rules])?;
        Ok(true)
    }

    /// Limits the server's end of the cable to this rate (`100mbit`), with a queue of 200 ms.
    pub fn limit(&self, rate: &str) -> anyhow::Result<()> {
        self.limit_with(rate, "32kb", "200ms")
    }

    /// The same with a token bucket of `burst` bytes, and a queue that holds as much as the link
    /// carries in `latency`.
    pub fn limit_with(&self, rate: &str, burst: &str, latency: &str) -> anyhow::Result<()> {
        let Some((server, _)) = &self.names else {
            return Ok(());
        };
        let words = format!(
            "netns exec {server} tc qdisc replace dev {CABLE} root handle 1: tbf rate {rate} burst {burst} latency {latency}"
        );
        output("ip", &words.split(' ').collect::<Vec<_>>()).map(drop)
    }

    /// Limits it to 100 Mbit/s with a queue that respects marks, as some routers do: signalling
    /// (DSCP CS5) leaves before the rest (HTB). Fair queues (`fq`, `fq_codel`) do that without
    /// marks.
    pub fn limit_by_marks(&self) -> anyhow::Result<()> {
        let Some((server, _)) = &self.names else {
            return Ok(());
        };
        let tc = |words: &str| {
            let words = format!("netns exec {server} tc {words}");
            output("ip", &words.split_whitespace().collect::<Vec<_>>()).map(drop)
        };
        // An existing qdisc of this kind cannot be changed.
        let _ = tc(&format!("qdisc delete dev {CABLE} root"));
        tc(&format!(
            "qdisc add dev {CABLE} root handle 2: htb default 20"
        ))?;
        for (class, what) in [
            ("2: classid 2:1", "rate 100mbit"),
            ("2:1 classid 2:10", "rate 10mbit ceil 100mbit prio 0"),
            ("2:1 classid 2:20", "rate 90mbit ceil 100mbit prio 1"),
        ] {
            tc(&format!(
                "class replace dev {CABLE} parent {class} htb {what} burst 32kb cburst 32kb"
            ))?;
        }
        let rules = "add table ip marks; \
                     add chain ip marks out { type route hook output priority mangle; }; \
                     flush chain ip marks out; \
                     add rule ip marks out ip dscp cs5 meta priority set 2:10";
        output("ip", &["netns", "exec", server, "nft", rules]).map(drop)
    }

    /// Returns the bytes sent at the server's end of the cable, including Ethernet headers; `None`
    /// without namespaces.
    pub fn carried(&self) -> anyhow::Result<Option<u64>> {
        let Some((server, _)) = &self.names else {
            return Ok(None);
        };
        let file = format!("/sys/class/net/{CABLE}/statistics/tx_bytes");
        let text = output("ip", &["netns", "exec", server, "cat", &file])?;
        Ok(Some(text.trim().parse().context(file)?))
    }

    /// Disables or enables segmentation offload at the server's end of the cable (without it, the
    /// kernel does GSO in software). Returns false without namespaces.
    pub fn without_offload(&self, yes: bool) -> anyhow::Result<bool> {
        let Some((server, _)) = &self.names else {
            return Ok(false);
        };
        let most = if yes { "1" } else { "65535" };
        output(
            "ip",
            &[
                "-n",
                server,
                "link",
                "set",
                "dev",
                CABLE,
                "gso_max_segs",
                most,
            ],
        )?;
        Ok(true)
    }
}

fn placed(space: Option<&str>, cores: &str, program: &Path) -> Command {
    let mut command = match space {
        Some(space) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", space, "taskset"]);
            command
        }
        None => Command::new("taskset"),
    };
    command.args(["-c", cores]).arg(program);
    command
}

impl Drop for Net {
    fn drop(&mut self) {
        for change in self.undo.drain(..).rev() {
            undo(&change);
        }
    }
}
