//! Supervision: what happens after a panic, and the list of the server's problems.
//!
//! A panic is a bug in this program. It ends the piece of work in which it occurs and nothing else:
//!
//! | what panics | what catches it | consequence |
//! |---|---|---|
//! | work (a plan, a read, an index) | [`guard`], [`caught`] | waiters get an error with a reason |
//! | a thread's loop | [`thread`], [`run`] | the loop restarts, after a pause if it panics often |
//! | a task's loop | [`keep`] | the same |
//! | a change under a lock | [`essential`], [`reset`], [`whole`], [`lock`] | depends on the data |
//!
//! Every panic is logged once with its place and message ([`install`]), is counted ([`panics`],
//! shown at `/metrics`), and is listed for an hour ([`problems`], shown at `/healthz` and
//! `/api/node`). A part that has panicked five times within a minute counts as failed until it has
//! run quietly for a minute; meanwhile `/healthz` answers 503.
//!
//! Problems that are not panics (such as a full disk) are put on the same list by [`raise`] and
//! removed by [`clear`].
//!
//! | file | content |
//! |---|---|
//! | `book.rs` | the register of panics and problems; pure |
//! | `catch.rs` | catching panics |
//! | `hook.rs` | the panic hook, and the register of this process |
//! | `inject.rs` | panics that tests of debug builds request |
//! | `lock.rs` | locks in which a panic occurred |
#![forbid(unsafe_code)]

mod book;
mod catch;
mod hook;
mod inject;
mod lock;

pub use book::{Problem, Severity};
pub use catch::{Panicked, caught, guard, keep, run, thread};
pub use hook::{clear, install, panics, problems, raise};
#[cfg(debug_assertions)]
pub use inject::arm;
pub use inject::inject;
pub use lock::{essential, fatal, lock, reset, whole};
