//! A viewer over HTTP: HLS and DASH of stored films.
//!
//! | file | content |
//! |---|---|
//! | `client.rs` | GET over a persistent connection; URLs |
//! | `playlist.rs`, `mpd.rs` | parsing of playlists and manifests |
//! | `viewer.rs` | fetching by the rules of a player's buffer |
//! | `track.rs` | the contents of a track's segments, compared with the film |

mod client;
mod mpd;
mod playlist;
mod track;
mod viewer;

pub use viewer::{Options, Watched, watch};

/// Fetches a text, such as a server's metrics.
pub(crate) async fn fetch_text(
    url: &str,
    patience: std::time::Duration,
) -> Result<String, crate::trouble::Trouble> {
    Ok(client::Client::new(patience, None).text(url).await?.0)
}
