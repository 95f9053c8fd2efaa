//! How many connections there are, and of whom.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};

use reelway_supervise as supervise;

/// Counts connections, of all and of each peer.
#[derive(Clone)]
pub(super) struct Guests(Arc<Inner>);

struct Inner {
    most: usize,
    most_of_one: usize,
    present: Mutex<Present>,
}

#[derive(Default)]
struct Present {
    all: usize,
    by_peer: HashMap<IpAddr, usize>,
}

/// A connection that is counted as long as this lives.
pub(super) struct Guest {
    guests: Guests,
    peer: IpAddr,
}

impl Guests {
    pub fn new(most: usize, most_of_one: usize) -> Guests {
        Guests(Arc::new(Inner {
            most,
            most_of_one,
            present: Mutex::default(),
        }))
    }

    /// Counts one more, or says in words why there is no place.
    pub fn enter(&self, peer: IpAddr) -> Result<Guest, String> {
        let peer = household(peer);
        let mut present = supervise::whole(self.0.present.lock());
        if present.all >= self.0.most {
            return Err(format!(
                "{} connections are open, and `rtsp.max_connections` is {}",
                present.all, self.0.most
            ));
        }
        let of_one = present.by_peer.get(&peer).copied().unwrap_or(0);
        if of_one >= self.0.most_of_one {
            return Err(format!(
                "{of_one} connections of {peer} are open, and `rtsp.max_connections_per_peer` is {}",
                self.0.most_of_one
            ));
        }
        present.all += 1;
        *present.by_peer.entry(peer).or_default() += 1;
        Ok(Guest {
            guests: self.clone(),
            peer,
        })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut present = supervise::whole(self.guests.0.present.lock());
        present.all -= 1;
        if let Some(count) = present.by_peer.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                present.by_peer.remove(&self.peer);
            }
        }
    }
}

/// Who shares an address: with IPv6 one has a whole /64.
fn household(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_take_all_places_and_who_leaves_makes_room() {
        let guests = Guests::new(3, 2);
        let (mine, yours) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let first = guests.enter(mine).ok();
        let _second = guests.enter(mine).ok();
        assert!(
            guests
                .enter(mine)
                .is_err_and(|words| words.contains("10.0.0.1"))
        );
        let _third = guests.enter(yours).ok();
        assert!(
            guests
                .enter(yours)
                .is_err_and(|words| words.contains("3 connections"))
        );
        drop(first);
        assert!(guests.enter(mine).is_ok());
    }

    #[test]
    fn a_whole_prefix_is_one_peer() {
        let address = |text: &str| household(text.parse().unwrap());
        assert_eq!(address("2001:db8:1:2:3::4"), address("2001:db8:1:2::"));
        assert_ne!(address("2001:db8:1:2::1"), address("2001:db8:1:3::1"));
        assert_eq!(address("::ffff:10.0.0.1"), address("10.0.0.1"));
    }
}
