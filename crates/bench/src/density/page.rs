//! The page of the comparison: every number on it is what the run measured.

use std::fmt::Write;

use super::args::Args;
use super::measured::{LATE_MS, Measured};
use super::servers::Peer;
use crate::chart::{Bar, bars};

/// File name of the chart.
pub const CHART: &str = "density-cpu.svg";

/// Lines for the terminal.
pub fn summary(all: &[Measured]) -> Vec<String> {
    all.iter()
        .map(|measured| {
            let cost = |trials| Measured::cost(trials).map_or("–".to_owned(), |spread| format!("{:.2}", spread.median));
            format!(
                "  {:<24} {:>6} ms a stream-second with receivers, {:>6} dropped; keeps up with {}{}",
                measured.name,
                cost(&measured.received),
                cost(&measured.dropped),
                kept(measured),
                measured.trouble.as_ref().map_or(String::new(), |trouble| format!(" ({trouble})"))
            )
        })
        .collect()
}

fn kept(measured: &Measured) -> String {
    match measured.most {
        None => "–".to_owned(),
        Some((most, None)) => format!("{most} and more"),
        Some((0, Some(too_many))) => format!("fewer than {too_many}"),
        Some((most, Some(too_many))) => format!("{most} (not {too_many})"),
    }
}

/// CPU a stream-second of all servers.
pub fn chart(all: &[Measured], viewers: u32) -> String {
    let mut drawn = Vec::new();
    for measured in all {
        let colour = if measured.peer == Peer::Reelway { 0 } else { 3 };
        for (what, trials) in [
            ("receivers", &measured.received),
            ("dropped", &measured.dropped),
        ] {
            let Some(cost) = Measured::cost(trials) else {
                continue;
            };
            let name = format!("{}, {what}", measured.name);
            drawn.push(Bar {
                name,
                value: cost.median,
                colour,
                spread: Some((cost.low, cost.high)),
            });
        }
    }
    bars(
        &format!("CPU of a viewer, {viewers} viewers of 720p25 at 4 Mb/s with sound"),
        "CPU ms a stream-second, whole machine but the viewers' process",
        &drawn,
    )
}

/// What is said behind the command.
pub fn note(args: &Args, disturbance: &str) -> String {
    let look = if args.quick {
        "**A quick look, not figures.** "
    } else {
        ""
    };
    format!("{look}{disturbance}")
}

/// What the page shows below its figures.
pub fn page(all: &[Measured], args: &Args, place: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Each server on one core, lightweight viewers on the other, {place}. Films of 720p25 at 4 Mb/s with sound, over \
         RTSP and UDP, from their beginnings. CPU is that of the whole machine (all time that its cores were not \
         idle), less what other processes and the viewers' are accounted for: interrupts on behalf of a server \
         count, and so does delivering packets to the viewers' sockets, which takes the sender's time. *Dropped*: \
         the same with UDP dropped where it arrives. A server keeps up with a number of viewers when in {:.0} s no packet is \
         lost and no frame is later than {LATE_MS:.0} ms, in at least one of two trials.\n",
        args.seconds
    );
    let _ = writeln!(
        out,
        "\n| server | version | CPU ms a stream-second, {n} viewers | of it its process | dropped | late p99, ms | greatest | packets in a ms p50 / p99 | memory a viewer | keeps up with |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        n = args.viewers
    );
    for measured in all {
        let spread = |trials| {
            Measured::cost(trials).map_or("–".to_owned(), |spread| {
                format!(
                    "{:.2} ({:.2} – {:.2})",
                    spread.median, spread.low, spread.high
                )
            })
        };
        let Some(last) = measured.received.last() else {
            let _ = writeln!(
                out,
                "| {} | {} | {} | | | | | | | |",
                measured.name,
                measured.version,
                measured.trouble.as_deref().unwrap_or_default()
            );
            continue;
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.2} | {} | {:.1} | {:.1} | {} / {} | {:.1} MiB | {} |",
            measured.name,
            measured.version,
            spread(&measured.received),
            last.process_cost(),
            spread(&measured.dropped),
            last.seen.late_p99_ms,
            last.seen.late_max_ms,
            last.seen.burst_p50,
            last.seen.burst_p99,
            last.memory as f64 / 1024.0 / 1024.0 / f64::from(last.begun.playing.max(1)),
            kept(measured)
        );
    }
    let _ = writeln!(out, "\n![{CHART}](density/{CHART})\n");
    searches(&mut out, all);
    out
}

fn searches(out: &mut String, all: &[Measured]) {
    if all.iter().all(|measured| measured.search.is_empty()) {
        return;
    }
    out.push_str("## The search\n\n| server | viewers | CPU ms a stream-second | late p99.9, ms | greatest | lost | |\n|---|---:|---:|---:|---:|---:|---|\n");
    for measured in all {
        for trial in &measured.search {
            let _ = writeln!(
                out,
                "| {} | {} | {:.2} | {:.1} | {:.1} | {} | {} |",
                measured.name,
                trial.viewers,
                trial.cost(),
                trial.seen.late_p999_ms,
                trial.seen.late_max_ms,
                trial.seen.lost,
                trial
                    .trouble(LATE_MS)
                    .unwrap_or_else(|| "keeps up".to_owned())
            );
        }
    }
    out.push('\n');
    for measured in all {
        if let Some(trouble) = &measured.trouble {
            let _ = writeln!(out, "{}: {trouble}\n", measured.name);
        }
    }
}
