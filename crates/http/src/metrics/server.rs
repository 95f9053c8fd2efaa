//! The server itself, its sender, films, viewers and who is let in.

use std::collections::BTreeMap;

use reelway_catalogue::Catalogue;
use reelway_session::{Gate, Resource, Sessions, State as Doing};

use super::text::Exposition;
use crate::names::{interface, state_name};
use crate::node::{NodeState, Sending};
use crate::status::Status;

/// The process, its state and its sender.
pub(crate) fn node(out: &mut Exposition, status: &Status) {
    out.family(
        "reelway_build_info",
        "gauge",
        "Version of the server; always 1.",
    );
    out.value(
        "reelway_build_info",
        &[("version", env!("CARGO_PKG_VERSION"))],
        1,
    );
    out.single(
        "reelway_uptime_seconds",
        "gauge",
        "Time since the start.",
        status.uptime().as_secs_f64(),
    );
    for (name, help, value) in crate::process::counters() {
        out.single(name, "counter", help, value);
    }
    let state = status.state();
    out.family(
        "reelway_state",
        "gauge",
        "1 for the state the server is in.",
    );
    for (name, is) in [
        ("starting", state == NodeState::Starting),
        ("serving", state == NodeState::Serving),
        ("draining", state == NodeState::Draining),
    ] {
        out.value("reelway_state", &[("state", name)], u8::from(is));
    }
    sender(out, &status.node.sending());
}

fn sender(out: &mut Exposition, sending: &Sending) {
    out.family(
        "reelway_rtp_backend",
        "gauge",
        "1 for the backend that hands RTP packets to the kernel.",
    );
    out.value("reelway_rtp_backend", &[("backend", &sending.backend)], 1);
    for (name, help, total) in [
        ("sent_packets", "RTP packets sent.", sending.packets_total),
        (
            "sent_bytes",
            "Bytes of RTP packets sent.",
            sending.bytes_total,
        ),
        (
            "sends",
            "Sends: packets of a viewer that were handed to the kernel together.",
            sending.sends_total,
        ),
        (
            "system_calls",
            "System calls made to send RTP packets.",
            sending.calls_total,
        ),
        (
            "missed_packets",
            "RTP packets that receivers reported missing.",
            sending.missed_total,
        ),
        (
            "resent_packets",
            "RTP packets retransmitted (RFC 4588); not counted as sent.",
            sending.resent_total,
        ),
        (
            "dropped_frames",
            "Frames dropped because they would have come too late and no other frame needs them.",
            sending.dropped_frames_total,
        ),
        (
            "retried_packets",
            "RTP packets offered to the kernel again because it had no room.",
            sending.retried_total,
        ),
        (
            "refused_packets",
            "RTP packets that the kernel refused: lost.",
            sending.refused_total,
        ),
        (
            "timetable_shifts",
            "Times that a stream was shifted after a stall.",
            sending.shifts_total,
        ),
    ] {
        out.single(&format!("reelway_rtp_{name}_total"), "counter", help, total);
    }
    out.single(
        "reelway_rtp_cpu_seconds_total",
        "counter",
        "CPU time of the threads that send RTP.",
        sending.cpu_total.as_secs_f64(),
    );
    let late = [
        ("p50", "Median", sending.late_p50_ms),
        ("p99", "99th percentile", sending.late_p99_ms),
        ("p999", "99.9th percentile", sending.late_p999_ms),
        ("max", "Greatest", sending.late_max_ms),
    ];
    for (name, which, millis) in late {
        if let Some(millis) = millis {
            let help =
                format!("{which} of packet lateness against the timetable, over the last seconds.");
            let name = format!("reelway_rtp_late_{name}_seconds");
            out.single(&name, "gauge", &help, millis / 1e3);
        }
    }
    if let Some(packets) = sending.packets_per_send {
        let help = "Packets per send, over the last seconds.";
        out.single("reelway_rtp_packets_per_send", "gauge", help, packets);
    }
    if let Some(millis) = sending.cpu_ms_per_stream_second {
        let help = "CPU time of the sender threads per stream-second, over the last seconds.";
        out.single(
            "reelway_rtp_cpu_seconds_per_stream_second",
            "gauge",
            help,
            millis / 1e3,
        );
    }
}

/// Films and viewers by their states.
pub(crate) fn films_and_sessions(
    out: &mut Exposition,
    catalogue: &dyn Catalogue,
    sessions: &Sessions,
) {
    let mut films: BTreeMap<&str, u64> = ["ready", "indexing", "not_ready", "unplayable"]
        .into_iter()
        .map(|state| (state, 0))
        .collect();
    for entry in catalogue.list() {
        *films.entry(state_name(&entry.state)).or_default() += 1;
    }
    out.family("reelway_films", "gauge", "Films by state.");
    for (state, count) in films {
        out.value("reelway_films", &[("state", state)], count);
    }
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for ((protocol, state), count) in sessions.tally() {
        let state = match state {
            Doing::Ready => "ready",
            Doing::Playing => "playing",
            Doing::Paused => "paused",
        };
        *counts.entry((protocol.name(), state)).or_default() += count as u64;
    }
    out.family(
        "reelway_sessions",
        "gauge",
        "Viewers by protocol and state.",
    );
    for ((protocol, state), count) in counts {
        out.value(
            "reelway_sessions",
            &[("protocol", protocol), ("state", state)],
            count,
        );
    }
    out.family(
        "reelway_sessions_made_room_total",
        "counter",
        "Sessions that ended before they asked for media, since others needed the room.",
    );
    out.value(
        "reelway_sessions_made_room_total",
        &[],
        sessions.made_room(),
    );
}

/// Limits, what is booked of them, and refusals.
pub(crate) fn admission(out: &mut Exposition, gate: &Gate) {
    let judge = gate.judge();
    out.single(
        "reelway_admission_refused_total",
        "counter",
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
                let interface = interface(gate, *resource).unwrap_or_default();
                let labels = [("resource", resource.name()), ("interface", &interface)];
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
