//! Which viewers have to leave so that another can be admitted: only those who have not asked for
//! media yet, and never in vain.

use std::sync::Arc;
use std::time::Duration;

use reelway_demand::Curve;
use reelway_time::Monotonic;

use crate::capacity::Resource;
use crate::desk::state::Desk;
use crate::following::Following;
use crate::judge::TakenOut;
use crate::sharing::Sharing;
use crate::unplayed::{Claim, Owner};
use crate::verdict::{BookingId, Refusal};

/// Maximum number of viewers without media who are tried, to find out whether it helps if they
/// leave.
const MOST_ASKED: usize = 256;

/// Maximum number of rounds of taking out viewers: each may make others need more.
pub(super) const ROUNDS: usize = 8;

/// When to ask again after a bound of the register was reached.
const BOUND_RETRY: Duration = Duration::from_secs(30);

/// Viewers who leave if somebody else is admitted, and what is needed to restore them if not.
#[derive(Default)]
pub(super) struct Trial {
    /// The viewers who leave.
    pub out: Vec<BookingId>,
    /// Which viewers played beside each other before the trial.
    before: Option<(Following, Sharing)>,
    /// The changes in the books, the latest last.
    steps: Vec<Step>,
}

/// A change in the books.
enum Step {
    /// A booking was taken out.
    TakenOut(TakenOut),
    /// A booking had this need of a resource before.
    Needed(BookingId, Resource, Arc<Curve>),
}

impl Desk {
    /// Takes a viewer out on trial. Those who play beside them are booked what they need without
    /// them.
    pub(super) fn take_out(&mut self, now: Monotonic, trial: &mut Trial, id: BookingId) {
        trial.out.push(id);
        let Some(taken) = self.books.take_out(id) else {
            return;
        };
        trial.steps.push(Step::TakenOut(taken));
        self.part_on_trial(now, trial, id);
    }

    /// Books on trial, for those who play beside a viewer, what they need without them.
    pub(super) fn part_on_trial(&mut self, now: Monotonic, trial: &mut Trial, id: BookingId) {
        let before = || (self.following.clone(), self.sharing.clone());
        trial.before.get_or_insert_with(before);
        for change in self.leave_others(now, id) {
            let (id, resource) = (change.id, change.resource);
            if let Some(needed) = self.books.change(now.nanos(), id, resource, &change.curve) {
                trial.steps.push(Step::Needed(id, resource, needed));
            }
        }
    }

    /// Undoes a trial that has failed.
    pub(super) fn undo(&mut self, now: Monotonic, trial: Trial) {
        for step in trial.steps.into_iter().rev() {
            match step {
                Step::TakenOut(taken) => self.books.put_back(taken),
                Step::Needed(id, resource, curve) => {
                    self.books.change(now.nanos(), id, resource, &curve);
                }
            }
        }
        if let Some((following, sharing)) = trial.before {
            (self.following, self.sharing) = (following, sharing);
        }
    }

    /// Completes a trial that has succeeded: removes the viewers who were taken out.
    pub(super) fn settle(&mut self, now: Monotonic, trial: Trial) -> Vec<BookingId> {
        for id in &trial.out {
            self.remove(now, *id);
        }
        trial.out
    }

    /// Viewers without media whose leaving may help `owner`, the first to go first.
    pub(super) fn candidates(
        &self,
        now: Monotonic,
        owner: Owner,
        claim: Claim,
        is_out: impl Fn(BookingId) -> bool,
    ) -> Vec<BookingId> {
        if self.unplayed.is_empty() {
            return Vec::new();
        }
        let wanted = |id: &BookingId| {
            let viewer = self.viewers.get(id);
            !is_out(*id) && viewer.is_some_and(|viewer| viewer.booked.is_some())
        };
        self.unplayed
            .candidates(owner, now, claim, MOST_ASKED, wanted)
    }

    /// The viewer whose session ends so that the register keeps its bounds with a newcomer; `None`
    /// if there is room. `present` is 1 if the newcomer is in the register already, else 0; they
    /// are not among the unplayed yet.
    ///
    /// # Errors
    /// A bound is reached, and no session may end for it.
    pub(super) fn leaves_for_bounds(
        &self,
        now: Monotonic,
        owner: Owner,
        present: usize,
    ) -> Result<Option<BookingId>, Refusal> {
        let (bounds, home) = (&self.bounds, owner.home);
        let (unplayed, of_connection) = self.unplayed.of(owner);
        let most = bounds.unplayed_per_address;
        let is_connection_full = of_connection >= bounds.unplayed_per_connection;
        if is_connection_full || unplayed >= most {
            let leaves = match is_connection_full {
                true => self.unplayed.oldest_of(owner),
                false => self.unplayed.of_home(owner, now),
            };
            return or_full(leaves, || {
                format!(
                    "{most} sessions of {home} have not played yet, as many as \
                     `sessions.unplayed_per_address` allows"
                )
            });
        }
        let of_home = self.homes.get(&home).copied().unwrap_or(0);
        if of_home >= bounds.per_address.saturating_add(present) {
            let leaves = self.unplayed.of_home(owner, now);
            return or_full(leaves, || {
                let most = bounds.per_address;
                format!(
                    "there are {of_home} sessions of {home}, and `sessions.per_address` is {most}"
                )
            });
        }
        let all = self.viewers.len();
        if all < bounds.sessions.saturating_add(present) {
            return Ok(None);
        }
        let mut leaves = self
            .unplayed
            .candidates(owner, now, Claim::Newcomer, 1, |_| true);
        or_full(leaves.pop(), || {
            format!(
                "there are {all} sessions, and `sessions.max` is {}",
                bounds.sessions
            )
        })
    }
}

/// The viewer who leaves; if there is none, a bound of the register is reached.
fn or_full(
    leaves: Option<BookingId>,
    words: impl FnOnce() -> String,
) -> Result<Option<BookingId>, Refusal> {
    match leaves {
        Some(id) => Ok(Some(id)),
        None => Err(Refusal {
            reason: words(),
            retry_after: Some(BOUND_RETRY),
        }),
    }
}
