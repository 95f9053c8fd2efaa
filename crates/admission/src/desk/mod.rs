//! The desk: who may watch, what is held for whom, and who has to leave.
//!
//! A newcomer's place is first reserved ([`Desk::reserve`]), then confirmed ([`Desk::confirm`]) or released, by
//! [`Desk::release`] or by its deadline. One machine confirms as soon as the newcomer's session is in its register; a cluster
//! reserves at every node that sends a part of the film, and confirms when all of them agree.
//!
//! The desk calls nobody. What follows for others comes back as values: the answer, the sessions to be ended for it
//! ([`Outcome`]), and changes of capacity to be logged ([`Weighed`]).
//!
//! | file | what lives there |
//! |---|---|
//! | `state.rs` | the desk and what it holds for each viewer |
//! | `newcomers.rs` | newcomers: reserve, confirm, release |
//! | `room.rs` | who has to leave so that a viewer can be admitted |
//! | `playing.rs` | admitted viewers play, pause, seek and leave |
//! | `weigh.rs` | less capacity than before |

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
