//! Medians and spreads.

/// Smallest, median and largest of several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Smallest.
    pub low: f64,
    /// Median.
    pub median: f64,
    /// Largest.
    pub high: f64,
}

impl Spread {
    /// Computes the spread of the values; all fields are NaN if there are none.
    pub fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let middle = values.len().saturating_sub(1) / 2;
        let half = values.len() / 2;
        let median = |at: usize| values.get(at).copied().unwrap_or(f64::NAN);
        Spread {
            low: at(&values, 0.0),
            // For an even number of values, the mean of the two in the middle.
            median: (median(middle) + median(half)) / 2.0,
            high: at(&values, 1.0),
        }
    }
}

/// Returns the value below which `share` (0 to 1) of the sorted values lie.
pub fn at(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted
        .get((last as f64 * share).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_in_the_middle() {
        for (values, median) in [
            (vec![3.0], 3.0),
            (vec![1.0, 4.0], 2.5),
            (vec![9.0, 1.0, 2.0], 2.0),
            (vec![8.0, 1.0, 2.0, 4.0], 3.0),
        ] {
            let spread = Spread::of(values.clone());
            assert_eq!(spread.median, median, "{values:?}");
            assert!(spread.low <= median && median <= spread.high);
        }
        assert!(Spread::of(Vec::new()).median.is_nan());
    }
}
