//! Medians and spreads.

/// Smallest, median and largest of some runs.
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
    /// Of at least one value; of none, all are NaN.
    pub fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        Spread {
            low: at(&values, 0.0),
            median: at(&values, 0.5),
            high: at(&values, 1.0),
        }
    }
}

/// The value below which `share` (0 to 1) of the sorted values lie.
pub fn at(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted
        .get((last as f64 * share).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}
