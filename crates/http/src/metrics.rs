//! Counters of this side, and all of them in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reelway_catalogue::State;
use reelway_session::{Resource, State as Doing};
use reelway_store::TierStats;

use crate::api::interface;
use crate::app::App;
use crate::node::{NodeState, Sending};

/// Kinds of requests that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Route {
    /// HLS playlists and DASH manifests.
    Playlist,
    /// Segments.
    Segment,
    /// Film files.
    File,
    /// The API, metrics and health.
    Api,
    /// Web pages, and what is nowhere.
    Web,
}

impl Route {
    const ALL: [Route; 5] = [
        Route::Playlist,
        Route::Segment,
        Route::File,
        Route::Api,
        Route::Web,
    ];

    fn name(self) -> &'static str {
        match self {
            Route::Playlist => "playlist",
            Route::Segment => "segment",
            Route::File => "file",
            Route::Api => "api",
            Route::Web => "web",
        }
    }
}

/// Upper bounds of the buckets of times to the first byte, in microseconds.
const BOUNDS: [u64; 10] = [
    500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
];

#[derive(Default)]
struct Times {
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    sum_us: AtomicU64,
}

/// Counters of the HTTP side.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(Route, u16), u64>>,
    first_byte: [Times; Route::ALL.len()],
    /// Bytes written to connections, heads and all.
    pub sent: AtomicU64,
    /// Bytes read from connections.
    pub received: AtomicU64,
    /// Connections that are open.
    pub connections: AtomicI64,
    /// Connections since the start.
    pub connections_total: AtomicU64,
    /// Connections turned away because there were too many in all …
    pub refused_total: AtomicU64,
    /// … or of one address.
    pub refused_peer: AtomicU64,
    /// Connections closed because they took nothing for too long.
    pub stalled: AtomicU64,
}

impl Metrics {
    /// A request was answered with this status, `time` after its head had come in.
    pub fn answered(&self, route: Route, status: u16, time: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((route, status)).or_default() += 1;
        drop(requests);
        let times = &self.first_byte[route as usize];
        let us = time.as_micros() as u64;
        if let Some(bucket) = BOUNDS.iter().position(|bound| us <= *bound) {
            times.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        times.count.fetch_add(1, Ordering::Relaxed);
        times.sum_us.fetch_add(us, Ordering::Relaxed);
    }
}

/// Text in the exposition format, version 0.0.4.
#[derive(Default)]
struct Exposition(String);

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(key, value)| {
                let value = value
                    .replace('\\', "\\\\")
                    .replace('"', "\\\"")
                    .replace('\n', "\\n");
                format!("{key}=\"{value}\"")
            })
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.value(name, &[], value);
    }
}

/// All metrics of the server.
pub(crate) fn exposition(app: &App) -> String {
    let mut out = Exposition::default();
    node(&mut out, app);
    films_and_sessions(&mut out, app);
    admission(&mut out, app);
    store(&mut out, app);
    http(&mut out, &app.metrics);
    out.0
}

fn node(out: &mut Exposition, app: &App) {
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
        app.uptime().as_secs_f64(),
    );
    for (name, help, value) in crate::process::counters() {
        out.single(name, "counter", help, value);
    }
    let state = app.state();
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
    sender(out, &app.node.sending());
}

fn sender(out: &mut Exposition, sending: &Sending) {
    out.family(
        "reelway_rtp_backend",
        "gauge",
        "1 for the way in which RTP packets get to the kernel.",
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
            "RTP packets that receivers asked for again.",
            sending.missed_total,
        ),
        (
            "resent_packets",
            "RTP packets sent again (RFC 4588); not among those sent.",
            sending.resent_total,
        ),
        (
            "dropped_frames",
            "Frames left out, as they would have come too late and no other frame needs them.",
            sending.dropped_frames_total,
        ),
        (
            "retried_packets",
            "RTP packets offered again, as the kernel had no room.",
            sending.retried_total,
        ),
        (
            "refused_packets",
            "RTP packets that the kernel refused: lost.",
            sending.refused_total,
        ),
        (
            "timetable_shifts",
            "Times that a stream went on later after a stall.",
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
            let help = format!(
                "{which} of how late packets left against the timetable, over the last seconds."
            );
            let name = format!("reelway_rtp_late_{name}_seconds");
            out.single(&name, "gauge", &help, millis / 1e3);
        }
    }
    if let Some(packets) = sending.packets_per_send {
        let help = "Packets of a send, over the last seconds.";
        out.single("reelway_rtp_packets_per_send", "gauge", help, packets);
    }
    if let Some(millis) = sending.cpu_ms_per_stream_second {
        let help = "CPU time that a stream takes of the sender threads in a second, over the last seconds.";
        out.single(
            "reelway_rtp_cpu_seconds_per_stream_second",
            "gauge",
            help,
            millis / 1e3,
        );
    }
}

fn films_and_sessions(out: &mut Exposition, app: &App) {
    let mut films: BTreeMap<&str, u64> = ["ready", "indexing", "not_ready", "unplayable"]
        .into_iter()
        .map(|state| (state, 0))
        .collect();
    for entry in app.catalogue.list() {
        *films.entry(state_name(&entry.state)).or_default() += 1;
    }
    out.family("reelway_films", "gauge", "Films by state.");
    for (state, count) in films {
        out.value("reelway_films", &[("state", state)], count);
    }
    let mut sessions: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for view in app.sessions.list() {
        let state = match view.state {
            Doing::Ready => "ready",
            Doing::Playing => "playing",
            Doing::Paused => "paused",
        };
        *sessions.entry((view.protocol.name(), state)).or_default() += 1;
    }
    out.family(
        "reelway_sessions",
        "gauge",
        "Viewers by protocol and state.",
    );
    for ((protocol, state), count) in sessions {
        out.value(
            "reelway_sessions",
            &[("protocol", protocol), ("state", state)],
            count,
        );
    }
}

fn admission(out: &mut Exposition, app: &App) {
    let judge = app.sessions.gate().judge();
    out.single(
        "reelway_admission_refused_total",
        "counter",
        "Newcomers refused because there was no room.",
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
                let interface = interface(app, *resource).unwrap_or_default();
                let labels = [("resource", resource.name()), ("interface", &interface)];
                out.value(name, &labels, value(*resource));
            }
        };
    let help = "Bytes (of memory) or bytes a second that may be booked.";
    labelled(out, "reelway_admission_limit_bytes", help, &|resource| {
        judge.limit(resource, 0).unwrap_or(u64::MAX)
    });
    let help = "Of it, booked for the second that is now.";
    labelled(out, "reelway_admission_booked_bytes", help, &|resource| {
        judge.load(resource, judge.second())
    });
    let help = "Of it, booked in the fullest second of the coming hour.";
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

/// A film's state as the API and the metrics name it.
pub(crate) fn state_name(state: &State) -> &'static str {
    match state {
        State::Ready(_) => "ready",
        State::Indexing => "indexing",
        State::NotReady { .. } => "not_ready",
        State::Unplayable { .. } => "unplayable",
    }
}

fn store(out: &mut Exposition, app: &App) {
    let stats = app.store.stats();
    let block = u64::from(stats.block_bytes);
    out.single(
        "reelway_pool_bytes",
        "gauge",
        "Memory for film blocks.",
        stats.blocks * block,
    );
    out.single(
        "reelway_pool_used_bytes",
        "gauge",
        "Of it, in use or being read.",
        stats.in_use * block,
    );
    out.single(
        "reelway_pool_cached_bytes",
        "gauge",
        "Of it, holding film.",
        stats.cached * block,
    );
    out.single(
        "reelway_pool_ready_bytes",
        "gauge",
        "Of it, ready to be used: the rest has no memory yet.",
        stats.ready * block,
    );
    out.single(
        "reelway_pool_waiting_requests",
        "gauge",
        "Requests that wait for free blocks.",
        stats.waiting,
    );
    out.single(
        "reelway_cache_hits_total",
        "counter",
        "Blocks asked for that were there or coming.",
        stats.hits,
    );
    out.single(
        "reelway_cache_misses_total",
        "counter",
        "Blocks asked for that had to be read.",
        stats.misses,
    );
    if let Some(compared) = app.shadow.compared() {
        let name = "reelway_cache_hit_ratio";
        let help = "Share of the same last requests that was in memory, or would have been with another policy.";
        out.family(name, "gauge", help);
        for (policy, hits) in [
            ("this", compared.hits),
            ("lru", compared.lru),
            ("ons", compared.ons),
            ("belady", compared.belady),
        ] {
            let ratio = hits as f64 / compared.requests.max(1) as f64;
            out.value(name, &[("policy", policy)], ratio);
        }
    }
    out.single(
        "reelway_cache_viewers",
        "gauge",
        "Viewers whose places the cache policy knows.",
        stats.viewers,
    );
    out.single(
        "reelway_disk_read_bytes_total",
        "counter",
        "Bytes read from film files.",
        stats.bytes_read,
    );
    out.single(
        "reelway_disk_read_errors_total",
        "counter",
        "Reads of film files that failed.",
        stats.errors,
    );
    let lanes = app.store.lanes();
    let name = "reelway_device_read_seconds";
    let help = "How long reads took, to a power of two of microseconds, by disk or origin.";
    out.family(name, "summary", help);
    for lane in &lanes {
        for (quantile, share) in [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("1", 1.0)] {
            let labels = [("device", lane.name.as_str()), ("quantile", quantile)];
            out.value(name, &labels, lane.latency(share).as_secs_f64());
        }
        let labels = [("device", lane.name.as_str())];
        out.value(&format!("{name}_count"), &labels, lane.reads);
    }
    if let Some(stats) = app.store.tier() {
        tier(out, &stats, block);
    }
}

fn tier(out: &mut Exposition, stats: &TierStats, block: u64) {
    let gauges = [
        (
            "reelway_tier_bytes",
            "Room for blocks from elsewhere on a local disk.",
            stats.blocks * block,
        ),
        (
            "reelway_tier_cached_bytes",
            "Of it, holding film.",
            stats.cached * block,
        ),
    ];
    for (name, help, value) in gauges {
        out.single(name, "gauge", help, value);
    }
    let counters = [
        (
            "reelway_tier_hits_total",
            "Blocks from elsewhere that were read from the local disk.",
            stats.hits,
        ),
        (
            "reelway_tier_misses_total",
            "Blocks from elsewhere that were not there.",
            stats.misses,
        ),
        (
            "reelway_tier_read_bytes_total",
            "Bytes read from it.",
            stats.bytes_read,
        ),
        (
            "reelway_tier_written_bytes_total",
            "Bytes written to it.",
            stats.bytes_written,
        ),
        (
            "reelway_tier_left_out_total",
            "Blocks that were not let in: the day's bytes are spent, writes are behind, or the disk failed lately.",
            stats.left_out,
        ),
        (
            "reelway_tier_broken_total",
            "Blocks that were not what was written, and were fetched again.",
            stats.broken,
        ),
        (
            "reelway_tier_write_errors_total",
            "Writes to it that failed.",
            stats.errors,
        ),
    ];
    for (name, help, value) in counters {
        out.single(name, "counter", help, value);
    }
}

fn http(out: &mut Exposition, metrics: &Metrics) {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    out.family(
        "reelway_http_requests_total",
        "counter",
        "Requests answered, by route and status.",
    );
    for ((route, status), count) in metrics
        .requests
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
    {
        let status = status.to_string();
        out.value(
            "reelway_http_requests_total",
            &[("route", route.name()), ("code", &status)],
            count,
        );
    }
    let name = "reelway_http_first_byte_seconds";
    out.family(
        name,
        "histogram",
        "From a request's head to the first byte of its answer.",
    );
    for route in Route::ALL {
        let times = &metrics.first_byte[route as usize];
        let label = ("route", route.name());
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        for (bound, count) in BOUNDS.iter().zip(&times.buckets) {
            below += load(count);
            let bound = (*bound as f64 / 1e6).to_string();
            out.value(&bucket, &[label, ("le", &bound)], below);
        }
        // Counters are read one after the other; the sum of all is never below one of its parts.
        let count = load(&times.count).max(below);
        out.value(&bucket, &[label, ("le", "+Inf")], count);
        out.value(
            &format!("{name}_sum"),
            &[label],
            load(&times.sum_us) as f64 / 1e6,
        );
        out.value(&format!("{name}_count"), &[label], count);
    }
    out.single(
        "reelway_http_sent_bytes_total",
        "counter",
        "Bytes written to connections.",
        load(&metrics.sent),
    );
    out.single(
        "reelway_http_received_bytes_total",
        "counter",
        "Bytes read from connections.",
        load(&metrics.received),
    );
    let open = metrics.connections.load(Ordering::Relaxed);
    out.single(
        "reelway_http_connections",
        "gauge",
        "Open connections.",
        open,
    );
    let total = load(&metrics.connections_total);
    out.single(
        "reelway_http_connections_total",
        "counter",
        "Connections accepted.",
        total,
    );
    let name = "reelway_http_connections_refused_total";
    out.family(
        name,
        "counter",
        "Connections turned away, by what there were too many of.",
    );
    out.value(name, &[("limit", "all")], load(&metrics.refused_total));
    out.value(name, &[("limit", "peer")], load(&metrics.refused_peer));
    let help = "Connections closed because their reader took nothing for too long.";
    out.single(
        "reelway_http_connections_stalled_total",
        "counter",
        help,
        load(&metrics.stalled),
    );
}
