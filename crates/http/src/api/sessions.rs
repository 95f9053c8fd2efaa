//! Viewers of all protocols.

use axum::extract::{Path, Query, State, rejection::QueryRejection};
use axum::http::StatusCode;
use reelway_session::{EndReason, Protocol, SessionView, Sessions, Wanted};
use serde::{Deserialize, Serialize};

use super::reply::Reply;
use crate::answer::{self, Answer};

/// Maximum and default number of sessions per page.
const MOST: usize = 200;
const USUAL: usize = 50;

#[derive(Debug, Deserialize)]
pub(crate) struct SessionQuery {
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
    State(sessions): State<Sessions>,
    wish: Result<Query<SessionQuery>, QueryRejection>,
    reply: Reply,
) -> Answer {
    let Query(wish) = match wish {
        Ok(wish) => wish,
        Err(error) => return answer::api_error(StatusCode::BAD_REQUEST, error.body_text()),
    };
    let protocol = match wish.protocol.as_deref().map(str::parse) {
        None => None,
        Some(Ok(protocol)) => Some(protocol),
        Some(Err(words)) => {
            return answer::api_error(StatusCode::BAD_REQUEST, format!("protocol: {words}"));
        }
    };
    reply
        .json(move || Ok(page(&sessions, wish, protocol)))
        .await
}

fn page(sessions: &Sessions, wish: SessionQuery, protocol: Option<Protocol>) -> List {
    let per_page = wish.per_page.unwrap_or(USUAL).clamp(1, MOST);
    let page = wish.page.unwrap_or(1).max(1);
    let wanted = Wanted {
        title: wish.title,
        protocol,
        newest_first: wish.sort == Sort::StartedDown,
    };
    let skip = (page - 1).saturating_mul(per_page);
    let (total, sessions) = sessions.page(&wanted, skip, per_page);
    List {
        total,
        page,
        per_page,
        sessions,
    }
}

/// `DELETE /api/sessions/ID`. The caller's permission has been checked.
pub(crate) async fn end_session(
    State(sessions): State<Sessions>,
    Path(id): Path<String>,
) -> Answer {
    if sessions.end(&id, EndReason::Kicked) {
        answer::empty(StatusCode::NO_CONTENT)
    } else {
        answer::api_error(
            StatusCode::NOT_FOUND,
            format!("there is no session '{id}'; it may have ended already"),
        )
    }
}
