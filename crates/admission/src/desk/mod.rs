//! The desk decides who may watch, what is held for them, and who has to leave.
//!
//! A newcomer's place is first reserved ([`Desk::reserve`]), then confirmed ([`Desk::confirm`]) or released, by
//! [`Desk::release`] or by its deadline. One machine confirms as soon as the newcomer's session is in its register; a cluster
//! reserves at every node that sends a part of the film, and confirms when all of them agree.
//!
//! The desk makes no callbacks. Effects on other viewers are returned as values: the answer, the
//! sessions that end because of it ([`Outcome`]), and changes of capacity to be logged
//! ([`Weighed`]).
//!
//! | file | content |
//! |---|---|
//! | `state.rs` | the desk and what it holds for each viewer |
//! | `newcomers.rs` | newcomers: reserve, confirm, release |
//! | `room.rs` | which viewers have to leave so that another can be admitted |
//! | `playing.rs` | admitted viewers play, pause, seek and leave |
//! | `weigh.rs` | reduced capacity |

mod newcomers;
mod playing;
mod room;
mod state;
mod weigh;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

pub use newcomers::{Arrival, Outcome, Reservation};
pub use playing::Activity;
pub use state::Desk;
pub use weigh::{CapacityNotice, PATIENCE, Weighed};
