//! Admission: as many viewers as the machine can carry, and not one more.
//!
//! The [`Desk`] is the interface for a server: newcomers get a reservation or a refusal; admitted
//! viewers play, pause, seek and leave; capacity changes. It keeps the books ([`Admission`]): what
//! the machine can carry ([`Capacity`]), and what it has promised, second by second ([`Calendar`]).
//! The needs of viewers are known before they begin: [`Curves`] has them for each film
//! ([`reelway_demand::Curve`]). So the judgement is exact: whole bytes, whole seconds, no
//! statistics.
//!
//! Pure: the time is an argument, nothing is read or sent, and there are no callbacks. What a
//! server has to do is returned as a value: a [`Want`] of an index to be read, sessions to be ended
//! ([`Outcome`], [`Weighed`]).
//!
//! Curves are separate from the desk since they are made from films' indexes, which come from
//! elsewhere: a fault there must not affect the books.
//!
//! | file | content |
//! |---|---|
//! | `desk/` | the desk: reservations, admitted viewers, the choice of those who have to leave |
//! | `curves/` | the needs of films, and the curves that the policy makes of them |
//! | `following.rs` | viewers who find in memory what another viewer had read |
//! | `sharing.rs` | viewers who hold the same blocks |
//! | `unplayed.rs` | sessions that have not asked for media yet, and the order in which they end |
//! | `judge/` | the books: bookings, and whether there is room for one more |
//! | `calendar.rs` | one resource, a number for each second to come |
//! | `capacity.rs` | the resources of a machine and their limits |
//! | `config.rs` | the settings of admission |
//! | `policy.rs` | rules for judging: exact booking, and rules of others for comparison |
//! | `verdict.rs` | newcomers, and the answers to them |
//! | `fast.rs` | fast play, which goes on with fewer I-frames |
//! | `crowd.rs` | the number of viewers per title, address and user |
//! | `members.rs` | the members of a class of viewers |
//! | `change.rs` | changes to one viewer's booking because of another |
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
