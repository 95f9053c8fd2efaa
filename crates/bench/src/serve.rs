//! `reelway bench serve`: many viewers of many films at many positions, with every packet checked.

use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use reelway_yardstick::{Histogram, Reference, Story, rtsp};
use serde_json::json;

use crate::arguments::{arguments, one_or_more};
use crate::bed::{Folder, Standstill, cores};
use crate::film::{Recipe, make_many};
use crate::reference;
use crate::report::{Figure, Report};
use reelway_node::process::Server;

/// Arguments of the experiment.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench serve",
    about = "Many viewers over RTSP/UDP, one core for the server, every byte compared"
)]
struct Args {
    /// Number of concurrent viewers
    #[arg(long, default_value_t = 200, value_parser = one_or_more::<usize>)]
    viewers: usize,
    /// Number of films
    #[arg(long, default_value_t = 20, value_parser = one_or_more::<usize>)]
    films: usize,
    /// Seconds that each viewer watches
    #[arg(long, default_value_t = 120, value_parser = one_or_more::<u32>)]
    seconds: u32,
    /// Bit rate of a film's video, in bit/s
    #[arg(long, default_value_t = 4_000_000)]
    rate: u64,
    /// The server's memory for film blocks
    #[arg(long, default_value = "512MiB")]
    pool: String,
}

/// Concurrent viewers.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// Number of viewers.
    pub viewers: usize,
    /// Number of films: `film00` and so on.
    pub films: usize,
    /// Seconds that each viewer watches.
    pub seconds: u32,
}

/// The server's own burst rule: the most packets of a stream in any millisecond.
const BURST: u32 = 8;
/// Viewers arrive one after the other over this time.
pub const ARRIVALS: Duration = Duration::from_secs(4);

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let args: &Args = &arguments("serve", args);
    let folder = Folder::make("bench-serve")?;
    let films = folder.path().join("films");
    let recipe = Recipe::usual(args.seconds + 60, args.rate);
    let mut references = Vec::new();
    for path in make_many(&films, args.films, &recipe)? {
        references.push(Arc::new(reference::read(&path)?));
    }
    let state = folder.path().join("state");
    let server = Server::start(&films, &state, &["--pool", &args.pool])?;

    let crowd = Crowd {
        viewers: args.viewers,
        films: args.films,
        seconds: args.seconds,
    };
    let before = server.cpu_seconds()?;
    let began = reelway_clock::now();
    let core = Standstill::watch(0)?;
    let stories = crowd.watches(&server, &references)?;
    let seconds = reelway_clock::now().since(began).as_secs_f64();
    let cpu = server.cpu_seconds()? - before;
    let still = core
        .end()
        .inspect_err(|error| eprintln!("the server's core was not watched: {error}"));
    let mut report = report(args, &stories, cpu, seconds, server.peak_memory()?);
    report.figures.extend(still.iter().map(|still| {
        let most = still.max().as_secs_f64() * 1e3;
        Figure::without_goal("core_stood_still_max_ms", most, "ms")
    }));
    Ok(report)
}

impl Crowd {
    /// Plays all viewers, and returns what each received.
    pub fn watches(
        self,
        server: &Server,
        references: &[Arc<Reference>],
    ) -> anyhow::Result<Vec<Result<Story, String>>> {
        // The server has core 0; the viewers take the others.
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads((threads - 1).max(1))
            .on_thread_start(cores::leave_the_servers)
            .enable_all()
            .build()?;
        Ok(runtime.block_on(self.all(server, references)))
    }

    async fn all(
        self,
        server: &Server,
        references: &[Arc<Reference>],
    ) -> Vec<Result<Story, String>> {
        let mut tasks = Vec::new();
        for number in 0..self.viewers {
            let film = number % self.films;
            let reference = references[film].clone();
            let url = format!("rtsp://{}/film{film:02}", server.rtsp);
            let options = rtsp::Options {
                // Each begins at a different position within the film's first 50 s.
                from: 50.0 * number as f64 / self.viewers as f64,
                duration: Some(Duration::from_secs(self.seconds.into())),
                burst: BURST,
                compare: true,
                ..rtsp::Options::default()
            };
            let wait = ARRIVALS.mul_f64(number as f64 / self.viewers as f64);
            tasks.push(tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                rtsp::play(&url, &options, Some(&reference))
                    .await
                    .map_err(|error| error.to_string())
            }));
        }
        let mut stories = Vec::with_capacity(tasks.len());
        for task in tasks {
            stories.push(task.await.unwrap_or_else(|error| Err(error.to_string())));
        }
        stories
    }
}

fn report(
    args: &Args,
    stories: &[Result<Story, String>],
    cpu: f64,
    seconds: f64,
    memory: u64,
) -> Report {
    let mut late = Histogram::default();
    let (mut lost, mut different, mut unwell, mut over, mut burst, mut packets, mut units) =
        (0, 0, 0, 0, 0, 0, 0);
    let mut troubles: Vec<String> = Vec::new();
    for story in stories {
        match story {
            Ok(story) => {
                late.merge(&story.late());
                lost += story.lost();
                over += story.bursts_over;
                burst = burst.max(story.burst);
                for track in &story.tracks {
                    packets += track.packets;
                    units += track.units;
                    different += track.different + track.unknown;
                    troubles.extend(track.wrong.clone());
                }
                unwell += u64::from(!story.is_whole());
            }
            Err(trouble) => {
                unwell += 1;
                troubles.push(trouble.clone());
            }
        }
    }
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    let stream_seconds = args.viewers as f64 * f64::from(args.seconds);
    let mut report = Report::new("serve");
    report.figures = vec![
        Figure::at_most("packets_lost", lost as f64, "packets", 0.0),
        Figure::at_most("units_different", different as f64, "units", 0.0),
        Figure::at_most("viewers_harmed", unwell as f64, "viewers", 0.0),
        Figure::at_most("bursts_over_the_rule", over as f64, "ms", 0.0),
        Figure::at_most("late_p99_ms", millis(late.percentile(0.99)), "ms", 5.0),
        Figure::without_goal("late_p50_ms", millis(late.percentile(0.5)), "ms"),
        Figure::without_goal("late_p999_ms", millis(late.percentile(0.999)), "ms"),
        Figure::without_goal("late_max_ms", millis(late.max()), "ms"),
        Figure::without_goal("packets", packets as f64, "packets"),
        Figure::without_goal("cpu_of_its_core", cpu * 100.0 / seconds, "%"),
        Figure::without_goal("cpu_a_stream_second", cpu * 1e3 / stream_seconds, "ms"),
    ];
    report.details.insert("viewers".into(), json!(args.viewers));
    report.details.insert("units_compared".into(), json!(units));
    report.details.insert("largest_burst".into(), json!(burst));
    report.details.insert("cpu_seconds".into(), json!(cpu));
    report.details.insert("peak_memory".into(), json!(memory));
    report.details.insert("troubles".into(), json!(troubles));
    report.text = vec![
        format!(
            "  {} viewers, {units} access units compared; largest burst {burst} packets in a millisecond",
            args.viewers
        ),
        format!("  server: at most {} MiB of memory", memory >> 20),
    ];
    report.text.extend(
        troubles
            .iter()
            .take(5)
            .map(|trouble| format!("  trouble: {trouble}")),
    );
    report
}
