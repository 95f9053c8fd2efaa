//! What edges report about themselves, for the director's page: sessions, traffic, films.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, header::HOST};
use futures_util::future::join_all;
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Timeout for both documents of an edge; short, as somebody waits for the page.
const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum number of bytes of a document that are read.
const LONGEST: usize = 1 << 20;

/// An edge's report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Report {
    pub node: NodeReport,
    pub cache: CacheReport,
}

/// The parts of `GET /api/node` of an edge that the director uses.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct NodeReport {
    pub name: String,
    pub sessions: SessionsReport,
    pub sending: SendingReport,
    pub pool: PoolReport,
    /// `None` if it has no limit.
    pub network: Option<NetworkReport>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(crate) struct SessionsReport {
    pub total: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(crate) struct SendingReport {
    /// Bits per second over RTP.
    pub rate: f64,
}

/// Hits and misses of the memory cache.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(crate) struct PoolReport {
    pub hits: u64,
    pub misses: u64,
}

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(crate) struct NetworkReport {
    pub total: u64,
    pub free: u64,
}

/// The parts of `GET /api/cache` of an edge that the director uses.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct CacheReport {
    /// Bytes of films that have been sent since the start.
    pub sent: u64,
    /// Films that have viewers on this edge.
    pub films: Vec<FilmReport>,
    /// Servers from which films were fetched.
    pub servers: Vec<ServerReport>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct FilmReport {
    pub title: String,
    /// Bytes in memory.
    pub held: u64,
    pub size: u64,
    /// Positions of its viewers, as fractions of the film.
    pub viewers: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct ServerReport {
    pub sibling: bool,
    /// Bytes since the start.
    pub bytes: u64,
}

/// Asks all edges at once; `None` for one that does not answer or is not a Reelway.
pub(crate) async fn ask(edges: &[IpAddr], port: u16) -> Vec<Option<Report>> {
    let at = |edge: &IpAddr| SocketAddr::new(*edge, port);
    let asked = edges
        .iter()
        .map(|edge| timeout(PATIENCE, ask_one(at(edge))));
    let answers = join_all(asked).await.into_iter();
    answers.map(|answer| answer.ok().flatten()).collect()
}

async fn ask_one(at: SocketAddr) -> Option<Report> {
    let (node, cache) = tokio::join!(document(at, "/api/node"), document(at, "/api/cache"));
    Some(Report {
        node: node?,
        cache: cache?,
    })
}

/// Fetches a JSON document; `None` if the server does not answer, or answers with something else.
pub(crate) async fn document<T: DeserializeOwned>(at: SocketAddr, path: &str) -> Option<T> {
    let stream = TcpStream::connect(at).await.ok()?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
    let request = Request::get(path).header(HOST, at.to_string());
    let asked = async move {
        let answer = sender
            .send_request(request.body(Body::empty()).ok()?)
            .await
            .ok()?;
        let text = Limited::new(answer.into_body(), LONGEST)
            .collect()
            .await
            .ok()?;
        // The connection ends when the sender is dropped.
        serde_json::from_slice(&text.to_bytes()).ok()
    };
    tokio::join!(asked, connection).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_edge_says_is_read_whatever_else_it_says() {
        let node = r#"{"id": "a", "name": "edge1", "sessions": {"total": 7, "playing": 3}, "sending": {"rate": 331000, "refused": 0},
            "http": {"connections": 3, "bytes": 129000}, "pool": {"bytes": 1, "used": 1, "hits": 10, "misses": 4}, "network": null}"#;
        let node: NodeReport = serde_json::from_str(node).unwrap();
        assert_eq!(
            (node.sessions.total, node.pool.hits, node.network),
            (7, 10, None)
        );
        let cache = r#"{"bytes": 9, "sent": 23, "tier": null,
            "films": [{"title": "nature/bunny", "held": 8, "size": 16, "hit_ratio": 0.9, "map": [100], "viewers": [0.25]}],
            "servers": [{"address": "http://films.example", "sibling": false, "up": true, "requests": 8, "bytes": 212, "faults": 0}]}"#;
        let cache: CacheReport = serde_json::from_str(cache).unwrap();
        assert_eq!(
            (cache.sent, cache.films[0].held, cache.servers[0].bytes),
            (23, 8, 212)
        );
    }
}
