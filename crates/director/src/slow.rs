//! Edges that answer, but much more slowly than others: they get fewer newcomers until they are as quick again. Pure.

use std::time::Duration;

/// Of a new answer time, how much counts: an eighth. A few slow answers change little.
const NEW: u32 = 8;
/// Answers after which the mean says something.
const ENOUGH: u32 = 10;
/// Nobody notices what is quicker than this.
const QUICK: Duration = Duration::from_millis(50);
/// A slow edge is as quick as the others again when it takes at most half of what made it slow.
const BACK: f64 = 0.5;
/// What a slow edge gets of its weight, in thousandths.
const SHARE: u32 = 250;

/// How long an edge takes to answer its checks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    mean: Duration,
    answers: u32,
    is_slow: bool,
}

impl Pace {
    /// A check was answered.
    pub fn answered(&mut self, took: Duration) {
        self.mean = match self.answers {
            0 => took,
            _ => self.mean * (NEW - 1) / NEW + took / NEW,
        };
        self.answers = self.answers.saturating_add(1);
    }

    /// The edge gets no viewers: what it was like before says nothing.
    pub fn forget(&mut self) {
        *self = Pace::default();
    }

    /// Whether it is slow.
    pub fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// What it gets of its weight, in thousandths.
    pub fn share(&self) -> u32 {
        match self.is_slow {
            true => SHARE,
            false => 1000,
        }
    }

    /// The mean, if it says something.
    fn mean(&self) -> Option<Duration> {
        (self.answers >= ENOUGH).then_some(self.mean)
    }
}

/// An edge has become slow, or is as quick as the others again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Its number.
    pub edge: usize,
    pub is_slow: bool,
    /// What it takes, and what the others take.
    pub mean: Duration,
    pub others: Duration,
}

/// Judges which edges are slow: those that take `factor` times as long as the median of the others; at most half of all.
pub(crate) fn judge(paces: &mut [&mut Pace], factor: f64) -> Vec<Change> {
    let means: Vec<Option<Duration>> = paces.iter().map(|pace| pace.mean()).collect();
    let mut most = means.iter().flatten().count() / 2;
    // The slowest first: there may be too many.
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
    // Of two, the smaller one: the quicker half says what is usual.
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

    /// The numbers of the edges that are slow afterwards.
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
        // At 60 ms it would not have become slow, but it stays so.
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
