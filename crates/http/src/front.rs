//! The path of a request: it is checked, passed to its handler, and counted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use hyper::body::Incoming;
use reelway_viewing::Caller;
use tower_service::Service;

use crate::answer::{self, Answer};
use crate::config::HttpConfig;
use crate::connection::ConnectionNumber;
use crate::guard::{self, Edge, Refused};
use crate::metrics::counters::Route;
use crate::peer::Peer;
use crate::route::{self, Target};
use crate::speed::Speed;
use crate::status::Status;
use crate::upload::handler::Upload;
use crate::watch::Watch;

/// Maximum number of characters kept of a `User-Agent`.
const AGENT: usize = 200;

/// Time within which a client must read an API answer or a playlist. Long enough for a slow line.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// The entry point of all requests.
pub(crate) struct Front {
    pub config: Arc<HttpConfig>,
    pub status: Arc<Status>,
    /// Answers requests for films …
    pub watch: Watch,
    /// … uploads and deletions of films …
    pub upload: Arc<Upload>,
    /// … and all others: the API and the pages.
    pub pages: Router,
}

impl Front {
    /// Answers a request.
    pub async fn answer(&self, request: hyper::Request<Incoming>, peer: SocketAddr) -> Answer {
        let started = reelway_clock::now();
        reelway_supervise::inject("http.request");
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(Peer(peer));
        let path = parts.uri.path();
        let film = route::film(path)
            .filter(|(title, _)| !path.starts_with("/api/") || self.is_film_below_api(path, title));
        let speed = Speed::of(&parts);
        speed.reset();
        let way = match &film {
            Some((_, target)) => route_of(*target),
            None if is_api(path) => Route::Api,
            None => Route::Web,
        };
        let is_upload = is_change(&parts) && matches!(film, Some((_, Target::File)));
        let checked = self.check(&parts, film.is_some(), is_upload);
        let mut answer = match checked {
            Err((status, words)) if way == Route::Api => answer::api_error(status, words),
            Err((status, words)) => answer::error(status, words),
            Ok(edge) => match film {
                Some((title, Target::File)) if is_change(&parts) => {
                    self.upload.answer(&title, &parts, body).await
                }
                Some((title, target)) => {
                    if let Some(edge) = edge {
                        parts.extensions.insert(edge);
                    }
                    let caller = caller(&parts, peer);
                    self.watch.answer(&title, target, &parts, caller).await
                }
                None if way == Route::Api => {
                    let origin = parts.headers.get(header::ORIGIN).cloned();
                    let preflight = parts.method == Method::OPTIONS;
                    let answer = self.route_through(parts, body).await;
                    share(&self.config, answer, origin, preflight)
                }
                None => self.route_through(parts, body).await,
            },
        };
        // A refused body is not worth keeping the connection for; neither is any connection to a
        // stopping server.
        if answer.status() == StatusCode::PAYLOAD_TOO_LARGE || self.status.sessions.is_draining() {
            answer::set(&mut answer, header::CONNECTION, "close");
        }
        answer::set(&mut answer, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        answer::set(
            &mut answer,
            header::SERVER,
            concat!("Reelway/", env!("CARGO_PKG_VERSION")),
        );
        match way {
            // The event stream sets this for each piece.
            Route::Api | Route::Playlist => speed.must_be_taken_within(ANSWER_TIME),
            Route::Segment | Route::File | Route::Web => speed.may_be_taken_slowly(),
        }
        self.status.counters.answered(
            way,
            answer.status().as_u16(),
            reelway_clock::now().since(started),
        );
        answer
    }

    async fn route_through(&self, parts: Parts, body: Incoming) -> Answer {
        let request = Request::from_parts(parts, Body::new(body));
        match self.pages.clone().call(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        }
    }

    /// A film directory may be called `api`; the API's own addresses take precedence.
    fn is_film_below_api(&self, path: &str, title: &str) -> bool {
        let films = &self.watch.films;
        let of_api = path.strip_prefix("/api/films/").and_then(route::title);
        of_api.is_none_or(|title| films.entry(&title).is_none()) && films.entry(title).is_some()
    }

    /// Checks whether a request may be answered, and whether it comes from an edge.
    fn check(
        &self,
        request: &Parts,
        is_film: bool,
        is_upload: bool,
    ) -> Result<Option<Edge>, Refused> {
        let path = request.uri.path();
        // Supervisors and balancers probe under any host name; the answer reveals nothing.
        if !matches!(path, "/healthz" | "/readyz") {
            guard::check_host(&self.config, request)?;
        }
        let length = request.headers.get(header::CONTENT_LENGTH);
        let has_body = length.is_some_and(|length| length != "0")
            || request.headers.contains_key(header::TRANSFER_ENCODING);
        if has_body && !is_upload {
            return Err((
                StatusCode::PAYLOAD_TOO_LARGE,
                "requests with a body are not accepted here".into(),
            ));
        }
        if is_film {
            guard::check_page(request)?;
        }
        if path.starts_with("/api/") && guard::changes(&request.method) {
            guard::check_change(&self.config, request)?;
        }
        // Requests that change films carry a different token.
        match is_film && !is_upload {
            true => guard::check_edge(&self.config, request),
            false => Ok(None),
        }
    }
}

/// Returns the route under which a request for a film is counted.
fn route_of(target: Target) -> Route {
    match target {
        Target::Multivariant
        | Target::Steering
        | Target::Playlist(_)
        | Target::SubtitlePlaylist(_)
        | Target::Subtitles(_)
        | Target::StreamMultivariant
        | Target::StreamPlaylist
        | Target::Mpd => Route::Playlist,
        Target::Init(_)
        | Target::Segment(..)
        | Target::StreamTables(_)
        | Target::StreamSegment(_) => Route::Segment,
        Target::File | Target::Index => Route::File,
    }
}

fn is_api(path: &str) -> bool {
    path == "/api"
        || path.starts_with("/api/")
        || matches!(path, "/metrics" | "/healthz" | "/readyz")
}

/// Whether the request uploads or deletes a film.
fn is_change(request: &Parts) -> bool {
    matches!(request.method, Method::PUT | Method::DELETE)
}

/// Returns the number of the connection on which a request arrived.
fn number_of(request: &Parts) -> u64 {
    let number = request.extensions.get::<ConnectionNumber>();
    number.map_or(0, |number| number.0)
}

fn caller(request: &Parts, peer: SocketAddr) -> Caller {
    let agent = request.headers.get(header::USER_AGENT);
    let agent = agent.map(|agent| {
        String::from_utf8_lossy(agent.as_bytes())
            .chars()
            .take(AGENT)
            .collect()
    });
    Caller {
        peer,
        connection: number_of(request),
        agent,
        token: route::query(request, "s").map(str::to_owned),
        query: request.uri.query().map(str::to_owned),
    }
}

/// Lets pages of allowed origins read API answers.
fn share(
    config: &HttpConfig,
    mut answer: Answer,
    origin: Option<HeaderValue>,
    preflight: bool,
) -> Answer {
    let Some(origin) = origin else { return answer };
    answer
        .headers_mut()
        .append(header::VARY, HeaderValue::from_static("Origin"));
    if !origin
        .to_str()
        .is_ok_and(|origin| guard::is_allowed_origin(config, origin))
    {
        return answer;
    }
    if preflight {
        answer = answer::empty(StatusCode::NO_CONTENT);
        answer::set(&mut answer, header::VARY, "Origin");
        answer::set(
            &mut answer,
            header::ACCESS_CONTROL_ALLOW_METHODS,
            "GET, HEAD, PUT, DELETE, OPTIONS",
        );
        answer::set(
            &mut answer,
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "Authorization, Content-Type",
        );
        answer::set(&mut answer, header::ACCESS_CONTROL_MAX_AGE, "3600");
    }
    answer
        .headers_mut()
        .insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    answer
}
