//! Metrics of the pool, the cache, the disks and the tier.

use reelway_metrics::Exposition;
use reelway_pool::tier::TierStats;

use crate::store::Store;

impl Store {
    /// Writes the metrics of the pool, the cache, the disks and the tier.
    pub fn write_metrics(&self, out: &mut Exposition) {
        let stats = self.stats();
        let block = u64::from(stats.block_bytes);
        out.gauge(
            "reelway_pool_bytes",
            "Memory for film blocks.",
            stats.blocks * block,
        );
        out.gauge(
            "reelway_pool_used_bytes",
            "Memory of film blocks that are in use or being read.",
            stats.in_use * block,
        );
        out.gauge(
            "reelway_pool_cached_bytes",
            "Memory of blocks that hold film.",
            stats.cached * block,
        );
        out.gauge(
            "reelway_pool_ready_bytes",
            "Memory for film blocks that has been allocated so far.",
            stats.ready * block,
        );
        out.gauge(
            "reelway_pool_waiting_requests",
            "Requests that wait for free blocks.",
            stats.waiting,
        );
        out.counter(
            "reelway_cache_hits_total",
            "Requested blocks that were in memory or being read.",
            stats.hits,
        );
        out.counter(
            "reelway_cache_misses_total",
            "Requested blocks that had to be read.",
            stats.misses,
        );
        out.gauge(
            "reelway_cache_viewers",
            "Viewers whose positions the cache policy knows.",
            stats.viewers,
        );
        out.counter(
            "reelway_disk_read_bytes_total",
            "Bytes read from film files.",
            stats.bytes_read,
        );
        out.counter(
            "reelway_disk_read_errors_total",
            "Reads of film files that failed.",
            stats.errors,
        );
        let lanes = self.lanes();
        let name = "reelway_device_read_seconds";
        let help =
            "Latency of reads, rounded to a power of two of microseconds, by disk or origin.";
        out.family(name, "summary", help);
        for lane in &lanes {
            for (quantile, share) in [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("1", 1.0)] {
                let labels = [("device", lane.name.as_str()), ("quantile", quantile)];
                out.value(name, &labels, lane.latency(share).as_secs_f64());
            }
            let labels = [("device", lane.name.as_str())];
            out.value(&format!("{name}_count"), &labels, lane.reads);
        }
        if let Some(stats) = self.tier() {
            tier(out, &stats, block);
        }
    }
}

fn tier(out: &mut Exposition, stats: &TierStats, block: u64) {
    let gauges = [
        (
            "reelway_tier_bytes",
            "Size of the tier, the cache of remote blocks on a local disk.",
            stats.blocks * block,
        ),
        (
            "reelway_tier_cached_bytes",
            "Bytes of the tier that hold film.",
            stats.cached * block,
        ),
    ];
    for (name, help, value) in gauges {
        out.gauge(name, help, value);
    }
    let counters = [
        (
            "reelway_tier_hits_total",
            "Remote blocks that were read from the tier.",
            stats.hits,
        ),
        (
            "reelway_tier_misses_total",
            "Remote blocks that were not in the tier.",
            stats.misses,
        ),
        (
            "reelway_tier_read_bytes_total",
            "Bytes read from the tier.",
            stats.bytes_read,
        ),
        (
            "reelway_tier_written_bytes_total",
            "Bytes written to the tier.",
            stats.bytes_written,
        ),
        (
            "reelway_tier_left_out_total",
            "Blocks that were not written to the tier because the daily limit was reached, writes were behind, or the \
             disk had failed recently.",
            stats.left_out,
        ),
        (
            "reelway_tier_broken_total",
            "Blocks of the tier with a wrong checksum, which were fetched again.",
            stats.broken,
        ),
        (
            "reelway_tier_write_errors_total",
            "Writes to the tier that failed.",
            stats.errors,
        ),
    ];
    for (name, help, value) in counters {
        out.counter(name, help, value);
    }
}
