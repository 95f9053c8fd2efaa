//! Admission: as many viewers as the machine can carry, and not one more.
//!
//! The [`Desk`] is what a server talks to: newcomers get a reservation or a refusal, admitted viewers play, pause, seek and
//! leave, capacity changes. It keeps the books ([`Admission`]): what the machine can carry ([`Capacity`]), and what it has
//! promised, second by second ([`Calendar`]). What a viewer needs is known before they begin: [`Curves`] has it for each film
//! ([`reelway_demand::Curve`]). So the judgement is exact: whole bytes, whole seconds, no statistics.
//!
//! Pure: the time is an argument, nothing is read or sent, and nobody is called. What a server has to do comes back as a
//! value: a [`Want`] of an index to be read, sessions to be ended ([`Outcome`], [`Weighed`]).
//!
//! Curves are apart from the desk since they are made from films' indexes, which others wrote: a fault there must not touch
//! the books.
//!
//! | file | what lives there |
//! |---|---|
//! | `desk/` | the desk: reservations, admitted viewers, who has to leave |
//! | `curves.rs` | what films need, and what the policy makes of it |
//! | `following.rs` | viewers who find in memory what another viewer had read |
//! | `sharing.rs` | viewers who hold the same blocks |
//! | `unplayed.rs` | viewers who have not asked for media yet: who is the first to leave |
//! | `judge/` | the books: bookings, and whether there is room for one more |
//! | `calendar.rs` | one resource, a number for each second to come |
//! | `capacity.rs` | the resources of a machine and their limits |
//! | `config.rs` | what a machine admits by |
//! | `policy.rs` | rules to judge by: exact booking, and those of others to compare with |
//! | `verdict.rs` | newcomers, and the answers that they get |
//! | `fast.rs` | fast play, which goes on with fewer I-frames |
//! | `crowd.rs` | how many viewers there are of a title, an address, a user |
//! | `members.rs` | who belongs to a class of viewers |
//! | `change.rs` | what one viewer needs differently because of another |
#![forbid(unsafe_code)]

mod calendar;
mod capacity;
mod change;
mod config;
mod crowd;
mod curves;
mod desk;
mod fast;
#[cfg(test)]
mod films;
mod following;
mod judge;
mod members;
mod policy;
mod sharing;
mod unplayed;
mod verdict;

pub use calendar::{Calendar, Second};
pub use capacity::{Capacity, Resource, WHOLE_NETWORK};
pub use config::{Bounds, Config};
pub use crowd::Limits;
pub use curves::{Curves, FILMS, Needs, Want, Wants, fitting};
pub use desk::{Activity, Arrival, CapacityNotice, Desk, Outcome, PATIENCE, Reservation, Weighed};
pub use judge::Admission;
pub use members::Members;
pub use policy::{Class, Policy};
pub use verdict::{Admitted, BookingId, Newcomer, PastRefusal, Refusal, Refused, RefusedFor};
