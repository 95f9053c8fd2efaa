//! Subtitles of a film as WebVTT, made of the files beside it and of the tracks inside.

use std::sync::Arc;

use axum::http::{StatusCode, header, request::Parts};
use reelway_catalogue::{SubtitleSource, SubtitleTrack};
use reelway_package::Subtitles;
use tracing::warn;

use super::refused::{Answered, not_here};
use crate::answer;
use crate::desk::{Asker, Desk, Text};
use crate::films::Show;

/// Media type (W3C WebVTT, appendix).
const WEB_VTT: &str = "text/vtt";

/// What subtitles need.
pub(crate) struct SubtitleTexts {
    desk: Arc<Desk>,
}

/// Those of this number.
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

/// What playlists say of subtitles.
pub(super) fn said(all: &[SubtitleTrack]) -> Vec<Subtitles<'_>> {
    let said = all.iter().map(|track| Subtitles {
        number: track.number,
        label: &track.label,
        language: track.named.language.as_deref(),
        forced: track.named.forced,
        default: track.named.default,
        sdh: track.named.sdh,
    });
    said.collect()
}

impl SubtitleTexts {
    pub fn new(desk: Arc<Desk>) -> SubtitleTexts {
        SubtitleTexts { desk }
    }

    /// Answers a request for the text of a film's subtitles of this number.
    pub async fn answer(
        &self,
        (show, all): (Arc<Show>, Vec<SubtitleTrack>),
        number: u32,
        request: &Parts,
    ) -> Answered {
        let track = find(&all, &show, number)?;
        let make = move || match track.read(&show.film.title) {
            Ok(subtitles) => Ok(Text {
                media_type: WEB_VTT,
                text: subtitles.to_web_vtt(),
            }),
            Err(error) => {
                warn!(film = show.film.name, "subtitles: {error}");
                let name = match &track.source {
                    SubtitleSource::Beside(path) => {
                        path.file_name().unwrap_or_default().display().to_string()
                    }
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
}
