//! `reelway yardstick`: plays films as a viewer does and judges what arrives.
//!
//! This module has the flags and the output. The viewers are in the crate `yardstick`.

mod beside;
mod load;
mod measured;
mod print;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use reelway_yardstick::rtsp::{self, Options};
use reelway_yardstick::watching::Machine;
use reelway_yardstick::{Outcome, Reference, http};

use self::measured::Measured;

/// Flags of `reelway yardstick`.
#[derive(Debug, Args)]
pub struct Yardstick {
    /// Films: rtsp://…, http://….m3u8 (HLS), http://….mpd (DASH)
    #[arg(required = true, value_name = "URL", value_parser = address)]
    urls: Vec<String>,
    /// Receive RTP interleaved in the RTSP connection (TCP) instead of over UDP
    #[arg(long)]
    tcp: bool,
    /// Position in the film at which to start
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    from: Duration,
    /// How long to watch [default: to the end of the film]
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    duration: Option<Duration>,
    /// Compare every access unit that arrives with this file of the film
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Length of the player's buffer
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    buffer: Duration,
    /// Maximum number of packets within any millisecond; more are a fault [default: no limit]
    #[arg(
        long,
        value_name = "PACKETS",
        default_value_t = 0,
        hide_default_value = true
    )]
    burst: u32,
    /// Request retransmission of lost packets, if the server offers it (RFC 4585, RFC 4588)
    #[arg(long, conflicts_with = "tcp")]
    repair: bool,
    /// Pipe what arrives to a player as an MPEG transport stream (RTSP only): --pipe 'ffplay -'
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["clients", "arrivals", "find_limit"])]
    pipe: Option<String>,
    /// Silence after which a stream counts as dead
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = positive_seconds)]
    patience: Duration,
    /// Write the verdict and all figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report to this file, as one self-contained HTML page
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Address of the server's metrics (Prometheus text format), which the report shows
    #[arg(long, value_name = "URL", requires = "report")]
    metrics: Option<String>,
    /// Another machine whose load the report shows: netns:NAME (a network namespace) or
    /// http://…/metrics (the machine's metrics); may be repeated
    #[arg(long, value_name = "MACHINE", requires = "report")]
    machine: Vec<Machine>,
    #[command(flatten)]
    load: load::Load,
}

fn address(text: &str) -> Result<String, String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err("an address such as rtsp://HOST:8554/TITLE".to_owned());
    };
    match scheme {
        "rtsp" | "http" if !rest.is_empty() => Ok(text.to_owned()),
        _ => Err(format!(
            "{scheme}:// is not supported; use rtsp:// or http://"
        )),
    }
}

/// Parses a number of seconds, from 0 to a year.
fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| "a number of seconds, such as 2.5")?;
    if !(0.0..=31_536_000.0).contains(&number) {
        return Err("a number of seconds from 0 to a year".to_owned());
    }
    Ok(Duration::from_secs_f64(number))
}

fn positive_seconds(text: &str) -> Result<Duration, String> {
    let duration = seconds(text)?;
    if duration.is_zero() {
        return Err("more than 0 seconds".to_owned());
    }
    Ok(duration)
}

fn exit(well: bool) -> ExitCode {
    if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    }
}

impl Yardstick {
    /// Plays and judges; the exit code says whether everything played well.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let reference = match &self.against {
            Some(path) => Some(reelway_yardstick::read_film(path).map_err(anyhow::Error::msg)?),
            None => None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        if self.load.is_wanted() {
            let options = self.load.options(
                &self.urls,
                self.duration,
                self.buffer,
                self.patience,
                self.tcp,
            );
            if let Some(most) = self.load.find_limit {
                let limit = runtime.block_on(load::find_limit(options, most, self.load.runs))?;
                load::print_limit(&limit);
                self.write_json(&print::limit_json(&limit))?;
                return Ok(exit(limit.mean() > 0.0));
            }
            let (story, seen) =
                runtime.block_on(beside::watched(self.beside(), load::run(options)));
            let story = story?;
            load::print(&story);
            let json = print::load_json(&story);
            self.write_json(&json)?;
            if let Some(path) = &self.report {
                report::write(path, &json, &seen)?;
            }
            return Ok(exit(story.harmed == 0 && story.refused == 0));
        }
        let measuring = self.measure(reference.as_ref());
        let (measured, seen) = runtime.block_on(beside::watched(self.beside(), measuring));
        for measured in &measured {
            print::outcome(&measured.outcome);
        }
        let json = print::json(&measured);
        self.write_json(&json)?;
        if let Some(path) = &self.report {
            // The report shows these viewers in the form of virtual ones.
            let mut story = json;
            story["each"] = print::stories(&measured);
            story["samples"] = print::course(&measured);
            report::write(path, &story, &seen)?;
        }
        let mut all = measured.iter();
        Ok(exit(all.all(|measured| measured.outcome.verdict.is_well())))
    }

    fn beside(&self) -> beside::Wanted {
        let this = std::iter::once(Machine::This);
        beside::Wanted {
            machines: this.chain(self.machine.iter().cloned()).collect(),
            metrics: self.metrics.clone(),
        }
    }

    fn write_json(&self, value: &serde_json::Value) -> anyhow::Result<()> {
        let Some(path) = &self.json else {
            return Ok(());
        };
        let text = serde_json::to_string_pretty(value)?;
        std::fs::write(path, text + "\n").with_context(|| path.display().to_string())
    }

    /// Plays one film after the other.
    async fn measure(&self, reference: Option<&Reference>) -> Vec<Measured> {
        let options = Options {
            tcp: self.tcp,
            from: self.from.as_secs_f64(),
            duration: self.duration,
            burst: self.burst,
            compare: reference.is_some(),
            depth: self.buffer,
            patience: self.patience,
            repair: self.repair,
            pipe: self.pipe.clone(),
            progress: Arc::default(),
        };
        let over_http = http::Options {
            duration: self.duration,
            depth: self.buffer,
            patience: self.patience,
            look: true,
            source: None,
            progress: Arc::clone(&options.progress),
        };
        let viewer = async |url: &String| {
            if url.starts_with("http://") {
                let watched = http::watch(url, &over_http, reference, (|| false, |_, _| {})).await;
                return Outcome::of_http(url, &watched);
            }
            let watched = rtsp::watch(url, &options, reference).await;
            Outcome::of_rtsp(url, self.tcp, &watched, self.buffer, self.burst)
        };
        let began = reelway_clock::real().nanos();
        let at = || reelway_clock::real().nanos().saturating_sub(began) as f64 / 1e9;
        let mut all = Vec::new();
        for url in &self.urls {
            let (came_ns, came_s) = (reelway_clock::real().nanos(), at());
            let outcome = print::with_progress(url, &options.progress, viewer(url)).await;
            all.push(Measured {
                outcome,
                came_ns,
                came_s,
                left_s: at(),
            });
        }
        all
    }
}
