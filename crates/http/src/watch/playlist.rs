//! Playlists and manifests: a viewer begins with the first one.

use std::sync::Arc;

use axum::http::{Method, header, request::Parts};
use reelway_package::{Links, media_playlist, mpd, multivariant_playlist};
use reelway_viewing::{Caller, Delivery, TOKEN_LENGTH};

use super::refused::{Answered, denied, no_track};
use crate::answer::{self, Answer};
use crate::desk::{Asker, Desk, Text};
use crate::films::Show;
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

    /// Answers a request for one.
    pub async fn answer(
        &self,
        show: Arc<Show>,
        target: Target,
        request: &Parts,
        caller: Caller,
    ) -> Answered {
        if let Target::Playlist(id) = target
            && show.package.track(id).is_none()
        {
            return Err(no_track(&show.film.name, id));
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
                .begin(delivery, &show, &caller)
                .map_err(denied)?;
            viewer.wait_for_turn().await;
            viewer.answered();
            viewer.token.clone()
        };
        Ok(self.make(show, target, &Asker::of(request), token).await)
    }

    async fn make(&self, show: Arc<Show>, target: Target, asker: &Asker, token: String) -> Answer {
        let in_segments = self.tokens_in_segments;
        // Those of long films are long, and are made and compressed for each viewer.
        let make = move || Ok(text(&show, target, &token, in_segments));
        let mut answer = self.desk.answer(asker, make).await;
        // Each viewer has their own.
        answer::set(&mut answer, header::CACHE_CONTROL, "no-store");
        answer
    }
}

fn text(show: &Show, target: Target, token: &str, token_in_segments: bool) -> Text {
    let playlists = format!("s={token}");
    // The version makes sure that nobody gets segments of a film that took this one's place.
    let segments = match token_in_segments {
        true => format!("v={}&s={token}", show.version),
        false => format!("v={}", show.version),
    };
    let links = Links {
        playlists: Some(&playlists),
        segments: Some(&segments),
    };
    let (media_type, text) = match target {
        Target::Mpd => (DASH, mpd(&show.package, links)),
        Target::Playlist(id) => {
            let text = show
                .package
                .track(id)
                .map(|track| media_playlist(track, links));
            (HLS, text.unwrap_or_default())
        }
        _ => (HLS, multivariant_playlist(&show.package, links)),
    };
    reelway_clock::reactor::worked_on(text.len());
    Text { media_type, text }
}
