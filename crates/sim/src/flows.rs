//! Windows that HTTP viewers are sent over a limited link: they leave at their connections' speeds
//! while the link's queue has room.

use std::collections::BTreeMap;
use std::time::Duration;

use reelway_demand::Carriage;
use reelway_playout::Others;
use reelway_time::Monotonic;

use crate::wire::Wire;

/// At a byte per second, a billionth of a byte leaves in a nanosecond.
const NANO: u128 = 1_000_000_000;

/// Windows in transit over the link.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    /// The windows, by the numbers of their answers.
    on_way: BTreeMap<u64, Flow>,
    /// The time up to which they have been simulated.
    at: Monotonic,
    /// What the lane's link knows of them.
    pub reported: Others,
}

/// A window in transit.
#[derive(Debug)]
struct Flow {
    /// What has not left yet, in billionths of a byte.
    left: u128,
    /// Bytes per second.
    speed: u64,
    /// When the last byte leaves if nothing delays it.
    due: Monotonic,
}

impl Flow {
    /// Returns how long the rest needs.
    fn needs(&self) -> Duration {
        let nanos = self.left.div_ceil(u128::from(self.speed));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The progress of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    /// The rest leaves after this time at the earliest.
    NotYet(Duration),
    /// It has left, with this delay.
    All(Duration),
}

impl Flows {
    /// Begins to send the window of the answer with this number: `bytes` bytes at `speed` bytes per
    /// second. Returns how long it needs.
    pub fn begin(
        &mut self,
        number: u64,
        (bytes, speed): (u64, u64),
        wire: &mut Wire,
        now: Monotonic,
    ) -> Duration {
        self.advance(wire, now);
        let mut flow = Flow {
            left: u128::from(on_wire(bytes)) * NANO,
            speed: on_wire(speed).max(1),
            due: now,
        };
        let needs = flow.needs();
        flow.due = now + needs;
        self.on_way.insert(number, flow);
        needs
    }

    /// Sends what leaves by `now`, as far as the link carries it beside the packets of streams.
    pub fn advance(&mut self, wire: &mut Wire, now: Monotonic) {
        let since = now.since(self.at).as_nanos();
        self.at = now;
        let would = |flow: &Flow| flow.left.min(u128::from(flow.speed) * since);
        let all: u128 = self.on_way.values().map(would).sum();
        let some = wire.takes_flows(now.nanos(), all, self.reported.rate());
        for flow in self.on_way.values_mut() {
            let would = would(flow);
            flow.left -= match some == all {
                true => would,
                false => would * some / all,
            };
        }
    }

    /// Returns whether the window of the answer with this number has left. `None`: it
    /// had left before.
    pub fn leaves(&mut self, number: u64, wire: &mut Wire, now: Monotonic) -> Option<Left> {
        self.advance(wire, now);
        let flow = self.on_way.get(&number)?;
        if flow.left > 0 {
            return Some(Left::NotYet(flow.needs()));
        }
        let by = now.since(flow.due);
        self.on_way.remove(&number);
        Some(Left::All(by))
    }
}

/// Returns the bytes on the wire for bytes of a segment.
pub(crate) fn on_wire(bytes: u64) -> u64 {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    Carriage::Http.wire(bytes, 0).into()
}
