//! Subtitles of a film as WebVTT, made from files beside it, here or at its origin, and from its
//! subtitle tracks.

use std::sync::Arc;

use axum::http::{StatusCode, header, request::Parts};
use reelway_catalogue::{SubtitleFile, SubtitleSource, SubtitleTrack};
use reelway_package::Subtitles;
use tracing::warn;

use super::refused::{Answered, not_here};
use crate::answer;
use crate::desk::{Asker, Desk, Text};
use crate::films::{Films, Show};
use crate::route::query;

/// Media type (W3C WebVTT, appendix).
const WEB_VTT: &str = "text/vtt";

/// Serves subtitles.
pub(crate) struct SubtitleTexts {
    films: Arc<Films>,
    desk: Arc<Desk>,
}

/// Returns the subtitles with this number.
pub(super) fn find(
    all: &[SubtitleTrack],
    show: &Show,
    number: u32,
) -> Result<SubtitleTrack, Box<answer::Answer>> {
    let found = all.iter().find(|track| track.number == number).cloned();
    found.ok_or_else(|| {
        not_here(format!(
            "film '{}' has no subtitles {number}",
            show.film.name
        ))
    })
}

/// Returns the subtitles as playlists list them.
pub(super) fn listed(all: &[SubtitleTrack]) -> Vec<Subtitles<'_>> {
    let listed = all.iter().map(|track| Subtitles {
        number: track.number,
        label: &track.label,
        language: track.named.language.as_deref(),
        forced: track.named.forced,
        default: track.named.default,
        sdh: track.named.sdh,
    });
    listed.collect()
}

impl SubtitleTexts {
    pub fn new(films: Arc<Films>, desk: Arc<Desk>) -> SubtitleTexts {
        SubtitleTexts { films, desk }
    }

    /// Answers a request for the text of a film's subtitles with this number.
    pub async fn answer(
        &self,
        (show, all): (Arc<Show>, Vec<SubtitleTrack>),
        number: u32,
        request: &Parts,
    ) -> Answered {
        let track = find(&all, &show, number)?;
        check_version(&track, request)?;
        let fetched = match track.elsewhere() {
            // Not at the desk, so that other requests do not wait for a server that does not
            // answer.
            Some(file) => Some(self.fetch(&show, file).await?),
            None => None,
        };
        let make = move || match track.read(&show.film.title, fetched.as_deref()) {
            Ok(subtitles) => Ok(Text {
                media_type: WEB_VTT,
                text: subtitles.to_web_vtt(),
            }),
            Err(error) => {
                warn!(film = show.film.name, "subtitles: {error}");
                let name = match &track.source {
                    SubtitleSource::Beside(file) => file.file.clone(),
                    SubtitleSource::Inside(_) => format!("'{}'", track.label),
                };
                let words = format!("{name} cannot be shown; the log says why");
                Err(Box::new(answer::error(StatusCode::NOT_FOUND, words)))
            }
        };
        let mut answer = self.desk.answer(&Asker::of(request), make).await;
        // The file may change while its film stays.
        answer::set(&mut answer, header::CACHE_CONTROL, "no-cache");
        Ok(answer)
    }

    /// Fetches the text of a file from another server.
    async fn fetch(
        &self,
        show: &Show,
        file: &SubtitleFile,
    ) -> Result<Arc<str>, Box<answer::Answer>> {
        let fetched = self.films.fetch(show, file).await;
        fetched.map_err(|why| {
            let words = format!("{} cannot be fetched: {why}", file.file);
            Box::new(answer::error(StatusCode::BAD_GATEWAY, words))
        })
    }
}

/// Checks that the requested version is still the current one: numbers change when files are added.
fn check_version(track: &SubtitleTrack, request: &Parts) -> Result<(), Box<answer::Answer>> {
    let version = match &track.source {
        SubtitleSource::Beside(file) => file.version.as_str(),
        SubtitleSource::Inside(_) => "",
    };
    match query(request, "v") {
        Some(wanted) if wanted != version => {
            let words = "these subtitles were replaced since the list of films was fetched";
            Err(Box::new(answer::error(StatusCode::GONE, words)))
        }
        _ => Ok(()),
    }
}
