//! The types that lanes hold: films' groups as numbers of pages, and nothing else.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reelway_media::{TimedSample, Title};
use reelway_playout::{
    self as playout, Group, GroupId, GroupPlan, Host, InMemory, Outline, Prefetch, StreamError,
};
use reelway_pool::Pin;
use reelway_rtp::{Bytes, PayloadOptions};

use crate::world::{BLOCK, LEAD, Page};

/// The types of this crate's lane.
pub(crate) enum Sim {}

impl Host for Sim {
    type Bytes = Pages;
    type Script = Script;
    type Path = Nothing;
    type Owner = Nothing;
    /// The viewer who waits for a beginning.
    type Reply = u64;
    type Share = Share;
}

pub(crate) type Lane = playout::Lane<Sim>;
pub(crate) type Stream = playout::Stream<Sim>;
pub(crate) type Planned = Group<Pages>;

/// Nothing is kept with a stream, not even sockets.
pub(crate) struct Nothing;

impl Prefetch for Nothing {
    fn prefetch(&self) {}
}

/// Pages that were released, until the node handles them.
pub(crate) type LetGo = Rc<RefCell<Vec<Pin<Page>>>>;

/// The blocks of a group in use.
pub(crate) struct Pages {
    pub pins: Vec<Pin<Page>>,
    /// The first block.
    pub first: u32,
    pub let_go: LetGo,
}

impl InMemory for Pages {
    fn blocks(&self) -> usize {
        self.pins.len()
    }

    fn start(&self) -> u64 {
        u64::from(self.first) * BLOCK
    }

    fn prefetch(&self, _: u64, _: u32) {}
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.let_go.borrow_mut().append(&mut self.pins);
    }
}

/// The content of a film to be sent.
pub(crate) struct Script {
    pub outline: Outline,
    /// Its number among the films.
    pub film: usize,
}

impl Script {
    pub fn new(film: usize, title: Arc<Title>, samples: Arc<dyn reelway_media::Samples>) -> Script {
        let path = format!("film {film}").into();
        Script {
            outline: Outline::film(title, samples, path, PayloadOptions::default(), 0),
            film,
        }
    }

    /// Plans the packets of a group, with these bytes.
    pub fn plan(
        &self,
        id: GroupId,
        samples: &[TimedSample],
        bytes: &dyn Bytes,
        range: Range<u64>,
    ) -> Result<GroupPlan, StreamError> {
        self.outline.plan(id, samples, bytes, range)
    }
}

impl playout::Script for Script {
    fn outline(&self) -> &Outline {
        &self.outline
    }

    fn lead(&self) -> u64 {
        LEAD as u64
    }
}

/// The number of blocks that may still be pinned beside those of viewers who are on time.
#[derive(Clone)]
pub(crate) struct Share(Arc<AtomicUsize>);

impl Share {
    /// Creates a share of `blocks` blocks.
    pub fn of(blocks: usize) -> Share {
        Share(Arc::new(AtomicUsize::new(blocks)))
    }
}

/// Some of these blocks.
pub(crate) struct TakenBlocks {
    blocks: usize,
    of: Share,
}

impl Drop for TakenBlocks {
    fn drop(&mut self) {
        self.of.0.fetch_add(self.blocks, Ordering::Relaxed);
    }
}

impl playout::Share for Share {
    type Part = TakenBlocks;
    type Ticket = ();

    fn take(&self, blocks: usize) -> Option<TakenBlocks> {
        let rest = |left: usize| left.checked_sub(blocks);
        let of = self.clone();
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
        taken.ok().map(|_| TakenBlocks { blocks, of })
    }

    fn take_in_turn(&self, _: &mut Option<()>, blocks: usize) -> Option<TakenBlocks> {
        self.take(blocks)
    }
}
