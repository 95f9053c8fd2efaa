//! Fetches films to the tier that are kept or were watched most. Their missing blocks are fetched
//! one by one, with what viewers leave of the capacity.

use std::collections::{BTreeMap, BTreeSet};

use reelway_library::Library;
use reelway_session::{Resource, Sessions, State};
use reelway_supervise as supervise;
use reelway_sys::{FileIdentity, files};
use tracing::{info, warn};

use crate::view::Node;

/// Seconds between two searches for missing blocks.
const LOOK: u64 = 30;
/// The same for films that were complete: a worn disk may have lost a block.
const LOOK_AGAIN: u64 = 3600;
/// Divisor of the unbooked capacity from origins: this part of it is used.
const PART: u64 = 2;
/// Seconds of this allowance that are saved up at most.
const SAVED: u64 = 10;

/// Seconds between two notes of what is being watched, and between two writes of them to a file.
const NOTE: u64 = 60;
const WRITE: u64 = 600;
/// Seconds between two choices of the films that were watched most.
const CHOOSE: u64 = 5;

/// Fetches films to the tier.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    /// Seconds since the start.
    seconds: u64,
    may_fetch: Allowance,
    /// Films that were complete.
    whole: BTreeMap<String, FileIdentity>,
    /// Titles that have been handled in this round.
    done: BTreeSet<String>,
    /// Titles for which a warning was logged that they cannot be kept.
    reported: BTreeSet<String>,
}

impl Keeper {
    /// Counts a second, and does what is due. To be called once a second.
    pub fn tick(&mut self, sessions: &Sessions, node: &Node, library: &Library) {
        let gate = sessions.gate();
        let limits = gate.config().admission.capacity.limits();
        let is_limited = limits.iter().any(|(of, _)| *of == Resource::Origin);
        let part = is_limited.then(|| gate.unbooked(Resource::Origin) / PART);
        self.may_fetch.gets(part);
        self.seconds += 1;
        if self.seconds.is_multiple_of(LOOK) {
            self.done.clear();
        }
        if self.seconds.is_multiple_of(LOOK_AGAIN) {
            self.whole.clear();
        }
        let now = node.time();
        if self.seconds.is_multiple_of(NOTE) {
            note_watched(sessions, node, library, now.0);
        }
        if self.seconds.is_multiple_of(WRITE) {
            // The file system may be slow, so the lock on `prefill` is not held while writing.
            let unwritten = node.prefill().popularity().unwritten();
            if let Some((path, text)) = unwritten {
                let written = tokio::task::block_in_place(|| files::replace(&path, &text));
                node.prefill().popularity().was_written(written);
            }
        }
        if self.seconds.is_multiple_of(CHOOSE) {
            choose(node, library, now);
        }
    }

    /// Fetches missing blocks, as far as the allowance goes. Cancel-safe: can be dropped at any
    /// time and called again.
    pub async fn work(&mut self, node: &Node, library: &Library) {
        supervise::inject("keeping");
        let kept = node.kept().titles();
        // Kept films come first, then those that were watched most.
        let mut titles: Vec<String> = kept.iter().cloned().collect();
        titles.extend(node.prefill().titles());
        let catalogue = library.catalogue();
        let entries = titles.iter().filter_map(|title| catalogue.entry(title));
        let entries: Vec<_> = entries.collect();
        let files: Vec<_> = entries.iter().map(|entry| entry.identity).collect();
        library.store().keep(&files);
        let wanted: BTreeSet<&String> = titles.iter().collect();
        self.reported.retain(|title| wanted.contains(title));
        self.done.retain(|title| wanted.contains(title));
        self.whole.retain(|title, _| wanted.contains(title));
        for title in node.kept().take_new() {
            self.done.remove(&title);
            self.whole.remove(&title);
        }
        for entry in entries {
            let (title, file) = (&entry.name, entry.identity);
            if self.whole.get(title) == Some(&file) || self.done.contains(title) {
                continue;
            }
            match self.bring(title, node, library).await {
                Ok(true) => {
                    self.reported.remove(title);
                    self.whole.insert(title.clone(), file);
                }
                Ok(false) => return,
                Err(why) => {
                    // Only kept films deserve a warning: the others were chosen to fit, and their
                    // viewers fetch what is missing.
                    if kept.contains(title) && self.reported.insert(title.clone()) {
                        warn!(film = title, "cannot be kept: {why}");
                    }
                    self.done.insert(title.clone());
                }
            }
        }
    }

    /// Fetches the blocks that the tier lacks of a film. Returns whether the film is complete.
    async fn bring(&mut self, title: &str, node: &Node, library: &Library) -> Result<bool, String> {
        let film = library.open(title).await;
        let film = film.map_err(|error| error.to_string())?;
        let (store, source) = (library.store(), film.file());
        let Some(lacks) = store.lacks(source) else {
            return Err("it is on a local disk, or there is no tier for it".to_owned());
        };
        let block_bytes = u64::from(store.block_bytes());
        let mut lacking = (lacks.len() as u64 * block_bytes).min(source.len());
        node.lacks(title, lacking);
        for block in lacks {
            if !self.may_fetch.takes(block_bytes) {
                return Ok(false);
            }
            let brought = store.bring(source, block).await;
            if !brought.map_err(|error| error.to_string())? {
                return Err("the tier has no room for all of it, or may not write now".to_owned());
            }
            lacking = lacking.saturating_sub(block_bytes);
            node.lacks(title, lacking);
        }
        Ok(true)
    }
}

/// Notes which remote films are being watched.
fn note_watched(sessions: &Sessions, node: &Node, library: &Library, now: u64) {
    let mut prefill = node.prefill();
    for session in sessions.in_order() {
        let title = session.title();
        let entry = library.catalogue().entry(title);
        let is_remote = entry.is_some_and(|entry| entry.identity.is_remote());
        if is_remote && session.moment().progress.state == State::Playing {
            let hours = NOTE as f64 / 3600.0;
            prefill.popularity().watched(title, hours, now);
        }
    }
}

/// Chooses the films that are fetched because they were watched most.
fn choose(node: &Node, library: &Library, now: (u64, u32)) {
    let Some(tier) = library.store().tier() else {
        return;
    };
    let kept = node.kept().titles();
    let catalogue = library.catalogue();
    let entry = |title: &str| catalogue.entry(title);
    let size = |title: &str| Some(entry(title)?.identity.size);
    let room = tier.blocks * u64::from(library.store().block_bytes());
    let of_kept: u64 = kept.iter().filter_map(|title| size(title)).sum();
    let wanted = |title: &str| {
        let entry = entry(title).filter(|entry| entry.identity.is_remote())?;
        (!kept.contains(title)).then_some(entry.identity.size)
    };
    let room = room.saturating_sub(of_kept);
    let mut prefill = node.prefill();
    let before = prefill.titles().len();
    prefill.choose(now, wanted, room);
    match prefill.titles().len() {
        0 if before > 0 => info!("prefill of the tier has ended"),
        count if count > 0 && before == 0 => {
            info!("prefill of the tier has begun: the {count} most watched films are fetched");
        }
        _ => {}
    }
}

/// Number of bytes that may be fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Allowance(u64);

impl Allowance {
    /// No limit.
    const ALL: Allowance = Allowance(u64::MAX);

    /// Adds this many bytes, or removes the limit.
    fn gets(&mut self, part: Option<u64>) {
        *self = match part {
            // A block may be larger than `part`, so the allowance accumulates.
            Some(part) => Allowance(self.0.min(SAVED * part).saturating_add(part)),
            None => Allowance::ALL,
        };
    }

    /// Takes this many bytes, if available.
    fn takes(&mut self, bytes: u64) -> bool {
        if *self == Allowance::ALL {
            return true;
        }
        let rest = self.0.checked_sub(bytes);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_fetched_than_a_part_of_what_others_leave_and_a_larger_block_is_saved_up_for() {
        let mut allowance = Allowance::default();
        assert!(!allowance.takes(1));
        allowance.gets(Some(100));
        assert!(allowance.takes(100) && !allowance.takes(1));
        (0..100).for_each(|_| allowance.gets(Some(100)));
        assert!(allowance.takes(1100) && !allowance.takes(1));
        // With all of it booked, nothing is added; then there is no limit.
        allowance.gets(Some(0));
        assert!(!allowance.takes(1));
        allowance.gets(None);
        assert!(allowance.takes(1 << 40) && allowance.takes(1 << 40));
    }
}
