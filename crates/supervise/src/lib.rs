//! Supervision: what happens after a panic, and which problems the server has.
//!
//! A panic is a fault of this program. It ends the piece of work in which it happens and nothing else:
//!
//! | what panics | what catches it | what follows |
//! |---|---|---|
//! | one piece of work (a plan, a read, an index) | [`guard`], [`caught`] | whoever waits for it gets an error with a reason |
//! | a thread's loop | [`thread`], [`run`] | the loop starts again, after a pause if it panics often |
//! | a task's loop | [`keep`] | the same |
//! | a change under a lock | [`essential`], [`reset`], [`whole`], [`lock`] | by what the lock protects: see there |
//!
//! Every panic is in the log once with its place and message ([`install`]), is counted ([`panics`], shown at
//! `/metrics`), and is listed for an hour ([`problems`], shown at `/healthz` and `/api/node`). A part that
//! panicked five times within a minute counts as failed until it runs quietly for a minute: `/healthz` then
//! answers 503.
//!
//! Problems that are no panics (a full disk, say) come into the same list by [`raise`] and [`clear`].
//!
//! | file | what lives there |
//! |---|---|
//! | `book.rs` | the register of panics and problems; pure |
//! | `catch.rs` | what catches panics |
//! | `hook.rs` | the panic hook, and the register of this process |
//! | `inject.rs` | panics that tests of debug builds ask for |
//! | `lock.rs` | what becomes of a lock in which a panic happened |
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
