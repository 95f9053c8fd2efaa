//! Routes to viewers: through which socket, and how packets are carried.

use std::net::{IpAddr, SocketAddr};

use reelway_demand::Carriage;
use reelway_sys::udp::Destination;

use crate::path::Path;
use crate::streams::Track;

/// Returns how the packets of a stream with these tracks are carried.
pub(crate) fn carriage(tracks: &[Track]) -> Carriage {
    match tracks.first().map(|track| &track.path) {
        Some(Path::Tcp { .. }) => Carriage::Tcp,
        Some(Path::Udp(udp)) if udp.rtp.address().ip().to_canonical().is_ipv6() => Carriage::UdpV6,
        _ => Carriage::UdpV4,
    }
}

/// Chooses the socket: the one on the address that the viewer connected to, or else one that
/// reaches them. Returns its index, and the viewer's address in the form that the socket needs.
pub(crate) fn route(
    sockets: &[SocketAddr],
    from: Option<IpAddr>,
    to: SocketAddr,
) -> Option<(usize, Destination)> {
    let from = from.map(|from| from.to_canonical());
    let target = to.ip().to_canonical();
    let reaches = |socket: &SocketAddr| match socket.ip() {
        IpAddr::V4(_) => target.is_ipv4(),
        IpAddr::V6(local) => target.is_ipv6() || local.is_unspecified(),
    };
    let exact = sockets
        .iter()
        .position(|socket| Some(socket.ip()) == from && reaches(socket));
    let wild = || {
        sockets
            .iter()
            .position(|socket| socket.ip().is_unspecified() && reaches(socket))
    };
    let number = exact
        .or_else(wild)
        .or_else(|| sockets.iter().position(reaches))?;
    let local = sockets[number];
    // Only a socket on all addresses needs to know which one to use.
    let origin =
        from.filter(|from| local.ip().is_unspecified() && from.is_ipv4() == target.is_ipv4());
    Some((number, Destination::new(to, origin, local.is_ipv6())))
}
