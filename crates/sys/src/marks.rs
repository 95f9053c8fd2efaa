//! Marks on packets for the queues along their path: the differentiated services code point for
//! routers (RFC 2474), and the priority by which this machine's own queues sort (`SO_PRIORITY`).
//!
//! On a nearly full link, a message to a viewer waits behind the media of all others: three times
//! for a refusal (SYN-ACK, description, answer). Such messages are small, so they go first.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::{check, options};

/// Marks of control traffic: answers, descriptions, playlists, reports.
const CONTROL: (u8, u8) = (
    // CS5, signalling (RFC 4594 section 3.2).
    40, // Before RTP (`TC_PRIO_CONTROL`). Needs CAP_NET_ADMIN or CAP_NET_RAW.
    7,
);

/// The highest priority that needs no privilege (`TC_PRIO_INTERACTIVE`).
const HIGHEST_FOR_ALL: u8 = 6;

/// Marks all packets that a socket sends. For a listening one, that is the first packet to each
/// peer (SYN-ACK); the connections that it accepts start without a priority.
///
/// If a priority of 7 is not permitted, 6 is set.
///
/// # Errors
/// The kernel's error; the marks are then unchanged, or set in part.
pub fn set(socket: BorrowedFd<'_>, dscp: u8, priority: u8) -> io::Result<()> {
    let tos = libc::c_int::from(dscp.min(63)) << 2;
    if is_ipv6(socket)? {
        options::set(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos)?;
        // It is used for mapped addresses; a socket that cannot reach any may refuse it.
        let _ = options::set(socket, libc::IPPROTO_IP, libc::IP_TOS, tos);
    } else {
        options::set(socket, libc::IPPROTO_IP, libc::IP_TOS, tos)?;
    }
    // After the code point, which also sets the priority.
    let to = |priority: u8| {
        options::set(
            socket,
            libc::SOL_SOCKET,
            libc::SO_PRIORITY,
            libc::c_int::from(priority),
        )
    };
    match to(priority.min(7)) {
        Err(error)
            if priority > HIGHEST_FOR_ALL && error.kind() == io::ErrorKind::PermissionDenied =>
        {
            to(HIGHEST_FOR_ALL)
        }
        result => result,
    }
}

/// Marks a socket as one for control traffic that carries no media yet.
///
/// # Errors
/// As for [`set`].
pub fn set_control(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, CONTROL.0, CONTROL.1)
}

/// Marks a connection as bulk traffic, which has no precedence.
///
/// # Errors
/// As for [`set`].
pub fn set_bulk(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, 0, 0)
}

/// The priority of traffic that goes after all other (`TC_PRIO_FILLER`): the last band of
/// `pfifo_fast` and `prio`.
pub const LAST: u8 = 1;

/// Marks a connection as one for files, which goes after all other traffic on this machine. `dscp`
/// says the same to the network, if it is to know: 1 is LE, lower effort (RFC 8622).
///
/// # Errors
/// As for [`set`].
pub fn set_last(socket: BorrowedFd<'_>, dscp: u8) -> io::Result<()> {
    set(socket, dscp, LAST)
}

/// The priority of a socket's packets in this machine's queues.
///
/// # Errors
/// The kernel's error.
pub fn priority(socket: BorrowedFd<'_>) -> io::Result<u8> {
    value(socket, libc::SOL_SOCKET, libc::SO_PRIORITY).map(|priority| priority as u8)
}

fn is_ipv6(socket: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(value(socket, libc::SOL_SOCKET, libc::SO_DOMAIN)? == libc::AF_INET6)
}

fn value(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` is an int of `bytes` bytes to be written.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_mut(&mut value).cast(),
            &mut bytes,
        )
    };
    check(i64::from(result)).map(|_| value)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn listeners_and_connections_of_both_versions_of_ip_are_marked_and_bulk_is_not() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            set_control(listener.as_fd()).unwrap();
            let _peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (taken, _) = listener.accept().unwrap();
            set_control(taken.as_fd()).unwrap();
            for socket in [listener.as_fd(), taken.as_fd()] {
                assert!([6, 7].contains(&priority(socket).unwrap()), "{address}");
            }
            let tos = |level, name| value(taken.as_fd(), level, name).unwrap();
            let marked = match is_ipv6(taken.as_fd()).unwrap() {
                true => tos(libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
                false => tos(libc::IPPROTO_IP, libc::IP_TOS),
            };
            assert_eq!(marked >> 2, i32::from(CONTROL.0), "{address}");
            set_bulk(taken.as_fd()).unwrap();
            assert_eq!(priority(taken.as_fd()).unwrap(), 0);
        }
    }
}
