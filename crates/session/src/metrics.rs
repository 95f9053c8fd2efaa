//! Metrics of viewers, limits, bookings and refusals.

use reelway_admission::Resource;
use reelway_metrics::Exposition;

use crate::gate::Gate;
use crate::sessions::Sessions;

impl Sessions {
    /// Writes the number of viewers by protocol and state.
    pub fn write_metrics(&self, out: &mut Exposition) {
        let name = "reelway_sessions";
        out.family(name, "gauge", "Viewers by protocol and state.");
        for ((protocol, state), count) in self.tally() {
            let labels = [("protocol", protocol.name()), ("state", state.name())];
            out.value(name, &labels, count);
        }
        out.counter(
            "reelway_sessions_made_room_total",
            "Sessions that were ended before they requested media, to make room for others.",
            self.made_room(),
        );
    }
}

impl Gate {
    /// Writes the limits, their bookings, and the number of refused newcomers.
    pub fn write_metrics(&self, out: &mut Exposition) {
        let judge = self.judge();
        out.counter(
            "reelway_admission_refused_total",
            "Newcomers refused by admission.",
            judge.refused(),
        );
        let limits = judge.capacity().limits();
        if limits.is_empty() {
            return;
        }
        let labelled =
            |out: &mut Exposition, name: &str, help: &str, value: &dyn Fn(Resource) -> u64| {
                out.family(name, "gauge", help);
                for (resource, _) in limits {
                    let interface = self.interface(*resource).unwrap_or_default();
                    let labels = [("resource", resource.name()), ("interface", interface)];
                    out.value(name, &labels, value(*resource));
                }
            };
        let help = "Limit of a resource: bytes of memory, or bytes per second.";
        labelled(out, "reelway_admission_limit_bytes", help, &|resource| {
            judge.limit(resource, 0).unwrap_or(u64::MAX)
        });
        let help = "Booked amount of a resource in the current second.";
        labelled(out, "reelway_admission_booked_bytes", help, &|resource| {
            judge.load(resource, judge.second())
        });
        let help = "Booked amount of a resource in the fullest second of the coming hour.";
        labelled(
            out,
            "reelway_admission_booked_most_bytes",
            help,
            &|resource| {
                let now = judge.second();
                let loads = (now..now + 3600).map(|second| judge.load(resource, second));
                loads.max().unwrap_or(0)
            },
        );
    }
}
