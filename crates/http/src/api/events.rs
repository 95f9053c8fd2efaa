//! Server-sent events: sessions and node once a second while something plays, and films as they change.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use bytes::Bytes;
use futures_util::stream;
use serde::Serialize;
use tokio::sync::broadcast;

use super::node::Node;
use super::sessions;
use crate::answer::{self, Answer};
use crate::app::App;

/// Between two looks at what plays.
const PERIOD: Duration = Duration::from_secs(1);
/// After so long without an event a comment keeps the connection.
const SILENCE: Duration = Duration::from_secs(15);
/// Events that a slow listener may be behind; then he loses some, and the next tells him all anyway.
const BEHIND: usize = 16;

/// Where events are told. The text of each is made once for all who listen.
pub(crate) struct Events {
    listeners: broadcast::Sender<Bytes>,
    /// Films that changed since the last look.
    films: Mutex<BTreeSet<String>>,
}

impl Default for Events {
    fn default() -> Self {
        Events {
            listeners: broadcast::channel(BEHIND).0,
            films: Mutex::default(),
        }
    }
}

impl Events {
    /// Notes films for the next look, so that a directory that is copied in makes few events of many.
    pub fn films_changed(&self, names: &[String]) {
        let mut films = self.films.lock().unwrap_or_else(PoisonError::into_inner);
        films.extend(names.iter().cloned());
    }

    fn take_films(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.films.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn send(&self, event: Bytes) {
        // Nobody listens: nobody is told.
        let _ = self.listeners.send(event);
    }
}

/// Looks once a second what there is to tell.
pub(crate) async fn tell(app: Arc<App>) {
    let mut told = None;
    loop {
        tokio::time::sleep(PERIOD).await;
        let films = app.events.take_films();
        if app.events.listeners.receiver_count() == 0 {
            continue;
        }
        if !films.is_empty() {
            app.events.send(event(
                "films",
                &Changed {
                    changed: films.into_iter().collect(),
                },
            ));
        }
        let now = (app.sessions.changes(), app.state());
        if told != Some(now) || !app.sessions.is_empty() {
            told = Some(now);
            snapshot(&app)
                .into_iter()
                .for_each(|event| app.events.send(event));
        }
    }
}

#[derive(Serialize)]
struct Changed {
    changed: Vec<String>,
}

fn event(name: &str, data: &impl Serialize) -> Bytes {
    let json = serde_json::to_string(data).unwrap_or_else(|_| "null".into());
    format!("event: {name}\ndata: {json}\n\n").into()
}

fn snapshot(app: &App) -> [Bytes; 2] {
    [
        event("sessions", &sessions::List::of(app)),
        event("node", &Node::of(app)),
    ]
}

/// `GET /api/events`.
pub(crate) async fn events(State(app): State<Arc<App>>) -> Answer {
    let listener = app.events.listeners.subscribe();
    let [sessions, node] = snapshot(&app);
    let first = Bytes::from([sessions, node].concat());
    let stream = stream::unfold((Some(first), listener), async |(first, mut listener)| {
        if let Some(first) = first {
            return Some((Ok::<_, std::convert::Infallible>(first), (None, listener)));
        }
        let event = loop {
            match tokio::time::timeout(SILENCE, listener.recv()).await {
                Ok(Ok(event)) => break event,
                Ok(Err(broadcast::error::RecvError::Lagged(_))) => {}
                Ok(Err(broadcast::error::RecvError::Closed)) => return None,
                Err(_) => break Bytes::from_static(b": still here\n\n"),
            }
        };
        Some((Ok(event), (None, listener)))
    });
    let mut answer = answer::with(
        StatusCode::OK,
        "text/event-stream",
        Body::from_stream(stream),
    );
    answer::set(&mut answer, header::CACHE_CONTROL, "no-store");
    // nginx in front must not collect events.
    answer::set(
        &mut answer,
        header::HeaderName::from_static("x-accel-buffering"),
        "no",
    );
    answer
}
