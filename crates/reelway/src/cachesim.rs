//! `reelway cachesim`: what each replacement policy would miss of a made workload.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use reelway_cache::Spec;
use reelway_cache::sim::{Requests, Workload, belady, run};
use serde_json::json;

/// Flags of `reelway cachesim`.
#[derive(Debug, Args)]
pub struct Cachesim {
    /// Policies, with commas between them; parameters after a colon (ons:threshold=5) [default: all]
    #[arg(long, value_name = "NAMES")]
    policy: Option<String>,
    /// Sizes of the cache: bytes, or percent of the catalogue, with commas between them
    #[arg(long, value_name = "SIZES", default_value = "1%,2%,5%,10%,25%")]
    size: String,
    /// Films in the catalogue
    #[arg(long, default_value_t = 200)]
    films: u32,
    /// Exponent of Zipf's law for the films' popularity
    #[arg(long, default_value_t = 0.9)]
    zipf: f64,
    /// Viewers who come, a second
    #[arg(long, default_value_t = 0.05)]
    arrivals: f64,
    /// Share of viewers who leave early, from 0 to 1
    #[arg(long, default_value_t = 0.0)]
    leave: f64,
    /// Seeks a viewer, on average
    #[arg(long, default_value_t = 0.0)]
    seeks: f64,
    /// Share of viewers who play a tenth of the film at eight times the speed
    #[arg(long, default_value_t = 0.0)]
    fast_play: f64,
    /// Hours for which viewers come
    #[arg(long, default_value_t = 48.0)]
    hours: f64,
    /// Hours at the beginning that are learned from but not counted
    #[arg(long, default_value_t = 24.0)]
    warmup: f64,
    /// Bytes of a block
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = crate::config::size)]
    block: bytesize::ByteSize,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the outcomes to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn hours(hours: f64, name: &str) -> anyhow::Result<Duration> {
    Duration::try_from_secs_f64(hours * 3600.0).with_context(|| format!("--{name} {hours}"))
}

/// The size of a cache in bytes, from "5%" or "64MiB".
fn size(text: &str, requests: &Requests) -> anyhow::Result<u64> {
    let text = text.trim();
    let Some(percent) = text.strip_suffix('%') else {
        let size: bytesize::ByteSize = text
            .parse()
            .map_err(|error| anyhow::anyhow!("--size {text}: {error}"))?;
        return Ok(size.as_u64());
    };
    match percent.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => {
            Ok((requests.catalogue as f64 * percent / 100.0) as u64)
        }
        _ => bail!("--size {text}: a percentage above 0 and at most 100 is needed"),
    }
}

/// Does what was asked.
pub fn simulate(flags: &Cachesim) -> anyhow::Result<ExitCode> {
    let all = format!("{},belady", Spec::NAMES.join(","));
    // A policy's own parameters have commas between them too: those contain an = and no name.
    let mut policies: Vec<String> = Vec::new();
    for part in flags.policy.as_deref().unwrap_or(&all).split(',') {
        match policies.last_mut() {
            Some(last) if part.contains('=') && !part.contains(':') => {
                last.push(',');
                last.push_str(part);
            }
            _ => policies.push(part.trim().to_owned()),
        }
    }
    for policy in policies.iter().filter(|policy| *policy != "belady") {
        policy.parse::<Spec>()?;
    }
    let block = u32::try_from(flags.block.as_u64()).context("--block: less than 4 GiB")?;
    let workload = Workload {
        films: flags.films,
        zipf: flags.zipf,
        arrivals: flags.arrivals,
        block,
        duration: hours(flags.hours, "hours")?,
        warmup: hours(flags.warmup, "warmup")?,
        leave: flags.leave,
        seeks: flags.seeks,
        fast: flags.fast_play,
        seed: flags.seed,
        ..Workload::default()
    };
    let requests = workload.make()?;
    let mut lines = Vec::new();
    println!(
        "{:<24} {:>16} {:>12} {:>12} {:>8} {:>9}",
        "policy", "size", "requests", "misses", "missed", "of Belady"
    );
    for text in flags.size.split(',') {
        let bytes = size(text, &requests)?;
        // Blocks have one size: in blocks, sections of a policy come out whole.
        let blocks = bytes / u64::from(block);
        if blocks == 0 {
            bail!("--size {text}: smaller than a block ({})", flags.block);
        }
        let optimum = belady(&requests, blocks, true);
        for policy in &policies {
            let outcome = match policy.as_str() {
                "belady" => optimum,
                name => {
                    let mut policy = name.parse::<Spec>()?.build(blocks, blocks as usize);
                    run(&requests, &mut *policy, blocks, true)
                }
            };
            println!(
                "{policy:<24} {bytes:>16} {:>12} {:>12} {:>7.2}% {:>9.4}",
                outcome.requests,
                outcome.misses,
                100.0 * outcome.misses as f64 / outcome.requests.max(1) as f64,
                outcome.misses as f64 / optimum.misses.max(1) as f64,
            );
            lines.push(json!({
                "policy": policy,
                "size": bytes,
                "requests": outcome.requests,
                "misses": outcome.misses,
                "bytes": outcome.bytes,
                "missed_bytes": outcome.missed_bytes,
            }));
        }
    }
    if let Some(file) = &flags.json {
        std::fs::write(file, serde_json::to_vec_pretty(&lines)?)
            .with_context(|| format!("{}: the outcomes cannot be written", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
