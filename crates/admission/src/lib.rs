//! Admission: as many viewers as the machine can carry, and not one more.
//!
//! What lives here: what a machine can carry ([`Capacity`]), the calendar of what it has promised, second by
//! second ([`Calendar`]), and the judge who compares a newcomer's needs with both ([`Admission`]). A viewer's
//! needs are known before they begin ([`reelway_timetable::Curve`]), so the judgement is exact: whole bytes,
//! whole seconds, no statistics. Pure: the time is an argument, and nothing is read or sent.
//!
//! | file | what lives there |
//! |---|---|
//! | `calendar.rs` | one resource, a number for each second to come |
//! | `capacity.rs` | the resources of a machine and their limits |
//! | `policy.rs` | rules to judge by: exact booking, and those of others to compare with |
//! | `judge.rs` | the judge: bookings, and who may have one |
//! | `verdict.rs` | newcomers, and the answers that they get |
//! | `fast.rs` | fast play, which goes on with fewer I-frames |
//! | `crowd.rs` | how many viewers there are of a title, an address, a user |
#![forbid(unsafe_code)]

mod calendar;
mod capacity;
mod crowd;
mod fast;
mod judge;
mod policy;
mod verdict;

pub use calendar::{Calendar, Second};
pub use capacity::{Capacity, Resource};
pub use crowd::Limits;
pub use fast::Needs;
pub use judge::Admission;
pub use policy::{Class, Policy};
pub use verdict::{Admitted, BookingId, Newcomer, Refused, RefusedFor, Seen};
