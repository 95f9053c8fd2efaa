//! OPTIONS, DESCRIBE, GET_PARAMETER, SET_PARAMETER.

use std::sync::Arc;

use reelway_rtp::sdp::Profile;

use crate::film::{Film, FilmError};
use crate::header::accepts_sdp;
use crate::machine::event::ConnId;
use crate::machine::state::Machine;
use crate::machine::step::{Described, Pending, Refused, Step};
use crate::message::Request;
use crate::response::{Response, Status};
use crate::seam::Job;
use crate::target::{self, Target};

/// Supported methods, as listed in `Public` and `Allow`.
pub(super) const METHODS: &str =
    "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER";

impl<W: Clone, F> Machine<W, F> {
    pub(super) fn options(
        &mut self,
        conn: ConnId,
        request: &Request,
    ) -> Result<Step<W, F>, Refused> {
        let mut answer = Response::ok().header("Public", METHODS);
        if request.session().is_some() {
            let (name, _) = self.session_of(conn, request)?;
            answer = answer.header("Session", name);
        }
        Ok(Step::Answer(answer))
    }

    /// Refuses all parameters by name, as none exist; a request without any is a sign of life.
    pub(super) fn parameter(
        &mut self,
        conn: ConnId,
        request: &Request,
    ) -> Result<Step<W, F>, Refused> {
        let session = match request.session() {
            Some(_) => Some(self.session_of(conn, request)?.0),
            None => None,
        };
        let body = String::from_utf8_lossy(&request.body);
        let names = body
            .lines()
            .map(|line| line.split(':').next().unwrap_or(line).trim());
        let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
        let answer = match names.is_empty() {
            true => Response::ok(),
            false => Response::new(Status::PARAMETER_NOT_UNDERSTOOD)
                .body("text/parameters", names.join("\r\n") + "\r\n"),
        };
        Ok(Step::Answer(match session {
            Some(name) => answer.header("Session", name),
            None => answer,
        }))
    }

    pub(super) fn describe(
        &mut self,
        conn: ConnId,
        request: &Request,
        target: &Target,
    ) -> Result<Step<W, F>, Refused> {
        if !accepts_sdp(request.headers.all("Accept")) {
            let words = "descriptions are application/sdp, which Accept does not list";
            return Err(Response::refuse(Status::NOT_ACCEPTABLE, words));
        }
        if target.is_server() {
            return Err(no_film_named());
        }
        let mut titles = vec![target.whole_title()];
        if target.track().is_some() && !target.title().is_empty() {
            titles.push(target.title());
        }
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.query.clone_from(&target.query);
        }
        let origin = self.origin(conn, target);
        let user_agent = request.headers.get("User-Agent").unwrap_or_default();
        let profile = match self.settings.config.offer_retransmission && reads_avpf(user_agent) {
            true => Profile::Avpf,
            false => Profile::Avp,
        };
        let described = Described {
            origin,
            profile,
            query: target.query.clone(),
        };
        Ok(Step::Wait(
            Job::Film {
                titles,
                form: target.form(),
                may_leave: !target.is_moved(),
            },
            Pending::Describe(described),
        ))
    }

    pub(super) fn described(
        &mut self,
        conn: ConnId,
        described: &Described,
        film: Result<Arc<Film<F>>, FilmError>,
    ) -> Result<Step<W, F>, Refused> {
        if let Err(FilmError::Elsewhere(url)) = &film {
            let url = target::moved(url, described.query.as_deref());
            let answer = Response::new(Status::MOVED_TEMPORARILY).header("Location", url);
            return Ok(Step::Answer(answer.header("Cache-Control", "no-cache")));
        }
        let film = film.map_err(refuse_film)?;
        let server = self
            .connections
            .get(&conn)
            .map(|connection| connection.local.ip());
        let server = server.unwrap_or(std::net::Ipv4Addr::LOCALHOST.into());
        let answer = Response::ok()
            .header("Content-Base", target::base(&described.origin, &film.title))
            .header("Cache-Control", "no-cache")
            .body("application/sdp", film.sdp(server, described.profile));
        Ok(Step::Answer(answer))
    }

    /// Returns `rtsp://host:port` as the client addresses this server.
    pub(super) fn origin(&self, conn: ConnId, target: &Target) -> String {
        target
            .origin
            .clone()
            .unwrap_or_else(|| match self.connections.get(&conn) {
                Some(connection) => format!("rtsp://{}", connection.local),
                None => "rtsp://localhost".to_owned(),
            })
    }
}

/// Returns whether a client with this name plays RTP/AVPF descriptions. GStreamer requests
/// retransmission only then; live555 (VLC) skips such sections altogether, and ffmpeg would request
/// without understanding the response. Any other client that wants feedback asks for it in SETUP.
fn reads_avpf(user_agent: &str) -> bool {
    user_agent.starts_with("GStreamer/")
}

pub(super) fn no_film_named() -> Response {
    Response::refuse(
        Status::NOT_FOUND,
        "the address names no film; addresses are rtsp://HOST/TITLE",
    )
}

pub(super) fn refuse_film(why: FilmError) -> Response {
    match why {
        FilmError::Unknown(words) => Response::refuse(Status::NOT_FOUND, words),
        FilmError::NotReady(words) => {
            Response::refuse(Status::UNAVAILABLE, words).header("Retry-After", "10")
        }
        FilmError::Unplayable(words) => Response::refuse(Status::UNSUPPORTED_MEDIA, words),
        // Only viewers who may leave are sent elsewhere.
        FilmError::Elsewhere(_) => Response::new(Status::INTERNAL_ERROR),
        FilmError::Failed(words) => Response::refuse(Status::INTERNAL_ERROR, words),
    }
}
