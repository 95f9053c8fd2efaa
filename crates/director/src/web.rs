//! The director's page, API and metrics, over HTTP. They are read-only.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::extract::{Request, State as Shared};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, StatusCode, uri::Authority};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use reelway_clock::Monotonic;
use reelway_connections::Limits;
use reelway_ipvs::Table;
use reelway_pages::Site as Pages;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tracing::debug;

use crate::board::{Board, Written};
use crate::metrics;
use crate::report::{Report, ask};
use crate::status::{Entry, Seen, Status, own_mark};

/// Maximum number of connections, in all and from one address.
const MOST: (usize, usize) = (256, 32);
/// Timeout for a request's head, and for the last answer of a connection.
const HEAD: Duration = Duration::from_secs(10);
/// Lifetime of a connection. It ends after the answer under way; clients that stay connect again.
const LIFE: Duration = Duration::from_secs(60);
/// Minimum time between two requests to the edges, however many clients there are.
const EVERY: Duration = Duration::from_secs(1);

/// Sources of the page's contents.
pub(crate) struct Site {
    board: Arc<Board>,
    table: Table,
    reports: Mutex<Reports>,
}

/// The latest reports of the edges.
#[derive(Default)]
struct Reports {
    when: Option<Monotonic>,
    of: Vec<IpAddr>,
    answers: Vec<Option<Report>>,
}

impl Site {
    /// Creates the site from this board, the kernel's table and the edges' reports.
    pub fn new(board: Arc<Board>) -> anyhow::Result<Site> {
        Ok(Site {
            board,
            table: Table::open()?,
            reports: Mutex::default(),
        })
    }

    /// Returns this director's services in the kernel's table.
    fn table(&self, seen: &Seen) -> anyhow::Result<Vec<Entry>> {
        let mut services = self.table.services()?;
        services.retain(|service| own_mark(&seen.config, &service.target).is_some());
        let entries = services.into_iter().map(|service| {
            let destinations = self.table.destinations(&service.target)?;
            Ok((service, destinations))
        });
        entries.collect()
    }

    /// Returns the reports of the edges, in their order.
    async fn reports(&self, seen: &Seen) -> Vec<Option<Report>> {
        let edges: Vec<IpAddr> = seen.edges.iter().map(|edge| edge.config.address).collect();
        let mut reports = self.reports.lock().await;
        let now = reelway_clock::now();
        let is_new = reports.when.is_some_and(|when| now.since(when) < EVERY);
        if !is_new || reports.of != edges {
            let answers = ask(&edges, seen.config.ports.http).await;
            *reports = Reports {
                when: Some(reelway_clock::now()),
                of: edges,
                answers,
            };
        }
        reports.answers.clone()
    }

    async fn status(&self) -> anyhow::Result<Status> {
        let Written { seen, failover } = self.board.read();
        let reports = self.reports(&seen).await;
        let table = self.table(&seen)?;
        Ok(Status::of(&seen, failover, &reports, &table))
    }
}

/// Answers requests until it is dropped.
pub(crate) async fn serve(listener: TcpListener, site: Site) {
    let limits = Limits::new(MOST.0, MOST.1);
    let router = router(Arc::new(site));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely there are too many open files; closing connections will free some.
                debug!("accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(counted) = limits.enter(peer.ip()) else {
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let _counted = counted;
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .serve_connection(TokioIo::new(stream), service);
            let mut connection = pin!(connection);
            if timeout(LIFE, connection.as_mut()).await.is_err() {
                connection.as_mut().graceful_shutdown();
                let _ = timeout(HEAD, connection).await;
            }
        });
    }
}

/// Opens the listener for [`serve`].
///
/// # Errors
/// The address cannot be used; the error says which, and what to do.
pub(crate) async fn listen(at: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(at).await;
    listener.with_context(|| {
        format!("the director's page at {at} (choose another address: --http; none: --http none)")
    })
}

fn router(site: Arc<Site>) -> Router {
    Router::new()
        .route("/api/director", get(status))
        .route("/metrics", get(write_metrics))
        .route("/healthz", get(async || "ok\n"))
        .fallback(page)
        .layer(middleware::from_fn(check_host))
        .with_state(site)
}

async fn status(Shared(site): Shared<Arc<Site>>) -> Response {
    match site.status().await {
        Ok(status) => ([(CACHE_CONTROL, "no-store")], Json(status)).into_response(),
        Err(error) => failed(&error),
    }
}

async fn write_metrics(Shared(site): Shared<Arc<Site>>) -> Response {
    let Written { seen, failover } = site.board.read();
    match site.table(&seen) {
        Ok(table) => {
            let text = metrics::text(&seen, failover, &table);
            ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> Response {
    let words = serde_json::json!({ "error": format!("the kernel's table: {error:#}") });
    (StatusCode::INTERNAL_SERVER_ERROR, Json(words)).into_response()
}

async fn page(request: Request) -> Response {
    let pages = Pages {
        start: "director.html",
        others: &[],
    };
    pages.answer(request.method(), request.uri().path(), request.headers())
}

/// Refuses requests for a host name: an attacker's page can make its own name resolve to this
/// address, but neither an IP address nor `localhost`.
async fn check_host(request: Request, next: Next) -> Response {
    if is_address(request.headers()) {
        return next.run(request).await;
    }
    let words = "use this director's IP address, or localhost\n";
    (StatusCode::FORBIDDEN, words).into_response()
}

/// Whether a request is for an IP address or `localhost`, or names no host.
fn is_address(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else {
        return true;
    };
    let host = host
        .to_str()
        .ok()
        .and_then(|host| host.parse::<Authority>().ok());
    host.is_some_and(|host| {
        let name = host.host();
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_answered() {
        let answered = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            is_address(&headers)
        };
        for own in [
            "192.0.2.1",
            "192.0.2.1:8090",
            "[fd00::1]:8090",
            "localhost:8090",
        ] {
            assert!(answered(own), "{own}");
        }
        for other in [
            "films.example",
            "evil.example:8090",
            "192.0.2.1.evil.example",
            "a b",
        ] {
            assert!(!answered(other), "{other}");
        }
        assert!(is_address(&HeaderMap::new()));
    }
}
