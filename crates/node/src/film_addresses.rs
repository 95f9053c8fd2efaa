//! Addresses of films, behind a director: each film belongs to one of them, and viewers who begin are sent there. A scheduler
//! that goes by the address that is asked for then sends all viewers of a film to the same edge.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::{IpAdd, IpNet};
use reelway_catalogue::{Film, Place, Placement, Soon};
use serde::{Deserialize, Deserializer};
use xxhash_rust::xxh3::xxh3_64;

/// Most of them: pages name them all in a header.
const MOST: u64 = 64;

/// Addresses by which viewers reach films, whichever server answers there.
#[derive(Debug)]
pub(crate) struct FilmAddresses {
    network: IpNet,
    /// RTSP's port and HTTP's, of all servers behind them.
    ports: (u16, u16),
}

impl FilmAddresses {
    pub fn new(network: IpNet, ports: (u16, u16)) -> FilmAddresses {
        FilmAddresses { network, ports }
    }

    /// The film's place: the same at every server that calls it so, as the servers do not know each other.
    fn place_of(&self, title: &str) -> Place {
        let address = address_of(self.network, title);
        let at = |port| SocketAddr::new(address, port);
        let (rtsp, http) = self.ports;
        Place {
            rtsp: format!("rtsp://{}", at(rtsp)),
            http: format!("http://{}", at(http)),
            title: title.to_owned(),
        }
    }
}

/// How many addresses a network has; `None`: 2⁶⁴ or more.
fn count(network: IpNet) -> Option<u64> {
    let bits = network.max_prefix_len() - network.prefix_len();
    1u64.checked_shl(bits.into())
}

/// The address of a network with this number, from 0 on.
fn address(network: IpNet, number: u64) -> IpAddr {
    match network.network() {
        // A network of IPv4 has no more.
        IpAddr::V4(first) => first.saturating_add(number as u32).into(),
        IpAddr::V6(first) => first.saturating_add(u128::from(number)).into(),
    }
}

/// The address of a network that belongs to a film.
fn address_of(network: IpNet, title: &str) -> IpAddr {
    let hash = xxh3_64(title.as_bytes());
    address(network, count(network).map_or(hash, |count| hash % count))
}

impl Placement for FilmAddresses {
    fn place<'a>(&'a self, film: &'a Arc<Film>) -> Soon<'a, Option<Place>> {
        Box::pin(async { Some(self.place_of(&film.name)) })
    }

    fn addresses(&self) -> Vec<String> {
        let (_, http) = self.ports;
        let numbers = 0..count(self.network).unwrap_or(MOST).min(MOST);
        let at = |number| SocketAddr::new(address(self.network, number), http);
        numbers
            .map(|number| format!("http://{}", at(number)))
            .collect()
    }

    /// None: if a server fails, another one answers at the same address.
    fn others<'a>(&'a self, _: &'a Arc<Film>) -> Soon<'a, Vec<Place>> {
        Box::pin(async { Vec::new() })
    }
}

/// A network as it is written: 192.0.2.128/26.
///
/// # Errors
/// It is none, or has more than 64 addresses.
pub fn parse(text: &str) -> Result<IpNet, String> {
    let network = text.parse::<IpNet>().map(|network| network.trunc());
    let network = network.map_err(|_| format!("'{text}' is no network such as 192.0.2.128/26"))?;
    match count(network) {
        Some(count) if count <= MOST => Ok(network),
        _ => Err(format!("'{text}' has more than {MOST} addresses")),
    }
}

/// A network, or nothing.
pub(crate) fn network<'de, D: Deserializer<'de>>(from: D) -> Result<Option<IpNet>, D::Error> {
    let text = String::deserialize(from)?;
    let network = (!text.is_empty()).then(|| parse(&text));
    network.transpose().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_film_has_one_address_of_the_network_everywhere() {
        let network = parse("192.0.2.130/26").unwrap();
        let films = FilmAddresses::new(network, (8554, 8080));
        let place = films.place_of("nature/bunny");
        // As another server's program computes it: films move if this changes.
        assert_eq!(place.http, "http://192.0.2.132:8080");
        assert_eq!(place.rtsp, "rtsp://192.0.2.132:8554");
        assert_eq!(place.title, "nature/bunny");
        let v6 = FilmAddresses::new(parse("fd00::/122").unwrap(), (8554, 8080));
        assert_eq!(v6.place_of("nature/bunny").rtsp, "rtsp://[fd00::4]:8554");
        assert_eq!(v6.addresses().len(), 64);
        assert_eq!(films.addresses()[4], place.http);
        for wrong in [
            "192.0.2.128",
            "192.0.2.128/33",
            "films",
            "10.0.0.0/25",
            "::/0",
        ] {
            assert!(parse(wrong).unwrap_err().contains(wrong));
        }
    }

    #[test]
    fn films_are_spread_over_all_addresses_of_a_network_and_no_others() {
        let network = parse("192.0.2.128/26").unwrap();
        let mut films: BTreeMap<IpAddr, u32> = BTreeMap::new();
        for film in 0..6400 {
            *films
                .entry(address_of(network, &format!("film {film}")))
                .or_default() += 1;
        }
        assert_eq!(films.len(), 64);
        assert!(films.keys().all(|address| network.contains(address)));
        assert!(
            films.values().all(|count| (50..160).contains(count)),
            "{films:?}"
        );
    }
}
