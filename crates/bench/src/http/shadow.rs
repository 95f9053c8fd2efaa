//! `reelway bench shadow`: the cost, on a loaded server, of simulating other cache policies on the
//! same requests.
//!
//! Two servers on core 0, one with comparisons and one without, serve segments in turn, to the same
//! number of connections at the same rate. The cost is the CPU time per megabyte that the kernel
//! charges to each, and the share of the comparisons in it (from the server's own metric of that
//! thread's time).

use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use serde_json::json;

use super::load::Load;
use super::quiet::undisturbed;
use super::segments::{Bytes, SEGMENTS};
use crate::arguments::{arguments, one_or_more, positive};
use crate::bed::machine::cpu_of;
use crate::bed::{Folder, cores};
use crate::report::{Figure, Report};
use crate::stats::Spread;
use reelway_node::process::{Server, get};

/// Its arguments.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench shadow",
    about = "Cost of comparing cache policies on a loaded server"
)]
struct Args {
    /// Segments of 2 MiB per second
    #[arg(long, default_value_t = 150.0, value_parser = positive)]
    rate: f64,
    /// Number of connections
    #[arg(long, default_value_t = 16, value_parser = one_or_more::<usize>)]
    connections: usize,
    /// Duration of a run, in seconds; comparisons are at least 10 s apart
    #[arg(long, default_value_t = 21, value_parser = one_or_more::<u32>)]
    seconds: u32,
    /// Runs of each server
    #[arg(long, default_value_t = 3, value_parser = one_or_more::<usize>)]
    rounds: usize,
    /// Maximum number of attempts at a run that other programs disturb; the least disturbed counts
    #[arg(long, default_value_t = 2, value_parser = one_or_more::<usize>)]
    tries: usize,
}

/// Memory for film blocks: half the size of the film.
const POOL: &str = "512MiB";

/// The cost of a server.
#[derive(Default)]
struct ServerCost {
    us_mb: Vec<f64>,
    /// CPU seconds of all runs; below, those of comparisons.
    cpu: f64,
    compared: f64,
    /// Duration of all runs in seconds.
    seconds: f64,
}

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let args: Args = arguments("shadow", args);
    ensure!(
        args.rate > 0.0 && args.connections > 0 && args.rounds > 0 && args.seconds > 0,
        "--rate, --connections, --rounds and --seconds: above 0"
    );
    let mut report = Report::new("shadow");
    cores::leave_the_servers();
    let folder = Folder::make("shadow")?;
    let bytes = Bytes::make(folder.path())?;
    nix::unistd::sync();
    let start = |compares: bool| -> anyhow::Result<Server> {
        let state = bytes.state.join(compares.to_string());
        std::fs::create_dir_all(&state)?;
        let config = state.join("reelway.toml");
        let text = format!("[pool]\nsize = \"{POOL}\"\ncompare = {compares}\n");
        std::fs::write(&config, text)?;
        let config = config.to_str().context("a folder's name is not UTF-8")?;
        Server::start(&bytes.films, &state, &["--config", config])
    };
    let servers = [start(false)?, start(true)?];
    let mut found = [ServerCost::default(), ServerCost::default()];
    let load = |server: &Server| Load {
        target: super::load::Target::Parts(server.http, "/film/file"),
        connections: args.connections,
        rate: args.rate,
        segments: SEGMENTS,
        bytes: super::load::SEGMENT,
        shuffled: true,
    };
    for server in &servers {
        load(server).fetch(0..SEGMENTS)?;
    }
    let mut ours = vec![std::process::id()];
    ours.extend(servers.iter().map(Server::id));
    let (mut asked, mut disturbed) = (0, 0.0f64);
    for _ in 0..args.rounds {
        for (server, found) in servers.iter().zip(&mut found) {
            let time = Duration::from_secs(args.seconds.into());
            let (others, (cpu, compared, done)) = undisturbed(&ours, args.tries, || {
                let (cpu, compared) = (cpu_of(server.id())?, comparisons(server)?);
                let done = load(server).run(time, asked, &|_| {})?;
                asked += done.requests;
                let cpu = cpu_of(server.id())?.saturating_sub(cpu).as_secs_f64();
                Ok((cpu, comparisons(server)? - compared, done))
            })?;
            ensure!(done.bytes > 0, "nothing came");
            disturbed = disturbed.max(others);
            found.us_mb.push(cpu * 1e6 / (done.bytes as f64 / 1e6));
            found.cpu += cpu;
            found.compared += compared;
            found.seconds += time.as_secs_f64();
        }
    }
    let [without, with] = &found;
    ensure!(
        with.compared > 0.0,
        "there was no comparison: --seconds is too short"
    );
    let (plain, compared) = (
        Spread::of(without.us_mb.clone()),
        Spread::of(with.us_mb.clone()),
    );
    let share = with.compared / with.cpu * 100.0;
    let core = with.compared / with.seconds * 100.0;
    report.figures = vec![
        Figure::at_most("comparisons_of_cpu", share, "% of the server's CPU", 2.0),
        Figure::at_most("comparisons_of_core", core, "% of a core", 2.0),
    ];
    let more = (compared.median / plain.median - 1.0) * 100.0;
    report.page = format!(
        "Segments of 2 MiB of a film that is twice the size of the pool ({POOL}), {} a second over {} connections; \
         {} runs of {} s \
         of each server in turn.\nOther programs took at most {:.1}% of a core meanwhile.\n\n\
         | server | CPU, µs/MB | of it comparisons |\n|---|---:|---:|\n\
         | without comparisons | {:.0} ({:.0} – {:.0}) | |\n\
         | with comparisons | {:.0} ({:.0} – {:.0}) | {share:.2}% |\n\n\
         The medians differ by {more:+.1}%: comparisons, noting each request, and the variation of runs.\n",
        args.rate,
        args.connections,
        args.rounds,
        args.seconds,
        disturbed * 100.0,
        plain.median,
        plain.low,
        plain.high,
        compared.median,
        compared.low,
        compared.high,
    );
    report.text = vec![format!(
        "  CPU µs a MB: {:.0} without, {:.0} with ({more:+.1}%); comparisons {share:.2}% of it, {core:.3}% of a core",
        plain.median, compared.median
    )];
    report
        .details
        .insert("without".into(), json!(without.us_mb));
    report.details.insert("with".into(), json!(with.us_mb));
    Ok(report)
}

/// Returns the CPU seconds of a server's comparisons so far.
fn comparisons(server: &Server) -> anyhow::Result<f64> {
    let text = get(server.http, "/metrics")?;
    let name = "reelway_cache_compare_cpu_seconds_total ";
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    Ok(value.context("the metric of comparisons")?.trim().parse()?)
}
