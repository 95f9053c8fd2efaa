//! How many connections there may be, in all and from one address.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use reelway_supervise as supervise;

/// The address a request came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

/// Which limit was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooMany {
    InAll,
    OfPeer,
}

#[derive(Default)]
struct Counts {
    all: usize,
    of_peer: HashMap<IpAddr, usize>,
}

/// The limits and what is counted against them.
#[derive(Clone)]
pub(crate) struct Limits {
    all: usize,
    of_peer: usize,
    counts: Arc<Mutex<Counts>>,
}

/// A counted connection, until dropped.
pub(crate) struct Counted {
    peer: IpAddr,
    counts: Arc<Mutex<Counts>>,
}

impl Limits {
    pub fn new(all: usize, of_peer: usize) -> Limits {
        Limits {
            all,
            of_peer,
            counts: Arc::default(),
        }
    }

    /// Counts a connection from `peer`, if it may be.
    pub fn enter(&self, peer: IpAddr) -> Result<Counted, TooMany> {
        let peer = network(peer);
        let mut counts = supervise::whole(self.counts.lock());
        if counts.all >= self.all {
            return Err(TooMany::InAll);
        }
        let of_peer = counts.of_peer.entry(peer).or_default();
        if *of_peer >= self.of_peer {
            return Err(TooMany::OfPeer);
        }
        *of_peer += 1;
        counts.all += 1;
        Ok(Counted {
            peer,
            counts: self.counts.clone(),
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = supervise::whole(self.counts.lock());
        counts.all -= 1;
        if let Some(count) = counts.of_peer.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                counts.of_peer.remove(&self.peer);
            }
        }
    }
}

/// What one subscriber has: an IPv4 address, or an IPv6 /64 (RFC 6177).
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all() {
        let limits = Limits::new(3, 2);
        let (a, b): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let first = limits.enter(a).unwrap();
        let _second = limits.enter(a).unwrap();
        assert_eq!(limits.enter(a).err(), Some(TooMany::OfPeer));
        let _third = limits.enter(b).unwrap();
        assert_eq!(limits.enter(b).err(), Some(TooMany::InAll));
        drop(first);
        assert!(limits.enter(b).is_ok());
    }

    #[test]
    fn an_ipv6_network_is_one_address() {
        let limits = Limits::new(10, 1);
        let _one = limits.enter("2001:db8::1".parse().unwrap()).unwrap();
        assert!(limits.enter("2001:db8::2".parse().unwrap()).is_err());
        assert!(limits.enter("2001:db8:0:1::2".parse().unwrap()).is_ok());
        let _v4 = limits.enter("10.0.0.1".parse().unwrap()).unwrap();
        assert!(
            limits.enter("::ffff:10.0.0.1".parse().unwrap()).is_err(),
            "the same address, mapped"
        );
    }
}
