//! A register of groups: which are ready, which are being made, and who waits for each. A group is
//! made once for all streams that need it at the time.

use std::sync::{Arc, Weak};

use reelway_determinism::FixedMap;

use crate::group::Group;
use crate::outline::GroupId;

/// The number of the content, and a group in it.
pub type GroupKey = (u64, GroupId);

/// From this many entries on, entries of groups that no stream holds any more are removed
/// now and then.
const MANY: usize = 32;

enum Entry<B, W> {
    Making {
        waiters: Vec<W>,
        /// The offset of the first byte of the film that is read for it, once known.
        begins: Option<u64>,
    },
    Made(Weak<Group<B>>),
}

/// Groups by their keys. `W` is the caller's type for a waiter.
pub struct Groups<B, W>(FixedMap<GroupKey, Entry<B, W>>);

/// What happens when a stream asks for a group.
pub enum Lookup<B, W> {
    /// It is ready.
    Ready(Arc<Group<B>>, W),
    /// It is being made.
    Waits,
    /// It must be made, and the waiter is registered.
    Make,
}

impl<B, W> Default for Groups<B, W> {
    fn default() -> Self {
        Groups(FixedMap::default())
    }
}

impl<B, W> Groups<B, W> {
    /// Returns the offset of the first byte of the film that is read for a group that is being
    /// made, if known.
    pub fn begins_at(&self, key: GroupKey) -> Option<u64> {
        match self.0.get(&key)? {
            Entry::Making { begins, .. } => *begins,
            Entry::Made(_) => None,
        }
    }

    /// Asks for a group on behalf of `waiter`.
    pub fn ask(&mut self, key: GroupKey, waiter: W) -> Lookup<B, W> {
        let ready = match self.0.get(&key) {
            Some(Entry::Made(group)) => group.upgrade(),
            _ => None,
        };
        if let Some(group) = ready {
            return Lookup::Ready(group, waiter);
        }
        if self.0.len() >= MANY && self.0.len().is_power_of_two() {
            self.forget_gone();
        }
        let entry = self.0.entry(key).or_insert(Entry::Made(Weak::new()));
        match entry {
            Entry::Making { waiters, .. } => {
                waiters.push(waiter);
                Lookup::Waits
            }
            Entry::Made(_) => {
                *entry = Entry::Making {
                    waiters: vec![waiter],
                    begins: None,
                };
                Lookup::Make
            }
        }
    }

    /// Records that a group is made from this byte of the film on. Returns its waiters.
    pub fn begins(&mut self, key: GroupKey, offset: u64) -> &[W] {
        match self.0.get_mut(&key) {
            Some(Entry::Making { waiters, begins }) => {
                *begins = Some(offset);
                waiters
            }
            _ => &[],
        }
    }

    /// Records that a group is ready, or that it cannot be made; then the next request tries again.
    /// Returns its waiters.
    pub fn made(&mut self, key: GroupKey, group: Option<&Arc<Group<B>>>) -> Vec<W> {
        let before = match group {
            Some(group) => self.0.insert(key, Entry::Made(Arc::downgrade(group))),
            None => self.0.remove(&key),
        };
        match before {
            Some(Entry::Making { waiters, .. }) => waiters,
            _ => Vec::new(),
        }
    }

    /// Returns the number of groups that are ready and held by a stream.
    pub fn ready(&self) -> usize {
        let is_ready =
            |entry: &&Entry<B, W>| matches!(entry, Entry::Made(group) if group.strong_count() > 0);
        self.0.values().filter(is_ready).count()
    }

    fn forget_gone(&mut self) {
        self.0
            .retain(|_, entry| !matches!(entry, Entry::Made(group) if group.strong_count() == 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::making::GroupPlan;
    use reelway_rtp::Plan;

    fn group() -> Arc<Group<()>> {
        let plan = GroupPlan {
            plan: Arc::new(Plan::default()),
            leaving: Arc::new([]),
            range: 0..0,
        };
        Arc::new(Group::new(plan, ()))
    }

    const KEY: GroupKey = (7, (0, 3));

    #[test]
    fn a_group_is_made_once_for_all_who_wait() {
        let mut groups = Groups::default();
        assert!(matches!(groups.ask(KEY, "first"), Lookup::Make));
        assert!(matches!(groups.ask(KEY, "second"), Lookup::Waits));
        assert_eq!(groups.begins_at(KEY), None);
        assert_eq!(groups.begins(KEY, 100), ["first", "second"]);
        assert_eq!(groups.begins_at(KEY), Some(100));
        assert!(matches!(groups.ask(KEY, "third"), Lookup::Waits));
        let made = group();
        assert_eq!(groups.made(KEY, Some(&made)), ["first", "second", "third"]);
        assert!(
            matches!(groups.ask(KEY, "later"), Lookup::Ready(group, "later") if Arc::ptr_eq(&group, &made))
        );
        assert_eq!(groups.ready(), 1);
        drop(made);
        assert_eq!(groups.ready(), 0);
        assert!(matches!(groups.ask(KEY, "last"), Lookup::Make));
    }

    #[test]
    fn a_group_that_cannot_be_made_is_tried_anew() {
        let mut groups: Groups<(), _> = Groups::default();
        assert!(matches!(groups.ask(KEY, 1), Lookup::Make));
        assert_eq!(groups.made(KEY, None), [1]);
        assert_eq!(groups.made(KEY, None), [0; 0]);
        assert!(matches!(groups.ask(KEY, 2), Lookup::Make));
    }

    #[test]
    fn groups_that_nobody_has_are_forgotten() {
        let mut groups: Groups<(), _> = Groups::default();
        for number in 0..1000 {
            let key = (7, (0, number));
            assert!(matches!(groups.ask(key, ()), Lookup::Make));
            groups.made(key, Some(&group()));
        }
        assert!(groups.0.len() < 2 * MANY, "{}", groups.0.len());
    }
}
