//! A viewer over HTTP: HLS and DASH of stored films.
//!
//! | file | what lives there |
//! |---|---|
//! | `client.rs` | GET over a kept connection; addresses |
//! | `playlist.rs`, `mpd.rs` | what a film's playlists and manifests say |
//! | `viewer.rs` | fetching by a player's buffer rule |
//! | `track.rs` | what one track's segments hold, compared with the film |

mod client;
mod mpd;
mod playlist;
mod track;
mod viewer;

pub use viewer::{Options, Watched, watch};

/// A page of text, such as a server's metrics.
pub(crate) async fn fetch_text(
    url: &str,
    patience: std::time::Duration,
) -> Result<String, crate::trouble::Trouble> {
    Ok(client::Client::new(patience, None).text(url).await?.0)
}
