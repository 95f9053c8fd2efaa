//! The receiver of the paper's sessions, which records when the kernel received each packet.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::anyhow;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};

use super::task::Late;

/// Arrival times (ns since 1970) and packet numbers, by session.
pub type Arrivals = Vec<Vec<(u64, u32)>>;

/// A receiving thread.
pub struct Receiver {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Arrivals>>,
}

impl Receiver {
    /// Starts to receive sessions 0 to `sessions` - 1 on loopback.
    pub fn start(sessions: u32) -> anyhow::Result<Receiver> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        // Enough for a minute of the paper's traffic; the default suffices as well.
        let _ = setsockopt(&socket, sockopt::RcvBuf, &(4 << 20));
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let (address, stop) = (socket.local_addr()?, Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || receive(&socket, sessions, &stopped));
        Ok(Receiver {
            address,
            stop,
            thread,
        })
    }

    /// Returns the address to which packets are sent.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops receiving; returns all arrivals.
    pub fn stop(self) -> anyhow::Result<Arrivals> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow!("the receiver panicked"))?
    }
}

fn receive(socket: &UdpSocket, sessions: u32, stop: &AtomicBool) -> anyhow::Result<Arrivals> {
    let mut arrivals: Arrivals = vec![Vec::new(); sessions as usize];
    let mut buffer = [0; 2048];
    loop {
        let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let message = recvmsg::<SockaddrStorage>(
            socket.as_raw_fd(),
            &mut parts,
            Some(&mut control),
            MsgFlags::empty(),
        );
        let (bytes, at) = match message {
            Ok(message) => {
                let stamp = message.cmsgs()?.find_map(|control| match control {
                    ControlMessageOwned::ScmTimestampns(time) => {
                        Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
                    }
                    _ => None,
                });
                (
                    message.bytes,
                    stamp.ok_or_else(|| anyhow!("a packet without the kernel's time"))?,
                )
            }
            Err(nix::Error::EAGAIN) if stop.load(Ordering::Relaxed) => return Ok(arrivals),
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let [0x80, 96, high, low, _, _, _, _, s0, s1, s2, s3, ..] = buffer[..bytes] else {
            continue;
        };
        let ssrc = u32::from_be_bytes([s0, s1, s2, s3]);
        if let Some(arrivals) = arrivals.get_mut(ssrc as usize) {
            arrivals.push((at, u16::from_be_bytes([high, low]).into()));
        }
    }
}

/// A session as seen by the receiver.
#[derive(Clone, Debug)]
pub struct Received {
    /// Seconds from the first packet to the last.
    pub seconds: f64,
    /// Packets received.
    pub packets: u32,
    /// Lateness of each packet, ns, relative to the earliest packet's schedule.
    pub late: Vec<i64>,
}

/// Computes the duration and lateness of a session.
pub fn judge(arrivals: &[(u64, u32)], interval: u64) -> Received {
    let due = |(at, number): &(u64, u32)| *at as i64 - (u64::from(*number) * interval) as i64;
    let base = arrivals.iter().map(due).min().unwrap_or(0);
    let times = || arrivals.iter().map(|arrival| arrival.0);
    let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    Received {
        seconds: (last - first) as f64 / 1e9,
        packets: arrivals.len() as u32,
        late: arrivals.iter().map(|arrival| due(arrival) - base).collect(),
    }
}

/// Returns the lateness over several sessions.
pub fn late(seen: &[Received]) -> Late {
    Late::of(
        seen.iter()
            .flat_map(|seen| seen.late.iter().copied())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_on_time_is_as_long_as_its_intervals_and_never_late() {
        let arrivals: Vec<_> = (0..1000)
            .map(|number| (7 + u64::from(number) * 30_000_000, number))
            .collect();
        let seen = judge(&arrivals, 30_000_000);
        assert_eq!((seen.seconds, seen.packets), (29.97, 1000));
        assert!(seen.late.iter().all(|late| *late == 0));
    }

    #[test]
    fn a_packet_behind_its_time_is_late_by_so_much() {
        let seen = judge(&[(100, 0), (1_000_300, 1), (2_000_100, 2)], 1_000_000);
        assert_eq!(seen.late, [0, 200, 0]);
    }
}
