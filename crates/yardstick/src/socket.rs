//! UDP sockets that tell when the kernel got a packet, and take many at once.

use std::io;
use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use socket2::{Domain, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Room for what one call receives: with GRO up to 64 KB.
pub const BUFFER: usize = 65_536;

/// A datagram, or several of one size that the kernel kept together (GRO).
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Bytes in the buffer.
    pub len: usize,
    /// Bytes of each datagram but the last, which may be shorter.
    pub segment: usize,
    /// When the kernel got it, ns since 1970.
    pub at: u64,
    /// Datagrams that this socket had no room for since it was opened, where it tells (`RxqOvfl`).
    pub dropped: Option<u32>,
}

/// A pair of sockets on an even port and the next (RFC 3550 section 11), for RTP and RTCP.
pub fn port_pair(address: IpAddr) -> io::Result<(UdpSocket, UdpSocket)> {
    // Ports are taken at random by the system; half of them are even, and most neighbours free.
    for _ in 0..64 {
        let rtp = open(SocketAddr::new(address, 0))?;
        let port = rtp.local_addr()?.port();
        if !port.is_multiple_of(2) || port == u16::MAX {
            continue;
        }
        if let Ok(rtcp) = open(SocketAddr::new(address, port + 1)) {
            return Ok((rtp, rtcp));
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        "no pair of neighbouring UDP ports is free",
    ))
}

fn open(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    // A second of 16 Mb/s; the kernel gives what it may.
    socket.set_recv_buffer_size(2 << 20)?;
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &(2 << 20));
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    // Without GRO packets come one by one: slower, not wrong.
    let _ = setsockopt(&socket, sockopt::UdpGroSegment, &true);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}

/// The next datagrams if there are any; otherwise `WouldBlock`, and `readable()` will tell.
pub fn try_receive_ready(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Received> {
    socket.try_io(Interest::READABLE, || try_receive(socket, buffer))
}

fn try_receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Received> {
    receive_from(socket.as_raw_fd(), buffer)
}

/// The next datagrams of any UDP socket, blocking or not, with the kernel's time of arrival.
pub fn receive_from(socket: RawFd, buffer: &mut [u8]) -> io::Result<Received> {
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec, i32, u32);
    let mut iov = [IoSliceMut::new(buffer)];
    let message =
        recvmsg::<SockaddrStorage>(socket, &mut iov, Some(&mut control), MsgFlags::empty())?;
    let mut received = Received {
        len: message.bytes,
        segment: message.bytes,
        at: 0,
        dropped: None,
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
