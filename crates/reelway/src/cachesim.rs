//! `reelway cachesim`: the misses of each replacement policy for a generated workload or a trace.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use reelway_bench::chart::{Bar, bars};
use reelway_cache::Spec;
use reelway_cache::sim::{
    Outcome, Requests, Workload, belady, bound, read_csv, read_oracle_general, read_vscsi, run,
    told, write_csv,
};
use serde_json::json;

/// Flags of `reelway cachesim`.
#[derive(Debug, Args)]
pub struct Cachesim {
    /// Policies, separated by commas, with parameters after a colon (ons:threshold=5); also
    /// ons-sweep (ONS with thresholds 1 to 13, each to be reached and to be exceeded), told
    /// (Timetable with the true popularity of a generated workload), bound (lower bound for
    /// policies that do not know the future, if all viewers watch from start to end), belady
    /// (optimum) [default: all policies and belady]
    #[arg(long, value_name = "NAMES")]
    policy: Option<String>,
    /// Cache sizes in bytes or percent of the catalogue, separated by commas
    #[arg(long, value_name = "SIZES", default_value = "1%,2%,5%,10%,25%")]
    size: String,
    /// Read requests from a trace instead of generating them: CSV (time,id,bytes), libCacheSim's
    /// oracleGeneral (.bin) or VMware's vscsi (.vscsi)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write the requests to this file as a CSV trace
    #[arg(long, value_name = "FILE")]
    write_trace: Option<PathBuf>,
    /// Count every object as one, so that sizes are numbers of objects
    #[arg(long)]
    unit: bool,
    /// Films in the catalogue
    #[arg(long, default_value_t = 200)]
    films: u32,
    /// Exponent of Zipf's law for the films' popularity
    #[arg(long, default_value_t = 0.9)]
    zipf: f64,
    /// Viewers arriving per second
    #[arg(long, default_value_t = 0.05)]
    arrivals: f64,
    /// Share of viewers who leave early, from 0 to 1
    #[arg(long, default_value_t = 0.0)]
    leave: f64,
    /// Average number of seeks per viewer
    #[arg(long, default_value_t = 0.0)]
    seeks: f64,
    /// Share of viewers who play a tenth of the film at eight times its speed, from 0 to 1
    #[arg(long, default_value_t = 0.0)]
    fast_play: f64,
    /// Hours in which viewers arrive
    #[arg(long, default_value_t = 48.0)]
    hours: f64,
    /// Hours at the beginning that train the policies and are not counted
    #[arg(long, default_value_t = 24.0)]
    warmup: f64,
    /// Block size
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = reelway_node::config::size)]
    block: bytesize::ByteSize,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a chart for each cache size to this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

fn hours(hours: f64, name: &str) -> anyhow::Result<Duration> {
    Duration::try_from_secs_f64(hours * 3600.0).with_context(|| format!("--{name} {hours}"))
}

/// A cache size to be simulated.
struct Size {
    text: String,
    bytes: u64,
    /// In the unit of `Trial::unit`.
    capacity: u64,
    /// The approximate number of objects that it holds.
    slots: usize,
}

/// The simulations to be run.
struct Trial {
    requests: Requests,
    policies: Vec<String>,
    sizes: Vec<Size>,
    /// Whether every object counts as one.
    unit: bool,
}

impl Trial {
    fn new(flags: &Cachesim) -> anyhow::Result<Trial> {
        let policies = policies(flags.policy.as_deref())?;
        let requests = match &flags.trace {
            Some(file) => read(file).with_context(|| format!("--trace {}", file.display()))?,
            None => workload(flags)?.make()?,
        };
        if requests.rates.is_empty() && policies.iter().any(|policy| policy == "told") {
            bail!("--policy told: of a trace nobody knows how popular its films were meant to be");
        }
        if policies.iter().any(|policy| policy == "bound") && bound(&requests, 1).is_none() {
            bail!(
                "--policy bound: only where viewers come as often as is known, and watch from start to end"
            );
        }
        // If all blocks have one size, a policy's sections are whole numbers when blocks are
        // counted.
        let one_size = requests.one_size();
        let unit = flags.unit || one_size.is_some();
        let bytes_each = match flags.unit {
            true => 1,
            false => one_size.unwrap_or(1),
        };
        let catalogue = match flags.unit {
            true => requests.objects() as u64,
            false => requests.catalogue,
        };
        let mut sizes = Vec::new();
        for text in flags.size.split(',').map(str::trim) {
            let bytes = size(text, catalogue)?;
            let capacity = bytes / u64::from(bytes_each);
            if capacity == 0 {
                bail!("--size {text}: smaller than a block of {bytes_each} bytes");
            }
            let objects = requests.objects() as u64;
            let slots = match unit {
                true => capacity.min(objects),
                false => u128::from(capacity)
                    .saturating_mul(objects.into())
                    .checked_div(catalogue.into())
                    .map_or(1, |slots| slots.min(objects.into()) as u64 + 1),
            };
            sizes.push(Size {
                text: text.to_owned(),
                bytes,
                capacity,
                slots: slots as usize,
            });
        }
        Ok(Trial {
            requests,
            policies,
            sizes,
            unit,
        })
    }

    fn run(&self, policy: &str, size: &Size, optimum: Outcome) -> Outcome {
        let mut policy = match policy {
            "belady" => return optimum,
            "bound" => return bound(&self.requests, size.capacity).unwrap_or_default(),
            "told" => told(&self.requests, size.slots),
            name => name
                .parse::<Spec>()
                .ok()
                .map(|spec| spec.build(size.capacity, size.slots)),
        };
        match &mut policy {
            Some(policy) => run(&self.requests, &mut **policy, size.capacity, self.unit),
            None => unreachable!("names were looked at before"),
        }
    }
}

/// The size of a cache in bytes, from "5%" or "64MiB".
fn size(text: &str, catalogue: u64) -> anyhow::Result<u64> {
    let Some(percent) = text.strip_suffix('%') else {
        let size: bytesize::ByteSize = text
            .parse()
            .map_err(|error| anyhow::anyhow!("--size {text}: {error}"))?;
        return Ok(size.as_u64());
    };
    match percent.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => {
            Ok((catalogue as f64 * percent / 100.0) as u64)
        }
        _ => bail!("--size {text}: a percentage above 0 and at most 100 is needed"),
    }
}

fn policies(text: Option<&str>) -> anyhow::Result<Vec<String>> {
    let all = format!("{},belady", Spec::NAMES.join(","));
    // A policy's own parameters are also separated by commas: they contain an = and no name.
    let mut policies: Vec<String> = Vec::new();
    for part in text.unwrap_or(&all).split(',').map(str::trim) {
        match policies.last_mut() {
            Some(last) if part.contains('=') && !part.contains(':') => {
                last.push(',');
                last.push_str(part);
            }
            _ if part == "ons-sweep" => {
                let both = (1..=13).flat_map(|threshold| {
                    let reaches = format!("ons:threshold={threshold}");
                    let exceeds = format!("{reaches},exceed=1");
                    [reaches, exceeds]
                });
                policies.extend(both);
            }
            _ => policies.push(part.to_owned()),
        }
    }
    for policy in &policies {
        if !["belady", "told", "bound"].contains(&policy.as_str()) {
            policy.parse::<Spec>().context("--policy")?;
        }
    }
    Ok(policies)
}

fn read(file: &Path) -> anyhow::Result<Requests> {
    let from = BufReader::new(File::open(file)?);
    Ok(match file.extension().and_then(|end| end.to_str()) {
        Some("bin") => read_oracle_general(from)?,
        Some("vscsi") => read_vscsi(from)?,
        _ => read_csv(from)?,
    })
}

fn workload(flags: &Cachesim) -> anyhow::Result<Workload> {
    Ok(Workload {
        films: flags.films,
        zipf: flags.zipf,
        arrivals: flags.arrivals,
        block: u32::try_from(flags.block.as_u64()).context("--block: less than 4 GiB")?,
        duration: hours(flags.hours, "hours")?,
        warmup: hours(flags.warmup, "warmup")?,
        leave: flags.leave,
        seeks: flags.seeks,
        fast: flags.fast_play,
        seed: flags.seed,
        ..Workload::default()
    })
}

fn chart(size: &Size, outcomes: &[(&str, Outcome)]) -> String {
    let bar = |(policy, outcome): &(&str, Outcome)| Bar {
        name: (*policy).to_owned(),
        value: percent(outcome),
        colour: match *policy {
            "belady" => 2,
            "timetable" | "told" => 1,
            _ => 0,
        },
        spread: None,
    };
    let all: Vec<Bar> = outcomes.iter().map(bar).collect();
    let title = format!("Requests missed by a cache of {}", size.text);
    bars(&title, "%", &all)
}

fn percent(outcome: &Outcome) -> f64 {
    100.0 * outcome.misses as f64 / outcome.requests.max(1) as f64
}

/// Runs the simulations. Errors in the flags or in a trace count as wrong usage.
pub fn simulate(flags: &Cachesim) -> anyhow::Result<ExitCode> {
    let trial = match Trial::new(flags) {
        Ok(trial) => trial,
        Err(error) => {
            eprintln!("reelway: {error:#}");
            return Ok(ExitCode::from(2));
        }
    };
    let cannot = |path: &Path| format!("{}: cannot be written", path.display());
    if let Some(path) = &flags.write_trace {
        let file = File::create(path).with_context(|| cannot(path))?;
        write_csv(&trial.requests, BufWriter::new(file)).with_context(|| cannot(path))?;
    }
    if let Some(dir) = &flags.svg {
        std::fs::create_dir_all(dir).with_context(|| cannot(dir))?;
    }
    let mut lines = Vec::new();
    println!(
        "{:<28} {:>16} {:>12} {:>12} {:>8} {:>8} {:>9}",
        "policy", "size", "requests", "misses", "missed", "of bytes", "of Belady"
    );
    for size in &trial.sizes {
        let optimum = belady(&trial.requests, size.capacity, trial.unit);
        let mut outcomes = Vec::new();
        for policy in &trial.policies {
            let outcome = trial.run(policy, size, optimum);
            println!(
                "{policy:<28} {:>16} {:>12} {:>12} {:>7.3}% {:>7.3}% {:>9.4}",
                size.bytes,
                outcome.requests,
                outcome.misses,
                percent(&outcome),
                100.0 * outcome.missed_bytes as f64 / outcome.bytes.max(1) as f64,
                outcome.misses as f64 / optimum.misses.max(1) as f64,
            );
            lines.push(json!({
                "policy": policy,
                "size": size.bytes,
                "requests": outcome.requests,
                "misses": outcome.misses,
                "bytes": outcome.bytes,
                "missed_bytes": outcome.missed_bytes,
            }));
            outcomes.push((policy.as_str(), outcome));
        }
        if let Some(dir) = &flags.svg {
            let name = size.text.replace('%', "-percent").replace(' ', "");
            let path = dir.join(format!("missed-{name}.svg"));
            std::fs::write(&path, chart(size, &outcomes)).with_context(|| cannot(&path))?;
        }
    }
    if let Some(file) = &flags.json {
        std::fs::write(file, serde_json::to_vec_pretty(&lines)?).with_context(|| cannot(file))?;
    }
    Ok(ExitCode::SUCCESS)
}
