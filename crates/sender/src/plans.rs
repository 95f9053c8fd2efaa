//! Groups to be sent, each made once for all viewers.
//!
//! A [`Script`] is made once per film and shared by all its viewers, and so are its groups. Their
//! bytes are held while any stream sends from them, and their plans somewhat longer ([`Kept`]).

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use reelway_catalogue::Film;
use reelway_media::{Nanos, TimedSample};
use reelway_playout::{
    self as playout, Cut, Group, GroupId, GroupKey, GroupPlan, InMemory, Kept, Outline, StreamError,
};
use reelway_rtp::{Bytes, PayloadOptions};
use reelway_store::{Source, Span};
use reelway_supervise as supervise;

use crate::stream::FileStream;

/// Film bytes that are pinned in the block pool.
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

/// What is sent, independent of the viewer.
pub(crate) struct Script {
    pub outline: Outline,
    pub source: Arc<Source>,
    /// Kept plans of all films.
    kept: Arc<Mutex<Kept>>,
    /// Its number among all scripts.
    number: u64,
}

impl playout::Script for Script {
    fn outline(&self) -> &Outline {
        &self.outline
    }

    fn lead(&self) -> u64 {
        self.source.lead().as_nanos().min(u128::from(u64::MAX)) as u64
    }
}

/// Locks the kept plans; discards them after a panic under the lock.
fn enter(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    supervise::reset(kept, "the plans kept", Kept::forget)
}

/// What must be read to plan a group.
pub(crate) struct Wanted {
    pub recipe: Recipe,
    pub range: Range<u64>,
}

/// What a group's plan is made from.
pub(crate) enum Recipe {
    /// A plan that was made before.
    Known(GroupPlan),
    /// Samples of a film; empty for a plain file, whose packets need none.
    Samples(Vec<TimedSample>),
}

impl Script {
    /// Creates the script of a film, which is sent evenly, up to `ahead` before its time.
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
            kept: Arc::clone(kept),
            number: enter(kept).outline(),
        }
    }

    /// Creates the script of a plain file, whose plans are not worth keeping.
    pub fn file(stream: &FileStream, kept: &Mutex<Kept>) -> Script {
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
            kept: Arc::default(),
            number: enter(kept).outline(),
        }
    }

    /// Returns the key of a group among those of all scripts.
    pub fn key(&self, id: GroupId) -> GroupKey {
        (self.number, id)
    }

    /// Returns what must be read to plan a group. Reads the film's index unless the plan is kept.
    pub fn wanted(&self, id: GroupId) -> Result<Wanted, StreamError> {
        if let Some(known) = enter(&self.kept).get(self.key(id)) {
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
                if let Some(damage) = &planned.plan.damage {
                    let path = self.source.path().display();
                    tracing::warn!("{path}: {damage}; what cannot be sent is left out");
                }
                enter(&self.kept).put(self.key(id), planned.clone());
                planned
            }
        };
        Ok(Group::new(planned, bytes))
    }
}
