//! A few seeds that take seconds: for work on one of the crates that they run, and
//! for mutants (`scripts/mutants`).

use reelway_sim::{Config, run};

#[test]
fn the_first_forty_seeds_hold_all_rules() {
    for seed in 0..40 {
        let violations = run(seed, &Config::default()).violations;
        assert!(violations.is_empty(), "seed {seed}: {}", violations[0]);
    }
}
