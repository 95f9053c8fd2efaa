//! Metrics of answers being made or waiting to be read, and the cost of making them.

use std::sync::atomic::{AtomicU64, Ordering};

use reelway_metrics::Exposition;

use crate::api::events::Events;
use crate::desk::Desk;

/// Writes what waits for clients that read slowly or not at all.
pub(crate) fn waiting(out: &mut Exposition, desk: &Desk, playlists: &Desk, events: &Events) {
    let name = "reelway_http_answers_waiting_bytes";
    let help = "Bytes of answers that clients have not read yet, and those reserved for answers being made.";
    out.family(name, "gauge", help);
    out.value(name, &[("kind", "api")], desk.waiting());
    out.value(name, &[("kind", "playlist")], playlists.waiting());
    let name = "reelway_http_event_listeners";
    out.gauge(name, "Clients that listen to events.", events.count());
    let name = "reelway_http_event_listeners_refused_total";
    let help = "Clients refused because too many were listening to events.";
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    out.counter(name, help, load(&events.refused));
    let name = "reelway_http_event_listeners_closed_total";
    let help = "Listeners disconnected because they fell behind.";
    out.counter(name, help, load(&events.closed));
}

/// Writes how long tasks occupy the reactor's threads.
pub(crate) fn reactor(out: &mut Exposition) {
    let polls = reelway_clock::reactor::polls();
    let name = "reelway_reactor_poll_cpu_seconds";
    let help = "CPU time of a task's poll, during which its thread serves no other task.";
    out.family(name, "histogram", help);
    for (bound, count) in &polls.histogram {
        let bound = bound.as_secs_f64().to_string();
        out.value(&format!("{name}_bucket"), &[("le", &bound)], count);
    }
    out.value(&format!("{name}_bucket"), &[("le", "+Inf")], polls.count);
    out.value(&format!("{name}_sum"), &[], polls.cpu.as_secs_f64());
    out.value(&format!("{name}_count"), &[], polls.count);
    let name = "reelway_reactor_poll_longest_cpu_seconds";
    let help = "CPU time of the longest poll since the start.";
    out.gauge(name, help, polls.longest.as_secs_f64());
    let name = "reelway_reactor_poll_most_bytes";
    let help = "Maximum number of bytes that a single poll serialised or compressed.";
    out.gauge(name, help, polls.most_bytes);
}
