//! Virtual viewers: flags, progress and output.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use reelway_yardstick::load::{
    self, Arrivals, Bisection, Choice, Habits, Limit, LoadStory, Options, Plan, Sample, Sources,
    Watch,
};

/// Flags of virtual viewers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Virtual viewers (count and time packets, without decoding)")]
pub struct Load {
    /// Number of virtual viewers (RTSP over UDP, or --tcp; HLS; DASH)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub clients: Option<u32>,
    /// When viewers arrive: poisson:RATE (per second), burst:N, steps:8+6/10min, trace:FILE
    /// [default: 100 per second]
    #[arg(long, value_name = "HOW")]
    arrivals: Option<Arrivals>,
    /// How viewers choose among the films: even, zipf:EXPONENT, weights:5,3,1
    #[arg(long, value_name = "HOW", default_value = "even")]
    films: Choice,
    /// How long viewers watch: film (to its end), 90s, 1min-20min, exp:10min
    #[arg(long, value_name = "HOW", default_value = "film")]
    watch: Watch,
    /// Percentage of viewers who pause once
    #[arg(long, value_name = "PCT", default_value = "0", value_parser = percent)]
    pause: f64,
    /// Percentage of viewers who seek once
    #[arg(long, value_name = "PCT", default_value = "0", value_parser = percent)]
    seek: f64,
    /// Percentage of viewers who play fast for a while
    #[arg(long, value_name = "PCT", default_value = "0", value_parser = percent)]
    fast_play: f64,
    /// Seed of all random numbers: the same seed gives the same run
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Source addresses on this machine, shared evenly by neighbouring viewers: 10.0.0.1-10.0.0.38
    #[arg(long, value_name = "ADDRESSES", requires = "clients")]
    sources: Option<Sources>,
    /// Let viewers whose film has ended start another one, until --duration is over
    #[arg(
        long,
        requires = "clients",
        requires = "duration",
        conflicts_with = "find_limit"
    )]
    again: bool,
    /// Number of receiving threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: u8,
    /// Search for the largest number of viewers, up to MOST, of whom none is harmed or refused;
    /// each try lasts --duration [default: 20 s]
    #[arg(long, value_name = "MOST", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub find_limit: Option<u32>,
    /// Number of searches; their mean is reported
    #[arg(long, value_name = "N", default_value_t = 5, requires = "find_limit", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
}

/// Parses a percentage, from 0 to 100, as a share.
fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("a number of percent from 0 to 100".to_owned()),
    }
}

impl Load {
    /// Whether virtual viewers are requested.
    pub fn is_wanted(&self) -> bool {
        self.clients.is_some() || self.arrivals.is_some() || self.find_limit.is_some()
    }

    /// The options of the run.
    pub fn options(
        &self,
        urls: &[String],
        duration: Option<Duration>,
        depth: Duration,
        patience: Duration,
        tcp: bool,
    ) -> Options {
        let gently = Arrivals::Steps {
            first: 10,
            more: 10,
            every: Duration::from_millis(100),
        };
        Options {
            plan: Plan {
                arrivals: self.arrivals.clone().unwrap_or(gently),
                viewers: self.clients.map(|clients| clients as usize),
                choice: self.films.clone(),
                watch: self.watch,
                habits: Habits {
                    pause: self.pause,
                    seek: self.seek,
                    fast: self.fast_play,
                },
                seed: self.seed,
            },
            urls: urls.to_vec(),
            duration,
            depth,
            patience,
            tcp,
            threads: self.threads.into(),
            sources: self.sources.clone(),
            again: self.again,
        }
    }
}

/// How long a try of the search lasts by default.
const TRY: Duration = Duration::from_secs(20);

/// Searches for the largest number of viewers of which none is harmed.
pub async fn find_limit(options: Options, most: u32, runs: u32) -> anyhow::Result<Limit> {
    let first = options
        .plan
        .viewers
        .map_or(most.min(50), |first| first as u32);
    let duration = options.duration.unwrap_or(TRY);
    let mut limit = Limit::default();
    for run in 1..=runs {
        let mut bisection = Bisection::new(first, most);
        while let Some(viewers) = bisection.next() {
            let mut options = options.clone();
            options.duration = Some(duration);
            options.plan.viewers = Some(viewers as usize);
            // Different viewers each time, but the same in each repetition of the whole.
            options.plan.seed = options
                .plan
                .seed
                .wrapping_add(u64::from(run) << 32 | u64::from(viewers));
            let story = self::run(options).await?;
            let unwell = story.harmed + story.refused;
            if story.viewers < viewers as usize {
                anyhow::bail!(
                    "only {} of {viewers} viewers arrived within {} s: --arrivals is too slow for --duration",
                    story.viewers,
                    duration.as_secs()
                );
            }
            eprintln!(
                "run {run} of {runs}: {viewers} viewers: {}",
                match unwell {
                    0 => "all well".to_owned(),
                    unwell => format!("{unwell} harmed or refused ({})", story.word()),
                }
            );
            limit.tried.push((run, viewers, unwell));
            bisection.record(unwell == 0);
        }
        limit.bounded |= bisection.is_bounded();
        limit.runs.push(bisection.well());
    }
    Ok(limit)
}

/// Prints the result of the search.
pub fn print_limit(limit: &Limit) {
    let (least, greatest) = limit.spread();
    println!(
        "{:.1} viewers, none of them harmed: the mean of {} runs ({least} to {greatest})",
        limit.mean(),
        limit.runs.len()
    );
    if limit.bounded {
        println!("  some run found no limit: it is higher than --find-limit");
    }
}

/// Runs virtual viewers, with a progress line on a terminal.
pub async fn run(options: Options) -> anyhow::Result<LoadStory> {
    let shows = std::io::stderr().is_terminal();
    let story = load::run(options, |sample| {
        if shows {
            let mut error = std::io::stderr().lock();
            let _ = write!(error, "\r\x1b[K{}", progress(sample));
            let _ = error.flush();
        }
    })
    .await;
    if shows {
        eprint!("\r\x1b[K");
    }
    Ok(story?)
}

fn progress(sample: &Sample) -> String {
    let verdict = match sample.harmed {
        0 => "all well".to_owned(),
        harmed => format!("{harmed} HARMED"),
    };
    let refused = match sample.refused {
        0 => String::new(),
        refused => format!(", {refused} refused"),
    };
    format!(
        "{:.0} s: {} came, {} there{refused}, {verdict}; {:.2} Gb/s, late p99 {:.2} ms, {:.0}% of a core here",
        sample.at_s,
        sample.came,
        sample.playing,
        sample.bytes as f64 * 8e-9,
        sample.late_p99_ms,
        sample.cpu * 100.0,
    )
}

/// Prints the results of all of them.
pub fn print(story: &LoadStory) {
    let well = story.harmed == 0 && story.refused == 0;
    println!(
        "{} viewers: {}",
        story.viewers,
        match (well, story.harmed) {
            (true, _) => "played well".to_owned(),
            (false, 0) => format!(
                "{} refused, and the other {} played well",
                story.refused, story.admitted
            ),
            (false, harmed) => format!(
                "did not play well: {harmed} of {} harmed, {} refused",
                story.admitted, story.refused
            ),
        }
    );
    for (fault, count) in story.faults() {
        let example = story
            .each
            .iter()
            .flat_map(|viewer| &viewer.findings)
            .find(|finding| finding.fault == fault && finding.seen);
        let words = example.map_or("", |finding| finding.words.as_str());
        println!("  ✗ {count} × {fault}, such as: {words}");
    }
    println!(
        "  {} packets, {:.1} MB; {} lost",
        story.packets,
        story.bytes as f64 / 1e6,
        story.lost
    );
    let late = |share| super::print::millis(story.late.percentile(share));
    println!(
        "  lateness p50 {:.2} ms, p99 {:.2}, p99.9 {:.2}, greatest {:.2}",
        late(0.5),
        late(0.99),
        late(0.999),
        super::print::millis(story.late.max()),
    );
    println!(
        "  this process: {:.2} s of CPU, {:.3} ms a viewer-second; its own times are right within {:.3} ms (p99)",
        story.cpu_s,
        story.cpu_s * 1e3 / story.watched_s.max(1e-3),
        story.timing_error_p99_ms,
    );
    if story.dropped > 0 {
        println!(
            "  ! {} packets came and this machine had no room for them: losses may be the yardstick's own fault (use \
             more --threads, or a larger net.core.rmem_max)",
            story.dropped
        );
    }
}
