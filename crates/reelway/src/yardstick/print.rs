//! Output for users, and JSON for programs.

use std::io::IsTerminal;
use std::time::Duration;

use reelway_yardstick::load::{Limit, LoadStory, Sample, ViewerStory};
use reelway_yardstick::{Histogram, Outcome, Progress};
use serde_json::{Value, json};

use super::measured::Measured;

pub(super) fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Awaits a viewer's result, with a progress line every second on a terminal.
pub async fn with_progress<T>(
    url: &str,
    progress: &Progress,
    viewer: impl Future<Output = T>,
) -> T {
    if !std::io::stderr().is_terminal() {
        return viewer.await;
    }
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    let mut viewer = std::pin::pin!(viewer);
    loop {
        tokio::select! {
            seen = &mut viewer => {
                eprint!("\r\x1b[K");
                return seen;
            }
            _ = ticks.tick() => {
                let now = progress.now();
                let what = if url.starts_with("http") { "segments" } else { "packets" };
                eprint!(
                    "\r\x1b[K{url}: {:.0} s of the film came ({} {what}): {}",
                    now.media as f64 / 1e9,
                    now.came,
                    now.verdict()
                );
            }
        }
    }
}

/// Prints a viewer's verdict and figures.
pub fn outcome(outcome: &Outcome) {
    print!(
        "{} ({}): {}",
        outcome.url, outcome.protocol, outcome.verdict
    );
    if outcome.packets == 0 {
        return;
    }
    let playback = &outcome.playback;
    println!(
        "  first packet after {:.0} ms, first picture after {:.0} ms; {} stalls, {} frames skipped, {} late",
        outcome.start_ms.unwrap_or(0.0),
        outcome.shown_ms.unwrap_or(0.0),
        playback.stalls,
        playback.skipped,
        playback.late,
    );
    println!(
        "  {} packets, {:.1} MB; {} lost, {} out of order, {} twice; at most {} within a millisecond",
        outcome.packets,
        outcome.bytes as f64 / 1e6,
        outcome.lost,
        outcome.reordered,
        outcome.repeated,
        outcome.burst,
    );
    println!(
        "  lateness p50 {:.2} ms, p99 {:.2}, p99.9 {:.2}, greatest {:.2}",
        millis(outcome.late.percentile(0.5)),
        millis(outcome.late.percentile(0.99)),
        millis(outcome.late.percentile(0.999)),
        millis(outcome.late.max()),
    );
    if !outcome.senders.is_empty() {
        let each = outcome.senders.iter();
        let each: Vec<String> = each
            .map(|(from, packets)| format!("{from} ({packets})"))
            .collect();
        println!("  from {} senders: {}", each.len(), each.join(", "));
    }
    if let Some(fed) = &outcome.fed {
        println!("  {} access units fed to the player", fed.units);
    }
    if outcome.compared > 0 {
        println!("  {} access units compared with the film", outcome.compared);
    }
}

/// All viewers as JSON.
pub fn json(measured: &[Measured]) -> Value {
    let outcomes: Vec<&Outcome> = measured.iter().map(|measured| &measured.outcome).collect();
    let mut late = Histogram::default();
    outcomes
        .iter()
        .for_each(|outcome| late.merge(&outcome.late));
    let refused = |outcome: &&&Outcome| outcome.packets == 0 && !outcome.verdict.is_well();
    let refused = outcomes.iter().filter(refused).count();
    let harmed = outcomes
        .iter()
        .filter(|outcome| outcome.packets > 0 && !outcome.verdict.is_well())
        .count();
    let total =
        |field: fn(&Outcome) -> u64| outcomes.iter().map(|outcome| field(outcome)).sum::<u64>();
    let verdict = outcomes
        .iter()
        .map(|outcome| outcome.verdict.word())
        .find(|word| word != "well")
        .unwrap_or_else(|| "well".to_owned());
    json!({
        "verdict": verdict,
        "viewers": outcomes.len(),
        "admitted": outcomes.len() - refused,
        "refused": refused,
        "harmed": harmed,
        "packets": total(|outcome| outcome.packets),
        "bytes": total(|outcome| outcome.bytes),
        "lost": total(|outcome| outcome.lost),
        "late_p50_ms": millis(late.percentile(0.5)),
        "late_p99_ms": millis(late.percentile(0.99)),
        "late_p999_ms": millis(late.percentile(0.999)),
        "late_max_ms": millis(late.max()),
        "stalls": total(|outcome| outcome.playback.stalls.into()),
        "stalled_ms": total(|outcome| outcome.playback.stalled) / 1_000_000,
        "skipped_frames": total(|outcome| outcome.playback.skipped),
        "each": outcomes,
    })
}

/// A run of virtual viewers as JSON: the fields of [`json()`], and every second of the run.
pub fn load_json(story: &LoadStory) -> Value {
    let stalled: f64 = story.each.iter().map(|viewer| viewer.stalled_ms).sum();
    let stalls: u64 = story
        .each
        .iter()
        .map(|viewer| u64::from(viewer.stalls))
        .sum();
    json!({
        "verdict": story.word(),
        "viewers": story.viewers,
        "admitted": story.admitted,
        "refused": story.refused,
        "harmed": story.harmed,
        "packets": story.packets,
        "bytes": story.bytes,
        "lost": story.lost,
        "late_p50_ms": millis(story.late.percentile(0.5)),
        "late_p99_ms": millis(story.late.percentile(0.99)),
        "late_p999_ms": millis(story.late.percentile(0.999)),
        "late_max_ms": millis(story.late.max()),
        "stalls": stalls,
        "stalled_ms": stalled,
        "dropped_here": story.dropped,
        "timing_error_p99_ms": story.timing_error_p99_ms,
        "cpu_s": story.cpu_s,
        "samples": story.samples,
        "each": story.each,
    })
}

/// Measuring viewers in the form of virtual ones.
pub fn stories(measured: &[Measured]) -> Value {
    let story = |(number, measured): (usize, &Measured)| {
        ViewerStory::of(&measured.outcome, number, measured.came_s, measured.left_s)
    };
    json!(measured.iter().enumerate().map(story).collect::<Vec<_>>())
}

/// The course of measuring viewers, second by second, one after the other.
pub fn course(measured: &[Measured]) -> Value {
    let mut samples: Vec<Sample> = Vec::new();
    for (number, measured) in measured.iter().enumerate() {
        for mut sample in measured.outcome.course.samples(measured.came_ns) {
            sample.at_s += measured.came_s;
            sample.came = number + 1;
            samples.push(sample);
        }
    }
    json!(samples)
}

/// A search as JSON.
pub fn limit_json(limit: &Limit) -> Value {
    let (least, greatest) = limit.spread();
    let tried = |(run, viewers, unwell): &(u32, u32, usize)| json!({"run": run, "viewers": viewers, "harmed_or_refused": unwell});
    json!({
        "limit": limit.mean(),
        "least": least,
        "greatest": greatest,
        "runs": limit.runs,
        "bounded": limit.bounded,
        "tried": limit.tried.iter().map(tried).collect::<Vec<_>>(),
    })
}
