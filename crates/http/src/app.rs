//! The parts of the HTTP side and how they are connected; the routes of the API.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRef, Request, State};
use axum::http::StatusCode;
use axum::routing::{delete, get, put};
use reelway_catalogue::Catalogue;
use reelway_library::Library;
use reelway_media::Nanos;
use reelway_package::Options;
use reelway_pages::Site;
use reelway_session::Sessions;
use reelway_store::Store;
use reelway_viewing::Pace;

use crate::answer::{self, Answer};
use crate::api::admission::{admission, calibration, calibration_chart};
use crate::api::cache::{cache, keep, prefill, purge, stop_prefill};
use crate::api::events::{Events, events};
use crate::api::film::film;
use crate::api::films::films;
use crate::api::node::{Overview, node};
use crate::api::sessions::{end_session, sessions};
use crate::body::Bodies;
use crate::config::HttpConfig;
use crate::desk::Desk;
use crate::downloads::Downloads;
use crate::films::Films;
use crate::front::Front;
use crate::giving::Giving;
use crate::health::{self, healthz, readyz};
use crate::metrics::page::{Page, metrics};
use crate::metrics::{answers, counters};
use crate::node::NodeView;
use crate::repeated::Repeated;
use crate::shadow::Shadow;
use crate::status::Status;
use crate::upload::handler::Upload;
use crate::upload::shelf::Shelf;
use crate::upload::slots::Uploads;
use crate::viewers::Viewers;
use crate::watch::Watch;
use crate::watch::file::Files;
use crate::watch::index::Indexes;
use crate::watch::playlist::Playlists;
use crate::watch::segment::Segments;
use crate::watch::subtitles::SubtitleTexts;

/// Number of API texts, and of playlists, that are made at the same time.
const MAKING: usize = 2;

/// The parts that live as long as the server.
pub(crate) struct App {
    pub config: Arc<HttpConfig>,
    pub status: Arc<Status>,
    pub front: Arc<Front>,
    pub uploads: Arc<Uploads>,
    pub events: Arc<Events>,
    pub overview: Overview,
    pub shadow: Arc<Shadow>,
    /// Sends bytes to connections without a copy, if enabled.
    pub giving: Option<Giving>,
}

/// State for the API's handlers. Each extracts the few parts that it needs.
#[derive(Clone)]
struct Parts {
    catalogue: Arc<dyn Catalogue>,
    store: Store,
    sessions: Sessions,
    status: Arc<Status>,
    films: Arc<Films>,
    shadow: Arc<Shadow>,
    events: Arc<Events>,
    overview: Overview,
    desk: Arc<Desk>,
    page: Arc<Page>,
    repeated: Arc<Repeated>,
}

macro_rules! part {
    ($($name:ident: $part:ty),* $(,)?) => {
        $(impl FromRef<Parts> for $part {
            fn from_ref(parts: &Parts) -> $part {
                parts.$name.clone()
            }
        })*
    };
}

part! {
    catalogue: Arc<dyn Catalogue>,
    store: Store,
    sessions: Sessions,
    status: Arc<Status>,
    films: Arc<Films>,
    shadow: Arc<Shadow>,
    events: Arc<Events>,
    overview: Overview,
    desk: Arc<Desk>,
    page: Arc<Page>,
    repeated: Arc<Repeated>,
}

/// Returns the pace of media; on a limited network no faster than what is booked for a viewer.
fn pace(config: &HttpConfig, sessions: &Sessions) -> Pace {
    let gate = sessions.gate();
    if !gate.books_network() {
        return Pace::free(config.ahead.as_secs_f64(), config.pace);
    }
    Pace::booked(&gate.config().admission.eager)
}

impl App {
    pub fn new(
        config: HttpConfig,
        library: Library,
        sessions: Sessions,
        node: Arc<dyn NodeView>,
    ) -> App {
        let (catalogue, store) = (library.catalogue().clone(), library.store().clone());
        let config = Arc::new(config);
        let options = Options {
            target: config.segment.as_nanos().min(i64::MAX as u128) as Nanos,
        };
        let status = Arc::new(Status::new(node, sessions.clone()));
        let films = Arc::new(Films::new(library, options));
        let playlists = Arc::new(Desk::new(MAKING, config.answers));
        let block_bytes = store.stats().block_bytes.into();
        let repeated = Arc::new(Repeated::new(config.repeated, block_bytes));
        let giving = repeated.addresses().cloned().map(Giving::new);
        let parts = Parts {
            shadow: Shadow::of(&store, config.compare_policies),
            events: Arc::new(Events::new(config.max_listeners)),
            overview: Overview {
                catalogue: catalogue.clone(),
                store: store.clone(),
                status: status.clone(),
            },
            desk: Arc::new(Desk::new(MAKING, config.answers)),
            page: Arc::default(),
            catalogue: catalogue.clone(),
            store: store.clone(),
            sessions: sessions.clone(),
            status: status.clone(),
            films: films.clone(),
            repeated,
        };
        let uploads = Arc::default();
        let front = Front {
            watch: watch(&config, &parts, playlists.clone()),
            upload: Arc::new(Upload::new(
                config.clone(),
                sessions.clone(),
                Arc::clone(&uploads),
                Shelf::new(catalogue, films, sessions),
            )),
            pages: router(Parts {
                page: Arc::new(metrics_page(&parts, playlists)),
                ..parts.clone()
            }),
            config: config.clone(),
            status: status.clone(),
        };
        App {
            config,
            status,
            front: Arc::new(front),
            uploads,
            events: parts.events,
            overview: parts.overview,
            shadow: parts.shadow,
            giving,
        }
    }
}

/// Makes the part that serves films to players; `playlists` makes playlists, which must not wait
/// for the API.
fn watch(config: &HttpConfig, parts: &Parts, playlists: Arc<Desk>) -> Watch {
    let Parts {
        sessions,
        store,
        repeated,
        ..
    } = parts;
    let viewers = Arc::new(Viewers::new(
        sessions.clone(),
        store.clone(),
        config.viewer_timeout,
        pace(config, sessions),
    ));
    let bodies = Bodies::new(store.clone(), repeated.clone());
    let downloads = Downloads::new(
        sessions.gate().clone(),
        config.eager_downloads,
        config.download_dscp,
    );
    Watch {
        films: parts.films.clone(),
        subtitles: SubtitleTexts::new(parts.films.clone(), playlists.clone()),
        playlists: Playlists::new(viewers.clone(), playlists, config.tokens_in_segments),
        segments: Segments::new(viewers.clone(), bodies.clone(), downloads.clone()),
        files: Files::new(viewers, bodies, downloads.clone()),
        indexes: Indexes::new(downloads, parts.desk.clone()),
        status: parts.status.clone(),
    }
}

fn metrics_page(parts: &Parts, playlists: Arc<Desk>) -> Page {
    let Parts {
        catalogue,
        store,
        sessions,
        status,
        shadow,
        events,
        desk,
        ..
    } = parts.clone();
    let (of_http, node) = (status.clone(), status.node.clone());
    Page::default()
        .with(move |out| status.write_metrics(out))
        .with(move |out| {
            node.write_metrics(out);
            health::write_metrics(out, &node.problems());
        })
        .with(move |out| catalogue.write_metrics(out))
        .with(move |out| {
            sessions.write_metrics(out);
            sessions.gate().write_metrics(out);
        })
        .with(move |out| store.write_metrics(out))
        .with(move |out| shadow.write_metrics(out))
        .with(move |out| counters::write(out, &of_http.counters))
        .with(move |out| answers::waiting(out, &desk, &playlists, &events))
        .with(answers::reactor)
}

/// The routes of the API; all other addresses are films or pages.
fn router(parts: Parts) -> Router {
    Router::new()
        .route("/api/films", get(films))
        .route("/api/films/{*title}", get(film))
        .route("/api/sessions", get(sessions))
        .route("/api/sessions/{id}", delete(end_session))
        .route("/api/node", get(node))
        .route("/api/events", get(events))
        .route("/api/admission", get(admission))
        .route("/api/calibration", get(calibration))
        .route("/api/calibration.svg", get(calibration_chart))
        .route("/api/cache", get(cache))
        .route("/api/cache/{*title}", put(keep).delete(purge))
        .route("/api/prefill", put(prefill).delete(stop_prefill))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(page)
        .with_state(parts)
}

/// The fallback route: pages. (Requests for films do not reach the router.)
async fn page(State(films): State<Arc<Films>>, request: Request) -> Answer {
    if request.uri().path().starts_with("/api/") || request.uri().path() == "/api" {
        return answer::api_error(
            StatusCode::NOT_FOUND,
            "there is no such address; the API is described in docs/reference/api.md",
        );
    }
    let others = films.placement().addresses();
    let site = Site {
        start: "index.html",
        others: &others,
    };
    site.answer(request.method(), request.uri().path(), request.headers())
}
