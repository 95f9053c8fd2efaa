//! Counters of the HTTP side.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use reelway_metrics::Exposition;
use reelway_supervise as supervise;

/// Kinds of requests that are counted separately.
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
    /// Web pages, and addresses that do not exist.
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

/// Upper bounds of the buckets for the time to the first byte, in microseconds.
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
pub(crate) struct Counters {
    requests: Mutex<BTreeMap<(Route, u16), u64>>,
    first_byte: [Times; Route::ALL.len()],
    /// Bytes written to connections, including heads.
    pub sent: AtomicU64,
    /// The part of them that was not copied.
    pub given: AtomicU64,
    /// Bytes read from connections.
    pub received: AtomicU64,
    /// Open connections.
    pub connections: AtomicI64,
    /// Connections since the start.
    pub connections_total: AtomicU64,
    /// Connections refused because there were too many in total …
    pub refused_total: AtomicU64,
    /// … or from one address.
    pub refused_peer: AtomicU64,
    /// TLS handshakes after which the kernel encrypts …
    pub secured_by_kernel: AtomicU64,
    /// … or rustls does …
    pub secured_by_library: AtomicU64,
    /// … and failed ones.
    pub not_secured: AtomicU64,
    /// Connections closed because they read nothing for too long.
    pub stalled: AtomicU64,
}

impl Counters {
    /// Counts a request answered with this status, `time` after its head was received.
    pub fn answered(&self, route: Route, status: u16, time: Duration) {
        let mut requests = supervise::whole(self.requests.lock());
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

/// Writes the counters of the HTTP side.
pub(crate) fn write(out: &mut Exposition, counters: &Counters) {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    out.family(
        "reelway_http_requests_total",
        "counter",
        "Requests answered, by route and status.",
    );
    for ((route, status), count) in supervise::whole(counters.requests.lock()).iter() {
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
        "Time from a request's head to the first byte of its answer.",
    );
    for route in Route::ALL {
        let times = &counters.first_byte[route as usize];
        let label = ("route", route.name());
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        for (bound, count) in BOUNDS.iter().zip(&times.buckets) {
            below += load(count);
            let bound = (*bound as f64 / 1e6).to_string();
            out.value(&bucket, &[label, ("le", &bound)], below);
        }
        // Counters are read one after the other; the total must not be below any of its parts.
        let count = load(&times.count).max(below);
        out.value(&bucket, &[label, ("le", "+Inf")], count);
        out.value(
            &format!("{name}_sum"),
            &[label],
            load(&times.sum_us) as f64 / 1e6,
        );
        out.value(&format!("{name}_count"), &[label], count);
    }
    out.counter(
        "reelway_http_sent_bytes_total",
        "Bytes written to connections.",
        load(&counters.sent),
    );
    out.counter(
        "reelway_http_uncopied_bytes_total",
        "Bytes passed to connections without copying.",
        load(&counters.given),
    );
    out.counter(
        "reelway_http_received_bytes_total",
        "Bytes read from connections.",
        load(&counters.received),
    );
    let open = counters.connections.load(Ordering::Relaxed);
    out.gauge("reelway_http_connections", "Open connections.", open);
    let total = load(&counters.connections_total);
    out.counter(
        "reelway_http_connections_total",
        "Connections accepted.",
        total,
    );
    let name = "reelway_http_connections_refused_total";
    out.family(
        name,
        "counter",
        "Connections refused, by the limit that was reached.",
    );
    out.value(name, &[("limit", "all")], load(&counters.refused_total));
    out.value(name, &[("limit", "peer")], load(&counters.refused_peer));
    let name = "reelway_http_tls_handshakes_total";
    let help = "TLS handshakes by result: encryption by the kernel, by the library, or failure.";
    out.family(name, "counter", help);
    for (result, count) in [
        ("kernel", &counters.secured_by_kernel),
        ("library", &counters.secured_by_library),
        ("failed", &counters.not_secured),
    ] {
        out.value(name, &[("result", result)], load(count));
    }
    let help = "Connections closed because the client read nothing for too long.";
    out.counter(
        "reelway_http_connections_stalled_total",
        help,
        load(&counters.stalled),
    );
}
