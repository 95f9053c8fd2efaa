//! Step-by-step and randomised tests of the pool: single-threaded, with the time set by the tests.

mod policy;
mod random;
mod steps;
mod tier;
mod world;
