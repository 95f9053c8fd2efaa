//! Film addresses: a network of addresses, one of which is assigned to each film. Servers send
//! viewers to these addresses, and a director has each address answered by one of its servers.
//! Pure.
#![forbid(unsafe_code)]

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpAdd, IpNet};
use serde::{Deserialize, Deserializer};
use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of addresses: each is added to interfaces of the director and all servers, and is
/// listed on the servers' pages.
const MOST: u32 = 64;

/// The addresses of a network, including its first and last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilmAddresses(IpNet);

impl FilmAddresses {
    /// Returns the address of a film. All servers that use the same title compute the same address,
    /// since they do not know each other.
    pub fn of(&self, title: &str) -> IpAddr {
        let count = u64::from(self.count());
        // Less than `count`.
        self.at((xxh3_64(title.as_bytes()) % count) as u32)
    }

    /// Iterates over all the addresses.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let addresses = *self;
        (0..self.count()).map(move |number| addresses.at(number))
    }

    /// Whether this address is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Whether they are IPv6 addresses.
    pub fn is_v6(&self) -> bool {
        self.0.addr().is_ipv6()
    }

    fn at(&self, number: u32) -> IpAddr {
        match self.0.network() {
            IpAddr::V4(first) => first.saturating_add(number).into(),
            IpAddr::V6(first) => first.saturating_add(u128::from(number)).into(),
        }
    }

    fn count(&self) -> u32 {
        count(self.0).unwrap_or(MOST)
    }
}

/// Returns the number of addresses in a network; `None` if there are more than `MOST`.
fn count(network: IpNet) -> Option<u32> {
    let bits = network.max_prefix_len() - network.prefix_len();
    let count = 1u32.checked_shl(bits.into())?;
    (count <= MOST).then_some(count)
}

impl FromStr for FilmAddresses {
    type Err = String;

    fn from_str(text: &str) -> Result<FilmAddresses, String> {
        let network = text.parse::<IpNet>();
        let network =
            network.map_err(|_| format!("'{text}' is no network such as 192.0.2.128/26"))?;
        match count(network) {
            Some(_) => Ok(FilmAddresses(network.trunc())),
            None => Err(format!("'{text}' has more than {MOST} addresses")),
        }
    }
}

impl fmt::Display for FilmAddresses {
    /// Formats the network in CIDR notation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Deserialises a configuration value in which an empty string means that there are no film
/// addresses.
///
/// # Errors
/// The text is neither empty nor a valid network.
pub fn optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<FilmAddresses>, D::Error> {
    let text = String::deserialize(from)?;
    let addresses = (!text.is_empty()).then(|| text.parse());
    addresses.transpose().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn addresses(text: &str) -> FilmAddresses {
        text.parse().unwrap()
    }

    #[test]
    fn a_film_has_the_same_address_whoever_computes_it() {
        // The result that other servers compute: if it changes, films move to other addresses.
        let v4 = addresses("192.0.2.130/26");
        assert_eq!(v4.of("nature/bunny").to_string(), "192.0.2.132");
        let v6 = addresses("fd00::/122");
        assert_eq!(v6.of("nature/bunny").to_string(), "fd00::4");
    }

    #[test]
    fn films_are_spread_over_all_addresses_and_no_others() {
        let all = addresses("192.0.2.128/26");
        let mut films: BTreeMap<IpAddr, u32> = BTreeMap::new();
        for film in 0..6400 {
            *films.entry(all.of(&format!("film {film}"))).or_default() += 1;
        }
        assert!(films.keys().copied().eq(all.iter()), "{films:?}");
        assert!(films.keys().all(|address| all.contains(*address)));
        let is_even = |count: &u32| (50..160).contains(count);
        assert!(films.values().all(is_even), "{films:?}");
    }

    #[test]
    fn they_are_a_small_network() {
        let of = |text| -> Vec<String> {
            let all = addresses(text).iter();
            all.map(|address| address.to_string()).collect()
        };
        assert_eq!(of("192.0.2.131/31"), ["192.0.2.130", "192.0.2.131"]);
        assert_eq!(of("fd00::/127"), ["fd00::", "fd00::1"]);
        assert_eq!(of("192.0.2.7/32"), ["192.0.2.7"]);
        assert_eq!(of("255.255.255.192/26").len(), 64);
        assert_eq!(addresses("192.0.2.131/31").to_string(), "192.0.2.130/31");
        for wrong in [
            "192.0.2.0/25",
            "::/0",
            "0.0.0.0/0",
            "192.0.2.1",
            "192.0.2.0/33",
            "films",
        ] {
            assert!(wrong.parse::<FilmAddresses>().unwrap_err().contains(wrong));
        }
    }

    #[test]
    fn a_configuration_may_have_none() {
        #[derive(Deserialize)]
        struct Config {
            #[serde(deserialize_with = "optional")]
            key: Option<FilmAddresses>,
        }
        let read = |text| toml::from_str::<Config>(text).map(|config| config.key);
        assert_eq!(read("key = \"\""), Ok(None));
        assert_eq!(
            read("key = \"fd00::/122\""),
            Ok(Some(addresses("fd00::/122")))
        );
        assert!(
            read("key = \"films\"")
                .unwrap_err()
                .to_string()
                .contains("'films'")
        );
    }
}
