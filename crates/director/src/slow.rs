//! Edges that answer much more slowly than others: they get fewer new viewers until they recover.
//! Pure.

use std::time::Duration;

/// A new answer time counts 1/`NEW` in the mean, an eighth, so a few slow answers change little.
const NEW: u32 = 8;
/// Number of answers from which the mean is meaningful.
const ENOUGH: u32 = 10;
/// Answers faster than this never count as slow; nobody notices them.
const QUICK: Duration = Duration::from_millis(50);
/// A slow edge counts as recovered when it takes at most half of the limit above which it became
/// slow.
const BACK: f64 = 0.5;
/// Share of its weight that a slow edge gets, in thousandths.
const SHARE: u32 = 250;

/// How long an edge takes to answer its checks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    mean: Duration,
    answers: u32,
    is_slow: bool,
}

impl Pace {
    /// Enters the time that a check took.
    pub fn answered(&mut self, took: Duration) {
        self.mean = match self.answers {
            0 => took,
            _ => self.mean * (NEW - 1) / NEW + took / NEW,
        };
        self.answers = self.answers.saturating_add(1);
    }

    /// Forgets the times: the edge gets no viewers, so its earlier times mean nothing.
    pub fn forget(&mut self) {
        *self = Pace::default();
    }

    /// Whether the edge is slow.
    pub fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// Returns the share of its weight that the edge gets, in thousandths.
    pub fn share(&self) -> u32 {
        match self.is_slow {
            true => SHARE,
            false => 1000,
        }
    }

    /// Returns the mean, if there are enough answers.
    fn mean(&self) -> Option<Duration> {
        (self.answers >= ENOUGH).then_some(self.mean)
    }
}

/// An edge has become slow or has recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Index of the edge.
    pub edge: usize,
    pub is_slow: bool,
    /// Mean answer time of this edge, and median of the others.
    pub mean: Duration,
    pub others: Duration,
}

/// Judges which edges are slow: those that take `factor` times as long as the median of the others,
/// but at most half of all.
pub(crate) fn judge(paces: &mut [&mut Pace], factor: f64) -> Vec<Change> {
    let means: Vec<Option<Duration>> = paces.iter().map(|pace| pace.mean()).collect();
    let mut most = means.iter().flatten().count() / 2;
    // The slowest first, as the number of slow edges is limited.
    let mut order: Vec<usize> = (0..paces.len()).collect();
    order.sort_by_key(|number| std::cmp::Reverse(means[*number]));
    let mut changes = Vec::new();
    for edge in order {
        let pace = &mut *paces[edge];
        let others = median(means.iter().enumerate().filter(|(other, _)| *other != edge));
        let (Some(mean), Some(others)) = (means[edge], others) else {
            pace.is_slow = false;
            continue;
        };
        let bound = others.mul_f64(factor).max(QUICK);
        let bound = if pace.is_slow {
            bound.mul_f64(BACK)
        } else {
            bound
        };
        let is_slow = mean > bound && most > 0;
        if is_slow {
            most -= 1;
        }
        if is_slow != pace.is_slow {
            pace.is_slow = is_slow;
            changes.push(Change {
                edge,
                is_slow,
                mean,
                others,
            });
        }
    }
    changes
}

fn median<'a>(means: impl Iterator<Item = (usize, &'a Option<Duration>)>) -> Option<Duration> {
    let mut means: Vec<Duration> = means.filter_map(|(_, mean)| *mean).collect();
    means.sort_unstable();
    // Of two, the smaller one: the faster half defines what is normal.
    means.get(means.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paces(millis: &[u64]) -> Vec<Pace> {
        let pace = |millis: &u64| {
            let mut pace = Pace::default();
            (0..ENOUGH).for_each(|_| pace.answered(Duration::from_millis(*millis)));
            pace
        };
        millis.iter().map(pace).collect()
    }

    /// Judges, and returns the indices of the edges that are slow afterwards.
    fn slow(paces: &mut [Pace]) -> Vec<usize> {
        judge(&mut paces.iter_mut().collect::<Vec<_>>(), 4.0);
        let slow = paces.iter().enumerate().filter(|(_, pace)| pace.is_slow);
        slow.map(|(number, _)| number).collect()
    }

    #[test]
    fn an_edge_is_slow_by_what_others_take_and_nobody_who_is_quick_enough() {
        assert_eq!(slow(&mut paces(&[20, 20, 90])), [2]);
        assert_eq!(slow(&mut paces(&[20, 20, 70])), [] as [usize; 0]);
        assert_eq!(slow(&mut paces(&[1, 1, 49])), [] as [usize; 0]);
        assert_eq!(slow(&mut paces(&[20, 300])), [1]);
        assert_eq!(
            slow(&mut paces(&[300])),
            [] as [usize; 0],
            "there are no others"
        );
    }

    #[test]
    fn at_most_half_of_the_edges_are_slow() {
        assert_eq!(slow(&mut paces(&[1, 1, 200, 300])), [2, 3]);
        assert_eq!(slow(&mut paces(&[1, 200, 300])), [2], "the slowest one");
    }

    #[test]
    fn a_few_slow_answers_are_nothing_and_a_slow_edge_must_become_clearly_quicker() {
        let mut edges = paces(&[20, 20, 20]);
        edges[2].answered(Duration::from_millis(400));
        assert!(slow(&mut edges).is_empty());
        (0..10).for_each(|_| edges[2].answered(Duration::from_millis(400)));
        assert_eq!(slow(&mut edges), [2]);
        assert_eq!((edges[2].share(), edges[1].share()), (SHARE, 1000));
        // 60 ms would not make it slow, but does not end its slowness either.
        let change = |edges: &mut [Pace]| judge(&mut edges.iter_mut().collect::<Vec<_>>(), 4.0);
        (0..40).for_each(|_| edges[2].answered(Duration::from_millis(60)));
        assert!(change(&mut edges).is_empty());
        (0..40).for_each(|_| edges[2].answered(Duration::from_millis(25)));
        let changes = change(&mut edges);
        assert_eq!(
            (changes.len(), changes[0].edge, changes[0].is_slow),
            (1, 2, false)
        );
    }

    #[test]
    fn an_edge_that_was_away_begins_anew() {
        let mut edges = paces(&[20, 300]);
        assert_eq!(slow(&mut edges), [1]);
        edges[1].forget();
        assert!(slow(&mut edges).is_empty());
        assert_eq!(edges[1].mean(), None);
    }
}
