//! What this crate stores with the streams of a lane.

use std::sync::Arc;

use reelway_hint as hint;
use reelway_playout::{self as playout, Host, PlayInfo, Prefetch, StreamError};
use reelway_store::Watcher;
use tokio::sync::oneshot;

use crate::path::Path;
use crate::plans::{Pinned, Script};
use crate::share::Share;
use crate::shared::Shared;

/// The destination of the answer to a request for a beginning.
pub(crate) type Reply = oneshot::Sender<Result<PlayInfo, StreamError>>;

/// The types of this crate's lanes.
pub(crate) enum Streams {}

impl Host for Streams {
    type Bytes = Pinned;
    type Script = Script;
    type Path = Path;
    type Owner = Owner;
    type Reply = Reply;
    type Share = Share;
}

/// What this crate stores with a stream.
pub(crate) struct Owner {
    /// Its public state.
    pub shared: Arc<Shared>,
    /// The viewer, as the store's cache sees them.
    pub watcher: Arc<Watcher>,
}

impl Prefetch for Owner {
    fn prefetch(&self) {
        hint::value(self.shared.figures());
    }
}

pub(crate) type Stream = playout::Stream<Streams>;
pub(crate) type Track = playout::Track<Streams>;
pub(crate) type Lane = playout::Lane<Streams>;
pub(crate) type Rules = playout::Rules<Share>;
pub(crate) type Unit<'a> = playout::Unit<'a, Pinned>;
