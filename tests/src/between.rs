//! A proxy between RTSP clients and a real server that alters packets and responses as a test
//! demands.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Decides the fate of a packet, which it may change: returns the delay of each copy that is
/// forwarded, in ms. An empty list drops the packet.
pub type Deed = fn(&mut Vec<u8>, Packet) -> Vec<u64>;

/// Describes a packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// 0 for video, 1 for audio.
    pub track: usize,
    /// Whether it is RTCP.
    pub is_report: bool,
    /// The number of packets before it on this socket.
    pub number: u64,
    /// Milliseconds since the first packet on this socket.
    pub at: u64,
    /// The number of connected clients.
    pub clients: u64,
}

impl Packet {
    /// Whether it is an RTP packet of the video track.
    pub fn is_picture(self) -> bool {
        self.track == 0 && !self.is_report
    }
}

/// How the proxy behaves.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// What happens to packets.
    pub deed: Deed,
    /// How the text of responses is changed.
    pub answer: fn(String) -> String,
    /// Every other packet of a track is sent from a second address.
    pub two_senders: bool,
}

/// Forwards everything unchanged.
pub const HONEST: Manner = Manner {
    deed: |_, _| vec![0],
    answer: |answer| answer,
    two_senders: false,
};

/// A proxy between clients and a server.
#[derive(Debug)]
pub struct Between {
    /// The address on which it listens.
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Drop for Between {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for a client.
        TcpStream::connect(self.address).ok();
    }
}

impl Between {
    /// Starts a proxy in front of `server`.
    pub fn start(server: SocketAddr, manner: Manner) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let clients = Arc::new(AtomicU64::new(0));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let clients = Arc::clone(&clients);
                thread::spawn(move || {
                    clients.fetch_add(1, Ordering::Relaxed);
                    serve(client, server, manner, &clients);
                    clients.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Between { address, stop }
    }
}

fn serve(mut client: TcpStream, server: SocketAddr, manner: Manner, clients: &Arc<AtomicU64>) {
    let mut server = TcpStream::connect(server).expect("the real server");
    let mut back = server.try_clone().expect("a descriptor");
    let mut to_client = client.try_clone().expect("a descriptor");
    let stop = Arc::new(AtomicBool::new(false));
    thread::spawn(move || {
        let mut bytes = [0; 65536];
        while let Ok(read @ 1..) = back.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            if to_client
                .write_all((manner.answer)(text).as_bytes())
                .is_err()
            {
                break;
            }
        }
    });
    let (mut bytes, mut track) = ([0; 65536], 0);
    while let Ok(read @ 1..) = client.read(&mut bytes) {
        let mut text = String::from_utf8_lossy(&bytes[..read]).into_owned();
        if let Some(at) = text.find("client_port=") {
            let ports = text[at + 12..]
                .split("\r\n")
                .next()
                .expect("a line")
                .to_owned();
            let port: u16 = ports
                .split('-')
                .next()
                .and_then(|port| port.parse().ok())
                .expect("a port");
            let (rtp, rtcp) = pair();
            let own = rtp.local_addr().expect("an address").port();
            text = text.replace(&ports, &format!("{own}-{}", own + 1));
            for (socket, port, is_report) in [(rtp, port, false), (rtcp, port + 1, true)] {
                let (stop, clients) = (Arc::clone(&stop), Arc::clone(clients));
                thread::spawn(move || {
                    forward(&socket, port, (track, is_report), manner, &stop, &clients);
                });
            }
            track += 1;
        }
        server.write_all(text.as_bytes()).ok();
    }
    stop.store(true, Ordering::Relaxed);
}

fn pair() -> (UdpSocket, UdpSocket) {
    loop {
        let rtp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = rtp.local_addr().expect("an address").port();
        if port.is_multiple_of(2)
            && let Ok(rtcp) = UdpSocket::bind(("127.0.0.1", port + 1))
        {
            return (rtp, rtcp);
        }
    }
}

fn forward(
    socket: &UdpSocket,
    to: u16,
    (track, is_report): (usize, bool),
    manner: Manner,
    stop: &AtomicBool,
    clients: &AtomicU64,
) {
    let other = UdpSocket::bind("127.0.0.2:0").expect("another address");
    let millis = || reelway_clock::now().nanos() / 1_000_000;
    socket
        .set_read_timeout(Some(Duration::from_millis(2)))
        .expect("a timeout");
    let (mut bytes, mut number, mut first) = ([0; 65536], 0_u64, None);
    // Keyed by due time in ms, then by order of arrival.
    let mut waiting: BTreeMap<(u64, u64), Vec<u8>> = BTreeMap::new();
    while !stop.load(Ordering::Relaxed) {
        if let Ok(read) = socket.recv(&mut bytes) {
            let mut packet = bytes[..read].to_vec();
            let now = millis();
            let at = now - *first.get_or_insert(now);
            let which = Packet {
                track,
                is_report,
                number,
                at,
                clients: clients.load(Ordering::Relaxed),
            };
            for (copy, delay) in (manner.deed)(&mut packet, which).into_iter().enumerate() {
                waiting.insert((now + delay, number * 4 + copy as u64), packet.clone());
            }
            number += 1;
        }
        let later = waiting.split_off(&(millis() + 1, 0));
        for ((_, number), packet) in &std::mem::replace(&mut waiting, later) {
            let from = match manner.two_senders && number / 4 % 2 == 1 {
                true => &other,
                false => socket,
            };
            from.send_to(packet, ("127.0.0.1", to)).ok();
        }
    }
}
