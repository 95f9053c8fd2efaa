//! Making UDP sockets.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, RawFd};

use crate::options::set;
use crate::{check, marks};

use super::Destination;

/// A bound UDP socket. Sending never blocks; receiving does, up to a timeout.
#[derive(Debug)]
pub struct UdpSocket {
    inner: std::net::UdpSocket,
    local: SocketAddr,
}

/// Lets messages carry times of departure, and the control message of one (asm-generic/socket.h; libc
/// lacks them).
const SO_TXTIME: libc::c_int = 61;
pub(super) const SCM_TXTIME: libc::c_int = SO_TXTIME;

impl UdpSocket {
    /// Binds to `address`; `[::]` takes IPv4 too, where the system lets it. An address in use is an
    /// error, so that two servers on one port are noticed.
    pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
        Self::bind_with(address, false)
    }

    /// Another socket on the very address of this one, for another thread.
    pub fn sibling(&self) -> io::Result<UdpSocket> {
        // Allowed on the first only now: before binding it would let a second server in unnoticed.
        set(
            self.inner.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_REUSEPORT,
            1,
        )?;
        Self::bind_with(self.local, true)
    }

    fn bind_with(address: SocketAddr, reuse_port: bool) -> io::Result<UdpSocket> {
        let family = if address.is_ipv6() {
            libc::AF_INET6
        } else {
            libc::AF_INET
        };
        // SAFETY: takes numbers only.
        let fd = check(i64::from(unsafe {
            libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)
        }))?;
        // SAFETY: a new descriptor that nobody else owns.
        let inner = unsafe { std::net::UdpSocket::from_raw_fd(fd as RawFd) };
        let fd = inner.as_raw_fd();
        if address.is_ipv6() {
            set(
                fd,
                libc::IPPROTO_IPV6,
                libc::IPV6_V6ONLY,
                libc::c_int::from(!address.ip().is_unspecified()),
            )?;
        }
        if reuse_port {
            set(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        }
        let destination = Destination::new(address, None, address.is_ipv6());
        // SAFETY: the name holds a socket address of the family and length given.
        check(i64::from(unsafe {
            libc::bind(fd, destination.name.as_ptr().cast(), destination.name_bytes)
        }))?;
        let local = inner.local_addr()?;
        Ok(UdpSocket { inner, local })
    }

    /// Where it is bound, with the port the system chose if 0 was asked.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Whether it is an IPv6 socket (as [`Destination::new`] wants to know).
    pub fn is_ipv6(&self) -> bool {
        self.local.is_ipv6()
    }

    /// Whether packets can go to `to` through this socket.
    pub fn reaches(&self, to: IpAddr) -> bool {
        let to = to.to_canonical();
        match self.local.ip() {
            IpAddr::V4(_) => to.is_ipv4(),
            IpAddr::V6(local) => to.is_ipv6() || local.is_unspecified(),
        }
    }

    /// Asks for buffers of these sizes in bytes; beyond the system's limit where the process may.
    /// Returns the send buffer got, as the kernel counts it (twice what was asked, with its overhead).
    pub fn set_buffers(&self, send: u32, receive: u32) -> io::Result<u32> {
        let fd = self.inner.as_raw_fd();
        let of = |bytes: u32| bytes.min(i32::MAX as u32 / 2) as libc::c_int;
        if set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, of(send)).is_err() {
            set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, of(send))?;
        }
        if set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, of(receive)).is_err() {
            set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, of(receive))?;
        }
        let mut got: libc::c_int = 0;
        let mut bytes = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: `got` is an int of `bytes` bytes to be written.
        check(i64::from(unsafe {
            libc::getsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_SNDBUF,
                std::ptr::from_mut(&mut got).cast(),
                &mut bytes,
            )
        }))?;
        Ok(got as u32)
    }

    /// Marks all that is sent: the differentiated services code point (RFC 2474, 0 to 63) that routers
    /// see, and the priority by which this machine's own queues sort (`SO_PRIORITY`, 0 to 6).
    pub fn set_marks(&self, dscp: u8, priority: u8) -> io::Result<()> {
        marks::set(self.as_fd(), dscp, priority.min(6))
    }

    /// Lets messages carry a time of departure (`SO_TXTIME`, `CLOCK_MONOTONIC`). They wait for it where they
    /// pass an fq queue, and nowhere else ([`crate::netlink::keeps_departures`]).
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT` before Linux 4.19.
    pub fn hold_packets(&self) -> io::Result<()> {
        let time = libc::sock_txtime {
            clockid: libc::CLOCK_MONOTONIC,
            flags: 0,
        };
        set(self.inner.as_fd(), libc::SOL_SOCKET, SO_TXTIME, time)
    }

    /// Whether the kernel knows how to cut runs of packets (GSO, since Linux 4.18).
    pub fn cuts_runs(&self) -> io::Result<()> {
        let mut segment: libc::c_int = 0;
        let mut bytes = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: `segment` is an int of `bytes` bytes to be written.
        check(i64::from(unsafe {
            libc::getsockopt(
                self.inner.as_raw_fd(),
                libc::SOL_UDP,
                libc::UDP_SEGMENT,
                std::ptr::from_mut(&mut segment).cast(),
                &mut bytes,
            )
        }))
        .map(drop)
    }

    /// Sends without checksums over IPv4 (`SO_NO_CHECK`); the kernel then cuts no runs. For tests of that.
    pub fn set_no_checksum(&self) -> io::Result<()> {
        set(
            self.inner.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NO_CHECK,
            1,
        )
    }

    /// Sends one datagram now, or fails with `WouldBlock`.
    pub fn send(&self, data: &[u8], to: &Destination) -> io::Result<()> {
        let slice = io::IoSlice::new(data);
        // SAFETY: all-zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = to.name.as_ptr().cast_mut().cast();
        message.msg_namelen = to.name_bytes;
        message.msg_iov = std::ptr::from_ref(&slice).cast_mut().cast();
        message.msg_iovlen = 1;
        if to.origin_bytes > 0 {
            message.msg_control = to.origin.as_ptr().cast_mut().cast();
            message.msg_controllen = to.origin_bytes as _;
        }
        // SAFETY: name, slice and control live through the call, which only reads them.
        let sent = unsafe {
            libc::sendmsg(
                self.inner.as_raw_fd(),
                &message,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        check(sent as i64).map(drop)
    }

    /// Receives a datagram: its length and sender. Waits up to the timeout set with
    /// [`UdpSocket::set_receive_timeout`].
    pub fn receive(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (bytes, from) = self.inner.recv_from(into)?;
        Ok((
            bytes,
            SocketAddr::new(from.ip().to_canonical(), from.port()),
        ))
    }

    /// Whether a datagram is there, so that [`UdpSocket::receive`] would not wait. `FIONREAD` would cost less, but says of an
    /// empty datagram that there is none.
    pub fn has_waiting(&self) -> bool {
        let mut asked = libc::pollfd {
            fd: self.inner.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, which lives through the call.
        let ready = unsafe { libc::poll(&raw mut asked, 1, 0) };
        ready > 0 && asked.revents & libc::POLLIN != 0
    }

    /// Has the kernel note when each datagram arrives ([`UdpSocket::receive_stamped`]).
    pub fn set_timestamps(&self) -> io::Result<()> {
        set(
            self.inner.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            1,
        )
    }

    /// Receives a datagram: its length, and when the kernel got it, ns since 1970; 0 if that is not
    /// known. Waits like [`UdpSocket::receive`].
    pub fn receive_stamped(&self, into: &mut [u8]) -> io::Result<(usize, u64)> {
        let mut slice = io::IoSliceMut::new(into);
        let mut control = [0u64; 8];
        // SAFETY: all-zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = std::ptr::from_mut(&mut slice).cast();
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the buffers live through the call, which writes no further than their lengths.
        let bytes = check(unsafe { libc::recvmsg(self.inner.as_raw_fd(), &mut message, 0) } as i64)?
            as usize;
        let mut at = 0;
        // SAFETY: the kernel filled `control` with whole control messages.
        let mut next = unsafe { libc::CMSG_FIRSTHDR(&message) };
        while !next.is_null() {
            // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give whole messages within `control`, or null.
            let (level, kind, data) =
                unsafe { ((*next).cmsg_level, (*next).cmsg_type, libc::CMSG_DATA(next)) };
            if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                // SAFETY: such a message holds a timespec, perhaps not aligned.
                let time = unsafe { std::ptr::read_unaligned(data.cast::<libc::timespec>()) };
                at = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
            }
            // SAFETY: as above.
            next = unsafe { libc::CMSG_NXTHDR(&message, next) };
        }
        Ok((bytes, at))
    }

    /// How long [`UdpSocket::receive`] waits.
    pub fn set_receive_timeout(&self, timeout: std::time::Duration) -> io::Result<()> {
        self.inner.set_read_timeout(Some(timeout))
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}
