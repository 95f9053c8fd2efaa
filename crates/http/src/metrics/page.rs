//! `GET /metrics`.

use std::sync::Arc;

use axum::extract::State;
use reelway_metrics::Exposition;

use crate::answer::Answer;
use crate::api::reply::Reply;
use crate::desk::Text;

type Section = Box<dyn Fn(&mut Exposition) + Send + Sync>;

/// The sections of the page, in order. Each holds what it needs to write itself.
#[derive(Default)]
pub(crate) struct Page(Vec<Section>);

impl Page {
    /// Appends a section.
    pub fn with(mut self, section: impl Fn(&mut Exposition) + Send + Sync + 'static) -> Page {
        self.0.push(Box::new(section));
        self
    }

    fn text(&self) -> String {
        let mut out = Exposition::default();
        for section in &self.0 {
            section(&mut out);
        }
        out.into_text()
    }
}

pub(crate) async fn metrics(State(page): State<Arc<Page>>, reply: Reply) -> Answer {
    let make = move || {
        Ok(Text {
            media_type: "text/plain; version=0.0.4; charset=utf-8",
            text: page.text(),
        })
    };
    reply.text(make).await
}
