//! Departure times: if packets leave through an fq queue, the kernel holds each until its time.
//!
//! A stream's packets are then handed over a few turns at a time, each send with its own departure
//! time, and leave with microsecond precision whatever the thread does meanwhile. The queue is
//! looked up for each viewer when their stream begins. All other queues silently ignore the times
//! and would send several turns' packets at once. Although many viewers share a socket, fq
//! distinguishes them: it classifies packets of unconnected sockets by their addresses and ports.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use reelway_supervise as supervise;
use reelway_sys::netlink;

/// How long a lookup is valid, ns. Viewers arrive in bursts and from few addresses.
const BELIEVED: u64 = 1_000_000_000;
/// Maximum number of remembered lookups.
const KEPT: usize = 256;

/// Whether the queues on the way out keep departure times, by destination.
#[derive(Default)]
pub(crate) struct Ways(Mutex<HashMap<IpAddr, (u64, bool)>>);

impl Ways {
    /// Returns whether packets to `to` are held until their departure times on the way out, at
    /// `now` (ns).
    pub fn keep_departures(&self, to: IpAddr, now: u64) -> bool {
        let mut known = supervise::whole(self.0.lock());
        match known.get(&to) {
            Some((asked, kept)) if now < asked + BELIEVED => return *kept,
            _ => {}
        }
        if known.len() >= KEPT {
            known.retain(|_, (asked, _)| now < *asked + BELIEVED);
        }
        let kept = match netlink::egress(to).and_then(netlink::keeps_departures) {
            Ok(kept) => kept,
            Err(error) => {
                tracing::debug!("the queueing discipline on the way to {to} is unknown: {error}");
                false
            }
        };
        if known.len() < KEPT {
            known.insert(to, (now, kept));
        }
        kept
    }
}
