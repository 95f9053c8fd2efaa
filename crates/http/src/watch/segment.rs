//! Segments and initialisation segments.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, StatusCode, header, request::Parts};
use reelway_media::Kind;
use reelway_viewing::{Caller, Delivery, Piece};
use tokio::sync::Semaphore;

use super::refused::{Answered, check_edition, denied, no_media, no_track, not_here};
use crate::answer::{self, Answer};
use crate::body::Bodies;
use crate::flow::Flow;
use crate::media::{Media, bodiless};
use crate::pieces::Pieces;
use crate::renditions::Wanted;
use crate::route::{flag, query};
use crate::speed::{Carried, Speed};
use crate::viewers::Viewers;

/// Pieces for posters that are sent at once: posters must not be in the way of films.
const POSTERS: usize = 4;

/// What segments need.
pub(crate) struct Segments {
    viewers: Arc<Viewers>,
    bodies: Bodies,
    /// Pieces for posters that may be on their way.
    posters: Arc<Semaphore>,
}

impl Segments {
    pub fn new(viewers: Arc<Viewers>, bodies: Bodies) -> Segments {
        Segments {
            viewers,
            bodies,
            posters: Arc::new(Semaphore::new(POSTERS)),
        }
    }

    /// Answers a request for the initialisation segment of the track with this track_ID.
    pub async fn init(
        &self,
        wanted: &Wanted,
        id: u32,
        request: &Parts,
        caller: Caller,
    ) -> Answered {
        let show = &wanted.show;
        check_edition(show, request)?;
        let track = show
            .package
            .track(id)
            .ok_or_else(|| no_track(&show.film.name, id))?;
        let media = Media {
            validators: show.validators(&format!("-{id}-init")),
            media_type: media_type(track.kind),
            len: track.init().len() as u64,
        };
        let (answer, range) = media.judge(request)?;
        let init = track.init().slice(range.start as usize..range.end as usize);
        if request.method != Method::HEAD && !flag(request, "poster") {
            let viewer = self
                .viewers
                .resume(Delivery::Hls, wanted, &caller)
                .map_err(denied)?;
            viewer.answered();
        }
        // It tells the film's length.
        let stays = show.stays(false);
        Ok(cache(answer, (request, &caller), stays).map(|_| Body::from(init)))
    }

    /// Answers a request for a segment, by its track's track_ID and its number.
    pub async fn answer(
        &self,
        wanted: &Wanted,
        (id, number): (u32, u32),
        request: &Parts,
        caller: Caller,
    ) -> Answered {
        let show = &wanted.show;
        check_edition(show, request)?;
        let title = &show.film.name;
        let tracks = show.package.tracks();
        let place = tracks.iter().position(|track| track.id == id);
        let place = place.ok_or_else(|| no_track(title, id))?;
        let track = &tracks[place];
        let (Some(len), Some(start), Some(duration)) = (
            track.segment_len(number),
            track.start(number),
            track.duration(number),
        ) else {
            let last = track.numbers().end().to_owned();
            return Err(not_here(format!(
                "track {id} of film '{title}' has segments 1 to {last}, no {number}"
            )));
        };
        let media = Media {
            validators: show.validators(&format!("-{id}-{number}")),
            media_type: media_type(track.kind),
            len,
        };
        let (answer, range) = media.judge(request)?;
        let stays = show.stays(number <= track.settled());
        let answer = cache(answer, (request, &caller), stays);
        if request.method == Method::HEAD {
            return Ok(bodiless(answer, range));
        }
        let flow = if flag(request, "poster") {
            self.poster()?
        } else {
            let viewer = self
                .viewers
                .resume(Delivery::Hls, wanted, &caller)
                .map_err(denied)?;
            let (flow, main) = flow_of(wanted, track.kind);
            let piece = Piece {
                flow,
                at: number.into(),
                next: u64::from(number) + 1,
                time: start..start + duration,
                main,
                extra: 0.0,
            };
            let sending = self.viewers.asks(&viewer, &piece).map_err(denied)?;
            let seconds_per_byte =
                Duration::from_nanos(duration.max(0) as u64).as_secs_f64() / len.max(1) as f64;
            let speed = Speed::of(request);
            speed.carries(Carried::Media);
            Flow::of(sending, seconds_per_byte, main, speed)
        };
        let slices = track
            .slices(number, range.clone())
            .ok_or_else(|| not_here(String::new()))?;
        let pieces = Pieces::of_segment(show.clone(), place, slices);
        let body = self
            .bodies
            .begin(show.clone(), flow, pieces, range.end - range.start)
            .await
            .map_err(|error| no_media(title, &error))?;
        Ok(answer.map(|_| Body::new(body)))
    }

    fn poster(&self) -> Result<Flow, Box<Answer>> {
        let turn = self.posters.clone().try_acquire_owned();
        Ok(Flow::Poster {
            _turn: turn.map_err(|_| too_many_posters())?,
        })
    }
}

/// The flow that tracks of a kind belong to: viewers watch a picture and hear a sound at a time, of whatever rendition. And
/// whether that flow shows where a viewer is: the picture does, or the sound of a film without one.
fn flow_of(wanted: &Wanted, kind: Kind) -> (u32, bool) {
    let show = wanted.best.as_ref().unwrap_or(&wanted.show);
    let tracks = show.package.tracks();
    let main = match tracks.iter().any(|track| track.kind == Kind::Video) {
        true => Kind::Video,
        false => Kind::Audio,
    };
    (kind as u32, kind == main)
}

/// An address with an edition never has other bytes, if what it names stays. With a token in it, it is one viewer's own.
fn cache(mut answer: Answer, (request, caller): (&Parts, &Caller), stays: bool) -> Answer {
    let edition = query(request, "v").filter(|_| stays);
    let rule = match (edition, &caller.token) {
        (None, _) => "no-cache",
        (Some(_), Some(_)) => "private, max-age=3600, immutable",
        (Some(_), None) => "public, max-age=86400, immutable",
    };
    answer::set(&mut answer, header::CACHE_CONTROL, rule);
    answer
}

fn media_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Video => "video/mp4",
        Kind::Audio => "audio/mp4",
    }
}

fn too_many_posters() -> Box<Answer> {
    let words = "too many posters are being made; try again later";
    let mut answer = answer::error(StatusCode::SERVICE_UNAVAILABLE, words);
    answer::retry_after(&mut answer, Duration::from_secs(1));
    Box::new(answer)
}
