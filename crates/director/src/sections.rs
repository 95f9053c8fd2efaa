//! The sections of the configuration, and the short forms of some values. Pure.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use reelway_film_addresses::{self as film_addresses, FilmAddresses};
use reelway_ipvs::{Method, Scheduler, Tunnel};
use serde::{Deserialize, Deserializer};

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

impl Ports {
    /// Returns the ports of an edge for RTP and RTCP.
    pub(crate) fn media(&self, edge: &EdgeConfig) -> [u16; 2] {
        let own = edge.rtp.map(|rtp| [rtp, rtp.saturating_add(1)]);
        own.unwrap_or([self.rtp, self.rtcp])
    }
}

/// Addresses of films, beside the virtual address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FilmsConfig {
    /// Each film belongs to one of these addresses; `None`: films have none.
    #[serde(deserialize_with = "film_addresses::optional")]
    pub addresses: Option<FilmAddresses>,
    /// Chooses the edge for each of these addresses.
    #[serde(deserialize_with = "scheduler")]
    pub scheduler: Scheduler,
}

impl Default for FilmsConfig {
    fn default() -> FilmsConfig {
        FilmsConfig {
            addresses: None,
            scheduler: Scheduler::DestinationHash,
        }
    }
}

/// Address of the director's page, API and metrics; `None`: they are off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Page(pub Option<SocketAddr>);

impl Default for Page {
    fn default() -> Page {
        Page(Some(SocketAddr::from(([127, 0, 0, 1], 8090))))
    }
}

impl FromStr for Page {
    type Err = String;

    fn from_str(text: &str) -> Result<Page, String> {
        let address = (text != "none").then(|| text.parse());
        let address = address.transpose();
        address
            .map(Page)
            .map_err(|_| format!("'{text}' is no address: 127.0.0.1:8090, [::1]:8090 or none"))
    }
}

impl TryFrom<String> for Page {
    type Error = String;

    fn try_from(text: String) -> Result<Page, String> {
        text.parse()
    }
}

/// How edges are checked.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HealthConfig {
    /// Seconds between two checks.
    pub every: f64,
    /// Timeout of a check in seconds.
    pub timeout: f64,
    /// Consecutive successful checks after which an edge gets viewers.
    pub rise: u32,
    /// Consecutive failed checks after which it gets none.
    pub fall: u32,
    /// Seconds over which an edge that has recovered gets its full weight.
    pub slow_start: u32,
    /// An edge whose answers take this many times as long as those of the others gets a quarter of
    /// its weight; 0: off.
    pub slow: f64,
    /// Whether checks go over the virtual address, by the path of viewers' packets.
    pub through: bool,
    /// Whether RTSP must answer.
    pub rtsp: bool,
    /// Path that must exist over HTTP; empty: HTTP is not checked.
    pub path: String,
}

impl Default for HealthConfig {
    fn default() -> HealthConfig {
        HealthConfig {
            every: 0.5,
            timeout: 0.7,
            rise: 4,
            fall: 3,
            slow_start: 30,
            slow: 4.0,
            through: true,
            rtsp: true,
            path: "/readyz".to_owned(),
        }
    }
}

/// Directors that share the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FailoverConfig {
    /// Number of their group on the network (VRRP's virtual router ID); 0: there is only one
    /// director.
    pub router: u8,
    /// If nobody has the address, the director with the highest priority gets it; 1 to 254.
    pub priority: u8,
    /// With NAT, the edges' gateway, which moves with the address.
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
    /// Its weight relative to the other edges; with 0 it gets no new viewers and keeps those that
    /// it has.
    #[serde(default = "hundred")]
    pub weight: u32,
    /// Its UDP port for RTP, if it has one of its own; RTCP uses the next port.
    #[serde(default)]
    pub rtp: Option<u16>,
}

fn hundred() -> u32 {
    100
}

pub(crate) fn method<'de, D: Deserializer<'de>>(from: D) -> Result<Method, D::Error> {
    parse_method(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

pub(crate) fn scheduler<'de, D: Deserializer<'de>>(from: D) -> Result<Scheduler, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// Parses a forwarding method.
///
/// # Errors
/// The text is not a method.
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

/// Parses an edge: ADDRESS or ADDRESS=WEIGHT, either followed by a comma and its UDP port for RTP.
///
/// # Errors
/// The text is not an edge.
pub fn parse_edge(text: &str) -> Result<EdgeConfig, String> {
    let (edge, rtp) = match text.split_once(',') {
        Some((edge, rtp)) => (edge, rtp.parse().map(Some)),
        None => (text, Ok(None)),
    };
    let (address, weight) = edge.split_once('=').unwrap_or((edge, "100"));
    let edge = || {
        Some(EdgeConfig {
            address: address.parse().ok()?,
            weight: weight.parse().ok()?,
            rtp: rtp.ok()?,
        })
    };
    edge().ok_or_else(|| format!("'{text}' is no edge: ADDRESS[=WEIGHT][,RTP PORT]"))
}

/// Parses a group of directors: ID or ID=PRIORITY.
///
/// # Errors
/// The text has another form, or a number is out of range.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_is_an_address_and_its_weight() {
        let edge = parse_edge("10.0.0.2=50").unwrap();
        assert_eq!(
            (edge.address.to_string().as_str(), edge.weight),
            ("10.0.0.2", 50)
        );
        let edge = parse_edge("fd00::1").unwrap();
        assert_eq!((edge.weight, edge.rtp), (100, None));
        assert_eq!(parse_edge("10.0.0.2,8002").unwrap().rtp, Some(8002));
        let both = parse_edge("10.0.0.2=50,8002").unwrap();
        assert_eq!((both.weight, both.rtp), (50, Some(8002)));
        for wrong in ["edge1", "10.0.0.2=x", "10.0.0.2,", "10.0.0.2,65536"] {
            assert!(parse_edge(wrong).unwrap_err().contains(wrong));
        }
    }

    #[test]
    fn a_page_has_an_address_with_a_port_or_none() {
        assert_eq!("127.0.0.1:8090".parse(), Ok(Page::default()));
        assert_eq!("none".parse(), Ok(Page(None)));
        assert!("8090".parse::<Page>().unwrap_err().contains("8090"));
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
