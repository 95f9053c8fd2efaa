//! Subtitles of a film as WebVTT, made of the files beside it.

use std::sync::Arc;

use axum::http::{StatusCode, header, request::Parts};
use reelway_catalogue::SubtitleFile;
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

/// The file of this number.
pub(super) fn find(
    files: &[SubtitleFile],
    show: &Show,
    number: u32,
) -> Result<SubtitleFile, Box<answer::Answer>> {
    let file = files.iter().find(|file| file.number == number).cloned();
    file.ok_or_else(|| {
        not_here(format!(
            "film '{}' has no subtitles {number}",
            show.film.name
        ))
    })
}

/// What playlists say of files of subtitles.
pub(super) fn said(files: &[SubtitleFile]) -> Vec<Subtitles<'_>> {
    let said = files.iter().map(|file| Subtitles {
        number: file.number,
        label: &file.label,
        language: file.named.language.as_deref(),
        forced: file.named.forced,
        default: file.named.default,
        sdh: file.named.sdh,
    });
    said.collect()
}

impl SubtitleTexts {
    pub fn new(desk: Arc<Desk>) -> SubtitleTexts {
        SubtitleTexts { desk }
    }

    /// Answers a request for the text of a film's file of this number.
    pub async fn answer(
        &self,
        (show, files): (Arc<Show>, Vec<SubtitleFile>),
        number: u32,
        request: &Parts,
    ) -> Answered {
        let file = find(&files, &show, number)?;
        let make = move || match file.read() {
            Ok(subtitles) => Ok(Text {
                media_type: WEB_VTT,
                text: subtitles.to_web_vtt(),
            }),
            Err(error) => {
                warn!(film = show.film.name, "subtitles: {error}");
                let name = file.path.file_name().unwrap_or_default();
                let words = format!("{} cannot be shown; the log says why", name.display());
                Err(Box::new(answer::error(StatusCode::NOT_FOUND, words)))
            }
        };
        let mut answer = self.desk.answer(&Asker::of(request), make).await;
        // The file may change while its film stays.
        answer::set(&mut answer, header::CACHE_CONTROL, "no-cache");
        Ok(answer)
    }
}
