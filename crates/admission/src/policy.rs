//! Rules to judge newcomers by.

use std::sync::Arc;

use reelway_timetable::Curve;

use crate::capacity::Resource;

/// A rule. All but the last two know less than there is to be known; they are what others do, for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Everybody comes in.
    Everybody,
    /// So many viewers, whatever they watch: the connection limit of other servers.
    Count(u32),
    /// The VODCA paper's: two buffers of the film's largest GOP for each viewer must fit the memory, and at most
    /// a fifth of all may play fast. The network is not asked.
    Vodca,
    /// Each viewer is taken to need his film's largest second all the time.
    Peak,
    /// Each viewer is taken to need his film's mean all the time.
    Mean,
    /// Each second of each film is booked as it will be.
    Exact,
    /// The same, of films that are sent up to so many seconds ahead into the viewer's buffer, as evenly as that
    /// allows ([`reelway_timetable::smooth`]).
    Smoothed(u32),
}

impl Policy {
    /// What is booked of a resource for a film that needs `curve`; the smoothed curve is made by whoever makes the
    /// schedule.
    pub fn booked(self, resource: Resource, curve: &Arc<Curve>) -> Arc<Curve> {
        match (self, resource) {
            (Policy::Peak, Resource::Network(_) | Resource::Processor | Resource::Disk) => {
                Arc::new(curve.flattened(curve.peak()))
            }
            (Policy::Mean, Resource::Network(_) | Resource::Processor | Resource::Disk) => {
                Arc::new(curve.flattened(curve.mean()))
            }
            _ => curve.clone(),
        }
    }

    /// Whether this rule asks for this resource.
    pub(crate) fn asks(self, resource: Resource) -> bool {
        match self {
            Policy::Everybody | Policy::Count(_) => false,
            Policy::Vodca => resource == Resource::Memory,
            Policy::Peak | Policy::Mean | Policy::Exact | Policy::Smoothed(_) => true,
        }
    }
}

/// A class of viewers. Those of the first class come first: others find the machine full at less than it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Thousandths of each limit up to which it is let in.
    pub ceiling: u32,
}

impl Default for Class {
    fn default() -> Self {
        Class {
            name: "everybody".into(),
            ceiling: 1000,
        }
    }
}
