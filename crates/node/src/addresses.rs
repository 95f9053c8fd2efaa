//! Listening addresses, and the source addresses of media.

use std::net::{IpAddr, SocketAddr};

use crate::config::{Config, Listen};
use crate::lan;

/// Addresses given by flag, which override `listen` and the ports of the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    /// Listening address of RTSP.
    pub rtsp: Option<SocketAddr>,
    /// Listening address of HTTP.
    pub http: Option<SocketAddr>,
}

/// Returns the addresses to listen on: the one given by flag, else this port on the addresses of
/// `listen`. A machine without IPv6 is served over IPv4 alone.
pub(crate) fn listen(config: &Config, given: Option<SocketAddr>, port: u16) -> Vec<SocketAddr> {
    if let Some(address) = given {
        return vec![address];
    }
    let addresses = config.listen.addresses().into_iter();
    let usable = addresses.filter(|address| {
        address.is_ipv4() || has_ipv6() || config.listen == Listen::Address(*address)
    });
    usable
        .map(|address| SocketAddr::new(address, port))
        .collect()
}

/// Returns the source addresses of media: those of RTSP. A UDP socket on the IPv6 wildcard address
/// takes IPv4 too, so IPv4 then needs no socket of its own.
pub(crate) fn media_addresses(rtsp: &[SocketAddr]) -> Vec<IpAddr> {
    let all_of_v6 = IpAddr::from([0; 16]);
    let both = rtsp.iter().any(|address| address.ip() == all_of_v6);
    let addresses = rtsp.iter().map(SocketAddr::ip);
    addresses.filter(|ip| !(both && ip.is_ipv4())).collect()
}

/// Returns the `host:port` at which viewers reach a listener on this address.
pub(crate) fn reached_at(config: &Config, address: SocketAddr) -> String {
    match config.siblings.host.as_str() {
        "" => lan::shown(address)[0].to_string(),
        host => format!("{host}:{}", address.port()),
    }
}

/// Returns the `host:port` at which viewers reach a listener for HTTPS. Certificates are issued for
/// names, so it is a name if there is one.
pub(crate) fn https_reached_at(config: &Config, address: SocketAddr) -> String {
    match (config.siblings.host.as_str(), config.names.first()) {
        ("", Some(name)) => format!("{name}:{}", address.port()),
        _ => reached_at(config, address),
    }
}

/// Returns the addresses to listen on for HTTP over TLS, in addition to those of HTTP; empty
/// without a certificate.
pub(crate) fn https_listen(config: &Config, http: &[SocketAddr]) -> Vec<SocketAddr> {
    let is_served = !config.tls.certificate.as_os_str().is_empty();
    let http = http.iter().filter(|_| is_served);
    http.map(|at| SocketAddr::new(at.ip(), config.tls.port))
        .collect()
}

fn has_ipv6() -> bool {
    std::net::UdpSocket::bind(("::1", 0)).is_ok()
}

pub(crate) fn http_address(listen: &[SocketAddr]) -> SocketAddr {
    listen
        .first()
        .copied()
        .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_for_https_has_the_name_in_the_certificate() {
        let at = SocketAddr::from(([127, 0, 0, 1], 8443));
        let mut config = Config::default();
        assert_eq!(https_reached_at(&config, at), "127.0.0.1:8443");
        config.names = vec!["tv.example".to_owned(), "films.example".to_owned()];
        assert_eq!(https_reached_at(&config, at), "tv.example:8443");
        assert_eq!(reached_at(&config, at), "127.0.0.1:8443");
        config.siblings.host = "edge1.example".to_owned();
        assert_eq!(https_reached_at(&config, at), "edge1.example:8443");
    }
}
