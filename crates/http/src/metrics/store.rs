//! The pool, the cache, the disks and the tier.

use reelway_store::TierStats;

use super::text::Exposition;
use crate::app::App;

pub(super) fn store(out: &mut Exposition, app: &App) {
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
        "reelway_cache_compare_cpu_seconds_total",
        "counter",
        "CPU time that finding out about other policies took.",
        app.shadow.cpu().as_secs_f64(),
    );
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
