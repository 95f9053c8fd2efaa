//! Windows that viewers over HTTP are sent over a limited link: they leave at their connections' speeds for as long as the
//! link's queue has room.

use std::collections::BTreeMap;
use std::time::Duration;

use reelway_demand::Carriage;
use reelway_playout::Others;
use reelway_time::Monotonic;

use crate::wire::Wire;

/// A billionth of a byte is what leaves in a nanosecond at a byte a second.
const NANO: u128 = 1_000_000_000;

/// Windows on their way over the link.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    /// By the numbers of their answers.
    on_way: BTreeMap<u64, Flow>,
    /// Until when they have been followed.
    at: Monotonic,
    /// What the lane's link is told of them.
    pub told: Others,
}

/// A window on its way.
#[derive(Debug)]
struct Flow {
    /// What has not left yet, in billionths of a byte.
    left: u128,
    /// Bytes a second.
    speed: u64,
    /// When the last byte leaves if nothing holds it up.
    due: Monotonic,
}

impl Flow {
    /// How long the rest needs.
    fn needs(&self) -> Duration {
        let nanos = self.left.div_ceil(u128::from(self.speed));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// What has become of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    /// The rest leaves after so long at the earliest.
    NotYet(Duration),
    /// It has left, so much later than if nothing had held it up.
    All(Duration),
}

impl Flows {
    /// The window of the answer of this number begins to leave: so many bytes, at so many a second. How long it needs.
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

    /// What is on its way has left by now, as far as the link carries it beside the packets of streams.
    pub fn advance(&mut self, wire: &mut Wire, now: Monotonic) {
        let since = now.since(self.at).as_nanos();
        self.at = now;
        let would = |flow: &Flow| flow.left.min(u128::from(flow.speed) * since);
        let all: u128 = self.on_way.values().map(would).sum();
        let some = wire.takes_flows(now.nanos(), all, self.told.rate());
        for flow in self.on_way.values_mut() {
            let would = would(flow);
            flow.left -= match some == all {
                true => would,
                false => would * some / all,
            };
        }
    }

    /// Whether the window of the answer of this number has left. `None`: it had before.
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

/// Bytes on the wire of those of a segment.
pub(crate) fn on_wire(bytes: u64) -> u64 {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    Carriage::Http.wire(bytes, 0).into()
}
