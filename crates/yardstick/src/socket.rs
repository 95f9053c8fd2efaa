//! UDP sockets with the kernel's arrival timestamps that receive many packets at once.

use std::io;
use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use tokio::io::Interest;

/// Size of the receive buffer for one call: with GRO, up to 64 KB.
const ROOM: usize = 65_536;

/// A datagram, or several of one size that the kernel merged (GRO).
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Length in the buffer in bytes.
    pub len: usize,
    /// Length of each datagram in bytes; the last may be shorter.
    pub segment: usize,
    /// Arrival time by the kernel's clock in ns since 1970.
    pub at: u64,
    /// Number of datagrams that this socket has dropped since it was opened, if the kernel reports
    /// it (`RxqOvfl`).
    pub dropped: Option<u32>,
    /// The sender's address.
    pub from: Option<SocketAddr>,
}

/// A reusable buffer for received datagrams.
#[derive(Debug)]
pub struct Inbox {
    data: Vec<u8>,
    control: Vec<u8>,
}

impl Inbox {
    /// Creates a buffer for datagrams of any size.
    pub fn new() -> Inbox {
        Inbox {
            data: vec![0; ROOM],
            control: nix::cmsg_space!(nix::sys::time::TimeSpec, i32, u32),
        }
    }

    /// Returns the received datagrams.
    pub fn datagrams(&self, received: &Received) -> impl Iterator<Item = &[u8]> + use<'_> {
        self.data[..received.len].chunks(received.segment.max(1))
    }

    /// Receives the next datagrams of any UDP socket, blocking or not, with the kernel's arrival
    /// time.
    pub fn receive(&mut self, socket: RawFd) -> io::Result<Received> {
        let mut iov = [IoSliceMut::new(&mut self.data)];
        let control = Some(&mut self.control[..]);
        let message = recvmsg::<SockaddrStorage>(socket, &mut iov, control, MsgFlags::empty())?;
        let mut received = Received {
            len: message.bytes,
            segment: message.bytes,
            at: 0,
            dropped: None,
            from: message.address.as_ref().and_then(address),
        };
        for control in message.cmsgs()? {
            match control {
                ControlMessageOwned::ScmTimestampns(time) => {
                    received.at = time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64;
                }
                ControlMessageOwned::RxqOvfl(dropped) => received.dropped = Some(dropped),
                ControlMessageOwned::UdpGroSegments(size) => received.segment = size as usize,
                _ => {}
            }
        }
        if received.at == 0 {
            received.at = reelway_clock::real().nanos();
        }
        Ok(received)
    }

    /// Receives the next datagrams if there are any; otherwise returns `WouldBlock`, and
    /// `readable()` waits for them.
    pub fn receive_ready(&mut self, socket: &tokio::net::UdpSocket) -> io::Result<Received> {
        socket.try_io(Interest::READABLE, || self.receive(socket.as_raw_fd()))
    }
}

fn address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address
        .as_sockaddr_in()
        .map(|v4| SocketAddrV4::from(*v4).into());
    v4.or_else(|| {
        address
            .as_sockaddr_in6()
            .map(|v6| SocketAddrV6::from(*v6).into())
    })
}

/// Opens a pair of sockets on an even port and the next (RFC 3550 section 11), for RTP and RTCP: on
/// `port` or, if it is 0, on any free pair. They are non-blocking, with receive buffers of `buffer`
/// bytes if the kernel grants them.
///
/// # Errors
/// The ports are in use, or the kernel does not support arrival timestamps.
pub fn pair(address: IpAddr, port: u16, buffer: usize) -> io::Result<(UdpSocket, UdpSocket)> {
    let bind = |port| UdpSocket::bind(SocketAddr::new(address, port));
    if port != 0 {
        let next = port.checked_add(1).ok_or(io::ErrorKind::InvalidInput)?;
        return prepared(bind(port)?, bind(next)?, buffer);
    }
    // The system assigns ports at random; half of them are even, and most next ports are free.
    for _ in 0..256 {
        let rtp = bind(0)?;
        let port = rtp.local_addr()?.port();
        if port.is_multiple_of(2)
            && let Ok(rtcp) = bind(port + 1)
        {
            return prepared(rtp, rtcp, buffer);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        "no pair of neighbouring UDP ports is free",
    ))
}

fn prepared(rtp: UdpSocket, rtcp: UdpSocket, buffer: usize) -> io::Result<(UdpSocket, UdpSocket)> {
    for socket in [&rtp, &rtcp] {
        socket.set_nonblocking(true)?;
        setsockopt(socket, sockopt::ReceiveTimestampns, &true)?;
    }
    if setsockopt(&rtp, sockopt::RcvBufForce, &buffer).is_err() {
        setsockopt(&rtp, sockopt::RcvBuf, &buffer)?;
    }
    // Without GRO, packets arrive one by one, which is slower but correct.
    let _ = setsockopt(&rtp, sockopt::UdpGroSegment, &true);
    let _ = setsockopt(&rtp, sockopt::RxqOvfl, &1);
    Ok((rtp, rtcp))
}
