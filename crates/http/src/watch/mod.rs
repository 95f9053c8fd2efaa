//! Everything that players fetch: playlists, manifests, segments, files.
//!
//! | file | content |
//! |---|---|
//! | `playlist.rs` | HLS playlists and DASH manifests |
//! | `segment.rs` | segments and initialisation segments |
//! | `file.rs` | film files, by byte ranges |
//! | `index.rs` | film indexes, for edges |
//! | `subtitles.rs` | subtitles as WebVTT |
//! | `elsewhere.rs` | redirects of viewers to other servers |
//! | `steering.rs` | which server an HLS player should use (content steering) |
//! | `refused.rs` | refusals to players |

mod elsewhere;
pub(crate) mod file;
pub(crate) mod index;
pub(crate) mod playlist;
mod refused;
pub(crate) mod segment;
mod steering;
pub(crate) mod subtitles;

use std::sync::Arc;

use axum::http::{HeaderName, Method, StatusCode, header, request::Parts};
use reelway_catalogue::Place;
use reelway_viewing::{Caller, is_token};

use self::file::Files;
use self::index::Indexes;
use self::playlist::{Elsewhere, Playlists, Presented};
use self::refused::{Answered, no_film};
use self::segment::Segments;
use self::steering::Servers;
use self::subtitles::SubtitleTexts;
use crate::answer::{self, Answer};
use crate::films::{Films, Show};
use crate::node::Addresses;
use crate::renditions::Wanted;
use crate::route::{self, Target};
use crate::status::Status;
use crate::tls::IsSecure;

/// Header with information about a film that may grow.
const RECORDING: HeaderName = HeaderName::from_static("reelway-recording");

/// Request headers that foreign pages may send, and answer headers that they may read.
const ALLOWED: &str = "Range, If-Range, If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, \
                       Cache-Control, Content-Type, X-Requested-With";
const EXPOSED: &str = "Accept-Ranges, Content-Encoding, Content-Length, Content-Range, Date, ETag, Last-Modified, Retry-After";

/// Serves films to players.
pub(crate) struct Watch {
    pub films: Arc<Films>,
    pub playlists: Playlists,
    pub segments: Segments,
    pub files: Files,
    pub indexes: Indexes,
    pub subtitles: SubtitleTexts,
    pub status: Arc<Status>,
}

impl Watch {
    /// Answers a request for a part of a film.
    pub async fn answer(
        &self,
        title: &str,
        target: Target,
        request: &Parts,
        caller: Caller,
    ) -> Answer {
        match request.method {
            Method::OPTIONS => share(preflight()),
            Method::GET | Method::HEAD => {
                let answered = self.find(title, target, request, caller).await;
                share(answered.unwrap_or_else(|refused| *refused))
            }
            _ => {
                let words = "films only allow GET and HEAD";
                let mut answer = answer::error(StatusCode::METHOD_NOT_ALLOWED, words);
                answer::set(&mut answer, header::ALLOW, "GET, HEAD, OPTIONS");
                share(answer)
            }
        }
    }

    /// Returns the film at this server, with the addresses by which viewers reach it.
    fn here(&self, show: &Show) -> Place {
        let Addresses { rtsp, http, .. } = self.status.node.addresses();
        let title = show.film.name.clone();
        Place { rtsp, http, title }
    }

    /// Returns where a player continues if this server fails. Nowhere over TLS, since only the
    /// non-TLS addresses of other servers are known.
    async fn elsewhere(&self, show: &Show, request: &Parts) -> Elsewhere {
        if request.extensions.get::<IsSecure>().is_some() {
            return Elsewhere::default();
        }
        let others = self.films.placement().others(&show.film).await;
        if others.is_empty() {
            return Elsewhere::default();
        }
        let here = self.here(show);
        Elsewhere {
            steering: steering::address(&here.http, &others),
            films: [&here]
                .into_iter()
                .chain(&others)
                .map(elsewhere::film)
                .collect(),
        }
    }

    /// Returns the other renditions of a film that players are offered.
    async fn renditions(&self, show: &Show) -> Vec<Arc<Show>> {
        let Some(entry) = self.films.entry(&show.film.name) else {
            return Vec::new();
        };
        let renditions = self.films.renditions(&entry).await.into_iter();
        renditions.filter_map(|other| other.offered.ok()).collect()
    }

    async fn find(&self, title: &str, target: Target, request: &Parts, caller: Caller) -> Answered {
        let show = self.films.get(title).await;
        let show = show.map_err(|error| Box::new(no_film(&error)))?;
        if elsewhere::may_leave(target, request, &caller)
            && let Some(place) = self.films.placement().place(&show.film).await
        {
            return Ok(elsewhere::redirect(&show, &place, target, request));
        }
        if matches!(target, Target::File | Target::Index) {
            let checked = self.films.check_whole(&show);
            checked.map_err(|error| Box::new(no_film(&error)))?;
        }
        match target {
            Target::Multivariant
            | Target::Playlist(_)
            | Target::SubtitlePlaylist(_)
            | Target::Mpd => {
                let (elsewhere, renditions) = match target {
                    Target::Multivariant | Target::Mpd => (
                        self.elsewhere(&show, request).await,
                        self.renditions(&show).await,
                    ),
                    _ => Default::default(),
                };
                let film = Presented {
                    subtitles: self.films.subtitles(&show),
                    recorded: self.films.recorded(&show),
                    elsewhere,
                    renditions,
                    wanted: self.films.wanted(show).await,
                };
                self.playlists.answer(film, target, request, caller).await
            }
            Target::StreamMultivariant | Target::StreamPlaylist => {
                let stream = self.stream(&show).await?;
                let film = Presented {
                    subtitles: Vec::new(),
                    recorded: self.films.recorded(&stream),
                    elsewhere: Elsewhere::default(),
                    renditions: Vec::new(),
                    wanted: self.wanted_stream(stream),
                };
                self.playlists.answer(film, target, request, caller).await
            }
            Target::StreamTables(number) => {
                let wanted = self.wanted_stream(self.stream(&show).await?);
                self.segments.tables(&wanted, number, request, caller).await
            }
            Target::StreamSegment(number) => {
                let wanted = self.wanted_stream(self.stream(&show).await?);
                let segments = &self.segments;
                segments
                    .answer_stream(&wanted, number, request, caller)
                    .await
            }
            Target::Steering => {
                let servers = Servers {
                    own: self.here(&show),
                    is_ending: self.status.sessions.is_draining(),
                    others: self.films.placement().others(&show.film).await,
                    well: self.films.placement().addresses(),
                };
                let at = route::query(request, "at").map(route::decoded);
                let token = caller.token.filter(|token| is_token(token));
                Ok(steering::answer(
                    (&show, &self.renditions(&show).await),
                    &servers,
                    at.as_deref(),
                    token.as_deref(),
                ))
            }
            Target::Init(id) => {
                let wanted = self.films.wanted(show).await;
                self.segments.init(&wanted, id, request, caller).await
            }
            Target::Segment(id, number) => {
                let (segment, wanted) = ((id, number), self.films.wanted(show).await);
                self.segments
                    .answer(&wanted, segment, request, caller)
                    .await
            }
            Target::Subtitles(number) => {
                let film = (show.clone(), self.films.subtitles(&show));
                self.subtitles.answer(film, number, request).await
            }
            Target::File => {
                let answered = self.files.answer(show.clone(), request, caller).await;
                let answer = answered.map(|answer| self.with_via(answer, title))?;
                Ok(self.with_recording(answer, &show))
            }
            Target::Index => {
                let answered = self.indexes.answer(show.clone(), request, caller).await;
                answered.map(|answer| self.with_recording(answer, &show))
            }
        }
    }

    /// Returns a film as the transport stream that its file is.
    async fn stream(&self, show: &Arc<Show>) -> Result<Arc<Show>, Box<Answer>> {
        let stream = self.films.as_stream(show).await;
        stream.map_err(|error| Box::new(no_film(&error)))
    }

    /// Wraps a requested transport stream. Its viewers do not count as viewers of another film's
    /// rendition.
    fn wanted_stream(&self, stream: Arc<Show>) -> Wanted {
        Wanted {
            recorded: self.films.recorded(&stream),
            ..Wanted::alone(stream)
        }
    }

    /// Adds the header with which an edge follows a film that may grow.
    fn with_recording(&self, mut answer: Answer, show: &Show) -> Answer {
        let status = &self.status;
        let header = (self.films).recording_header(show, status.now(), status.time_of_day());
        if let Some(header) = header {
            answer::set(&mut answer, RECORDING, &header);
        }
        answer
    }

    /// Adds the servers through which a film comes here and passes on (RFC 9110 7.6.3): a server
    /// that finds itself among them does not fetch the film from here.
    fn with_via(&self, mut answer: Answer, title: &str) -> Answer {
        let mut via = self.films.via(title);
        via.insert(0, self.status.node.id());
        let hops = via.iter().rev().map(|id| format!("1.1 {id} (Reelway)"));
        answer::set(
            &mut answer,
            header::VIA,
            &hops.collect::<Vec<_>>().join(", "),
        );
        answer
    }
}

/// Lets players on other sites' pages read the answer.
fn share(mut answer: Answer) -> Answer {
    // Answers depend on nothing about the client but the token in the address.
    answer::set(&mut answer, header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    answer::set(&mut answer, header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    answer::set(
        &mut answer,
        header::HeaderName::from_static("cross-origin-resource-policy"),
        "cross-origin",
    );
    answer::set(
        &mut answer,
        header::HeaderName::from_static("timing-allow-origin"),
        "*",
    );
    answer
}

fn preflight() -> Answer {
    let mut answer = answer::empty(StatusCode::NO_CONTENT);
    answer::set(
        &mut answer,
        header::ACCESS_CONTROL_ALLOW_METHODS,
        "GET, HEAD, OPTIONS",
    );
    answer::set(&mut answer, header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED);
    answer::set(&mut answer, header::ACCESS_CONTROL_MAX_AGE, "86400");
    answer
}
