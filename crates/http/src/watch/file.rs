//! Film files, served by byte ranges.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, request::Parts};
use reelway_media::Nanos;
use reelway_viewing::{Caller, Delivery, FlowKind, Piece};

use super::refused::{Answered, denied, no_media};
use crate::body::Bodies;
use crate::downloads::Downloads;
use crate::films::Show;
use crate::flow::{Flow, Taker};
use crate::guard::Edge;
use crate::media::{Media, bodiless};
use crate::pieces::Pieces;
use crate::renditions::Wanted;
use crate::speed::{Carried, Speed};
use crate::viewers::Viewers;

/// Serves film files.
pub(crate) struct Files {
    viewers: Arc<Viewers>,
    bodies: Bodies,
    downloads: Arc<Downloads>,
}

impl Files {
    pub fn new(viewers: Arc<Viewers>, bodies: Bodies, downloads: Arc<Downloads>) -> Files {
        Files {
            viewers,
            bodies,
            downloads,
        }
    }

    /// Answers a request for a film's file, or a range of it.
    pub async fn answer(&self, show: Arc<Show>, request: &Parts, caller: Caller) -> Answered {
        let len = show.file.len();
        let media = Media {
            validators: show.validators(""),
            media_type: show.media_type(),
            len,
            // Another file may take this address: cached data must be revalidated.
            cache: "no-cache",
        };
        let (answer, range) = media.judge(request)?;
        if request.method == Method::HEAD || range.is_empty() {
            return Ok(bodiless(answer, range));
        }
        let whole = range.end - range.start;
        if request.extensions.get::<Edge>().is_some() {
            let to = (request, caller.peer.ip());
            let flow = Flow::spare(Taker::Edge, &self.downloads, &show.film.identity, to);
            let pieces = Pieces::of_file(range);
            let body = self.bodies.begin(show.clone(), flow, pieces, whole).await;
            let body = body.map_err(|error| no_media(&show.film.name, &error))?;
            return Ok(answer.map(|_| Body::new(body)));
        }
        let caller = Caller {
            token: None,
            ..caller
        };
        let viewer = self
            .viewers
            .resume(Delivery::File, &Wanted::alone(show.clone()), &caller)
            .map_err(denied)?;
        viewer.wait_for_turn().await;
        let seconds_per_byte = show.seconds() / len.max(1) as f64;
        let at = |byte: u64| (byte as f64 * seconds_per_byte * 1e9) as Nanos;
        let piece = Piece {
            flow: FlowKind::File,
            at: range.start,
            next: range.end,
            time: at(range.start)..at(range.end),
            main: true,
            // The tables at a file's beginning or end are not film: they are sent unpaced in
            // addition.
            extra: show.overhead() as f64 * seconds_per_byte,
        };
        let sending = self.viewers.asks(&viewer, &piece).map_err(denied)?;
        let pieces = Pieces::of_file(range.clone());
        let speed = Speed::of(request);
        let share = self.downloads.share(&show.film.identity, caller.peer.ip());
        speed.carries(match &share {
            Some(share) => Carried::File {
                dscp: self.downloads.dscp(),
                is_held: !share.is_all(),
            },
            None => Carried::Media,
        });
        let flow = Flow::of(sending, seconds_per_byte, true, speed).beyond(share);
        let body = self
            .bodies
            .begin(show.clone(), flow, pieces, whole)
            .await
            .map_err(|error| no_media(&show.film.name, &error))?;
        Ok(answer.map(|_| Body::new(body)))
    }
}
