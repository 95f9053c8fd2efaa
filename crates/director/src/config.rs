//! The configuration file.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use reelway_ipvs::{Method, Persistence, Scheduler, Service, Target, Tunnel};
use serde::{Deserialize, Deserializer};

/// The commented reference configuration.
pub const REFERENCE: &str = include_str!("config.toml");

/// Most edges of a director: each is checked every second.
const MOST_EDGES: usize = 256;
/// The largest weight of the kernel.
const MOST_WEIGHT: u32 = 65_535;

/// What a director does.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The virtual address.
    pub address: Option<IpAddr>,
    /// The interface that has it; empty: the one that leads to the edges.
    pub interface: String,
    /// How packets reach the edges.
    #[serde(deserialize_with = "method")]
    pub method: Method,
    /// Which edge a viewer is sent to.
    #[serde(deserialize_with = "scheduler")]
    pub scheduler: Scheduler,
    /// Weights are multiplied by what the edges' networks carry.
    pub weigh_by_capacity: bool,
    /// Seconds for which a viewer's address stays with its edge; 0: not at all.
    pub persistence: u32,
    /// Bits of the address that count for that; 0: all.
    pub persistence_prefix: u8,
    /// Firewall mark.
    pub mark: u32,
    /// Ports of the edges and of the virtual address.
    pub ports: Ports,
    /// How edges are checked.
    pub health: HealthConfig,
    /// A second director.
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
            health: HealthConfig::default(),
            failover: FailoverConfig::default(),
            edge: Vec::new(),
        }
    }
}

/// Ports, TCP and UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ports {
    /// TCP.
    pub rtsp: u16,
    /// TCP.
    pub http: u16,
    /// UDP.
    pub rtp: u16,
    /// UDP.
    pub rtcp: u16,
}

impl Default for Ports {
    fn default() -> Ports {
        Ports {
            rtsp: 8554,
            http: 8080,
            rtp: 8000,
            rtcp: 8001,
        }
    }
}

/// How edges are checked.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HealthConfig {
    /// Seconds between two checks.
    pub every: f64,
    /// Seconds that a check may take.
    pub timeout: f64,
    /// Checks in a row after which an edge gets viewers.
    pub rise: u32,
    /// Checks in a row after which it gets none.
    pub fall: u32,
    /// Seconds over which an edge that has come back gets its weight.
    pub slow_start: u32,
}

impl Default for HealthConfig {
    fn default() -> HealthConfig {
        HealthConfig {
            every: 0.5,
            timeout: 0.7,
            rise: 4,
            fall: 3,
            slow_start: 30,
        }
    }
}

/// Directors that share the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FailoverConfig {
    /// The number of their group on the network: VRRP's virtual router ID. 0: there is only one director.
    pub router: u8,
    /// Of those that are there when nobody has the address, the one with the highest gets it; 1 to 254.
    pub priority: u8,
    /// With NAT, the edges' gateway: it moves with the address.
    pub gateway: Option<IpAddr>,
}

impl FailoverConfig {
    /// Whether there are several directors.
    pub fn is_on(&self) -> bool {
        self.router > 0
    }
}

impl Default for FailoverConfig {
    fn default() -> FailoverConfig {
        FailoverConfig {
            router: 0,
            priority: 100,
            gateway: None,
        }
    }
}

/// An edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeConfig {
    /// Its own address.
    pub address: IpAddr,
    /// How much it carries compared with the others; 0: it gets no new viewers, and those that it has stay.
    #[serde(default = "hundred")]
    pub weight: u32,
}

fn hundred() -> u32 {
    100
}

fn method<'de, D: Deserializer<'de>>(from: D) -> Result<Method, D::Error> {
    parse_method(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

fn scheduler<'de, D: Deserializer<'de>>(from: D) -> Result<Scheduler, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// A forwarding method as it is written.
///
/// # Errors
/// It is none.
pub fn parse_method(text: &str) -> Result<Method, String> {
    match text {
        "direct" => Ok(Method::Direct),
        "nat" => Ok(Method::Nat),
        "ipip" => Ok(Method::Tunnel(Tunnel::Ipip)),
        _ => text
            .strip_prefix("gue:")
            .and_then(|port| port.parse().ok())
            .filter(|port| *port > 0)
            .map(|port| Method::Tunnel(Tunnel::Gue { port }))
            .ok_or_else(|| format!("'{text}' is no method: direct, nat, ipip or gue:PORT")),
    }
}

/// An edge as it is written: ADDRESS or ADDRESS=WEIGHT.
///
/// # Errors
/// It is none.
pub fn parse_edge(text: &str) -> Result<EdgeConfig, String> {
    let (address, weight) = text.split_once('=').unwrap_or((text, "100"));
    let edge = address.parse().ok().zip(weight.parse().ok());
    edge.map(|(address, weight)| EdgeConfig { address, weight })
        .ok_or_else(|| format!("'{text}' is no edge: ADDRESS or ADDRESS=WEIGHT"))
}

/// Several directors as they are written: ID or ID=PRIORITY.
///
/// # Errors
/// It is neither, or out of its range.
pub fn parse_failover(text: &str) -> Result<FailoverConfig, String> {
    let (router, priority) = text.split_once('=').unwrap_or((text, "100"));
    let numbers = router.parse().ok().zip(priority.parse().ok());
    numbers
        .filter(|(router, priority)| *router > 0 && (1..=254).contains(priority))
        .map(|(router, priority)| FailoverConfig {
            router,
            priority,
            gateway: None,
        })
        .ok_or_else(|| {
            format!("'{text}' is not ID or ID=PRIORITY: ID from 1 to 255, PRIORITY from 1 to 254")
        })
}

impl Config {
    /// Reads a file; it is not checked yet.
    ///
    /// # Errors
    /// It cannot be read, or is not understood.
    pub fn read(path: &Path) -> anyhow::Result<Config> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Checks it.
    ///
    /// # Errors
    /// What is missing, out of its range, or does not go together.
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
        ensure!(self.mark > 0, "mark must be above 0");
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

    /// The virtual address.
    ///
    /// # Errors
    /// There is none.
    pub fn virtual_address(&self) -> anyhow::Result<IpAddr> {
        self.address.context(
            "no virtual address: name one (--address 192.0.2.100), or set `address` in the configuration",
        )
    }

    /// The service in the kernel's table.
    ///
    /// # Errors
    /// There is no virtual address.
    pub fn service(&self) -> anyhow::Result<Service> {
        let v6 = self.virtual_address()?.is_ipv6();
        let all = if v6 { 128 } else { 32 };
        Ok(Service {
            target: Target::Mark {
                mark: self.mark,
                v6,
            },
            scheduler: self.scheduler,
            persistence: (self.persistence > 0).then_some(Persistence {
                timeout: self.persistence,
                prefix: match self.persistence_prefix {
                    0 => all,
                    bits => bits,
                },
            }),
            scheduler_flags: 0,
        })
    }

    /// What of another configuration a director that runs cannot take over, if there is anything.
    pub fn differs_too_much(&self, other: &Config) -> Option<&'static str> {
        match self {
            _ if self.address != other.address => Some("address"),
            _ if self.interface != other.interface => Some("interface"),
            _ if self.method != other.method => Some("method"),
            _ if self.mark != other.mark => Some("mark"),
            _ if self.ports != other.ports => Some("ports"),
            _ if self.failover != other.failover => Some("failover"),
            _ => None,
        }
    }

    /// Time between two checks of an edge.
    pub fn every(&self) -> Duration {
        Duration::from_secs_f64(self.health.every)
    }

    /// Where an edge is checked over RTSP and over HTTP.
    pub fn checked_at(&self, edge: &EdgeConfig) -> [SocketAddr; 2] {
        [self.ports.rtsp, self.ports.http].map(|port| SocketAddr::new(edge.address, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_the_defaults() {
        let reference: Config = toml::from_str(REFERENCE).unwrap();
        assert_eq!(reference, Config::default());
        // And what is commented out is understood.
        let whole: String = REFERENCE
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(key) if key.starts_with(['a', 'w', '[']) && key.contains(['=', '[']) => {
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
    }

    #[test]
    fn an_edge_is_an_address_and_its_weight() {
        let edge = parse_edge("10.0.0.2=50").unwrap();
        assert_eq!(
            (edge.address.to_string().as_str(), edge.weight),
            ("10.0.0.2", 50)
        );
        assert_eq!(parse_edge("fd00::1").unwrap().weight, 100);
        assert!(parse_edge("edge1").is_err() && parse_edge("10.0.0.2=x").is_err());
    }

    #[test]
    fn several_directors_are_a_number_and_a_priority() {
        let both = |text| parse_failover(text).map(|failover| (failover.router, failover.priority));
        assert_eq!(both("51"), Ok((51, 100)));
        assert_eq!(both("51=200"), Ok((51, 200)));
        for wrong in ["0", "256", "51=0", "51=255", "51=", "x"] {
            assert!(both(wrong).unwrap_err().contains(wrong));
        }
    }
}
