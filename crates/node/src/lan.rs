//! The addresses at which users can reach the server.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// Returns this machine's addresses on its networks, most likely reachable first: the source
/// address of the default route, then IPv4, then IPv6. Link-local IPv6 addresses are left out: they
/// are useless without the name of the reader's own interface.
pub fn own_addresses() -> Vec<IpAddr> {
    let interfaces = getifaddrs().into_iter().flatten().filter(|interface| {
        interface.flags.contains(InterfaceFlags::IFF_UP)
            && !interface.flags.contains(InterfaceFlags::IFF_LOOPBACK)
    });
    let mut found: Vec<IpAddr> = interfaces
        .filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            let v6 = || {
                let ip = address.as_sockaddr_in6()?.ip();
                (!ip.is_unicast_link_local()).then_some(IpAddr::V6(ip))
            };
            v4.or_else(v6)
        })
        .collect();
    let likely = address_of_the_default_route();
    found.sort_by_key(|ip| (Some(*ip) != likely, ip.is_ipv6(), *ip));
    found.dedup();
    found
}

/// Returns the source address of packets that take the default route. Nothing is sent.
fn address_of_the_default_route() -> Option<IpAddr> {
    // 192.0.2.1 is a documentation address (RFC 5737); connecting a UDP socket only looks up the
    // route.
    let socket = UdpSocket::bind(("0.0.0.0", 0)).ok()?;
    socket.connect(("192.0.2.1", 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Returns the addresses to show to users for a listening address: for a wildcard address, all of
/// this machine's own. Never empty.
pub fn shown(address: SocketAddr) -> Vec<SocketAddr> {
    let mut shown = Vec::new();
    if address.ip().is_unspecified() {
        // Of both families, as the server listens on both wildcard addresses.
        shown = own_addresses();
        if shown.is_empty() {
            shown.push(IpAddr::from([127, 0, 0, 1]));
        }
    } else {
        shown.push(address.ip());
    }
    let with_port = |ip| SocketAddr::new(ip, address.port());
    shown.into_iter().map(with_port).collect()
}

/// Formats an IP address for a URL.
pub fn host(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// Returns a QR code of half-block characters, light on dark terminals and dark on light ones.
pub fn qr_code(text: &str) -> Option<String> {
    let code = qrcode::QrCode::new(text.as_bytes()).ok()?;
    let image = code
        .render::<qrcode::render::unicode::Dense1x2>()
        .dark_color(qrcode::render::unicode::Dense1x2::Light)
        .light_color(qrcode::render::unicode::Dense1x2::Dark)
        .build();
    Some(image)
}
