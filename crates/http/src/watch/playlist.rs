//! Playlists and manifests: a viewer begins with the first one.

use std::sync::Arc;

use axum::http::{Method, header, request::Parts};
use reelway_catalogue::SubtitleTrack;
use reelway_package::{Links, media_playlist, mpd, multivariant_playlist, subtitle_playlist};
use reelway_viewing::{Caller, Delivery, TOKEN_LENGTH};

use super::refused::{Answered, denied, no_track};
use super::subtitles;
use crate::answer::{self, Answer};
use crate::desk::{Asker, Desk, Text};
use crate::films::{Recorded, Show};
use crate::route::Target;
use crate::viewers::Viewers;

const HLS: &str = "application/vnd.apple.mpegurl";
const DASH: &str = "application/dash+xml";

/// What playlists need.
pub(crate) struct Playlists {
    viewers: Arc<Viewers>,
    desk: Arc<Desk>,
    tokens_in_segments: bool,
}

impl Playlists {
    /// Made by this desk; with the viewers' tokens in the addresses of segments, too, or without.
    pub fn new(viewers: Arc<Viewers>, desk: Arc<Desk>, tokens_in_segments: bool) -> Playlists {
        Playlists {
            viewers,
            desk,
            tokens_in_segments,
        }
    }

    /// Answers a request for one of this film.
    pub async fn answer(
        &self,
        film: Presented,
        target: Target,
        request: &Parts,
        caller: Caller,
    ) -> Answered {
        let show = &film.show;
        if let Target::Playlist(id) = target
            && show.package.track(id).is_none()
        {
            return Err(no_track(&show.film.name, id));
        }
        if let Target::SubtitlePlaylist(number) = target {
            subtitles::find(&film.subtitles, show, number)?;
        }
        let delivery = if target == Target::Mpd {
            Delivery::Dash
        } else {
            Delivery::Hls
        };
        let token = if request.method == Method::HEAD {
            // Nobody begins to watch by asking for a length, which is the same for every token.
            caller
                .token
                .clone()
                .unwrap_or_else(|| "-".repeat(TOKEN_LENGTH))
        } else {
            let viewer = self
                .viewers
                .begin(delivery, show, &caller)
                .map_err(denied)?;
            viewer.wait_for_turn().await;
            viewer.answered();
            viewer.token.clone()
        };
        let of = Asked {
            film,
            target,
            token,
            token_in_segments: self.tokens_in_segments,
        };
        Ok(self.make(of, &Asker::of(request)).await)
    }

    async fn make(&self, asked: Asked, asker: &Asker) -> Answer {
        // Those of long films are long, and are made and compressed for each viewer.
        let make = move || Ok(asked.text());
        let mut answer = self.desk.answer(asker, make).await;
        // Each viewer has their own.
        answer::set(&mut answer, header::CACHE_CONTROL, "no-store");
        answer
    }
}

/// Where a player goes on if this server fails.
#[derive(Default)]
pub(crate) struct Elsewhere {
    /// Where it asks which server to use.
    pub steering: Option<String>,
    /// The film here and at other servers; empty where there are none.
    pub films: Vec<String>,
}

/// A film, and what its playlists have of it that may change while it stays.
pub(crate) struct Presented {
    pub show: Arc<Show>,
    pub subtitles: Vec<SubtitleTrack>,
    /// It may still be growing.
    pub recorded: Option<Recorded>,
    /// It may be at other servers, too.
    pub elsewhere: Elsewhere,
}

/// A playlist that a viewer has asked for.
struct Asked {
    film: Presented,
    target: Target,
    token: String,
    token_in_segments: bool,
}

impl Asked {
    fn text(&self) -> Text {
        let Presented {
            show,
            subtitles,
            recorded,
            elsewhere,
        } = &self.film;
        let recording =
            |recorded: &Recorded| recorded.at(reelway_clock::now(), reelway_clock::real());
        let token = &self.token;
        let playlists = format!("s={token}");
        // The edition makes sure that nobody gets segments of a film that took this one's place.
        let segments = match self.token_in_segments {
            true => format!("v={}&s={token}", show.edition),
            false => format!("v={}", show.edition),
        };
        let steering = elsewhere.steering.as_ref();
        let steering = steering.map(|address| format!("{address}&{playlists}"));
        let subtitles = subtitles::said(subtitles);
        let links = Links {
            playlists: Some(&playlists),
            segments: Some(&segments),
            steering: steering.as_deref(),
            servers: &elsewhere.films,
            subtitles: &subtitles,
            recording: recorded.as_ref().and_then(recording),
        };
        let (media_type, text) = match self.target {
            Target::Mpd => (DASH, mpd(&show.package, links)),
            Target::Playlist(id) => {
                let text = show
                    .package
                    .track(id)
                    .map(|track| media_playlist(track, links));
                (HLS, text.unwrap_or_default())
            }
            Target::SubtitlePlaylist(number) => (HLS, subtitle_playlist(&show.package, number)),
            _ => (HLS, multivariant_playlist(&show.package, links)),
        };
        reelway_clock::reactor::worked_on(text.len());
        Text { media_type, text }
    }
}
