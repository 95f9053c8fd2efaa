//! A sender thread, which works in turns of 1 ms.
//!
//! The lane decides what is due when; the thread has the clock, the sockets and the other threads.
//! Between turns it sleeps until the next turn with work, or until a command arrives.
//!
//! | file | contents |
//! |---|---|
//! | `body.rs` | the thread's state |
//! | `turns.rs` | the loop over turns |
//! | `commands.rs` | commands from outside |
//! | `acting.rs` | effects requested by the lane |
//! | `udp.rs`, `tcp.rs`, `lost.rs` | packets to the kernel |
//! | `balance.rs` | streams that move to another thread |

mod acting;
mod balance;
mod body;
mod commands;
mod lost;
mod tcp;
mod turns;
mod udp;

pub(crate) use body::{Neighbour, Parts, Priority, Thread, now};
