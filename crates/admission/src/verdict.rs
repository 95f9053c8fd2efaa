//! Newcomers, and the answers to them.

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
    /// The booking's number: bookings of a machine are numbered in the order in which they are
    /// made.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// A viewer who wants to be admitted.
#[derive(Clone, Debug)]
pub struct Newcomer<'a> {
    /// The film that they want to watch.
    pub title: &'a str,
    /// Their address.
    pub address: IpAddr,
    /// The user, if known.
    pub user: Option<&'a str>,
    /// Their class, an index into the list given to [`crate::Admission::with_classes`].
    pub class: usize,
    /// Whether they play fast.
    pub fast: bool,
    /// Whether they fetch what they watch, as over HTTP: it is not sent ahead of its time, and
    /// makes up for nothing.
    pub fetches: bool,
    /// What their film needs of each resource along its time.
    pub needs: &'a [(Resource, Arc<Curve>)],
    /// The needs if they have to wait for the beginning, if those are higher: viewers beside whom
    /// they would play now are further away by then.
    pub later: Option<&'a [(Resource, Arc<Curve>)]>,
    /// The first bin of those curves that they want.
    pub from: usize,
    /// The end of the bins that they want.
    pub to: usize,
}

/// The newcomer is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Their booking.
    pub id: BookingId,
    /// Time from now until their film begins.
    pub starts_in: Duration,
}

/// Why a newcomer cannot be admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedFor {
    /// A second of a resource would be overbooked.
    Full {
        /// The resource.
        resource: Resource,
        /// Seconds from now.
        ahead: u64,
        /// The load that is booked in that second.
        load: u64,
        /// What the newcomer needs in that second.
        need: u64,
        /// The limit for their class.
        limit: u64,
    },
    /// The maximum number of viewers is present.
    Count {
        /// The number of viewers.
        present: u32,
    },
    /// The limit for newcomers of this kind is reached; in words.
    Crowd(String),
    /// Too many viewers play fast.
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
    /// The reason.
    pub reason: RefusedFor,
    /// When they could be admitted by current bookings; if `is_exact` is not set, not before that.
    pub retry_after: Duration,
    /// Whether room was found at that time.
    pub is_exact: bool,
}

/// A past refusal, kept for display.
#[derive(Clone, Debug)]
pub struct PastRefusal {
    /// When it was refused.
    pub at: Second,
    /// The film that the newcomer wanted to watch.
    pub title: String,
    /// The answer.
    pub refused: Refused,
}

/// A refusal as the viewer gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason in words, for the viewer.
    pub reason: String,
    /// When asking again is worthwhile; `None` for never.
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
