//! `reelway serve --calibrate`: measures this machine's capacity for the next start.

use std::time::Duration;

use reelway_bench::chart::{self, Axis, Mark, Series};
use reelway_node::calibrate::{USUAL, calibrate};
use reelway_node::calibration::{self, Calibration};
use reelway_node::config::Config;
use reelway_node::sources::places;

/// Measures the machine's capacity for about `whole`, and stores the result in the state directory for the next start.
pub fn run(config: &Config, whole: Duration) -> anyhow::Result<()> {
    // The calibration opens the library's files.
    reelway_sys::limits::raise_descriptors()?;
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
    let read = (&films[..], &config.pool);
    let found = calibrate(read, &state.join("calibrating"), whole, &|words| {
        println!("{words}")
    })?;
    let report = serde_json::to_string_pretty(&found)? + "\n";
    println!("kept in");
    for path in calibration::keep(&state, &report, &chart(&found))? {
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

/// A chart of lateness over viewers.
fn chart(found: &Calibration) -> String {
    let most = found.tried.last().map_or(1, |tried| tried.viewers);
    let late = found.tried.iter().map(|tried| tried.late_ms);
    let latest = late.fold(1.0, f64::max);
    let points = |well: bool| {
        let of = found.tried.iter().filter(|tried| tried.well == well);
        of.map(|tried| (f64::from(tried.viewers), tried.late_ms))
            .collect()
    };
    let series = [
        Series {
            name: "kept up with".into(),
            mark: Mark::Line,
            colour: 0,
            points: points(true),
        },
        Series {
            name: "too many".into(),
            mark: Mark::Dashed,
            colour: 1,
            points: points(false),
        },
    ];
    chart::lines(
        "Viewers of 4 Mbit/s on one core of this machine",
        &Axis::linear("viewers", 0.0, f64::from(most)),
        &Axis::linear("ms late, 99.9th percentile", 0.0, latest),
        &series,
    )
}
