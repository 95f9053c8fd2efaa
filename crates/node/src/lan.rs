//! What people are told of where the server can be reached.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// This machine's addresses on its networks, the most likely to be reached first: the one by which
/// it would itself reach others, then IPv4, then IPv6. Those of IPv6 that hold within one link only
/// are left out: they say nothing without the name of the reader's own interface.
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

/// The address that packets to anywhere leave from. Nothing is sent.
fn address_of_the_default_route() -> Option<IpAddr> {
    // 192.0.2.1 is a documentation address (RFC 5737); connecting a UDP socket asks the routing table only.
    let socket = UdpSocket::bind(("0.0.0.0", 0)).ok()?;
    socket.connect(("192.0.2.1", 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The addresses to tell people for one that is listened on: where that is every interface, all of
/// this machine's own. Never empty.
pub fn shown(address: SocketAddr) -> Vec<SocketAddr> {
    let mut shown = Vec::new();
    if address.ip().is_unspecified() {
        // A socket on all IPv4 addresses is beside one on all of IPv6.
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

/// An IP address as it stands in a URL.
pub fn host(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// A QR code of half-block characters, light on dark terminals and dark on light ones alike.
pub fn qr_code(text: &str) -> Option<String> {
    let code = qrcode::QrCode::new(text.as_bytes()).ok()?;
    let image = code
        .render::<qrcode::render::unicode::Dense1x2>()
        .dark_color(qrcode::render::unicode::Dense1x2::Light)
        .light_color(qrcode::render::unicode::Dense1x2::Dark)
        .build();
    Some(image)
}
