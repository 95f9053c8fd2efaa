//! CPU time of this process and traffic of its network, under the names of Prometheus' client
//! libraries, so that any machine monitoring can read them.

/// Returns names, help texts and values of the counters.
pub(crate) fn counters() -> [(&'static str, &'static str, f64); 3] {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let (received, sent) = network(&read("/proc/self/net/dev"));
    [
        (
            "process_cpu_seconds_total",
            "User and system CPU time of the server.",
            cpu_seconds(&read("/proc/self/stat")).unwrap_or(0.0),
        ),
        (
            "process_network_receive_bytes_total",
            "Bytes received on all interfaces of the machine or network namespace.",
            received,
        ),
        (
            "process_network_transmit_bytes_total",
            "Bytes sent on all interfaces of the machine or network namespace.",
            sent,
        ),
    ]
}

/// Returns user and system time from `/proc/self/stat`.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The name in brackets may contain anything; only numbers follow it.
    let (_, numbers) = stat.rsplit_once(')')?;
    let ticks = |nth| numbers.split_whitespace().nth(nth)?.parse::<f64>().ok();
    // USER_HZ is 100 on all Linux architectures.
    Some((ticks(11)? + ticks(12)?) / 100.0)
}

/// Returns received and sent bytes from `/proc/self/net/dev`.
fn network(dev: &str) -> (f64, f64) {
    let mut sums = (0.0, 0.0);
    for (_, fields) in dev.lines().filter_map(|line| line.split_once(':')) {
        let field = |nth| fields.split_whitespace().nth(nth)?.parse::<f64>().ok();
        sums.0 += field(0).unwrap_or(0.0);
        sums.1 += field(8).unwrap_or(0.0);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4 1 0 0 0 150 50 0 0 20 0 1 0 5 6 7";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        let dev = "Inter-| Receive\n face |bytes\n    lo: 5 1 0 0 0 0 0 0 6 1 0 0\n  eth0:10 1 0 0 0 0 0 0 20 1\n";
        assert_eq!(network(dev), (15.0, 26.0));
    }
}
