//! How late one stream's packets left, in a few classes.

/// The upper bound of each class but the last, µs.
pub const LATENESS_BOUNDS: [u32; 6] = [250, 1_000, 2_000, 5_000, 20_000, 100_000];

/// How late packets left. It takes half a cache line, as it is written for every slice
/// of every viewer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// The number of packets in each class.
    pub classes: [u32; LATENESS_BOUNDS.len() + 1],
    /// The greatest lateness, µs.
    pub max: u32,
}

impl Lateness {
    /// Counts `packets` that left `nanos` late.
    pub fn note(&mut self, nanos: u64, packets: u32) {
        let micros = u32::try_from(nanos / 1_000).unwrap_or(u32::MAX);
        let class = LATENESS_BOUNDS
            .iter()
            .filter(|bound| micros > **bound)
            .count();
        match self.classes[class].checked_add(packets) {
            Some(count) => self.classes[class] = count,
            // After months: the proportions stay.
            None => self.classes.iter_mut().for_each(|count| *count /= 2),
        }
        self.max = self.max.max(micros);
    }

    /// Returns the lateness that `thousandths` of 1000 packets do not exceed, µs: the upper bound
    /// of their class, but at most the greatest lateness.
    pub fn percentile(&self, thousandths: u64) -> u32 {
        let total: u64 = self.classes.iter().copied().map(u64::from).sum();
        let rank = (total * thousandths).div_ceil(1000);
        let mut seen = 0;
        let class = self.classes.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        });
        let bound = class.and_then(|class| LATENESS_BOUNDS.get(class));
        bound.map_or(self.max, |bound| self.max.min(*bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_classes_tell_no_less_than_the_truth_and_no_more_than_the_latest() {
        let mut late = Lateness::default();
        assert_eq!(late.percentile(999), 0);
        late.note(100_000, 985);
        assert_eq!(late.percentile(999), 100);
        late.note(1_500_000, 14);
        late.note(200_000_000_000, 1);
        assert_eq!(late.percentile(500), 250);
        assert_eq!(late.percentile(990), 2_000);
        assert_eq!(late.percentile(999), 2_000);
        assert_eq!(late.max, 200_000_000);
        late.note(0, u32::MAX);
        late.note(0, u32::MAX);
        assert!(late.percentile(500) <= 250);
    }

    #[test]
    fn a_class_ends_with_its_bound_and_the_last_has_none() {
        for (micros, class) in [
            (0, 0),
            (250, 0),
            (251, 1),
            (1_000, 1),
            (2_000, 2),
            (5_000, 3),
            (20_000, 4),
            (100_000, 5),
            (100_001, 6),
            (u64::from(u32::MAX) + 1, 6),
        ] {
            let mut late = Lateness::default();
            late.note(micros * 1_000 + 999, 3);
            assert_eq!(late.classes[class], 3, "{micros} µs");
            assert_eq!(u64::from(late.max), micros.min(u32::MAX.into()));
        }
    }

    #[test]
    fn a_thousandth_more_is_the_next_class() {
        let mut late = Lateness::default();
        late.note(100_000, 990);
        late.note(900_000, 9);
        late.note(3_000_000, 1);
        for (thousandths, micros) in [
            (0, 250),
            (990, 250),
            (991, 1_000),
            (999, 1_000),
            (1_000, 3_000),
        ] {
            assert_eq!(late.percentile(thousandths), micros, "{thousandths}");
        }
    }

    #[test]
    fn counts_are_halved_before_they_run_over() {
        let mut late = Lateness::default();
        late.note(0, u32::MAX - 1);
        late.note(300_000, 1000);
        late.note(0, 1);
        assert_eq!(late.classes[0], u32::MAX);
        late.note(0, 1);
        assert_eq!(late.classes[..2], [u32::MAX / 2, 500]);
    }
}
