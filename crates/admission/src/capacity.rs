//! What a machine can carry.

use std::fmt;

/// A resource of which a machine has a limited amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// Bytes per second that leave by the interface with this number, all headers and gaps
    /// included.
    Network(u8),
    /// Bytes per second that the processor can send over all interfaces: its cost grows with
    /// packets.
    Processor,
    /// Bytes per second from the disks when read block by block, so that seeks are included.
    Disk,
    /// Bytes per second from other servers, for films on them.
    Origin,
    /// Bytes of the block pool that viewers hold at the same time.
    Memory,
}

/// All viewers on all interfaces together; single interfaces are numbered from 1.
pub const WHOLE_NETWORK: Resource = Resource::Network(0);

impl Resource {
    /// Its name in the API and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Network(_) => "network",
            Resource::Processor => "processor",
            Resource::Disk => "disk",
            Resource::Origin => "origin",
            Resource::Memory => "memory",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Resource::Network(_) => "network",
            Resource::Processor => "processor",
            Resource::Disk => "disk",
            Resource::Origin => "link to the origin",
            Resource::Memory => "memory for film blocks",
        })
    }
}

/// Limits of a machine's resources. Those that are not named are not limited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    limits: Vec<(Resource, u64)>,
}

impl Capacity {
    /// No limits.
    pub fn unlimited() -> Capacity {
        Capacity::default()
    }

    /// Adds a limit: `amount` of a resource, of which `usable` thousandths are given out; the rest
    /// is headroom for everything that is in no timetable. Replaces an earlier limit of the same
    /// resource.
    pub fn with(mut self, resource: Resource, amount: u64, usable: u32) -> Capacity {
        let limit = u128::from(amount) * u128::from(usable.min(1000)) / 1000;
        self.limits.retain(|(of, _)| *of != resource);
        self.limits.push((resource, limit as u64));
        self.limits.sort_unstable();
        self
    }

    /// How much of a resource may be given out; `None` if it is not limited.
    pub fn limit(&self, resource: Resource) -> Option<u64> {
        let found = self.limits.iter().find(|(of, _)| *of == resource);
        found.map(|(_, limit)| *limit)
    }

    /// All limits.
    pub fn limits(&self) -> &[(Resource, u64)] {
        &self.limits
    }

    /// Whether a network is limited.
    pub fn limits_a_network(&self) -> bool {
        let mut limits = self.limits.iter();
        limits.any(|(of, _)| matches!(of, Resource::Network(_)))
    }

    /// Whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        self.limits.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_is_taken_off_exactly_and_the_last_word_counts() {
        let capacity = Capacity::unlimited()
            .with(Resource::Disk, 5, 1000)
            .with(Resource::Network(0), u64::MAX, 999)
            .with(Resource::Disk, 1001, 970);
        assert_eq!(capacity.limit(Resource::Disk), Some(970));
        assert_eq!(
            capacity.limit(Resource::Network(0)),
            Some(u64::MAX - u64::MAX / 1000 - 1)
        );
        assert_eq!(capacity.limit(Resource::Memory), None);
    }
}
