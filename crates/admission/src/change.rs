//! What becomes different for one viewer because of another.

use std::sync::Arc;

use reelway_demand::Curve;

use crate::capacity::Resource;
use crate::verdict::BookingId;

/// A booking needs something else of a resource from now on, whether there is room or not.
#[derive(Debug)]
pub(crate) struct Change {
    /// Whose booking.
    pub id: BookingId,
    /// Of which resource.
    pub resource: Resource,
    /// What it needs of it, along the film's time.
    pub curve: Arc<Curve>,
}
