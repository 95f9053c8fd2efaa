//! Random numbers from a seed: splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
//! number generators", 2014), a counter whose values are mixed.

/// A random number generator, suitable for simulations and tests, but not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the generator of a seed. The sequences of different seeds are unrelated, even if the
    /// seeds are consecutive.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Creates one of many generators of a seed: its numbers do not depend on how many
    /// the others draw.
    pub fn nth(seed: u64, number: u64) -> Random {
        // The factor differs from the step of `bits`, so that no sequence is a part of the next one.
        let mut random = Random(seed ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03));
        random.bits();
        random
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 (inclusive) to 1 (exclusive).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number from `low` (inclusive) to `high` (exclusive).
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Returns an exponentially distributed number: the time until the next event of a Poisson
    /// process whose events are `mean` apart on average.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Returns a whole number from `from` (inclusive) to `to` (exclusive); `from` if the
    /// range is empty.
    ///
    /// Small numbers are more likely, by the range's length divided by 2^64.
    pub fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.bits() % to.saturating_sub(from).max(1)
    }

    /// Returns a whole number below `count`; 0 if `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        self.within(0, count as u64) as usize
    }

    /// Returns true with a probability of `chance`.
    pub fn happens(&mut self, chance: f64) -> bool {
        self.unit() < chance
    }

    /// Returns true once in `times` calls on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.within(0, times) == 0
    }

    /// Returns one of these elements, each with the same probability.
    ///
    /// # Panics
    /// If `of` is empty.
    pub fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Returns an index into `weights`, with a probability proportional to its weight; 0 if there
    /// are none.
    pub fn pick(&mut self, weights: &[f64]) -> usize {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        let place = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        // Rounding may leave a remainder after the last one.
        place.unwrap_or(weights.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        // The first numbers of seed 1234567 in the authors' published implementation (splitmix64.c, Vigna).
        let mut random = Random::new(1_234_567);
        let drawn = [(); 3].map(|()| random.bits());
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(drawn, published);
    }

    #[test]
    fn numbers_of_one_of_many_are_its_own() {
        let firsts: std::collections::BTreeSet<u64> = (0..1000)
            .map(|number| Random::nth(7, number).bits())
            .collect();
        assert_eq!(firsts.len(), 1000);
        assert_eq!(Random::nth(7, 3).bits(), Random::nth(7, 3).bits());
    }

    #[test]
    fn numbers_keep_to_their_ranges() {
        let mut random = Random::new(1);
        for _ in 0..1000 {
            assert!((0.0..1.0).contains(&random.unit()));
            assert!((3..7).contains(&random.within(3, 7)));
            assert!(random.below(5) < 5);
            assert!(random.exponential(2.0) >= 0.0);
        }
        assert_eq!((random.within(3, 3), random.below(0)), (3, 0));
        assert!(!random.happens(0.0) && random.happens(1.0));
    }

    #[test]
    fn a_place_is_drawn_as_often_as_its_weight_says() {
        let mut random = Random::new(1);
        let mut drawn = [0; 3];
        for _ in 0..10_000 {
            drawn[random.pick(&[1.0, 0.0, 3.0])] += 1;
        }
        assert!((2300..2700).contains(&drawn[0]), "{drawn:?}");
        assert_eq!(drawn[1], 0);
        assert_eq!(random.pick(&[]), 0);
    }
}
