//! Plans kept for later viewers when no stream sends from them any more: many groups are shorter
//! than the distance between viewers. They need little memory, the same however many films play,
//! and pin no film bytes.

use reelway_determinism::FixedMap;

use crate::making::GroupPlan;
use crate::outline::GroupId;

/// Half of the most bytes that plans may take, for all films together. Plans are 1.5 % of the film
/// they describe, so they cover some 500 MB of film.
const KEPT: usize = 4 << 20;
/// The overhead of a plan: its entries in the tables.
const BESIDE: usize = 256;
/// An outline's number, and a group in it.
type Id = (u64, GroupId);

/// Plans without their bytes.
#[derive(Default)]
pub struct Kept {
    /// The plans made or used last, and the bytes that they take.
    young: FixedMap<Id, GroupPlan>,
    bytes: usize,
    /// Older plans. They are dropped when the young ones become the old ones.
    old: FixedMap<Id, GroupPlan>,
    outlines: u64,
}

impl Kept {
    /// Returns a number for a new outline.
    pub fn outline(&mut self) -> u64 {
        self.outlines += 1;
        self.outlines
    }

    /// Drops all plans. Outline numbers are not reused.
    pub fn forget(&mut self) {
        *self = Kept {
            outlines: self.outlines,
            ..Kept::default()
        };
    }

    /// Keeps the plan of a group.
    pub fn put(&mut self, id: Id, known: GroupPlan) {
        if self.bytes > KEPT {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += known.plan.memory() + size_of_val(&*known.leaving) + BESIDE;
        self.young.insert(id, known);
    }

    /// Returns the plan of a group; it counts as used.
    pub fn get(&mut self, id: Id) -> Option<GroupPlan> {
        if let Some(known) = self.old.remove(&id) {
            self.put(id, known);
        }
        self.young.get(&id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reelway_rtp::Plan;

    use super::*;

    fn known(bytes: usize) -> GroupPlan {
        let plan = Plan {
            inline: vec![0; bytes],
            ..Plan::default()
        };
        GroupPlan {
            plan: Arc::new(plan),
            leaving: Arc::from([]),
            range: 0..1,
        }
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_goes() {
        const EACH: usize = 64 << 10;
        let mut kept = Kept::default();
        kept.put((0, (0, 0)), known(EACH));
        for group in 1..1000 {
            kept.put((0, (0, group)), known(EACH));
            assert!(kept.get((0, (0, 0))).is_some(), "used all the time");
            assert!(kept.get((0, (0, group))).is_some());
            assert!(kept.young.len() + kept.old.len() <= 2 * (KEPT / EACH + 2));
        }
        assert!(kept.get((0, (0, 500))).is_none());
        assert!(kept.get((0, (1, 999))).is_none(), "another track");
        assert!(kept.get((1, (0, 999))).is_none(), "another film");
    }

    #[test]
    fn outlines_have_numbers_of_their_own_though_all_is_forgotten() {
        let mut kept = Kept::default();
        let first = kept.outline();
        kept.put((first, (0, 0)), known(10));
        let second = kept.outline();
        kept.forget();
        assert!(kept.get((first, (0, 0))).is_none());
        let third = kept.outline();
        assert!(first != second && second != third && third != first);
    }
}
