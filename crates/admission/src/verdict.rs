//! Newcomers, and the answers that they get.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reelway_demand::Curve;

use crate::calendar::Second;
use crate::capacity::Resource;

/// A viewer's booking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BookingId(pub(crate) u64);

impl BookingId {
    /// Numbers the bookings of a machine in the order in which they were made.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// Someone who wants to watch.
#[derive(Clone, Debug)]
pub struct Newcomer<'a> {
    /// The film that they want to watch.
    pub title: &'a str,
    /// Their address.
    pub address: IpAddr,
    /// The user, if known.
    pub user: Option<&'a str>,
    /// Their class, an index into what [`crate::Admission::with_classes`] was given.
    pub class: usize,
    /// Whether they play fast.
    pub fast: bool,
    /// Whether they fetch what they watch, as over HTTP: it does not leave ahead of its time, and makes up for nothing.
    pub fetches: bool,
    /// What their film needs of each resource over its time.
    pub needs: &'a [(Resource, Arc<Curve>)],
    /// The same if they have to wait for the beginning, where that is more: those beside whom they would play now are further
    /// away then.
    pub later: Option<&'a [(Resource, Arc<Curve>)]>,
    /// The bins of those curves that they want: from here …
    pub from: usize,
    /// … to here.
    pub to: usize,
}

/// The newcomer is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Their booking.
    pub id: BookingId,
    /// When their film is to begin, from now.
    pub starts_in: Duration,
}

/// What stands in a newcomer's way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedFor {
    /// A second of a resource would be overfull.
    Full {
        /// Which.
        resource: Resource,
        /// How many seconds from now.
        ahead: u64,
        /// What is booked of that second.
        load: u64,
        /// What the newcomer needs of it.
        need: u64,
        /// How much there is for their class.
        limit: u64,
    },
    /// There are as many viewers as there may be.
    Count {
        /// How many.
        present: u32,
    },
    /// The limit for newcomers of this kind is reached; in words.
    Crowd(String),
    /// Too many play fast.
    Fast,
}

impl std::fmt::Display for RefusedFor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RefusedFor::Full {
                resource, ahead: 0, ..
            } => write!(f, "the {resource} is fully booked now"),
            RefusedFor::Full {
                resource,
                ahead: ahead @ 1..60,
                ..
            } => write!(f, "the {resource} would be overbooked in {ahead} s"),
            RefusedFor::Full {
                resource, ahead, ..
            } => write!(
                f,
                "the {resource} would be overbooked in {}:{:02} minutes",
                ahead / 60,
                ahead % 60
            ),
            RefusedFor::Count { present } => {
                write!(
                    f,
                    "there are {present} viewers, as many as `admission.policy` allows"
                )
            }
            RefusedFor::Crowd(words) => f.write_str(words),
            RefusedFor::Fast => f.write_str("one viewer in five plays fast already"),
        }
    }
}

/// The newcomer is refused for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub reason: RefusedFor,
    /// When they could be admitted by current bookings; if `is_exact` is not set, not before.
    pub retry_after: Duration,
    /// Whether a place was found then.
    pub is_exact: bool,
}

/// A refusal that is remembered for people to look at.
#[derive(Clone, Debug)]
pub struct PastRefusal {
    /// When.
    pub at: Second,
    /// The film that the newcomer wanted to watch.
    pub title: String,
    /// The answer.
    pub refused: Refused,
}

/// A refusal as the viewer gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In words, for the viewer.
    pub reason: String,
    /// When it is worth asking again; `None`: never.
    pub retry_after: Option<Duration>,
}

impl From<&Refused> for Refusal {
    fn from(refused: &Refused) -> Refusal {
        Refusal {
            reason: refused.reason.to_string(),
            retry_after: Some(refused.retry_after),
        }
    }
}
