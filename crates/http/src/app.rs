//! All requests come in here: checked, sent the right way, counted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header, request::Parts};
use axum::routing::{delete, get};
use hyper::body::Incoming;
use reelway_catalogue::Catalogue;
use reelway_clock::Monotonic;
use reelway_connections::Limits;
use reelway_media::Nanos;
use reelway_package::Options;
use reelway_session::Sessions;
use reelway_store::Store;
use tokio::sync::Semaphore;
use tower_service::Service;

use crate::answer::{self, Answer};
use crate::api::{self, Events};
use crate::body::Budget;
use crate::config::HttpConfig;
use crate::connection::{ConnectionNumber, Speed};
use crate::desk::{Asker, Desk, Text};
use crate::films::Films;
use crate::guard::{self, Refused};
use crate::metrics::{Metrics, Route};
use crate::node::{NodeState, NodeView};
use crate::pace::Pace;
use crate::peer::Peer;
use crate::route::{self, Target};
use crate::shadow::Shadow;
use crate::spare::Downloads;
use crate::upload::{self, Uploads};
use crate::viewers::{Caller, Viewers};
use crate::{metrics, watch, web};

/// Characters of a `User-Agent` that are kept.
const AGENT: usize = 200;

/// Pieces for posters that are sent at once: posters must not be in the way of films.
const POSTERS: usize = 4;

/// Texts of the API, and playlists, that are made at once.
const MAKING: usize = 2;

/// Time in which a client must take an answer of the API, or a playlist. Long enough for a slow line.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Everything a request may need.
pub(crate) struct App {
    pub config: HttpConfig,
    pub catalogue: Arc<dyn Catalogue>,
    pub store: Store,
    pub sessions: Sessions,
    pub node: Arc<dyn NodeView>,
    pub films: Films,
    pub viewers: Viewers,
    pub budget: Budget,
    pub pace: Pace,
    /// What files may be sent beyond their pace.
    pub downloads: Arc<Downloads>,
    pub limits: Limits,
    pub metrics: Arc<Metrics>,
    pub events: Events,
    /// Where the API's answers are made …
    pub desk: Desk,
    /// … and where playlists are, which must not wait for the API.
    pub playlists: Desk,
    /// Pieces for posters that may be on their way at once.
    pub posters: Arc<Semaphore>,
    pub uploads: Arc<Uploads>,
    /// What other cache policies would have made of the same requests.
    pub shadow: Arc<Shadow>,
    started: Monotonic,
}

/// How fast media go; no faster than is booked for a viewer, where a network is limited.
fn pace(config: &HttpConfig, sessions: &Sessions) -> Pace {
    let gate = sessions.gate();
    if !gate.books_network() {
        return Pace::free(config.ahead.as_secs_f64(), config.pace);
    }
    let eager = gate.config().admission.eager;
    Pace {
        first: eager.first as f64 / 1e9,
        factor: f64::from(eager.percent) / 100.0,
        ahead: eager.ahead as f64 / 1e9,
        then: 1.0,
    }
}

impl App {
    pub fn new(
        config: HttpConfig,
        catalogue: Arc<dyn Catalogue>,
        sessions: Sessions,
        store: Store,
        node: Arc<dyn NodeView>,
    ) -> App {
        let options = Options {
            target: config.segment.as_nanos().min(i64::MAX as u128) as Nanos,
        };
        App {
            films: Films::new(catalogue.clone(), store.clone(), options),
            viewers: Viewers::new(sessions.clone(), store.clone(), config.viewer_timeout),
            budget: Budget::new(&store),
            pace: pace(&config, &sessions),
            downloads: Downloads::new(
                sessions.gate().clone(),
                config.eager_downloads,
                config.download_dscp,
            ),
            limits: Limits::new(config.max_connections, config.max_connections_per_peer),
            metrics: Arc::default(),
            events: Events::new(config.max_listeners),
            desk: Desk::new(MAKING, config.answers),
            playlists: Desk::new(MAKING, config.answers),
            posters: Arc::new(Semaphore::new(POSTERS)),
            uploads: Arc::default(),
            shadow: Shadow::of(&store, config.compare_policies),
            started: reelway_clock::now(),
            config,
            catalogue,
            store,
            sessions,
            node,
        }
    }

    /// Time since the start.
    pub fn uptime(&self) -> Duration {
        reelway_clock::now().since(self.started)
    }

    /// Whether newcomers are let in.
    pub fn state(&self) -> NodeState {
        if self.sessions.is_draining() {
            NodeState::Draining
        } else {
            self.node.state()
        }
    }
}

/// The ways of the API; everything else is a film or a page.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/api/films", get(api::films))
        .route("/api/films/{*title}", get(api::film))
        .route("/api/sessions", get(api::sessions))
        .route("/api/sessions/{id}", delete(api::end_session))
        .route("/api/node", get(api::node))
        .route("/api/events", get(api::events))
        .route("/api/admission", get(api::admission))
        .route("/api/calibration", get(api::calibration))
        .route("/api/calibration.svg", get(api::calibration_chart))
        .route("/api/cache", get(api::cache))
        .route("/metrics", get(metrics_page))
        .route("/healthz", get(crate::health::healthz))
        .route("/readyz", get(ready))
        .fallback(page)
        .with_state(app)
}

async fn metrics_page(State(app): State<Arc<App>>, asker: Asker) -> Answer {
    let of = app.clone();
    let make = move || {
        Ok(Text {
            media_type: "text/plain; version=0.0.4; charset=utf-8",
            text: metrics::exposition(&of),
        })
    };
    let mut answer = app.desk.answer(&asker, make).await;
    answer::set(&mut answer, header::CACHE_CONTROL, "no-store");
    answer
}

async fn ready(State(app): State<Arc<App>>) -> Answer {
    match app.state() {
        NodeState::Serving => answer::with(StatusCode::OK, "text/plain; charset=utf-8", "ready\n"),
        NodeState::Starting => answer::error(StatusCode::SERVICE_UNAVAILABLE, "starting"),
        NodeState::Draining => answer::error(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
    }
}

/// What the router has no way for: pages. (Films went another way before.)
async fn page(request: Request) -> Answer {
    if request.uri().path().starts_with("/api/") || request.uri().path() == "/api" {
        return answer::api_error(
            StatusCode::NOT_FOUND,
            "there is no such address; the API is described in docs/reference/api.md",
        );
    }
    web::answer(request.method(), request.uri().path(), request.headers())
}

/// Answers a request.
pub(crate) async fn handle(
    app: Arc<App>,
    router: Router,
    request: hyper::Request<Incoming>,
    peer: SocketAddr,
) -> Answer {
    let started = reelway_clock::now();
    reelway_supervise::inject("http.request");
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(Peer(peer));
    let path = parts.uri.path();
    let film = route::film(path)
        .filter(|(title, _)| !path.starts_with("/api/") || is_film_below_api(&app, path, title));
    let speed = parts.extensions.get::<Speed>().cloned().unwrap_or_default();
    let way = match &film {
        Some((_, target)) => watch::route_of(*target),
        None if is_api(path) => Route::Api,
        None => Route::Web,
    };
    let is_upload = is_change(&parts) && matches!(film, Some((_, Target::File)));
    let mut answer = match check(&app, &parts, film.is_some(), is_upload) {
        Err((status, words)) if way == Route::Api => answer::api_error(status, words),
        Err((status, words)) => answer::error(status, words),
        Ok(()) => match film {
            Some((title, Target::File)) if is_change(&parts) => {
                upload::answer(&app, &title, &parts, body).await
            }
            Some((title, target)) => {
                let caller = caller(&parts, peer);
                watch::answer(&app, &title, target, &parts, caller).await
            }
            None if way == Route::Api => {
                let origin = parts.headers.get(header::ORIGIN).cloned();
                let preflight = parts.method == Method::OPTIONS;
                let answer = route_through(router, parts, body).await;
                share(&app, answer, origin, preflight)
            }
            None => route_through(router, parts, body).await,
        },
    };
    // The body that nobody will read is not worth the connection, nor is one to a server that stops.
    if answer.status() == StatusCode::PAYLOAD_TOO_LARGE || app.sessions.is_draining() {
        answer::set(&mut answer, header::CONNECTION, "close");
    }
    answer::set(&mut answer, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    answer::set(
        &mut answer,
        header::SERVER,
        concat!("Reelway/", env!("CARGO_PKG_VERSION")),
    );
    match way {
        // Events say it of each piece.
        Route::Api | Route::Playlist => speed.must_be_taken_within(ANSWER_TIME),
        Route::Segment | Route::File | Route::Web => speed.may_be_taken_slowly(),
    }
    app.metrics.answered(
        way,
        answer.status().as_u16(),
        reelway_clock::now().since(started),
    );
    answer
}

async fn route_through(mut router: Router, parts: Parts, body: Incoming) -> Answer {
    let request = Request::from_parts(parts, Body::new(body));
    match router.call(request).await {
        Ok(answer) => answer,
        Err(never) => match never {},
    }
}

fn is_api(path: &str) -> bool {
    path == "/api"
        || path.starts_with("/api/")
        || matches!(path, "/metrics" | "/healthz" | "/readyz")
}

/// A film directory may be called `api`; the API's own addresses go first.
fn is_film_below_api(app: &App, path: &str, title: &str) -> bool {
    let of_api = path.strip_prefix("/api/films/").and_then(route::title);
    of_api.is_none_or(|title| app.catalogue.entry(&title).is_none())
        && app.catalogue.entry(title).is_some()
}

/// Whether a film is to be put or deleted.
fn is_change(request: &Parts) -> bool {
    matches!(request.method, Method::PUT | Method::DELETE)
}

fn check(app: &App, request: &Parts, is_film: bool, is_upload: bool) -> Result<(), Refused> {
    let path = request.uri.path();
    // Probes of a supervisor or balancer come under any name, and learn nothing.
    if !matches!(path, "/healthz" | "/readyz") {
        guard::check_host(&app.config, request)?;
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
        guard::check_change(&app.config, request)?;
    }
    Ok(())
}

/// The number of the connection that a request came over.
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

/// Lets pages of allowed origins read the API's answers.
fn share(
    app: &App,
    mut answer: Answer,
    origin: Option<axum::http::HeaderValue>,
    preflight: bool,
) -> Answer {
    let Some(origin) = origin else { return answer };
    answer
        .headers_mut()
        .append(header::VARY, axum::http::HeaderValue::from_static("Origin"));
    if !origin
        .to_str()
        .is_ok_and(|origin| guard::is_allowed_origin(&app.config, origin))
    {
        return answer;
    }
    if preflight {
        answer = answer::empty(StatusCode::NO_CONTENT);
        answer::set(&mut answer, header::VARY, "Origin");
        answer::set(
            &mut answer,
            header::ACCESS_CONTROL_ALLOW_METHODS,
            "GET, HEAD, DELETE, OPTIONS",
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
