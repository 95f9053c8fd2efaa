//! Viewers of all protocols.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use reelway_session::{EndReason, SessionView};
use serde::Serialize;

use super::json;
use crate::answer::{self, Answer};
use crate::app::App;

/// `GET /api/sessions`.
#[derive(Serialize)]
pub(super) struct List {
    sessions: Vec<SessionView>,
}

impl List {
    pub fn of(app: &App) -> List {
        List {
            sessions: app.sessions.list(),
        }
    }
}

pub(crate) async fn sessions(State(app): State<Arc<App>>, headers: HeaderMap) -> Answer {
    json(&headers, &List::of(&app))
}

/// `DELETE /api/sessions/ID`. Who asks has been checked.
pub(crate) async fn end_session(State(app): State<Arc<App>>, Path(id): Path<String>) -> Answer {
    if app.sessions.end(&id, EndReason::Kicked) {
        answer::empty(StatusCode::NO_CONTENT)
    } else {
        answer::api_error(
            StatusCode::NOT_FOUND,
            format!("there is no session '{id}'; it may have ended already"),
        )
    }
}
