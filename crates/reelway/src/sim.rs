//! `reelway sim`: a node on a simulated clock, seed by seed.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use reelway_sim::{Config, Outcome, run};
use serde_json::{Map, Value, json};

/// Flags of `reelway sim`.
#[derive(Debug, Args)]
pub struct Sim {
    /// Number of seeds to run, starting with 0
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "seed",
        value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Run only this seed
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..u64::MAX))]
    seed: Option<u64>,
    /// Number of viewers in each run
    #[arg(long, value_name = "N", default_value_t = Config::default().viewers,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    viewers: u32,
    /// Length of each run, in seconds of simulated time
    #[arg(long, value_name = "SECONDS", default_value_t = Config::default().seconds,
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// With --seed: print all events, one per line
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Write violations and counters to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Prints how to run a seed again, if it ends in a panic.
struct Replay<'a> {
    seed: u64,
    flags: &'a str,
}

impl Replay<'_> {
    fn say(&self) {
        let Replay { seed, flags } = self;
        println!("replay with: reelway sim --seed {seed} {flags} --trace");
    }
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {}: the code under simulation panics", self.seed);
            self.say();
        }
    }
}

/// What went wrong with a seed: its violations, or a second run that differs from the first.
fn wrong_of(first: &Outcome, second: &Outcome) -> Vec<String> {
    let mut wrong: Vec<String> = first.violations.iter().map(ToString::to_string).collect();
    if first.trace_hash != second.trace_hash {
        wrong.push("the seed's second run differs from its first".to_owned());
    }
    wrong
}

/// Runs each seed twice; the exit code is 1 if there are violations.
pub fn simulate(flags: &Sim) -> anyhow::Result<ExitCode> {
    let config = Config {
        trace: flags.trace,
        viewers: flags.viewers,
        seconds: flags.seconds,
        ..Config::default()
    };
    let replay = format!("--viewers {} --seconds {}", flags.viewers, flags.seconds);
    let seeds = match flags.seed {
        Some(seed) => seed..seed + 1,
        None => 0..flags.seeds,
    };
    let (mut failed, mut sums) = (Vec::new(), Vec::<(&str, u64)>::new());
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let again = Replay {
            seed,
            flags: &replay,
        };
        let outcome = run(seed, &config);
        for line in &outcome.trace {
            println!("{line}");
        }
        let quiet = Config {
            trace: false,
            ..config.clone()
        };
        let wrong = wrong_of(&outcome, &run(seed, &quiet));
        for (nth, (name, value)) in outcome.counters.named().into_iter().enumerate() {
            match sums.get_mut(nth) {
                Some((_, sum)) => *sum += value,
                None => sums.push((name, value)),
            }
        }
        if !wrong.is_empty() {
            for words in &wrong {
                println!("seed {seed}: {words}");
            }
            again.say();
            failed.push(json!({ "seed": seed, "violations": wrong }));
        }
    }
    println!("{count} seeds, {} with violations", failed.len());
    for (name, sum) in &sums {
        println!("  {name:<16} {sum:>12}");
    }
    let is_clean = failed.is_empty();
    if let Some(file) = &flags.json {
        let counters: Map<String, Value> = sums
            .into_iter()
            .map(|(name, sum)| (name.to_owned(), sum.into()))
            .collect();
        let report = json!({ "seeds": count, "failed": failed, "counters": counters });
        std::fs::write(file, serde_json::to_vec_pretty(&report)?)
            .with_context(|| format!("{}: cannot be written", file.display()))?;
    }
    Ok(ExitCode::from(u8::from(!is_clean)))
}
