//! Packets as large as a way carries: sockets whose packets are never cut into fragments.

use std::io;
use std::os::fd::BorrowedFd;

use crate::options;

/// Forbids fragments of what a socket sends: neither this machine nor a router may cut its packets, and what the kernel knows of
/// a smaller network on the way is not used. For measuring (`IP_PMTUDISC_PROBE`).
///
/// # Errors
/// What the kernel said.
pub fn forbid_fragments(socket: BorrowedFd<'_>, is_v6: bool) -> io::Result<()> {
    let (level, name, value) = match is_v6 {
        true => (
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_PROBE,
        ),
        false => (
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        ),
    };
    options::set(socket, level, name, value)
}

/// Whether a packet was not sent because the network of this machine takes none as large.
pub fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_packet_that_would_be_cut_is_not_sent() {
        for (address, is_v6) in [("127.0.0.1", false), ("::1", true)] {
            let socket = UdpSocket::bind((address, 0)).unwrap();
            socket.connect(socket.local_addr().unwrap()).unwrap();
            // More than loopback's 65,536 bytes with its headers.
            let packet = vec![0; 65_500];
            assert!(socket.send(&packet).is_ok() || is_v6);
            forbid_fragments(socket.as_fd(), is_v6).unwrap();
            assert!(socket.send(&packet[..1000]).is_ok());
        }
        assert!(is_too_large(&io::Error::from_raw_os_error(libc::EMSGSIZE)));
        assert!(!is_too_large(&io::ErrorKind::NotFound.into()));
    }
}
