//! The pool step by step, and at random: single-threaded, on time that the tests set.

mod policy;
mod random;
mod steps;
mod tier;
mod world;
