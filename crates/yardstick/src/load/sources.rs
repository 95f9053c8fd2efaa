//! The source addresses of viewers.

use std::net::IpAddr;
use std::str::FromStr;

/// Maximum number of addresses.
const MOST: u128 = 65_536;

/// A list of source addresses and ranges of them (`10.0.0.1-10.0.0.38,10.0.1.1`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources(Vec<IpAddr>);

impl Sources {
    /// Returns the address of one of `viewers` viewers; neighbours share addresses evenly.
    pub fn of(&self, viewer: usize, viewers: usize) -> IpAddr {
        let place = viewer.min(viewers.saturating_sub(1)) * self.0.len() / viewers.max(1);
        self.0[place]
    }
}

impl FromStr for Sources {
    type Err = String;

    fn from_str(text: &str) -> Result<Sources, String> {
        let usage = || format!("{text:?}: addresses of this machine, such as 10.0.0.1-10.0.0.38");
        let mut all = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let address = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| usage());
            let (first, last) = (address(first)?, address(last)?);
            let (from, to) = (number(first), number(last));
            if first.is_ipv4() != last.is_ipv4() || to < from {
                return Err(usage());
            }
            if to - from >= MOST - all.len() as u128 {
                return Err(format!("{text:?}: more than {MOST} addresses"));
            }
            all.extend((from..=to).map(|number| match first {
                IpAddr::V4(_) => IpAddr::V4((number as u32).into()),
                IpAddr::V6(_) => IpAddr::V6(number.into()),
            }));
        }
        Ok(Sources(all))
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_an_address_and_all_addresses_are_used() {
        let sources: Sources = "10.0.0.254-10.0.1.3,fd00::1".parse().unwrap();
        let of: Vec<String> = (0..21)
            .map(|viewer| sources.of(viewer, 21).to_string())
            .collect();
        assert_eq!(of[0], "10.0.0.254");
        assert_eq!(of[2], "10.0.0.254");
        assert_eq!(of[3], "10.0.0.255");
        assert_eq!(of[6], "10.0.1.0");
        assert_eq!(of[17], "10.0.1.3");
        assert_eq!(of[20], "fd00::1");
        let one: Sources = "10.0.0.1".parse().unwrap();
        assert_eq!(one.of(7, 5).to_string(), "10.0.0.1");
        // Fewer viewers than addresses.
        assert_eq!(sources.of(1, 2).to_string(), "10.0.1.1");
    }

    #[test]
    fn what_is_no_list_of_addresses_is_refused() {
        for text in [
            "",
            "10.0.0.1-",
            "10.0.0.2-10.0.0.1",
            "10.0.0.1-fd00::1",
            "10.0.0.0/8",
            "10.0.0.0-10.1.0.0",
            "fd00::-fdff::",
            "localhost",
        ] {
            assert!(text.parse::<Sources>().is_err(), "{text}");
        }
    }
}
