//! The shape of this workspace's source, computed from the syntax of its files.
//!
//! Four questions, each with a kept list in `lists/` that only shrinks (docs/development/testing.md):
//! which files of a crate depend on each other in a circle, which files are too long, which files use
//! the machine (its clock, threads, locks, sockets), and how often tests sleep.
//!
//! | file | what lives there |
//! |---|---|
//! | `test_code.rs` | which code is for tests only |
//! | `tokens.rs` | paths, also in the arguments of macros and attributes |
//! | `collect.rs` | what one file defines, imports and mentions |
//! | `tree.rs` | the modules of one crate, from its root file |
//! | `resolve.rs` | what a path means: a file of the crate, or a path of another crate |
//! | `circles.rs` | circles of files |
//! | `effects.rs` | the uses of the machine, and sleeps in tests |
//! | `lists.rs` | the kept lists, and how the source differs from them |
//! | `workspace.rs` | reads the files of the workspace; the only part that touches the disk |
//!
//! Nothing is compiled, so types are unknown: a method call is not a dependency (the type it is called on
//! has been named somewhere). Code that macros or build scripts generate is not seen.
#![forbid(unsafe_code)]

pub mod circles;
mod collect;
pub mod effects;
pub mod lists;
mod resolve;
mod test_code;
mod tokens;
pub mod tree;
pub mod workspace;
