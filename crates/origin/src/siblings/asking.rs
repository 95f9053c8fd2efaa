//! Reads of a source from the siblings of this server.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reelway_media::{Index, Scratch};
use reelway_supervise as supervise;
use tokio::sync::Semaphore;
use tracing::{debug, info, warn};

use super::choice::Candidate;
use super::group::Group;
use super::held::{AtSibling, AtSiblings};
use super::pace::Paces;
use crate::fault::Fault;
use crate::indexes;
use crate::version::Version;

/// Bytes of a film that belong to one edge: enough for several reads, and few enough that even a
/// short film is spread.
const PART: u64 = 2 << 20;
/// The part to which a film's index belongs.
const INDEX: u64 = u64::MAX;
/// Timeout of a read from a sibling.
const WHOLE: Duration = Duration::from_secs(4);
/// Maximum number of siblings that are asked for the same bytes, one after the other.
const MOST_TRIES: usize = 2;
/// Longest wait for an index that a sibling is making, and the time between two requests.
const INDEX_WAIT: Duration = Duration::from_secs(5);
const INDEX_STEP: Duration = Duration::from_millis(500);

/// The siblings as a source uses them.
#[derive(Debug)]
pub(crate) struct Siblings {
    group: Arc<Group>,
    paces: Mutex<Paces>,
    /// Limits the reads that wait for siblings at once. The same number of other reads may go to
    /// the origin meanwhile, also on behalf of siblings: if all reads of two edges could wait for
    /// each other, nothing would be read.
    turns: Semaphore,
}

/// The outcome of asking a sibling.
enum SiblingAnswer {
    /// It lacks the film.
    Absent,
    /// It has the film, and sent this many bytes.
    Gave(usize),
}

impl Siblings {
    /// Creates the siblings of a source, with at most `reads` reads that wait for them at once.
    pub fn new(group: Arc<Group>, reads: usize) -> Siblings {
        Siblings {
            paces: Mutex::new(Paces::new(group.count())),
            group,
            turns: Semaphore::new(reads),
        }
    }

    fn paces(&self) -> MutexGuard<'_, Paces> {
        // These are averages: a half-finished update does no harm.
        supervise::whole(self.paces.lock())
    }

    /// Learns the ids of the siblings.
    pub async fn meet(&self) {
        self.group.meet().await;
    }

    /// Notes how long bytes from the origin took.
    pub fn origin_took(&self, bytes: usize, took: Duration) {
        self.paces().origin(bytes, took);
    }

    /// Fills `into` with the film's bytes from `start` on, as far as the sibling responsible for
    /// this part has them. Returns the number of bytes: 0 if this server is responsible itself, or
    /// no sibling can help.
    pub async fn read(&self, film: &AtSiblings, start: u64, into: &mut [u8]) -> usize {
        let Some(number) = film.number() else {
            return 0;
        };
        let now = reelway_clock::now();
        let above = (self.group.candidates(number, start / PART).into_iter())
            .take_while(|candidate| candidate.is_above)
            .filter(|candidate| !self.paces().is_left_out(candidate.number, now))
            .take(MOST_TRIES);
        for candidate in above.collect::<Vec<_>>() {
            let Ok(_turn) = self.turns.try_acquire() else {
                return 0;
            };
            if let SiblingAnswer::Gave(bytes) = self.ask(candidate.number, film, start, into).await
            {
                return bytes;
            }
        }
        0
    }

    async fn ask(
        &self,
        sibling: usize,
        film: &AtSiblings,
        start: u64,
        into: &mut [u8],
    ) -> SiblingAnswer {
        let began = reelway_clock::now();
        let mut have = 0;
        let attempt = self.attempt(sibling, film, start, into, &mut have);
        let result = tokio::time::timeout(WHOLE, attempt).await;
        let result = result.unwrap_or(Err(Fault::Stalled(WHOLE)));
        self.group.came(sibling, have as u64);
        let now = reelway_clock::now();
        match result {
            Ok(false) => return SiblingAnswer::Absent,
            Ok(true) => {
                self.group.answered(sibling);
                let took = now.since(began);
                if self.paces().sibling(sibling, (have, took), now) {
                    let shown = self.group.shown(sibling);
                    info!("sibling {shown}: slower than the origin; left out for a minute");
                }
            }
            Err(fault @ (Fault::Gone(_) | Fault::Changed(_))) => {
                // It has another version by now, or none.
                debug!("sibling {}: {fault}", self.group.shown(sibling));
                film.is_absent(sibling, now);
            }
            Err(fault) => self.group.failed(sibling, &fault),
        }
        SiblingAnswer::Gave(have)
    }

    /// Returns `false` if the sibling lacks the film.
    async fn attempt(
        &self,
        sibling: usize,
        film: &AtSiblings,
        start: u64,
        into: &mut [u8],
        have: &mut usize,
    ) -> Result<bool, Fault> {
        let now = reelway_clock::now();
        let (path, version) = match film.at(sibling, now) {
            AtSibling::Here(path, version) => (path, version),
            AtSibling::Absent(_) => return Ok(false),
            AtSibling::Unknown => {
                let number = film.number().unwrap_or_default();
                let found = self.group.find(sibling, number).await?;
                let Some(found) = found.and_then(|found| found.at_sibling(film.len())) else {
                    film.is_absent(sibling, now);
                    return Ok(false);
                };
                film.is_here(sibling, &found.0, &found.1);
                found
            }
        };
        let range: Range<u64> = start..start + into.len() as u64;
        let web = self.group.ask(sibling);
        web.part(&path, &version, range, into, have).await?;
        Ok(true)
    }

    /// The film's index, from a sibling that has it or is making it. `None` if it has to be made
    /// here.
    pub async fn index(&self, film: &AtSiblings, scratch: &Scratch) -> Option<Index> {
        let number = film.number()?;
        self.meet().await;
        for candidate in self.group.candidates(number, INDEX) {
            let sibling = candidate.number;
            let Some((path, version)) = self.made(candidate, film, number).await else {
                continue;
            };
            let web = self.group.ask(sibling);
            let came = |bytes| self.group.came(sibling, bytes);
            match indexes::fetch(web, &path, &version, scratch.clone(), came).await {
                Ok(Some((_, index))) => return Some(index),
                Ok(None) => {}
                Err(why) => {
                    let shown = self.group.shown(sibling);
                    warn!("sibling {shown}: {path}: {why}; its index is not used");
                }
            }
        }
        None
    }

    /// Finds the film at a sibling that has its index. If the sibling is still making the index and
    /// ranks above this server, waits for it: if two edges make an index at the same time, one of
    /// them waits for the other.
    async fn made(
        &self,
        candidate: Candidate,
        film: &AtSiblings,
        number: u128,
    ) -> Option<(String, Version)> {
        let (sibling, began) = (candidate.number, reelway_clock::now());
        let waits = candidate.is_above && self.paces().is_awaited(sibling, began);
        loop {
            let found = self.group.find(sibling, number).await;
            let found = found.unwrap_or_else(|fault| {
                self.group.failed(sibling, &fault);
                None
            })?;
            if !waits || !found.is_being_made() {
                return found.at_sibling(film.len());
            }
            let now = reelway_clock::now();
            if now.since(began) > INDEX_WAIT {
                self.paces().waited_in_vain(sibling, now);
                return None;
            }
            tokio::time::sleep(INDEX_STEP).await;
        }
    }
}
