//! Groups of what is sent, made once for all who watch it.
//!
//! A [`Script`] is made once for a film and shared by all who watch it, and so are its groups: their bytes are held
//! as long as somebody sends from them, and their plans somewhat longer ([`Kept`]).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use reelway_catalogue::Film;
use reelway_media::{Nanos, TimedSample};
use reelway_playout::{Cut, Group, GroupId, GroupPlan, InMemory, Kept, Outline, StreamError};
use reelway_rtp::{Bytes, PayloadOptions};
use reelway_store::{Source, Span};
use reelway_supervise as supervise;

use crate::planner::Waiter;
use crate::share::Part;
use crate::stream::FileStream;

/// Film bytes, pinned in the block pool.
#[derive(Debug)]
pub(crate) struct Pinned(pub Span);

impl Bytes for Pinned {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> bool {
        self.0.read_at(offset, buf)
    }
}

impl InMemory for Pinned {
    fn blocks(&self) -> usize {
        self.0.blocks()
    }

    fn start(&self) -> u64 {
        self.0.range().start
    }

    fn prefetch(&self, offset: u64, step: u32) {
        self.0.prefetch(offset, step);
    }
}

/// A group ready to be sent.
pub(crate) type Planned = Group<Pinned>;
pub(crate) type Cursor = reelway_playout::Cursor<Pinned>;
pub(crate) type Unit<'a> = reelway_playout::Unit<'a, Pinned>;
pub(crate) type Resend = reelway_playout::Resend<Pinned, Part>;

/// A plan that exists or is being made.
pub(crate) enum Entry {
    Making {
        /// Who is told when it is there.
        waiters: Vec<Waiter>,
        /// The first byte of the film that is read for it, once that is known.
        begins: Option<u64>,
    },
    Made(Weak<Planned>),
}

/// What is sent, whoever it is sent to.
pub(crate) struct Script {
    pub outline: Outline,
    pub source: Arc<Source>,
    plans: Mutex<HashMap<GroupId, Entry>>,
    /// Plans of all films that are kept.
    kept: Arc<Mutex<Kept>>,
    /// Its number among them.
    number: u64,
}

/// Enters the plans that are kept; after a panic under the lock none are.
fn enter(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    supervise::reset(kept, "the plans kept", Kept::forget)
}

/// What must be read for a group.
pub(crate) struct Wanted {
    pub recipe: Recipe,
    pub range: Range<u64>,
}

/// What a group's plan is made from.
pub(crate) enum Recipe {
    /// The plan, made before.
    Known(GroupPlan),
    /// Samples of a film; none of a plain file, whose packets need none.
    Samples(Vec<TimedSample>),
}

impl Script {
    /// A film's. It is sent evenly, up to `ahead` before its time.
    pub fn film(
        film: &Film,
        source: Arc<Source>,
        options: PayloadOptions,
        ahead: Nanos,
        kept: &Arc<Mutex<Kept>>,
    ) -> Script {
        let (title, samples) = (Arc::clone(&film.title), Arc::clone(&film.samples));
        Script {
            outline: Outline::film(title, samples, film.path.clone(), options, ahead),
            source,
            plans: Mutex::default(),
            kept: Arc::clone(kept),
            number: enter(kept).outline(),
        }
    }

    /// A plain file's.
    pub fn file(stream: &FileStream) -> Script {
        let packet_bytes = u64::from(stream.packet_bytes.max(1));
        let len = stream.source.len();
        let most = stream
            .packets
            .and_then(|packets| packets.checked_mul(packet_bytes))
            .unwrap_or(u64::MAX);
        let start = stream.position.min(len);
        let cut = Cut::new(
            start..start.saturating_add(most).min(len),
            packet_bytes,
            stream.interval.as_nanos().min(i64::MAX as u128) as Nanos,
            stream.timestamp_step,
        );
        Script {
            outline: Outline::file(cut),
            source: Arc::clone(&stream.source),
            plans: Mutex::default(),
            kept: Arc::default(),
            number: 0,
        }
    }

    /// Plans by group.
    pub fn plans(&self) -> MutexGuard<'_, HashMap<GroupId, Entry>> {
        // Entries come and go one at a time.
        supervise::whole(self.plans.lock())
    }

    /// What must be read for a group. Reads the film's index, if the plan is not kept.
    pub fn wanted(&self, id: GroupId) -> Result<Wanted, StreamError> {
        if let Some(known) = enter(&self.kept).get((self.number, id)) {
            return Ok(Wanted {
                range: known.range.clone(),
                recipe: Recipe::Known(known),
            });
        }
        let reelway_playout::Wanted { samples, range } = self.outline.wanted(id)?;
        Ok(Wanted {
            recipe: Recipe::Samples(samples),
            range,
        })
    }

    /// Plans a group whose bytes are in memory.
    pub fn plan(&self, id: GroupId, recipe: Recipe, span: Span) -> Result<Planned, StreamError> {
        let range = span.range();
        let bytes = Pinned(span);
        let planned = match recipe {
            Recipe::Known(known) => known,
            Recipe::Samples(samples) => {
                let planned = self.outline.plan(id, &samples, &bytes, range)?;
                enter(&self.kept).put((self.number, id), planned.clone());
                planned
            }
        };
        Ok(Group::new(planned, bytes))
    }
}
