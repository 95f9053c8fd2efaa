//! Plans kept for the viewers who come to them when nobody sends from them any more: many groups are shorter than
//! viewers are apart. They cost little memory, and no film bytes are pinned by them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use reelway_rtp::Plan;
use reelway_timetable::Leaving;

use super::GroupId;

/// Bytes of plans that a script keeps, at most twice: 1.5% of what is sent by them, so that
/// they reach over some 200 MB of film.
const KEPT: usize = 2 << 20;

/// What is known of a group whose bytes may be gone.
#[derive(Clone)]
pub(crate) struct Known {
    pub plan: Arc<Plan>,
    pub leaving: Arc<[Leaving]>,
    /// Bytes of the film that it is of.
    pub range: Range<u64>,
}

/// Plans without their bytes.
#[derive(Default)]
pub(super) struct Kept {
    /// Those made or used last, and their bytes of memory.
    young: HashMap<GroupId, Known>,
    bytes: usize,
    /// Those before. They go when the young ones become the old.
    old: HashMap<GroupId, Known>,
}

impl Kept {
    /// Keeps what is known of a group.
    pub fn put(&mut self, id: GroupId, known: Known) {
        if self.bytes > KEPT {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += known.plan.memory() + size_of_val(&*known.leaving);
        self.young.insert(id, known);
    }

    /// What is known of a group; it counts as used.
    pub fn get(&mut self, id: GroupId) -> Option<Known> {
        if let Some(known) = self.old.remove(&id) {
            self.put(id, known);
        }
        self.young.get(&id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(bytes: usize) -> Known {
        let plan = Plan {
            inline: vec![0; bytes],
            ..Plan::default()
        };
        Known {
            plan: Arc::new(plan),
            leaving: Arc::from([]),
            range: 0..1,
        }
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_goes() {
        const EACH: usize = 64 << 10;
        let mut kept = Kept::default();
        kept.put((0, 0), known(EACH));
        for group in 1..1000 {
            kept.put((0, group), known(EACH));
            assert!(kept.get((0, 0)).is_some(), "used all the time");
            assert!(kept.get((0, group)).is_some());
            assert!(kept.young.len() + kept.old.len() <= 2 * (KEPT / EACH + 2));
        }
        assert!(kept.get((0, 500)).is_none());
        assert!(kept.get((1, 999)).is_none(), "another track");
    }
}
