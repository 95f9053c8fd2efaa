//! The machine's network interfaces: the speed of their links, and which of them leads to a viewer.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

use nix::ifaddrs::getifaddrs;

/// A network interface whose link speed is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Capacity of its link in bytes per second.
    pub speed: u64,
    /// Negotiated link speed in bytes per second, if known.
    pub agreed: Option<u64>,
}

/// The interfaces that have limits of their own, as they were when the server started. They are
/// numbered from 1, as in [`reelway_admission::Resource::Network`]. Default: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links(Vec<Link>);

/// The kernel's directory of interfaces.
const SYSFS: &str = "/sys/class/net";

impl Links {
    /// Returns this machine's interfaces that have a real device and a cable, at their negotiated
    /// speed. Others (loopback, tunnels, Wi-Fi, most virtual machines') report no speed, or a
    /// meaningless one.
    pub fn of_machine() -> Links {
        Links::below(Path::new(SYSFS))
    }

    fn below(dir: &Path) -> Links {
        let mut links: Vec<Link> = std::fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().join("device").exists())
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let speed = speed(dir, &name)?;
                Some(Link {
                    name,
                    speed,
                    agreed: Some(speed),
                })
            })
            .collect();
        links.sort_by(|a, b| a.name.cmp(&b.name));
        links.truncate(u8::MAX.into());
        Links(links)
    }

    /// Adds or replaces interfaces with configured rates, in bytes per second by name.
    ///
    /// # Errors
    /// There is no such interface; the message lists the existing ones.
    pub fn with_rates(self, rates: &BTreeMap<String, u64>) -> Result<Links, String> {
        self.with_rates_below(rates, Path::new(SYSFS))
    }

    fn with_rates_below(
        mut self,
        rates: &BTreeMap<String, u64>,
        dir: &Path,
    ) -> Result<Links, String> {
        for (name, rate) in rates {
            let is_name = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
            if !is_name || !dir.join(name).exists() {
                let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
                let mut there: Vec<String> = entries
                    .filter_map(|entry| entry.file_name().into_string().ok())
                    .collect();
                there.sort();
                return Err(format!(
                    "there is no interface {name}; there are {}",
                    there.join(", ")
                ));
            }
            let link = Link {
                name: name.clone(),
                speed: *rate,
                agreed: speed(dir, name),
            };
            self.0.retain(|other| other.name != *name);
            self.0.push(link);
        }
        self.0.sort_by(|a, b| a.name.cmp(&b.name));
        self.0.truncate(u8::MAX.into());
        Ok(self)
    }

    /// Whether there are no interfaces.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the interfaces with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &Link)> {
        (1..=u8::MAX).zip(&self.0)
    }

    /// Returns an interface's name; empty if the number is unknown.
    pub fn name(&self, number: u8) -> &str {
        let link = usize::from(number).checked_sub(1);
        link.and_then(|place| self.0.get(place))
            .map_or("", |link| &link.name)
    }

    /// Returns the interface on which packets to `peer` leave; `None`: one without a limit.
    pub fn leaving_to(&self, peer: IpAddr) -> Option<u8> {
        let is_limited = |name| self.0.iter().any(|link| link.name == name);
        if self.is_empty() || peer.to_canonical().is_loopback() && !is_limited("lo") {
            return None;
        }
        let from = source_address(peer.to_canonical())?;
        let interface = getifaddrs().ok()?.find(|interface| {
            interface.address.is_some_and(|address| {
                let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
                let v6 = || address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()));
                v4.or_else(v6) == Some(from)
            })
        })?;
        let found = self
            .iter()
            .find(|(_, link)| link.name == interface.interface_name);
        found.map(|(number, _)| number)
    }

    /// Returns each link's current speed in thousandths of its full speed. A link without a cable
    /// keeps its last value: nobody can be reached over it, and its viewers return with it.
    pub(crate) fn shares(&self) -> Vec<(u8, u32)> {
        self.shares_below(Path::new(SYSFS))
    }

    fn shares_below(&self, dir: &Path) -> Vec<(u8, u32)> {
        self.iter()
            .filter_map(|(number, link)| {
                let now = u128::from(speed(dir, &link.name)?);
                // If an interface reports less than its configured rate, the reported speed is
                // wrong; it counts as slower only if it reports even less.
                let whole = link.agreed.unwrap_or(link.speed).min(link.speed);
                let share = (now * 1000 / u128::from(whole.max(1))).clamp(1, 1000);
                Some((number, share as u32))
            })
            .collect()
    }
}

/// Returns the negotiated speed of an interface's link in bytes per second; `None` without a cable.
fn speed(dir: &Path, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(dir.join(name).join("speed")).ok()?;
    // In Mbit/s; -1 and 2^32-1 mean unknown.
    let speed: i64 = text.trim().parse().ok()?;
    (1..i64::from(u32::MAX))
        .contains(&speed)
        .then(|| speed as u64 * 125_000)
}

/// Returns the source address of packets to `peer`. Nothing is sent: connecting a UDP socket only
/// consults the routing table.
fn source_address(peer: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match peer {
        IpAddr::V4(_) => [0; 4].into(),
        IpAddr::V6(_) => [0; 16].into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(SocketAddr::new(peer, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_counts_that_has_a_device_and_a_speed_and_is_followed_when_it_gets_slower() {
        let dir = std::env::temp_dir().join(format!("reelway-links-{}", std::process::id()));
        let set = |name: &str, file: &str, text: &str| {
            std::fs::create_dir_all(dir.join(name)).unwrap();
            std::fs::write(dir.join(name).join(file), text).unwrap();
        };
        for (name, speed) in [("eth1", "1000\n"), ("eth0", "100\n"), ("wlan0", "-1\n")] {
            set(name, "device", "");
            set(name, "speed", speed);
        }
        // A tunnel reports 10 Mbit/s, which nobody has measured.
        set("tun0", "speed", "10\n");
        let links = Links::below(&dir);
        let found: Vec<_> = links
            .iter()
            .map(|(number, link)| (number, link.name.as_str(), link.speed))
            .collect();
        assert_eq!(found, [(1, "eth0", 12_500_000), (2, "eth1", 125_000_000)]);
        assert_eq!(links.shares_below(&dir), [(1, 1000), (2, 1000)]);
        set("eth1", "speed", "100\n");
        set("eth0", "speed", "-1\n");
        assert_eq!(links.shares_below(&dir), [(2, 100)], "eth0's cable is out");
        set("eth0", "speed", "10000\n");
        assert_eq!(
            links.shares_below(&dir)[0],
            (1, 1000),
            "no more than was judged by"
        );
        assert_eq!(links.leaving_to("127.0.0.1".parse().unwrap()), None);

        let rates = |name: &str, rate| BTreeMap::from([(name.to_owned(), rate)]);
        let set_to = links
            .clone()
            .with_rates_below(&rates("tun0", 50_000_000), &dir);
        let names = |links: &Links| {
            links
                .iter()
                .map(|(_, link)| link.name.clone())
                .collect::<Vec<_>>()
        };
        let set_to = set_to.unwrap();
        assert_eq!(names(&set_to), ["eth0", "eth1", "tun0"]);
        assert_eq!(
            set_to.shares_below(&dir)[2],
            (3, 1000),
            "it carries what it is configured for, whatever it reports"
        );
        set("tun0", "speed", "5\n");
        assert_eq!(set_to.shares_below(&dir)[2], (3, 500));
        let slower = links
            .clone()
            .with_rates_below(&rates("eth1", 1_000_000), &dir)
            .unwrap();
        let eth1 = &slower.iter().last().unwrap().1;
        assert_eq!((eth1.speed, eth1.agreed), (1_000_000, Some(12_500_000)));
        assert_eq!(
            slower.shares_below(&dir)[1],
            (2, 1000),
            "it carries more than is used of it"
        );
        for name in ["eth7", "", "../net/eth0"] {
            let error = links
                .clone()
                .with_rates_below(&rates(name, 1), &dir)
                .unwrap_err();
            assert!(
                error.contains("there are eth0, eth1, tun0, wlan0"),
                "{error}"
            );
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
