//! The tier on a local disk.

use std::time::Duration;

use crate::http;
use crate::server::Server;
use crate::wait;

/// The number of bytes per request.
const PIECE: usize = 256 << 10;

/// The value of a metric without labels; 0 if it does not exist.
#[track_caller]
pub fn number(server: &Server, name: &str) -> f64 {
    let metrics = server.get("/metrics").text();
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    metrics.lines().find_map(value).unwrap_or(0.0)
}

/// Bytes of films in a server's tier.
#[track_caller]
pub fn held(server: &Server) -> f64 {
    number(server, "reelway_tier_cached_bytes")
}

/// Fills the tier of a server with a whole remote film; the tier has no other film, and admits
/// blocks at the first request. This is done piece by piece: data that the disk cannot write in
/// time is left out, and is not offered again while it is in memory.
#[track_caller]
pub fn fill(server: &Server, path: &str, film: &[u8]) {
    for (number, piece) in film.chunks(PIECE).enumerate() {
        let (first, end) = (number * PIECE, number * PIECE + piece.len());
        let range = format!("bytes={first}-{}", end - 1);
        let answer = http::send(server.http, "GET", path, &[("Range", &range)], &[]);
        assert!(answer.expect("a piece").body == piece);
        let written = wait::until(Duration::from_secs(60), || {
            (held(server) >= end as f64).then_some(())
        });
        assert!(
            written.is_some(),
            "the tier has {} of {end} bytes",
            held(server)
        );
    }
}
