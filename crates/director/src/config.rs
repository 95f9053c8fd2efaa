//! The configuration file.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use reelway_ipvs::{Method, Scheduler};
use serde::Deserialize;

use crate::marks;
use crate::sections::{
    EdgeConfig, FailoverConfig, FilmsConfig, HealthConfig, Page, Ports, method, scheduler,
};

/// The commented reference configuration.
pub const REFERENCE: &str = include_str!("config.toml");

/// Maximum number of edges: each is checked every second.
const MOST_EDGES: usize = 256;
/// The kernel's maximum weight.
const MOST_WEIGHT: u32 = 65_535;

/// The director's configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The virtual address.
    pub address: Option<IpAddr>,
    /// The interface of the virtual address; empty: the one that leads to the edges.
    pub interface: String,
    /// How packets reach the edges.
    #[serde(deserialize_with = "method")]
    pub method: Method,
    /// Chooses the edge for each viewer.
    #[serde(deserialize_with = "scheduler")]
    pub scheduler: Scheduler,
    /// Whether weights are multiplied by the capacity of the edges' networks.
    pub weigh_by_capacity: bool,
    /// Seconds for which a viewer's address stays with its edge; 0: no persistence.
    pub persistence: u32,
    /// Number of address bits that persistence compares; 0: all.
    pub persistence_prefix: u8,
    /// The firewall mark.
    pub mark: u32,
    /// Ports of the edges and the virtual address.
    pub ports: Ports,
    /// Addresses of films.
    pub films: FilmsConfig,
    /// Address of the director's page.
    pub http: Page,
    /// How edges are checked.
    pub health: HealthConfig,
    /// Failover between several directors.
    pub failover: FailoverConfig,
    /// The edges.
    pub edge: Vec<EdgeConfig>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            address: None,
            interface: String::new(),
            method: Method::Direct,
            scheduler: Scheduler::WeightedLeastConnections,
            weigh_by_capacity: true,
            persistence: 300,
            persistence_prefix: 0,
            mark: 0x5ee1,
            ports: Ports::default(),
            films: FilmsConfig::default(),
            http: Page::default(),
            health: HealthConfig::default(),
            failover: FailoverConfig::default(),
            edge: Vec::new(),
        }
    }
}

impl Config {
    /// Reads a configuration file without checking its values.
    ///
    /// # Errors
    /// The file cannot be read or parsed.
    pub fn read(path: &Path) -> anyhow::Result<Config> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Checks the configuration.
    ///
    /// # Errors
    /// A value is missing, out of range or in conflict with another.
    pub fn check(&self) -> anyhow::Result<()> {
        let address = self.virtual_address()?;
        ensure!(
            !self.edge.is_empty(),
            "no edges: name one (--edge ADDRESS), or set `[[edge]]` in the configuration"
        );
        ensure!(
            self.edge.len() <= MOST_EDGES,
            "{} edges: at most {MOST_EDGES}",
            self.edge.len()
        );
        let mut seen = BTreeSet::new();
        for edge in &self.edge {
            let at = edge.address;
            ensure!(seen.insert(at), "edge {at} stands there twice");
            ensure!(
                at.is_ipv4() == address.is_ipv4(),
                "edge {at}: the virtual address {address} is of another family"
            );
            ensure!(
                at != address,
                "edge {at} has the virtual address for its own"
            );
            ensure!(
                edge.weight <= MOST_WEIGHT,
                "edge {at}: weight {} must be from 0 to {MOST_WEIGHT}",
                edge.weight
            );
        }
        let Ports {
            rtsp,
            http,
            rtp,
            rtcp,
        } = self.ports;
        ensure!(
            [rtsp, http, rtp, rtcp].iter().all(|port| *port > 0),
            "ports: each must be above 0"
        );
        ensure!(
            rtsp != http && rtp != rtcp,
            "ports: RTSP and HTTP need one each, RTP and RTCP too"
        );
        self.check_own_ports()?;
        self.check_films()?;
        ensure!(
            (1..=marks::MOST).contains(&self.mark),
            "mark {:#x} must be from 1 to {:#x}",
            self.mark,
            marks::MOST
        );
        let bits = if address.is_ipv4() { 32 } else { 128 };
        ensure!(
            self.persistence_prefix <= bits,
            "persistence_prefix {} must be from 0 to {bits}",
            self.persistence_prefix
        );
        let health = &self.health;
        ensure!(
            (0.1..=3600.0).contains(&health.every) && (0.1..=60.0).contains(&health.timeout),
            "health: every must be from 0.1 to 3600 seconds, timeout from 0.1 to 60"
        );
        ensure!(
            (1..=100).contains(&health.rise) && (1..=100).contains(&health.fall),
            "health: rise and fall must be from 1 to 100"
        );
        ensure!(
            health.slow == 0.0 || (1.5..=1000.0).contains(&health.slow),
            "health: slow must be 0, or from 1.5 to 1000"
        );
        ensure!(
            health.rtsp || !health.path.is_empty(),
            "health: set rtsp or path, or nothing is asked"
        );
        ensure!(
            health.path.is_empty() || is_path(&health.path),
            "health: path '{}' must begin with / and have no spaces",
            health.path.escape_debug()
        );
        let failover = &self.failover;
        ensure!(
            (1..=254).contains(&failover.priority),
            "failover: priority {} must be from 1 to 254",
            failover.priority
        );
        if let Some(gateway) = failover.gateway {
            ensure!(
                gateway.is_ipv4() == address.is_ipv4() && gateway != address,
                "failover: gateway {gateway} must be of the virtual address's family, and another address"
            );
        }
        ensure!(
            !failover.is_on() || self.method != Method::Nat || failover.gateway.is_some(),
            "failover: with nat, the edges' gateway must move with the address; set `failover.gateway`"
        );
        Ok(())
    }

    /// Checks the edges' own UDP ports.
    fn check_own_ports(&self) -> anyhow::Result<()> {
        let mut taken = BTreeMap::new();
        for edge in &self.edge {
            let at = edge.address;
            if let Some(rtp) = edge.rtp {
                ensure!(
                    (marks::FIRST_PORT..u16::MAX).contains(&rtp),
                    "edge {at}: rtp {rtp} must be from {} to 65534",
                    marks::FIRST_PORT
                );
            }
            for port in self.ports.media(edge) {
                let other: Option<&EdgeConfig> = taken.insert(port, edge);
                let Some(other) = other.filter(|other| edge.rtp.or(other.rtp).is_some()) else {
                    continue;
                };
                bail!(
                    "edges {} and {at} both have UDP port {port}: one with an RTP port of its own (`rtp`) needs that and the \
                     next one for itself",
                    other.address
                );
            }
        }
        Ok(())
    }

    /// Checks the addresses of films.
    fn check_films(&self) -> anyhow::Result<()> {
        let (Some(films), address) = (self.films.addresses, self.virtual_address()?) else {
            return Ok(());
        };
        ensure!(
            films.is_v6() == address.is_ipv6(),
            "films.addresses: {films} is of another family than the virtual address {address}"
        );
        let edges = self.edge.iter().map(|edge| edge.address);
        for taken in edges.chain(self.failover.gateway).chain([address]) {
            ensure!(
                !films.contains(taken),
                "films.addresses: {films} contains {taken}, which is in use"
            );
        }
        for edge in &self.edge {
            ensure!(
                edge.rtp.is_some(),
                "films.addresses: edge {} needs an RTP port of its own, or its viewers' reports would reach others: set `rtp` \
                 (--edge {0},8002), and the same on the edge (--rtp-ports 8002,8003)",
                edge.address
            );
        }
        Ok(())
    }

    /// Returns the virtual address.
    ///
    /// # Errors
    /// None is configured.
    pub fn virtual_address(&self) -> anyhow::Result<IpAddr> {
        self.address.context(
            "no virtual address: name one (--address 192.0.2.100), or set `address` in the configuration",
        )
    }

    /// Returns the key that a running director cannot change, if it differs in another
    /// configuration.
    pub fn differs_too_much(&self, other: &Config) -> Option<&'static str> {
        match self {
            _ if self.address != other.address => Some("address"),
            _ if self.interface != other.interface => Some("interface"),
            _ if self.method != other.method => Some("method"),
            _ if self.mark != other.mark => Some("mark"),
            _ if self.http != other.http => Some("http"),
            _ if self.ports != other.ports => Some("ports"),
            _ if self.films.addresses != other.films.addresses => Some("films.addresses"),
            _ if self.failover != other.failover => Some("failover"),
            // The kernel settings that accept the answers to checks are made only at the start.
            _ if other.health.through && !self.health.through => Some("health.through"),
            _ => None,
        }
    }

    /// Returns the time between two checks of an edge.
    pub fn every(&self) -> Duration {
        Duration::from_secs_f64(self.health.every)
    }

    /// Returns the addresses at which an edge is checked: RTSP and HTTP.
    pub fn checked_at(&self, edge: &EdgeConfig) -> [SocketAddr; 2] {
        [self.ports.rtsp, self.ports.http].map(|port| SocketAddr::new(edge.address, port))
    }
}

/// Whether a text can be the path of an HTTP request.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.len() <= 1000 && text.chars().all(|c| c.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_the_defaults() {
        let reference: Config = toml::from_str(REFERENCE).unwrap();
        assert_eq!(reference, Config::default());
        // Keys that are commented out are valid, too.
        let whole: String = REFERENCE
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(key) if key.starts_with(['a', 'w', '[', 'r']) && key.contains(['=', '[']) => {
                    format!("{key}\n")
                }
                _ => format!("{line}\n"),
            })
            .collect();
        let whole: Config = toml::from_str(&whole).unwrap();
        whole.check().unwrap();
        assert_eq!(whole.edge.len(), 1);
    }

    fn words(text: &str) -> String {
        let config = toml::from_str::<Config>(text).map_err(anyhow::Error::from);
        format!(
            "{:#}",
            config.and_then(|config| config.check()).unwrap_err()
        )
    }

    #[test]
    fn a_director_that_runs_takes_over_other_edges_but_no_other_way_of_its_own() {
        let config = |lines: &str| {
            let text = format!("address = \"10.0.0.1\"\n{lines}");
            toml::from_str::<Config>(&text).unwrap()
        };
        let (own, through) = (
            config("[health]\nthrough = false"),
            config("[health]\nthrough = true"),
        );
        assert_eq!(own.differs_too_much(&through), Some("health.through"));
        assert_eq!(through.differs_too_much(&own), None);
        let edges = config("[health]\nthrough = false\n[[edge]]\naddress = \"10.0.0.2\"");
        assert_eq!(own.differs_too_much(&edges), None);
        let nat = config("method = \"nat\"\n[health]\nthrough = false");
        assert_eq!(own.differs_too_much(&nat), Some("method"));
    }

    #[test]
    fn what_does_not_go_together_is_said() {
        let edge = "[[edge]]\naddress = \"10.0.0.2\"\n";
        let with = |line: &str| words(&format!("address = \"10.0.0.1\"\n{line}\n{edge}"));
        assert!(words(edge).contains("--address"));
        assert!(words("address = \"10.0.0.1\"").contains("--edge"));
        assert!(with("scheduler = \"best\"").contains("one of rr, wrr"));
        assert!(with("method = \"gue\"").contains("gue:PORT"));
        assert!(with("methods = 1").contains("methods"));
        assert!(with("persistence_prefix = 33").contains("0 to 32"));
        assert!(with("[ports]\nrtcp = 8000").contains("one each"));
        assert!(with(edge).contains("twice"));
        assert!(with("[[edge]]\naddress = \"fd00::1\"").contains("family"));
        assert!(with("[[edge]]\naddress = \"10.0.0.1\"").contains("for its own"));
        assert!(with("[[edge]]\naddress = \"10.0.0.3\"\nweight = 65536").contains("weight 65536"));
        assert!(with("[failover]\npriority = 255").contains("1 to 254"));
        assert!(with("[failover]\ngateway = \"fd00::1\"").contains("family"));
        let nat = "method = \"nat\"\n[failover]\nrouter = 51";
        assert!(with(nat).contains("failover.gateway"));
        assert!(with("[health]\nrtsp = false\npath = \"\"").contains("nothing is asked"));
        assert!(with("[health]\nslow = 1.0").contains("1.5 to 1000"));
        assert!(with("[health]\npath = \"/a b\"").contains("no spaces"));
    }

    #[test]
    fn edges_with_ports_of_their_own_share_them_with_none_and_films_need_them() {
        let with = |lines: &str| {
            let text = format!("address = \"10.0.0.1\"\n{lines}");
            toml::from_str::<Config>(&text).unwrap().check()
        };
        let edge = |host: u8, rtp: &str| format!("[[edge]]\naddress = \"10.0.0.{host}\"\n{rtp}\n");
        let (one, two) = (edge(2, "rtp = 8000"), edge(3, "rtp = 8002"));
        with(&(one.clone() + &two)).unwrap();
        with(&(edge(2, "") + &two)).unwrap();
        let films = |network: &str| format!("[films]\naddresses = \"{network}\"\n");
        with(&(films("10.0.0.128/26") + &one + &two)).unwrap();
        for (wrong, words) in [
            (edge(2, "rtp = 8001") + &two, "UDP port 8002"),
            (
                edge(2, "") + &edge(3, "rtp = 8000"),
                "10.0.0.2 and 10.0.0.3",
            ),
            (edge(2, "rtp = 65535"), "1024 to 65534"),
            (edge(2, "rtp = 1023"), "1024 to 65534"),
            ("mark = 65536\n".to_owned() + &one, "1 to 0xffff"),
            (
                films("10.0.0.128/26") + &edge(2, "") + &two,
                "10.0.0.2 needs",
            ),
            (
                films("10.0.0.0/28") + &one + &two,
                "10.0.0.2, which is in use",
            ),
            (films("fd00::/122") + &one + &two, "another family"),
        ] {
            let error = with(&wrong).unwrap_err().to_string();
            assert!(error.contains(words), "{wrong}: {error}");
        }
    }
}
