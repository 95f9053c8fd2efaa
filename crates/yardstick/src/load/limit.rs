//! The largest number of viewers of which none is harmed, by bisection. A number is too many when one viewer
//! of it is harmed or turned away; the whole search is repeated, as the papers' figures are means of five
//! runs.

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Limit {
    /// The largest number that went well in each run.
    pub runs: Vec<u32>,
    /// Every number tried, in order: run (from 1), viewers, how many were harmed or refused.
    pub tried: Vec<(u32, u32, usize)>,
    /// The search was ended by its upper bound: the true limit is higher.
    pub bounded: bool,
}

impl Limit {
    /// Mean of the runs.
    pub fn mean(&self) -> f64 {
        self.runs.iter().copied().map(f64::from).sum::<f64>() / (self.runs.len().max(1)) as f64
    }

    /// Smallest and largest of the runs.
    pub fn spread(&self) -> (u32, u32) {
        let least = self.runs.iter().copied().min().unwrap_or(0);
        (least, self.runs.iter().copied().max().unwrap_or(0))
    }
}

/// The next number to be tried, or the answer, of one run: between a number that went well and one that
/// did not.
#[derive(Clone, Copy, Debug)]
pub struct Bisection {
    well: u32,
    harmed: Option<u32>,
    next: u32,
    most: u32,
    /// The answer is right within one part in so many.
    fineness: u32,
}

impl Bisection {
    /// Begins with `first` viewers and goes up to `most`.
    pub fn new(first: u32, most: u32) -> Bisection {
        Bisection {
            well: 0,
            harmed: None,
            next: first.clamp(1, most.max(1)),
            most: most.max(1),
            fineness: 50,
        }
    }

    /// How many are to be tried now; nothing when it is found.
    pub fn next(&self) -> Option<u32> {
        (self.next > 0).then_some(self.next)
    }

    /// The largest number that went well until now.
    pub fn well(&self) -> u32 {
        self.well
    }

    /// Nothing was too many.
    pub fn is_bounded(&self) -> bool {
        self.harmed.is_none()
    }

    /// How it went with the number that was to be tried.
    pub fn told(&mut self, well: bool) {
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
            bisection.told(viewers <= limit);
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
            bisection.told(true);
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
