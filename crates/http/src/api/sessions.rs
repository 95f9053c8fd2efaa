//! Viewers of all protocols.

use std::sync::Arc;

use axum::extract::{Path, Query, State, rejection::QueryRejection};
use axum::http::StatusCode;
use reelway_session::{EndReason, Protocol, SessionView, Wanted};
use serde::{Deserialize, Serialize};

use super::json;
use crate::answer::{self, Answer};
use crate::app::App;
use crate::desk::Asker;

/// Sessions of a page.
const MOST: usize = 200;
const USUAL: usize = 50;

#[derive(Debug, Deserialize)]
pub(crate) struct Wish {
    title: Option<String>,
    protocol: Option<String>,
    #[serde(default)]
    sort: Sort,
    page: Option<usize>,
    per_page: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum Sort {
    #[default]
    #[serde(rename = "started")]
    Started,
    #[serde(rename = "-started")]
    StartedDown,
}

/// `GET /api/sessions`.
#[derive(Serialize)]
struct List {
    total: usize,
    page: usize,
    per_page: usize,
    sessions: Vec<SessionView>,
}

pub(crate) async fn sessions(
    State(app): State<Arc<App>>,
    wish: Result<Query<Wish>, QueryRejection>,
    asker: Asker,
) -> Answer {
    let Query(wish) = match wish {
        Ok(wish) => wish,
        Err(error) => return answer::api_error(StatusCode::BAD_REQUEST, error.body_text()),
    };
    let protocol = match wish.protocol.as_deref().map(super::protocol) {
        None => None,
        Some(Ok(protocol)) => Some(protocol),
        Some(Err(words)) => return answer::api_error(StatusCode::BAD_REQUEST, words),
    };
    json(&app, &asker, move |app| Ok(page(app, wish, protocol))).await
}

fn page(app: &App, wish: Wish, protocol: Option<Protocol>) -> List {
    let per_page = wish.per_page.unwrap_or(USUAL).clamp(1, MOST);
    let page = wish.page.unwrap_or(1).max(1);
    let wanted = Wanted {
        title: wish.title,
        protocol,
        newest_first: wish.sort == Sort::StartedDown,
    };
    let skip = (page - 1).saturating_mul(per_page);
    let (total, sessions) = app.sessions.page(&wanted, skip, per_page);
    List {
        total,
        page,
        per_page,
        sessions,
    }
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
