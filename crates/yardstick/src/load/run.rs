//! A run: starts viewers at their times, and takes a sample every second.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeValLike;
use tokio::task::JoinSet;
use tokio::time;

use super::plan::{Plan, Visit};
use super::probe::Probe;
use super::receiver::{Receiver, Sampled};
use super::rtsp::{self, Shared, ViewerReport};
use super::sample::{Sample, Samples};
use super::sources::Sources;
use super::story::{LoadStory, ViewerStory};
use crate::histogram::Histogram;
use crate::http;
use crate::outcome::{HOME_QUEUE, Outcome, many, shown, trouble};
use crate::verdict::{Fault, Finding, Verdict};

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The viewers and their behaviour.
    pub plan: Plan,
    /// The URLs of the films.
    pub urls: Vec<String>,
    /// Maximum duration; after it everybody leaves.
    pub duration: Option<Duration>,
    /// Length of a player's buffer.
    pub depth: Duration,
    /// Timeout for silence of a stream.
    pub patience: Duration,
    /// Whether RTSP viewers receive everything in their TCP connection.
    pub tcp: bool,
    /// Number of receiving threads.
    pub threads: usize,
    /// Source addresses of viewers; requires a plan with a number of viewers.
    pub sources: Option<Sources>,
    /// Whether viewers whose film has ended begin another one until `duration` is over; requires a
    /// plan with a number of viewers.
    pub again: bool,
}

impl Options {
    fn source(&self, viewer: usize) -> Option<IpAddr> {
        let viewers = self.plan.viewers.unwrap_or(1);
        self.sources
            .as_ref()
            .map(|sources| sources.of(viewer, viewers))
    }
}

/// Maximum number of samples; in a longer run each covers two, four, … seconds.
const MOST_SAMPLES: usize = 3600;
/// Viewers whose visit was shorter than this wait this long before the next one.
const REST: Duration = Duration::from_secs(1);

/// Runs the load, and calls `tell` with a sample every second.
///
/// # Errors
/// The plan and the films do not fit together, or sockets cannot be opened.
pub async fn run(options: Options, mut tell: impl FnMut(&Sample)) -> io::Result<LoadStory> {
    let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
    if options.plan.arrivals.is_endless()
        && options.plan.viewers.is_none()
        && options.duration.is_none()
    {
        return Err(invalid(
            "viewers arrive without end: limit their number or the duration".to_owned(),
        ));
    }
    if (options.again || options.sources.is_some()) && options.plan.viewers.is_none() {
        return Err(invalid("the number of viewers is not given".to_owned()));
    }
    if options.again && options.duration.is_none() {
        return Err(invalid(
            "viewers begin again without end: limit the duration".to_owned(),
        ));
    }
    let visits = options.plan.visits(options.urls.len()).map_err(invalid)?;
    let further = options.plan.further(options.urls.len());
    raise_descriptors();
    let receivers = (0..options.threads.max(1))
        .map(|_| Receiver::start())
        .collect::<io::Result<_>>()?;
    let shared = Arc::new(Shared {
        receivers,
        depth: options.depth,
        patience: options.patience,
        tcp: options.tcp,
        over: AtomicBool::new(false),
        own: AtomicBool::new(false),
        began: reelway_clock::real().nanos(),
        over_http: Mutex::default(),
    });
    let mut run = Run {
        visits: Box::new(visits),
        further: Box::new(further),
        numbered: options.plan.viewers.unwrap_or(0),
        options,
        shared: Arc::clone(&shared),
        viewers: JoinSet::new(),
        came: 0,
        story: LoadStory::default(),
        before: Sampled::default(),
        cpu: cpu(),
        samples: Samples::new(MOST_SAMPLES),
    };
    let probe = Probe::start()?;
    let ran = run.all(&mut tell).await;
    let errors = probe.finish();
    ran?;
    let Run {
        mut story,
        samples,
        shared: theirs,
        ..
    } = run;
    drop(theirs);
    story.samples = samples.into_vec();
    story.timing_error_p99_ms = millis(errors.percentile(0.99));
    let whole = story_of(&shared).await;
    story.packets += whole.packets;
    story.bytes += whole.bytes;
    story.lost += whole.lost;
    story.dropped = whole.dropped;
    story.late.merge(&whole.late);
    if let Ok(shared) = Arc::try_unwrap(shared) {
        for receiver in shared.receivers {
            receiver.stop()?;
        }
    }
    Ok(story)
}

async fn story_of(shared: &Shared) -> Sampled {
    let mut all = Sampled::default();
    if let Ok(over_http) = shared.over_http.lock() {
        all = over_http.clone();
    }
    for receiver in &shared.receivers {
        let one = receiver.sample().await;
        all.packets += one.packets;
        all.bytes += one.bytes;
        all.lost += one.lost;
        all.late.merge(&one.late);
        all.harmed += one.harmed;
        all.dropped += one.dropped;
    }
    all
}

struct Run {
    visits: Box<dyn Iterator<Item = Visit> + Send>,
    /// Draws repeated visits: by number of the visit, viewer and time.
    further: Box<dyn Fn(usize, usize, Duration) -> Visit + Send>,
    /// Number of the next repeated visit.
    numbered: usize,
    options: Options,
    shared: Arc<Shared>,
    /// Running viewers; each task returns the viewer's number and result.
    viewers: JoinSet<(usize, ViewerStory)>,
    came: usize,
    story: LoadStory,
    /// Totals at the previous sample.
    before: Sampled,
    cpu: Duration,
    samples: Samples,
}

impl Run {
    async fn all(&mut self, tell: &mut impl FnMut(&Sample)) -> io::Result<()> {
        let began = reelway_clock::now();
        let first_cpu = self.cpu;
        let mut next = self.visits.next();
        let mut sampled = Duration::ZERO;
        loop {
            let passed = reelway_clock::now().since(began);
            if self.options.duration.is_some_and(|most| passed >= most) {
                self.shared.over.store(true, Ordering::Relaxed);
                next = None;
            }
            while let Some(visit) = next.take_if(|visit| visit.at <= passed) {
                self.begin(visit);
                next = self.visits.next();
            }
            if passed >= sampled + Duration::from_secs(1) {
                let sample = self.sample(passed, passed - sampled).await;
                sampled = passed;
                tell(&sample);
                self.samples.add(sample);
            }
            if next.is_none() && self.viewers.is_empty() {
                break;
            }
            let mut wait = (sampled + Duration::from_secs(1)).saturating_sub(passed);
            for due in [
                next.as_ref().map(|visit| visit.at),
                self.options
                    .duration
                    .filter(|_| !self.shared.over.load(Ordering::Relaxed)),
            ]
            .into_iter()
            .flatten()
            {
                wait = wait.min(due.saturating_sub(passed));
            }
            tokio::select! {
                () = time::sleep(wait) => {}
                Some(ended) = self.viewers.join_next() => {
                    let (viewer, story) = ended.map_err(io::Error::other)?;
                    self.story.add(story);
                    if self.options.again && !self.shared.over.load(Ordering::Relaxed) {
                        let visit = (self.further)(self.numbered, viewer, passed);
                        self.numbered += 1;
                        self.begin(visit);
                    }
                }
            }
        }
        let passed = reelway_clock::now().since(began);
        let sample = self.sample(passed, passed - sampled).await;
        self.samples.add(sample);
        self.story.viewers = self.came;
        self.story.cpu_s = (cpu() - first_cpu).as_secs_f64();
        self.story.each.sort_by_key(|story| story.viewer);
        Ok(())
    }

    fn begin(&mut self, visit: Visit) {
        self.came += 1;
        let url = self.options.urls[visit.film].clone();
        let shared = Arc::clone(&self.shared);
        let source = self.options.source(visit.viewer);
        let again = self.options.again;
        self.viewers.spawn(async move {
            let came = shared.at();
            let story = if url.starts_with("http://") {
                let watched = watch_http(&visit, &url, source, &shared).await;
                ViewerStory::of(
                    &Outcome::of_http(&url, &watched),
                    visit.viewer,
                    came,
                    shared.at(),
                )
            } else {
                let told = rtsp::watch(&visit, &url, source, &shared).await;
                story(&visit, url, shared.tcp, came, shared.at(), told)
            };
            if again && shared.at() - came < REST.as_secs_f64() {
                // If nothing arrives, viewers do not repeat requests without a pause.
                time::sleep(REST).await;
            }
            (visit.viewer, story)
        });
    }

    async fn sample(&mut self, at: Duration, since: Duration) -> Sample {
        let now = story_of(&self.shared).await;
        let late: Histogram = now.late.since(&self.before.late);
        let cpu = cpu();
        let sample = Sample {
            at_s: at.as_secs_f64(),
            came: self.came,
            playing: self.viewers.len(),
            refused: self.story.refused,
            harmed: self.story.harmed + now.harmed,
            // A failed receiver reports zeros.
            packets: now.packets.saturating_sub(self.before.packets),
            bytes: now.bytes.saturating_sub(self.before.bytes),
            lost: now.lost as i64 - self.before.lost as i64,
            late_p50_ms: millis(late.percentile(0.5)),
            late_p99_ms: millis(late.percentile(0.99)),
            late_p999_ms: millis(late.percentile(0.999)),
            late_max_ms: millis(late.max()),
            dropped: now.dropped,
            cpu: (cpu - self.cpu).as_secs_f64() / since.as_secs_f64().max(1e-3),
        };
        self.cpu = cpu;
        self.before = now;
        sample
    }
}

/// Watches as a player over HTTP that only counts and times.
async fn watch_http(
    visit: &Visit,
    url: &str,
    source: Option<IpAddr>,
    shared: &Shared,
) -> http::Watched {
    let options = http::Options {
        duration: visit.watch,
        depth: shared.depth,
        patience: shared.patience,
        look: false,
        source,
        progress: Arc::default(),
    };
    let over = || shared.over.load(Ordering::Relaxed);
    let came = |bytes, late| shared.note_segment(bytes, late);
    http::watch(url, &options, None, (over, came)).await
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Combines the results of a viewer's reception and control connection.
fn story(
    visit: &Visit,
    url: String,
    tcp: bool,
    came: f64,
    left: f64,
    told: ViewerReport,
) -> ViewerStory {
    let ViewerReport {
        seen,
        trouble: stopped,
        short,
        events,
    } = told;
    let mut findings: Vec<Finding> = stopped.iter().map(trouble).collect();
    if let (Some(finding), Some(_)) = (findings.first_mut(), seen.start) {
        // Playback had begun.
        finding.fault = Fault::BrokenOff;
        finding.words = format!("the film broke off: {}", finding.words);
    }
    if stopped.is_none() && seen.start.is_none() {
        findings.push(Finding::seen(Fault::BrokenOff, "nothing came"));
    }
    if let Some(short) = short {
        findings.push(Finding::seen(
            Fault::BrokenOff,
            format!(
                "the server ended the film {:.1} s before its end",
                short as f64 / 1e9
            ),
        ));
    }
    let tally = seen.tally;
    if tally.lost > 0 {
        let share = 100.0 * tally.lost as f64 / (tally.lost + tally.packets) as f64;
        findings.push(Finding::seen(
            Fault::Lost,
            format!("{} never arrived ({share:.2}%)", many(tally.lost, "packet")),
        ));
    }
    findings.extend(shown(&seen.playback));
    for (count, fault, words) in [
        (tally.reordered, Fault::Reordered, "arrived out of order"),
        (tally.repeated, Fault::Repeated, "arrived twice"),
    ] {
        if count > 0 {
            let words = format!("{} {words}", many(count, "packet"));
            findings.push(Finding::noticed(fault, words));
        }
    }
    if seen.burst > HOME_QUEUE && !tcp {
        findings.push(Finding::noticed(
            Fault::Burst,
            format!("a burst of {} packets within a millisecond", seen.burst),
        ));
    }
    let verdict = Verdict::of(findings);
    ViewerStory {
        viewer: visit.viewer + 1,
        url,
        protocol: format!("RTSP over {}", if tcp { "TCP" } else { "UDP" }),
        came_s: came,
        left_s: left,
        verdict: verdict.word(),
        findings: verdict.findings,
        start_ms: seen.start.map(millis),
        packets: tally.packets,
        bytes: tally.bytes,
        lost: tally.lost,
        late_p99_ms: millis(tally.late.percentile(0.99)),
        late_max_ms: millis(tally.late.max()),
        stalls: seen.playback.stalls,
        stalled_ms: millis(seen.playback.stalled()),
        burst: seen.burst,
        events,
    }
}

/// Returns the user and system time of this process so far.
fn cpu() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return Duration::ZERO;
    };
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(micros.max(0) as u64)
}

/// Raises the limit on file descriptors, as every viewer needs at least one.
fn raise_descriptors() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // If this fails, connecting will report it.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}
