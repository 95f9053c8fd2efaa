//! Limits on the number of connections, in total and per peer address.
//!
//! Every server in this project that accepts connections from strangers has such limits: no single
//! address may use up all the places.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};

use reelway_supervise as supervise;

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooMany {
    /// The limit on all connections.
    InAll {
        /// Connections currently open.
        open: usize,
    },
    /// The limit on connections from one address.
    OfPeer {
        /// The peer's address, or its network: [`network`].
        network: IpAddr,
        /// Connections currently open from it.
        open: usize,
    },
}

/// Counts connections against two limits. Clones share one count.
#[derive(Clone)]
pub struct Limits {
    all: usize,
    of_peer: usize,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Default)]
struct Counts {
    all: usize,
    /// Open connections by network; networks without any have no entry.
    of_peer: HashMap<IpAddr, usize>,
}

/// A counted connection; dropping it ends the count.
pub struct Counted {
    network: IpAddr,
    counts: Arc<Mutex<Counts>>,
}

impl Limits {
    /// Allows at most `all` connections in total and `of_peer` from one address.
    pub fn new(all: usize, of_peer: usize) -> Limits {
        Limits {
            all,
            of_peer,
            counts: Arc::default(),
        }
    }

    /// Counts a connection from `peer`.
    ///
    /// # Errors
    /// Returns the limit that was reached; nothing is counted then.
    pub fn enter(&self, peer: IpAddr) -> Result<Counted, TooMany> {
        let network = network(peer);
        let mut counts = supervise::whole(self.counts.lock());
        if counts.all >= self.all {
            return Err(TooMany::InAll { open: counts.all });
        }
        let open = counts.of_peer.get(&network).copied().unwrap_or(0);
        if open >= self.of_peer {
            return Err(TooMany::OfPeer { network, open });
        }
        counts.of_peer.insert(network, open + 1);
        counts.all += 1;
        Ok(Counted {
            network,
            counts: self.counts.clone(),
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = supervise::whole(self.counts.lock());
        counts.all -= 1;
        if let Some(count) = counts.of_peer.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                counts.of_peer.remove(&self.network);
            }
        }
    }
}

/// Returns the network that one subscriber has: an IPv4 address, or an IPv6 /64 (RFC 6177).
pub fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_address_cannot_take_all_places_and_a_connection_that_ends_makes_room() {
        let limits = Limits::new(3, 2);
        let (mine, yours) = (address("10.0.0.1"), address("10.0.0.2"));
        let first = limits.enter(mine).unwrap();
        let _second = limits.enter(mine).unwrap();
        let of_peer = TooMany::OfPeer {
            network: mine,
            open: 2,
        };
        assert_eq!(limits.enter(mine).err(), Some(of_peer));
        let _third = limits.enter(yours).unwrap();
        let in_all = TooMany::InAll { open: 3 };
        assert_eq!(limits.enter(yours).err(), Some(in_all));
        drop(first);
        assert!(limits.enter(mine).is_ok());
    }

    #[test]
    fn clones_count_together_and_nothing_is_kept_of_those_who_left() {
        let limits = Limits::new(10, 1);
        let counted = limits.clone().enter(address("10.0.0.1")).unwrap();
        assert!(limits.enter(address("10.0.0.1")).is_err());
        drop(counted);
        assert!(limits.counts.lock().unwrap().of_peer.is_empty());
    }

    #[test]
    fn an_ipv6_network_is_one_address() {
        let limits = Limits::new(10, 1);
        let _one = limits.enter(address("2001:db8:1:2:3::4")).unwrap();
        assert!(limits.enter(address("2001:db8:1:2::")).is_err());
        assert!(limits.enter(address("2001:db8:1:3::1")).is_ok());
        let _v4 = limits.enter(address("10.0.0.1")).unwrap();
        assert!(
            limits.enter(address("::ffff:10.0.0.1")).is_err(),
            "the same address, mapped"
        );
    }
}
