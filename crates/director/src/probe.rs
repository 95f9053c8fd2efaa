//! Checks of an edge: whether it answers over RTSP, whether it reports over HTTP that it is ready,
//! and what its network carries. Checks take the same path as viewers' packets: to the virtual
//! address, with the firewall mark of the service that contains only this edge. So an edge that
//! lacks the address or the tunnel device gets no viewers either.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::weight::Capacity;

/// Maximum number of bytes of an answer's head that are read.
const LONGEST: usize = 4096;

/// A check of an edge, and its timeout.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    /// The edge's own address, with the ports of RTSP and HTTP.
    pub own: [SocketAddr; 2],
    /// The path of viewers' packets, if the check is to use it.
    pub through: Option<Through>,
    /// Whether the last check failed. If so, the edge is also asked at its own address, to locate
    /// the fault.
    pub is_suspect: bool,
    /// Whether RTSP must answer.
    pub rtsp: bool,
    /// Path that must exist over HTTP; empty: HTTP is not checked.
    pub path: String,
    pub within: Duration,
}

/// The path over the virtual address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Through {
    pub address: IpAddr,
    /// The firewall mark of packets for this edge alone.
    pub mark: u32,
}

impl Check {
    /// Asks the edge, and returns the capacity that it reports, if any.
    ///
    /// # Errors
    /// A description of the fault.
    pub async fn ask(&self) -> Result<Option<Capacity>, String> {
        let Some(through) = self.through else {
            return self.ask_by(None).await;
        };
        let own = async {
            match self.is_suspect {
                true => self.ask_by(None).await.is_ok(),
                false => false,
            }
        };
        let (answer, own) = tokio::join!(self.ask_by(Some(through)), own);
        answer.map_err(|trouble| match own {
            true => format!(
                "{trouble} at {}, though it answers at its own address; does it have the settings of an edge, and is there no NAT \
                 on the way?",
                through.address
            ),
            false => trouble,
        })
    }

    async fn ask_by(&self, through: Option<Through>) -> Result<Option<Capacity>, String> {
        let [rtsp, http] = match through {
            Some(through) => (self.own).map(|own| SocketAddr::new(through.address, own.port())),
            None => self.own,
        };
        let from = match through {
            Some(through) => Some((
                through.mark,
                source(self.own[0]).map_err(|error| error.to_string())?,
            )),
            None => None,
        };
        let options = format!("OPTIONS rtsp://{rtsp}/ RTSP/1.0\r\nCSeq: 1\r\n\r\n");
        let ready = format!(
            "GET {} HTTP/1.1\r\nHost: {http}\r\nConnection: close\r\n\r\n",
            self.path
        );
        let options = async {
            match self.rtsp {
                true => ask("RTSP", (rtsp, from), &options, "RTSP/1.0 200", self.within).await,
                false => Ok(String::new()),
            }
        };
        let ready = async {
            match self.path.is_empty() {
                true => Ok(String::new()),
                false => ask("HTTP", (http, from), &ready, "HTTP/1.1 200", self.within).await,
            }
        };
        let (_, head) = tokio::try_join!(options, ready)?;
        Ok(capacity(&head))
    }
}

/// Returns the source address of this machine's packets to an edge. The virtual address would be
/// wrong: the edge has it too and would keep the answers to itself.
fn source(edge: SocketAddr) -> std::io::Result<IpAddr> {
    let any: IpAddr = match edge {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // `connect` on a UDP socket sends nothing.
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(edge)?;
    Ok(socket.local_addr()?.ip())
}

/// Connects, with the given mark and source address.
async fn connect(at: SocketAddr, from: Option<(u32, IpAddr)>) -> std::io::Result<TcpStream> {
    let socket = match at {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    if let Some((mark, address)) = from {
        SockRef::from(&socket).set_mark(mark)?;
        socket.bind(SocketAddr::new(address, 0))?;
    }
    socket.connect(at).await
}

/// Parses the capacity of the edge's network from the head of an answer.
fn capacity(head: &str) -> Option<Capacity> {
    let headers = head.lines().filter_map(|line| line.split_once(':'));
    let mut of_capacity = headers.filter(|(name, _)| name.eq_ignore_ascii_case("reelway-capacity"));
    Capacity::parse(of_capacity.next()?.1)
}

/// Sends a request and returns the head of the answer.
async fn ask(
    protocol: &str,
    (at, from): (SocketAddr, Option<(u32, IpAddr)>),
    request: &str,
    wanted: &str,
    within: Duration,
) -> Result<String, String> {
    let asked = async {
        let mut stream = connect(at, from).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        while head.len() < LONGEST && !head.windows(4).any(|end| end == b"\r\n\r\n") {
            if stream.read_buf(&mut head).await? == 0 {
                break;
            }
        }
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&head).into_owned())
    };
    match timeout(within, asked).await {
        Err(_) => Err(format!(
            "{protocol}: no answer within {} s",
            within.as_secs_f64()
        )),
        Ok(Err(error)) => Err(format!("{protocol}: {error}")),
        Ok(Ok(head)) if head.starts_with(wanted) => Ok(head),
        Ok(Ok(head)) if head.is_empty() => Err(format!("{protocol}: closed without an answer")),
        Ok(Ok(head)) => {
            let line: String = head
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(80)
                .collect();
            Err(format!("{protocol}: answered {}", line.escape_debug()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_edge_carries_is_a_header_of_its_answer() {
        let head = "HTTP/1.1 200 OK\r\nreelway-capacity: total=9, free=4\r\n\r\n";
        assert_eq!(capacity(head), Some(Capacity { total: 9, free: 4 }));
        assert_eq!(capacity("HTTP/1.1 200 OK\r\n\r\n"), None);
    }
}
