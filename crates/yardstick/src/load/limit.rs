//! Search for the largest number of viewers of whom none is harmed, by bisection. A number is too
//! large if one of its viewers is harmed or refused. The whole search is repeated, as the papers'
//! figures are means of five runs.

/// Results of a search.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Limit {
    /// The largest number that went well in each run.
    pub runs: Vec<u32>,
    /// All tries in order: run (from 1), number of viewers, how many of them were harmed or
    /// refused.
    pub tried: Vec<(u32, u32, usize)>,
    /// Whether the search reached its upper bound; if so, the true limit is higher.
    pub bounded: bool,
}

impl Limit {
    /// Returns the mean of the runs.
    pub fn mean(&self) -> f64 {
        self.runs.iter().copied().map(f64::from).sum::<f64>() / (self.runs.len().max(1)) as f64
    }

    /// Returns the smallest and the largest result.
    pub fn spread(&self) -> (u32, u32) {
        let least = self.runs.iter().copied().min().unwrap_or(0);
        (least, self.runs.iter().copied().max().unwrap_or(0))
    }
}

/// The bisection of one run, between a number that went well and one that did not.
#[derive(Clone, Copy, Debug)]
pub struct Bisection {
    well: u32,
    harmed: Option<u32>,
    next: u32,
    most: u32,
    /// Reciprocal of the result's relative precision.
    fineness: u32,
}

impl Bisection {
    /// Starts with `first` viewers and tries up to `most`.
    pub fn new(first: u32, most: u32) -> Bisection {
        Bisection {
            well: 0,
            harmed: None,
            next: first.clamp(1, most.max(1)),
            most: most.max(1),
            fineness: 50,
        }
    }

    /// Returns the number to try now; `None` when the search is complete.
    pub fn next(&self) -> Option<u32> {
        (self.next > 0).then_some(self.next)
    }

    /// Returns the largest number that has gone well so far.
    pub fn well(&self) -> u32 {
        self.well
    }

    /// Whether no number was too large.
    pub fn is_bounded(&self) -> bool {
        self.harmed.is_none()
    }

    /// Enters the result of the number that was tried.
    pub fn record(&mut self, well: bool) {
        if well {
            self.well = self.next;
        } else {
            self.harmed = Some(self.next);
        }
        self.next = match self.harmed {
            None if self.well >= self.most => 0,
            None => self.well.saturating_mul(2).min(self.most),
            Some(harmed) if harmed - self.well <= 1 + self.well / self.fineness => 0,
            Some(harmed) => self.well + (harmed - self.well) / 2,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(limit: u32, first: u32, most: u32) -> (u32, u32) {
        let (mut bisection, mut trials) = (Bisection::new(first, most), 0);
        while let Some(viewers) = bisection.next() {
            assert!(viewers <= most);
            bisection.record(viewers <= limit);
            trials += 1;
        }
        (bisection.well(), trials)
    }

    #[test]
    fn the_limit_is_found_within_a_fiftieth_in_few_trials() {
        for limit in [0, 1, 7, 49, 50, 231, 396, 2000, 12_345] {
            for first in [1, 100, 5000] {
                let (found, trials) = find(limit, first, 100_000);
                assert!(found <= limit, "{limit} from {first}: {found}");
                assert!(limit - found <= 1 + limit / 50, "{limit}: {found}");
                assert!(trials < 40, "{limit} from {first}: {trials} trials");
            }
        }
    }

    #[test]
    fn an_upper_bound_that_goes_well_is_told() {
        let mut bisection = Bisection::new(10, 30);
        while bisection.next().is_some() {
            bisection.record(true);
        }
        assert_eq!((bisection.well(), bisection.is_bounded()), (30, true));
    }

    #[test]
    fn mean_and_spread_of_the_runs() {
        let limit = Limit {
            runs: vec![230, 232, 231, 230, 232],
            tried: Vec::new(),
            bounded: false,
        };
        assert_eq!((limit.mean(), limit.spread()), (231.0, (230, 232)));
    }
}
