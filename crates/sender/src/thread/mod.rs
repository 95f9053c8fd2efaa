//! A sender thread: turns of a millisecond.
//!
//! What is due when is the lane's business; the thread has the clock, the sockets and the other threads. Between turns it
//! sleeps to the next one that holds something, or until it is told something.
//!
//! | file | what lives there |
//! |---|---|
//! | `body.rs` | the thread's memory |
//! | `turns.rs` | turn after turn |
//! | `commands.rs` | what it is told |
//! | `acting.rs` | what the lane has it do |
//! | `udp.rs`, `tcp.rs`, `lost.rs` | packets to the kernel |
//! | `balance.rs` | streams that go over to another thread |

mod acting;
mod balance;
mod body;
mod commands;
mod lost;
mod tcp;
mod turns;
mod udp;

pub(crate) use body::{Neighbour, Parts, Priority, Thread, now};
