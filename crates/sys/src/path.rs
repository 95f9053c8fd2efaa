//! Sockets whose packets are never fragmented, to find the largest packet that a path carries.

use std::io;
use std::os::fd::BorrowedFd;

use crate::options;

/// Forbids fragmentation of a socket's packets: neither this machine nor a router may fragment
/// them, and what the kernel knows of a smaller path MTU is ignored. For measurements
/// (`IP_PMTUDISC_PROBE`).
///
/// # Errors
/// The kernel's error.
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

/// Whether a packet was not sent because it is too large for this machine's network.
pub fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::{AsFd, AsRawFd};

    use super::*;
    use crate::check;

    /// The value of a socket option.
    fn option(socket: &UdpSocket, level: libc::c_int, name: libc::c_int) -> libc::c_int {
        let (mut value, mut size) = (0, size_of::<libc::c_int>() as libc::socklen_t);
        let to = std::ptr::from_mut(&mut value).cast();
        // SAFETY: both are written during the call, and the first is as large as the second says.
        let result =
            unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, to, &raw mut size) };
        check(i64::from(result)).unwrap();
        value
    }

    #[test]
    fn the_kernel_is_to_send_no_fragments_and_to_learn_of_no_smaller_networks() {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        forbid_fragments(socket.as_fd(), false).unwrap();
        let said = option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
        assert_eq!(said, libc::IP_PMTUDISC_PROBE);
        let socket = UdpSocket::bind(("::1", 0)).unwrap();
        forbid_fragments(socket.as_fd(), true).unwrap();
        let said = option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER);
        assert_eq!(said, libc::IPV6_PMTUDISC_PROBE);
    }

    #[test]
    fn a_packet_that_is_too_large_is_not_mistaken_for_another_error() {
        assert!(is_too_large(&io::Error::from_raw_os_error(libc::EMSGSIZE)));
        assert!(!is_too_large(&io::ErrorKind::NotFound.into()));
    }
}
