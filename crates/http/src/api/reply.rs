//! Answers that take long to make.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use axum::http::header;
use axum::http::request::Parts;
use serde::Serialize;

use super::json::to_text;
use crate::answer::{self, Answer};
use crate::desk::{Asker, Desk, Text};

/// A request for a text, answered by the desk.
pub(crate) struct Reply {
    desk: Arc<Desk>,
    asker: Asker,
}

impl<S: Send + Sync> FromRequestParts<S> for Reply
where
    Arc<Desk>: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Reply, Infallible> {
        Ok(Reply {
            desk: Arc::from_ref(state),
            asker: Asker::of(parts),
        })
    }
}

impl Reply {
    /// Answers with the text that `make` returns, which clients may not cache, or with its error.
    /// `make` runs off the reactor, and may take its time.
    pub async fn text(
        self,
        make: impl FnOnce() -> Result<Text, Box<Answer>> + Send + 'static,
    ) -> Answer {
        let mut answer = self.desk.answer(&self.asker, make).await;
        answer::set(&mut answer, header::CACHE_CONTROL, "no-store");
        answer
    }

    /// Answers with a value in JSON.
    pub async fn json<T: Serialize>(
        self,
        make: impl FnOnce() -> Result<T, Box<Answer>> + Send + 'static,
    ) -> Answer {
        let make = move || {
            Ok(Text {
                media_type: "application/json",
                text: to_text(&make()?),
            })
        };
        self.text(make).await
    }
}
