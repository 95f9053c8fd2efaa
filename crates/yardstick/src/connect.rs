//! TCP connections from a chosen source address.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::{TcpSocket, TcpStream, lookup_host};

/// Connects to `HOST:PORT`, from `source` if given.
pub(crate) async fn connect(authority: &str, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let Some(source) = source else {
        return TcpStream::connect(authority).await;
    };
    let mut all = lookup_host(authority).await?;
    let to = all.find(|to| to.is_ipv4() == source.is_ipv4());
    let to = to.ok_or_else(|| {
        let family = if source.is_ipv4() { "IPv4" } else { "IPv6" };
        io::Error::other(format!("it has no {family} address, as {source} is"))
    })?;
    let socket = match source {
        IpAddr::V4(_) => TcpSocket::new_v4()?,
        IpAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket
        .bind(SocketAddr::new(source, 0))
        .map_err(|error| io::Error::new(error.kind(), format!("from {source}: {error}")))?;
    socket.connect(to).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_server_sees_the_chosen_address() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let source = "127.0.0.38".parse().unwrap();
        let _connection = connect(&authority, Some(source)).await.unwrap();
        let (_, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.ip(), source);
        for (source, words) in [("::1", "IPv6"), ("192.0.2.1", "from 192.0.2.1")] {
            let source = Some(source.parse().unwrap());
            let error = connect(&authority, source).await.unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
