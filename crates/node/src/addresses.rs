//! Where the server listens, and where media leaves from.

use std::net::{IpAddr, SocketAddr};

use crate::config::{Config, Listen};
use crate::lan;

/// Addresses given by flag, which override `listen` and the ports of the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    /// That of RTSP.
    pub rtsp: Option<SocketAddr>,
    /// That of HTTP.
    pub http: Option<SocketAddr>,
}

/// Where to listen: the address given by flag, else this port on what `listen` says. A machine
/// without IPv6 is served over IPv4 alone.
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

/// Where media leaves from: the addresses of RTSP. A UDP socket on all of IPv6 takes all of IPv4 too, so
/// there is none beside it.
pub(crate) fn media_addresses(rtsp: &[SocketAddr]) -> Vec<IpAddr> {
    let all_of_v6 = IpAddr::from([0; 16]);
    let both = rtsp.iter().any(|address| address.ip() == all_of_v6);
    let addresses = rtsp.iter().map(SocketAddr::ip);
    addresses.filter(|ip| !(both && ip.is_ipv4())).collect()
}

/// `host:port` by which viewers reach what listens on this address.
pub(crate) fn reached_at(config: &Config, address: SocketAddr) -> String {
    match config.siblings.host.as_str() {
        "" => lan::shown(address)[0].to_string(),
        host => format!("{host}:{}", address.port()),
    }
}

/// Where to listen for HTTP over TLS, beside the addresses of HTTP. Nowhere without a certificate.
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
