//! A change to one viewer's booking because of another viewer.

use std::sync::Arc;

use reelway_demand::Curve;

use crate::capacity::Resource;
use crate::verdict::BookingId;

/// From now on, a booking needs a different amount of a resource, whether there is room or not.
#[derive(Debug)]
pub(crate) struct Change {
    /// The booking.
    pub id: BookingId,
    /// The resource.
    pub resource: Resource,
    /// The new need, along the film's time.
    pub curve: Arc<Curve>,
}
