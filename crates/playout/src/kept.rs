//! Plans kept for the viewers who come to them when nobody sends from them any more: many groups are shorter than
//! viewers are apart. They cost little memory, the same however many films play, and no film bytes are pinned by
//! them.

use reelway_determinism::FixedMap;

use crate::making::GroupPlan;
use crate::outline::GroupId;

/// Bytes of plans that are kept, at most twice, of all films together: 1.5% of what is sent by them, so that
/// they reach over some 500 MB of film.
const KEPT: usize = 4 << 20;
/// What a plan takes beside what it knows of: its places in tables.
const BESIDE: usize = 256;
/// An outline's number, and a group's in it.
type Id = (u64, GroupId);

/// Plans without their bytes.
#[derive(Default)]
pub struct Kept {
    /// Those made or used last, and their bytes of memory.
    young: FixedMap<Id, GroupPlan>,
    bytes: usize,
    /// Those before. They go when the young ones become the old.
    old: FixedMap<Id, GroupPlan>,
    outlines: u64,
}

impl Kept {
    /// A number for a new outline.
    pub fn outline(&mut self) -> u64 {
        self.outlines += 1;
        self.outlines
    }

    /// Keeps none. Numbers of outlines are not given again.
    pub fn forget(&mut self) {
        *self = Kept {
            outlines: self.outlines,
            ..Kept::default()
        };
    }

    /// Keeps what is known of a group.
    pub fn put(&mut self, id: Id, known: GroupPlan) {
        if self.bytes > KEPT {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += known.plan.memory() + size_of_val(&*known.leaving) + BESIDE;
        self.young.insert(id, known);
    }

    /// What is known of a group; it counts as used.
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
