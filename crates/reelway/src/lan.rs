//! What people are told of where the server can be reached.

use std::net::{IpAddr, SocketAddr, UdpSocket};

/// The address by which others on the network most likely reach this machine: the one it would
/// itself use to reach them. Nothing is sent.
pub fn own_address() -> Option<IpAddr> {
    // 192.0.2.1 is a documentation address (RFC 5737); connecting a UDP socket asks the routing table only.
    let socket = UdpSocket::bind(("0.0.0.0", 0)).ok()?;
    socket.connect(("192.0.2.1", 9)).ok()?;
    socket
        .local_addr()
        .ok()
        .map(|address| address.ip())
        .filter(|address| !address.is_unspecified())
}

/// An address to show for one listened on: where that is every interface, this machine's own.
pub fn shown(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    SocketAddr::new(
        own_address().unwrap_or(IpAddr::from([127, 0, 0, 1])),
        address.port(),
    )
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
