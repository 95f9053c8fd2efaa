//! Departure times: where packets leave through an fq queue, the kernel holds each until its time.
//!
//! Then a stream's packets are handed over a few turns at a time, each send with its own time, and leave
//! to the microsecond whatever the thread does meanwhile. Which queue it is, is asked for each viewer when
//! their stream begins, as all other queues silently ignore the times, which would let several turns'
//! packets go at once. Many viewers share a socket, and fq still tells them apart: it sorts packets of
//! unconnected sockets by their addresses and ports.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use reelway_supervise as supervise;
use reelway_sys::netlink;

/// How long an answer is believed, ns. Viewers come in crowds, and from few addresses.
const BELIEVED: u64 = 1_000_000_000;
/// Most answers kept.
const KEPT: usize = 256;

/// Ways out of this machine, by where they lead.
#[derive(Default)]
pub(crate) struct Ways(Mutex<HashMap<IpAddr, (u64, bool)>>);

impl Ways {
    /// Whether packets to `to` wait for their times on the way out of this machine, at `now` (ns).
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
                tracing::debug!("the queue on the way to {to} is not known: {error}");
                false
            }
        };
        if known.len() < KEPT {
            known.insert(to, (now, kept));
        }
        kept
    }
}
