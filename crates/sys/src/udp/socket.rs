//! Creation and options of UDP sockets.

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

/// Permits departure times on messages; also the type of the control message with one
/// (asm-generic/socket.h; missing in libc).
const SO_TXTIME: libc::c_int = 61;
pub(super) const SCM_TXTIME: libc::c_int = SO_TXTIME;

impl UdpSocket {
    /// Binds to `address`; `[::]` also receives IPv4 if the system permits it. An address in use is
    /// an error, so that a second server on the same port is noticed.
    pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
        Self::bind_with(address, false)
    }

    /// Another socket on exactly the same address, for another thread.
    pub fn sibling(&self) -> io::Result<UdpSocket> {
        // Set on the first socket only now: set before binding, it would let a second server bind
        // unnoticed.
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
        // SAFETY: a new descriptor that nothing else owns.
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

    /// The address to which it is bound, with the port that the system chose if 0 was requested.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Whether it is an IPv6 socket (needed by [`Destination::new`]).
    pub fn is_ipv6(&self) -> bool {
        self.local.is_ipv6()
    }

    /// Whether this socket can send packets to `to`.
    pub fn reaches(&self, to: IpAddr) -> bool {
        let to = to.to_canonical();
        match self.local.ip() {
            IpAddr::V4(_) => to.is_ipv4(),
            IpAddr::V6(local) => to.is_ipv6() || local.is_unspecified(),
        }
    }

    /// Requests buffers of these sizes in bytes, beyond the system's limit if the process has the
    /// privilege. Returns the resulting send buffer as the kernel counts it (twice the requested
    /// size, with its overhead).
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

    /// Marks all packets that are sent: with the differentiated services code point (RFC 2474, 0 to
    /// 63) for routers, and the priority by which this machine's own queues sort (`SO_PRIORITY`, 0
    /// to 6).
    pub fn set_marks(&self, dscp: u8, priority: u8) -> io::Result<()> {
        marks::set(self.as_fd(), dscp, priority.min(6))
    }

    /// Permits a departure time on messages (`SO_TXTIME`, `CLOCK_MONOTONIC`). Only fq queues hold
    /// packets until then ([`crate::netlink::keeps_departures`]).
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

    /// Whether the kernel can segment runs of packets (GSO, since Linux 4.18).
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

    /// Sends without checksums over IPv4 (`SO_NO_CHECK`), so that the kernel does not segment runs.
    /// For tests of that case.
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

    /// Receives a datagram and returns its length and sender. Waits up to the timeout set with
    /// [`UdpSocket::set_receive_timeout`].
    pub fn receive(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (bytes, from) = self.inner.recv_from(into)?;
        Ok((
            bytes,
            SocketAddr::new(from.ip().to_canonical(), from.port()),
        ))
    }

    /// Whether a datagram is waiting, so that [`UdpSocket::receive`] would not block. `FIONREAD`
    /// would be cheaper, but it does not report empty datagrams.
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

    /// Makes the kernel record the arrival time of each datagram ([`UdpSocket::receive_stamped`]).
    pub fn set_timestamps(&self) -> io::Result<()> {
        set(
            self.inner.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            1,
        )
    }

    /// Receives a datagram and returns its length and its arrival time in the kernel, in ns since
    /// 1970; 0 if that is not known. Waits like [`UdpSocket::receive`].
    pub fn receive_stamped(&self, into: &mut [u8]) -> io::Result<(usize, u64)> {
        let mut slice = io::IoSliceMut::new(into);
        let mut control = [0u64; 8];
        // SAFETY: all-zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = std::ptr::from_mut(&mut slice).cast();
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: the buffers live through the call, which does not write past their ends.
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
                // SAFETY: such a message holds a timespec, which may be unaligned.
                let time = unsafe { std::ptr::read_unaligned(data.cast::<libc::timespec>()) };
                at = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
            }
            // SAFETY: as above.
            next = unsafe { libc::CMSG_NXTHDR(&message, next) };
        }
        Ok((bytes, at))
    }

    /// Sets how long [`UdpSocket::receive`] waits.
    pub fn set_receive_timeout(&self, timeout: std::time::Duration) -> io::Result<()> {
        self.inner.set_read_timeout(Some(timeout))
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}
