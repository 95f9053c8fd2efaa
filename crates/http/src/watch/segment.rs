//! Segments and initialisation segments.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, StatusCode, request::Parts};
use reelway_media::{Kind, Nanos};
use reelway_viewing::{Caller, Delivery, FlowKind, Piece};
use tokio::sync::Semaphore;

use super::refused::{Answered, check_edition, denied, no_media, no_track, not_here};
use crate::answer::{self, Answer};
use crate::body::Bodies;
use crate::downloads::Downloads;
use crate::flow::{Flow, Taker};
use crate::media::{Media, bodiless};
use crate::pieces::Pieces;
use crate::renditions::Wanted;
use crate::route::{flag, query};
use crate::speed::{Carried, Speed};
use crate::viewers::Viewers;

/// Maximum number of poster pieces sent at a time: posters must not get in the way of films.
const POSTERS: usize = 4;

/// The media type of a transport stream.
const STREAM: &str = "video/mp2t";

/// Serves segments and initialisation segments.
pub(crate) struct Segments {
    viewers: Arc<Viewers>,
    bodies: Bodies,
    downloads: Arc<Downloads>,
    /// Permits for poster pieces being sent.
    posters: Arc<Semaphore>,
}

impl Segments {
    pub fn new(viewers: Arc<Viewers>, bodies: Bodies, downloads: Arc<Downloads>) -> Segments {
        Segments {
            viewers,
            bodies,
            downloads,
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
            // It contains the film's length.
            cache: rule(request, &caller, show.stays(false)),
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
        Ok(answer.map(|_| Body::from(init)))
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
        let segment = Segment {
            media: Media {
                validators: show.validators(&format!("-{id}-{number}")),
                media_type: media_type(track.kind),
                len,
                cache: rule(request, &caller, show.stays(number <= track.settled())),
            },
            number,
            time: start..start + duration,
            delivery: Delivery::Hls,
            flow: flow_of(wanted, track.kind),
        };
        let pieces = |range| {
            let slices = track.slices(number, range)?;
            Some(Pieces::of_segment(show.clone(), place, slices))
        };
        self.send((wanted, segment), pieces, request, caller).await
    }

    /// Answers a request for PAT and PMT of the film's transport stream.
    pub async fn tables(
        &self,
        wanted: &Wanted,
        number: u32,
        request: &Parts,
        caller: Caller,
    ) -> Answered {
        let show = &wanted.show;
        check_edition(show, request)?;
        let tables = show.stream.as_ref();
        let tables = tables.and_then(|stream| stream.tables(number));
        let title = &show.film.name;
        let tables = tables
            .ok_or_else(|| not_here(format!("film '{title}' has no tables {number}")))?
            .clone();
        let media = Media {
            validators: show.validators(&format!("-ts-tables-{number}")),
            media_type: STREAM,
            len: tables.len() as u64,
            cache: rule(request, &caller, true),
        };
        let (answer, range) = media.judge(request)?;
        let tables = tables.slice(range.start as usize..range.end as usize);
        if request.method != Method::HEAD {
            let viewer = self
                .viewers
                .resume(Delivery::TransportStream, wanted, &caller)
                .map_err(denied)?;
            viewer.answered();
        }
        Ok(answer.map(|_| Body::from(tables)))
    }

    /// Answers a request for a segment of the film's transport stream.
    pub async fn answer_stream(
        &self,
        wanted: &Wanted,
        number: u32,
        request: &Parts,
        caller: Caller,
    ) -> Answered {
        let show = &wanted.show;
        check_edition(show, request)?;
        let title = &show.film.name;
        let none = || not_here(format!("film '{title}' has no segment {number}"));
        let stream = show.stream.as_ref().ok_or_else(none)?;
        let (Some(len), Some(start), Some(duration)) = (
            stream.segment_len(number),
            stream.start(number),
            stream.duration(number),
        ) else {
            return Err(none());
        };
        let segment = Segment {
            media: Media {
                validators: show.validators(&format!("-ts-{number}")),
                media_type: STREAM,
                len,
                cache: rule(request, &caller, show.stays(number <= stream.settled())),
            },
            number,
            time: start..start + duration,
            delivery: Delivery::TransportStream,
            flow: (FlowKind::Picture, true),
        };
        let pieces = |range| {
            let slices = stream.slices(number, range)?;
            Some(Pieces::of_stream(show.clone(), slices))
        };
        self.send((wanted, segment), pieces, request, caller).await
    }

    /// Sends a segment, which consists of these `pieces`, to a viewer or for a poster.
    async fn send(
        &self,
        (wanted, segment): (&Wanted, Segment),
        pieces: impl FnOnce(Range<u64>) -> Option<Pieces>,
        request: &Parts,
        caller: Caller,
    ) -> Answered {
        let show = &wanted.show;
        let Segment {
            media,
            number,
            time,
            delivery,
            flow: (flow, main),
        } = segment;
        let (answer, range) = media.judge(request)?;
        if request.method == Method::HEAD {
            return Ok(bodiless(answer, range));
        }
        let flow = if flag(request, "poster") {
            let taker = self.poster()?;
            let to = (request, caller.peer.ip());
            Flow::spare(taker, &self.downloads, &show.film.identity, to)
        } else {
            let viewer = self
                .viewers
                .resume(delivery, wanted, &caller)
                .map_err(denied)?;
            let length = time.end - time.start;
            let piece = Piece {
                flow,
                at: number.into(),
                next: u64::from(number) + 1,
                time,
                main,
                extra: 0.0,
            };
            let sending = self.viewers.asks(&viewer, &piece).map_err(denied)?;
            let length = Duration::from_nanos(length.max(0) as u64).as_secs_f64();
            let seconds_per_byte = length / media.len.max(1) as f64;
            let speed = Speed::of(request);
            speed.carries(Carried::Media);
            let booked = !viewer.pace.is_free();
            let share = booked.then(|| {
                let file = &show.film.identity;
                self.downloads.begin(file, caller.peer.ip())
            });
            Flow::of(sending, seconds_per_byte, main, speed).catching_up(share)
        };
        let pieces = pieces(range.clone()).ok_or_else(|| not_here(String::new()))?;
        let body = self
            .bodies
            .begin(show.clone(), flow, pieces, range.end - range.start)
            .await
            .map_err(|error| no_media(&show.film.name, &error))?;
        Ok(answer.map(|_| Body::new(body)))
    }

    fn poster(&self) -> Result<Taker, Box<Answer>> {
        let turn = self.posters.clone().try_acquire_owned();
        Ok(Taker::Poster {
            _turn: turn.map_err(|_| too_many_posters())?,
        })
    }
}

/// A requested segment.
struct Segment {
    media: Media,
    number: u32,
    /// Its film times.
    time: Range<Nanos>,
    delivery: Delivery,
    /// The viewer's flow to which it belongs, and whether that shows their position.
    flow: (FlowKind, bool),
}

/// Returns the flow of tracks of this kind, since viewers play one video and one audio track at a
/// time, from any rendition; and whether it shows a viewer's position: video does, or audio in a
/// film without video.
fn flow_of(wanted: &Wanted, kind: Kind) -> (FlowKind, bool) {
    let show = wanted.best.as_ref().unwrap_or(&wanted.show);
    let tracks = show.package.tracks();
    let main = match tracks.iter().any(|track| track.kind == Kind::Video) {
        true => Kind::Video,
        false => Kind::Audio,
    };
    (kind.into(), kind == main)
}

/// Returns the `Cache-Control` value: an address with an edition never gets other bytes, if the
/// segment stays. If it contains a token, it is private to one viewer.
fn rule(request: &Parts, caller: &Caller, stays: bool) -> &'static str {
    let edition = query(request, "v").filter(|_| stays);
    match (edition, &caller.token) {
        (None, _) => "no-cache",
        (Some(_), Some(_)) => "private, max-age=3600, immutable",
        (Some(_), None) => "public, max-age=86400, immutable",
    }
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
