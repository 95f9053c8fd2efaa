//! `reelway serve --calibrate`: measures what this machine carries, for the next start.

use std::time::Duration;

use reelway_bench::calibrate::USUAL;
use reelway_node::calibration;
use reelway_node::config::Config;
use reelway_node::sources::places;

/// Measures the machine's capacity for about `whole`, and stores the result in the state directory for the next start.
pub fn calibrate(config: &Config, whole: Duration) -> anyhow::Result<()> {
    let state = config.state_directory()?;
    let (films, _) = places(&config.films)?;
    println!(
        "This takes about {} seconds; nothing else should use the machine meanwhile.",
        whole.as_secs()
    );
    if whole < USUAL {
        println!(
            "It is less than the usual {} seconds: the figures will be coarse.",
            USUAL.as_secs()
        );
    }
    let found = reelway_bench::calibrate::calibrate(&films, whole, &|words| println!("{words}"))?;
    let report = serde_json::to_string_pretty(&found)? + "\n";
    println!("kept in");
    for path in calibration::keep(&state, &report, &found.chart())? {
        println!("  {}", path.display());
    }
    println!(
        "From the next start on, capacity.disk and capacity.cpu have these values where they are \"auto\":"
    );
    let rate = |bytes: Option<u64>, of_byte: f64, unit: &str| match bytes {
        Some(bytes) => format!("\"{:.0}{unit}\"", bytes as f64 * of_byte / 1e6),
        None => "\"none\"".to_owned(),
    };
    println!("  disk = {}", rate(found.disk, 1.0, "MB/s"));
    println!("  cpu = {}", rate(found.cpu, 8.0, "Mbit"));
    Ok(())
}
