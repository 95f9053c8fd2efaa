//! Addresses of films, behind a director: new viewers are redirected to the address of their film.
//! A scheduler that chooses by destination address then sends all viewers of a film to the same
//! edge.

use std::net::SocketAddr;
use std::sync::Arc;

use reelway_catalogue::{Film, Place, Placement, Soon};
use reelway_film_addresses::FilmAddresses;

/// Redirects viewers to their films' addresses, whichever server answers there.
#[derive(Debug)]
pub(crate) struct AtFilmAddresses {
    pub addresses: FilmAddresses,
    /// Ports of RTSP and HTTP, the same on all servers behind these addresses.
    pub ports: (u16, u16),
}

impl AtFilmAddresses {
    fn place_of(&self, title: &str) -> Place {
        let at = |port| SocketAddr::new(self.addresses.of(title), port);
        let (rtsp, http) = self.ports;
        Place {
            rtsp: format!("rtsp://{}", at(rtsp)),
            http: format!("http://{}", at(http)),
            title: title.to_owned(),
        }
    }
}

impl Placement for AtFilmAddresses {
    fn place<'a>(&'a self, film: &'a Arc<Film>) -> Soon<'a, Option<Place>> {
        Box::pin(async { Some(self.place_of(&film.name)) })
    }

    fn addresses(&self) -> Vec<String> {
        let (_, http) = self.ports;
        let all = self.addresses.iter();
        all.map(|address| format!("http://{}", SocketAddr::new(address, http)))
            .collect()
    }

    /// Empty: if a server fails, another one answers at the same address.
    fn others<'a>(&'a self, _: &'a Arc<Film>) -> Soon<'a, Vec<Place>> {
        Box::pin(async { Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_with_the_ports_and_pages_may_get_films_from_all_of_them() {
        let at = |text: &str| AtFilmAddresses {
            addresses: text.parse().unwrap(),
            ports: (8554, 8080),
        };
        let v4 = at("192.0.2.7/32");
        let place = v4.place_of("nature/bunny");
        assert_eq!(place.http, "http://192.0.2.7:8080");
        assert_eq!(place.rtsp, "rtsp://192.0.2.7:8554");
        assert_eq!(place.title, "nature/bunny");
        assert_eq!(v4.addresses(), [place.http]);
        let v6 = at("fd00::/122");
        assert_eq!(v6.addresses().len(), 64);
        assert!(
            v6.place_of("nature/bunny")
                .rtsp
                .starts_with("rtsp://[fd00::")
        );
    }
}
