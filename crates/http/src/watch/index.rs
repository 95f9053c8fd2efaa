//! Film indexes for edges, so that they need not read a whole film to index it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{Method, header, request::Parts};
use futures_util::stream;
use reelway_media::{RECORD_BYTES, exchange};
use reelway_viewing::Caller;

use super::refused::Answered;
use crate::answer;
use crate::blocking::in_place;
use crate::desk::{Asker, Desk};
use crate::downloads::Downloads;
use crate::films::Show;
use crate::flow::{Flow, Taker};
use crate::media::{Media, bodiless};

/// The media type of an index.
const INDEX: &str = "application/vnd.reelway.index";
/// Number of samples whose records are sent at once: 36 KiB.
const SAMPLES: u64 = 2048;

/// Serves indexes.
pub(crate) struct Indexes {
    downloads: Arc<Downloads>,
    desk: Arc<Desk>,
}

impl Indexes {
    /// Creates it with the desk that makes the indexes' heads.
    pub fn new(downloads: Arc<Downloads>, desk: Arc<Desk>) -> Indexes {
        Indexes { downloads, desk }
    }

    /// Answers a request for a film's index, or a range of it.
    pub async fn answer(&self, show: Arc<Show>, request: &Parts, caller: Caller) -> Answered {
        let of = show.clone();
        let make = move || Ok((exchange::head(&of.film.title, of.file.len()), ()));
        let (head, ()) = self.desk.make(&Asker::of(request), make).await?;
        let media = Media {
            // The validators of the film: an index belongs to one version of it.
            validators: show.validators(""),
            media_type: INDEX,
            len: head.len() as u64 + exchange::record_bytes(&show.film.title),
            cache: "no-cache",
        };
        let (mut answer, range) = media.judge(request)?;
        if request.method == Method::HEAD || range.is_empty() {
            return Ok(bodiless(answer, range));
        }
        let length = (range.end - range.start).to_string();
        answer::set(&mut answer, header::CONTENT_LENGTH, &length);
        let to = (request, caller.peer.ip());
        let sending = Sending {
            flow: Flow::spare(Taker::Edge, &self.downloads, &show.film.identity, to),
            records: head.len() as u64,
            head: Some(head),
            left: range,
            show,
        };
        let pieces = stream::try_unfold(sending, async |mut sending| {
            let piece = sending.next().await?;
            Ok::<_, io::Error>(piece.map(|piece| (piece, sending)))
        });
        Ok(answer.map(|_| Body::from_stream(pieces)))
    }
}

/// An index being sent.
struct Sending {
    flow: Flow,
    /// The head, until it has been sent.
    head: Option<Bytes>,
    /// The offset at which the head ends and the records begin.
    records: u64,
    /// The range of the index that is still to be sent.
    left: Range<u64>,
    show: Arc<Show>,
}

impl Sending {
    /// Returns the next piece when it is due.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let mut piece = self.piece()?;
        piece.truncate((self.left.end - self.left.start).min(piece.len() as u64) as usize);
        let turn = self.flow.turn(None, piece.len() as u64).await;
        let may = turn.map_err(io::Error::other)?.beyond;
        // A link may not have room for all of it at once.
        piece.truncate(may.map_or(usize::MAX, |bytes| bytes as usize));
        self.left.start += piece.len() as u64;
        Ok(Some(piece))
    }

    /// Returns bytes from the current offset on.
    fn piece(&mut self) -> io::Result<Bytes> {
        if let Some(head) = &self.head
            && self.left.start < self.records
        {
            return Ok(head.slice(self.left.start as usize..));
        }
        self.head = None;
        let record = RECORD_BYTES as u64;
        let at = self.left.start - self.records;
        let (mut first, skip) = (at / record, (at % record) as usize);
        let film = &self.show.film;
        for (number, track) in film.title.recorded().enumerate() {
            let count = u64::from(track.samples);
            if first >= count {
                first -= count;
                continue;
            }
            let range = first as u32..(first + SAMPLES).min(count) as u32;
            let mut samples = Vec::with_capacity(range.len());
            let read = in_place(|| film.samples.read(number, range, &mut samples));
            read.map_err(io::Error::other)?;
            let records: Vec<u8> = (samples.iter())
                .flat_map(|sample| sample.to_record())
                .collect();
            return Ok(Bytes::from(records).slice(skip..));
        }
        Err(io::Error::other("the index is shorter than it was"))
    }
}
