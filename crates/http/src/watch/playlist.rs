//! Playlists and manifests; a viewer's session begins with the first one.

use std::sync::Arc;

use axum::http::{Method, header, request::Parts};
use reelway_catalogue::SubtitleTrack;
use reelway_package::{
    Links, Rendition, media_playlist, mpd, multivariant_playlist, stream_multivariant_playlist,
    stream_playlist, subtitle_playlist,
};
use reelway_viewing::{Caller, Delivery, TOKEN_LENGTH};

use super::refused::{Answered, denied, no_track};
use super::subtitles;
use crate::answer::{self, Answer};
use crate::desk::{Asker, Desk, Text};
use crate::films::{Recorded, Show};
use crate::renditions::Wanted;
use crate::route::{self, Target};
use crate::viewers::Viewers;

const HLS: &str = "application/vnd.apple.mpegurl";
const DASH: &str = "application/dash+xml";

/// Serves playlists and manifests.
pub(crate) struct Playlists {
    viewers: Arc<Viewers>,
    desk: Arc<Desk>,
    tokens_in_segments: bool,
}

impl Playlists {
    /// Creates it with the desk that makes the texts. `tokens_in_segments`: segment addresses also
    /// contain the viewer's token.
    pub fn new(viewers: Arc<Viewers>, desk: Arc<Desk>, tokens_in_segments: bool) -> Playlists {
        Playlists {
            viewers,
            desk,
            tokens_in_segments,
        }
    }

    /// Answers a request for a playlist of this film.
    pub async fn answer(
        &self,
        film: Presented,
        target: Target,
        request: &Parts,
        caller: Caller,
    ) -> Answered {
        let show = &film.wanted.show;
        if let Target::Playlist(id) = target
            && show.package.track(id).is_none()
        {
            return Err(no_track(&show.film.name, id));
        }
        if let Target::SubtitlePlaylist(number) = target {
            subtitles::find(&film.subtitles, show, number)?;
        }
        let delivery = match target {
            Target::Mpd => Delivery::Dash,
            Target::StreamMultivariant | Target::StreamPlaylist => Delivery::TransportStream,
            _ => Delivery::Hls,
        };
        let token = if request.method == Method::HEAD {
            // HEAD does not begin a session; the length is the same for every token.
            let token = caller.checked_token();
            let token = token.map_err(|error| denied(error.into()))?;
            token.map_or_else(|| "-".repeat(TOKEN_LENGTH), str::to_owned)
        } else {
            let viewer = self
                .viewers
                .begin(delivery, &film.wanted, &caller)
                .map_err(denied)?;
            viewer.wait_for_turn().await;
            viewer.answered();
            viewer.token.clone()
        };
        let of = PlaylistRequest {
            film,
            target,
            token,
            token_in_segments: self.tokens_in_segments,
        };
        Ok(self.make(of, &Asker::of(request)).await)
    }

    async fn make(&self, asked: PlaylistRequest, asker: &Asker) -> Answer {
        // Playlists of long films are long, and are made and compressed per viewer.
        let make = move || Ok(asked.text());
        let mut answer = self.desk.answer(asker, make).await;
        // Each viewer has a playlist of their own.
        answer::set(&mut answer, header::CACHE_CONTROL, "no-store");
        answer
    }
}

/// Where a player continues if this server fails.
#[derive(Default)]
pub(crate) struct Elsewhere {
    /// The address of the steering manifest.
    pub steering: Option<String>,
    /// The film's addresses here and at other servers; empty if there are no others.
    pub films: Vec<String>,
}

/// A film, and the parts of its playlists that may change while it stays.
pub(crate) struct Presented {
    pub wanted: Wanted,
    /// Other renditions that players are offered.
    pub renditions: Vec<Arc<Show>>,
    pub subtitles: Vec<SubtitleTrack>,
    /// Its growth, if it may still be growing.
    pub recorded: Option<Recorded>,
    /// Its other servers, if any.
    pub elsewhere: Elsewhere,
}

/// A playlist requested by a viewer.
struct PlaylistRequest {
    film: Presented,
    target: Target,
    token: String,
    token_in_segments: bool,
}

impl PlaylistRequest {
    fn text(&self) -> Text {
        let Presented {
            wanted,
            renditions,
            subtitles,
            recorded,
            elsewhere,
        } = &self.film;
        let show = &wanted.show;
        let recording =
            |recorded: &Recorded| recorded.at(reelway_clock::now(), reelway_clock::real());
        let token = &self.token;
        let playlists = format!("s={token}");
        // The edition ensures that no player gets segments of a film that replaced this one.
        let segments = |show: &Show| match self.token_in_segments {
            true => format!("v={}&s={token}", show.edition),
            false => format!("v={}", show.edition),
        };
        let of_renditions: Vec<_> = renditions
            .iter()
            .map(|other| (way(&show.film.name, &other.film.name), segments(other)))
            .collect();
        let renditions = renditions.iter().zip(&of_renditions);
        let renditions: Vec<_> = renditions
            .map(|(other, (path, segments))| Rendition {
                package: &other.package,
                path,
                segments: Some(segments),
            })
            .collect();
        let segments = segments(show);
        let steering = elsewhere.steering.as_ref();
        let steering = steering.map(|address| format!("{address}&{playlists}"));
        let subtitles = subtitles::listed(subtitles);
        let links = Links {
            playlists: Some(&playlists),
            segments: Some(&segments),
            steering: steering.as_deref(),
            servers: &elsewhere.films,
            subtitles: &subtitles,
            renditions: &renditions,
            recording: recorded.as_ref().and_then(recording),
        };
        let (media_type, text) = match (self.target, &show.stream) {
            (Target::StreamPlaylist, Some(stream)) => (HLS, stream_playlist(stream, links)),
            (_, Some(stream)) => {
                let text = stream_multivariant_playlist(&show.package, stream, links);
                (HLS, text)
            }
            (Target::Mpd, None) => (DASH, mpd(&show.package, links)),
            (Target::Playlist(id), None) => {
                let text = show
                    .package
                    .track(id)
                    .map(|track| media_playlist(track, links));
                (HLS, text.unwrap_or_default())
            }
            (Target::SubtitlePlaylist(number), None) => {
                (HLS, subtitle_playlist(&show.package, number))
            }
            _ => (HLS, multivariant_playlist(&show.package, links)),
        };
        reelway_clock::reactor::worked_on(text.len());
        Text { media_type, text }
    }
}

/// Returns the relative path from a film's playlists to another film; it is the same at all servers
/// that have both below the same folder.
pub(super) fn way(from: &str, to: &str) -> String {
    let folder = from.rfind('/').map_or("", |slash| &from[..=slash]);
    let (from, to) = match to.strip_prefix(folder) {
        Some(below) => (&from[folder.len()..], below),
        None => (from, to),
    };
    let up = "../".repeat(from.split('/').count() + 1);
    up + &route::encode(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_a_film_another_is_found_by_its_name() {
        assert_eq!(way("a", "a.set/low"), "../../a.set/low");
        assert_eq!(
            way("b/a film", "b/a film.set/low"),
            "../../a%20film.set/low"
        );
        assert_eq!(way("b/a", "c"), "../../../c");
    }
}
