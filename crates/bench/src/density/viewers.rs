//! The viewers, in a separate process at the other end of the cable: they request films one after
//! the other, and then only count and time packets.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail};
use reelway_yardstick::Histogram;
use reelway_yardstick::light::viewer::{LightMedia, LightViewer, describe};
use reelway_yardstick::light::{LightReceiver, LightStory};
use serde::{Deserialize, Serialize};

/// The task of the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Addresses of films, requested in turn.
    pub urls: Vec<String>,
    /// Number of viewers.
    pub viewers: u32,
    /// Their address.
    pub at: IpAddr,
    /// The most new viewers per second.
    pub per_second: f64,
    /// Seconds within which all of them must begin.
    pub patience: f64,
    /// Positions at which they begin, in turn, in seconds; if empty, at the film's beginning.
    #[serde(default)]
    pub places: Vec<f64>,
    /// The server's address for reports of missing packets; `None` if viewers send none.
    #[serde(default)]
    pub reports_to: Option<SocketAddr>,
}

/// The process's answer when all viewers have begun.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Begun {
    /// Viewers who play.
    pub playing: u32,
    /// Why others do not, in the server's words; the first five.
    pub refused: Vec<String>,
    /// How long each of the others waited for the refusal, from the connection on, ms.
    #[serde(default)]
    pub refused_ms: Vec<f64>,
    /// Number of tracks of a film.
    pub tracks: u32,
}

/// The process's answer at the end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ViewersReport {
    /// Streams that sent anything.
    pub streams: u64,
    /// Packets received.
    pub packets: u64,
    /// Packets lost.
    pub lost: u64,
    /// Viewers whose picture missed packets, or had some too late for a player with a buffer of 2
    /// s.
    #[serde(default)]
    pub harmed: u64,
    /// Packets out of order.
    pub disordered: u64,
    /// Lateness of frames, ms: median.
    pub late_p50_ms: f64,
    /// 99th percentile.
    pub late_p99_ms: f64,
    /// 99.9th percentile.
    pub late_p999_ms: f64,
    /// Maximum.
    pub late_max_ms: f64,
    /// Lateness of frames for a player that counts from its first packet, ms: 99.9th percentile.
    #[serde(default)]
    pub behind_p999_ms: f64,
    /// Maximum.
    #[serde(default)]
    pub behind_max_ms: f64,
    /// Packets of a stream within a millisecond: median over the packets.
    pub burst_p50: usize,
    /// 99th percentile.
    pub burst_p99: usize,
}

/// Viewers who set up their sessions at once.
const AT_ONCE: usize = 8;

/// Carries out the task, with the commands `judge` and `finish` on standard input.
pub fn work(task: &str) -> anyhow::Result<()> {
    let task: Task = serde_json::from_str(task).context("--task")?;
    let _ = reelway_sys::limits::raise_descriptors();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let media = runtime.block_on(first_answer(&task.urls))?;
    let start = |media: &LightMedia| {
        LightReceiver::start_reporting(task.at, 0, media.clock_rate, task.reports_to)
    };
    let receivers: Vec<LightReceiver> = media.iter().map(start).collect::<Result<_, _>>()?;
    let ports: Vec<u16> = receivers.iter().map(LightReceiver::port).collect();
    let (viewers, refused, refused_ms) = runtime.block_on(begin(&task, &ports));
    let begun = Begun {
        playing: viewers.len() as u32,
        refused,
        refused_ms,
        tracks: media.len() as u32,
    };
    println!("{}", serde_json::to_string(&begun)?);
    for line in std::io::stdin().lines() {
        match line?.as_str() {
            "judge" => receivers.iter().for_each(LightReceiver::judge),
            "finish" => break,
            _ => {}
        }
    }
    let stories: Vec<LightStory> = receivers
        .into_iter()
        .map(LightReceiver::finish)
        .collect::<Result<_, _>>()?;
    println!("{}", serde_json::to_string(&sum(&stories))?);
    // The server ends with the trial; TEARDOWN requests would only take time.
    drop(viewers);
    Ok(())
}

/// Returns the films' tracks, as soon as the server answers.
async fn first_answer(urls: &[String]) -> anyhow::Result<Vec<LightMedia>> {
    let mut last = String::new();
    for url in urls {
        let mut tracks = None;
        for _ in 0..150 {
            match describe(url).await {
                Ok(media) => {
                    tracks = Some(media);
                    break;
                }
                Err(error) => last = format!("{url}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        match tracks {
            // All films have the same tracks: one answer is enough, but every film must be
            // available.
            Some(media) if *url == urls[urls.len() - 1] => return Ok(media),
            Some(_) => {}
            None => bail!("the server does not answer: {last}"),
        }
    }
    bail!("there are no films")
}

async fn begin(task: &Task, ports: &[u16]) -> (Vec<LightViewer>, Vec<String>, Vec<f64>) {
    let began = reelway_clock::now();
    let (mut viewers, mut refused, mut waited) = (Vec::new(), Vec::new(), Vec::new());
    let mut under_way = VecDeque::new();
    type Begun = (Result<LightViewer, reelway_yardstick::Trouble>, Duration);
    let mut take = |outcome: Result<Begun, tokio::task::JoinError>| match outcome {
        Ok((Ok(viewer), _)) => viewers.push(viewer),
        Ok((Err(error), took)) => {
            waited.push(took.as_secs_f64() * 1e3);
            note(&mut refused, &error);
        }
        Err(error) => note(&mut refused, &error),
    };
    for number in 0..task.viewers {
        let due = Duration::from_secs_f64(f64::from(number) / task.per_second);
        let passed = reelway_clock::now().since(began);
        if passed > Duration::from_secs_f64(task.patience) {
            let late = reelway_yardstick::Trouble::Silence(task.patience as u64);
            take(Ok((Err(late), passed)));
            break;
        }
        tokio::time::sleep(due.saturating_sub(passed)).await;
        let url = task.urls[number as usize % task.urls.len()].clone();
        let place = task.places.get(number as usize % task.places.len().max(1));
        let (ports, place) = (ports.to_vec(), place.copied().unwrap_or(0.0));
        under_way.push_back(tokio::spawn(async move {
            let began = reelway_clock::now();
            let begun = LightViewer::begin_at(&url, &ports, place).await;
            (begun, reelway_clock::now().since(began))
        }));
        if under_way.len() >= AT_ONCE
            && let Some(oldest) = under_way.pop_front()
        {
            take(oldest.await);
        }
    }
    for rest in under_way {
        take(rest.await);
    }
    (viewers, refused, waited)
}

fn note(refused: &mut Vec<String>, error: &dyn std::fmt::Display) {
    if refused.len() < 5 {
        refused.push(error.to_string());
    }
}

fn sum(stories: &[LightStory]) -> ViewersReport {
    let (mut late, mut behind) = (Histogram::default(), Histogram::default());
    for story in stories {
        late.merge(&story.late);
        behind.merge(&story.behind);
    }
    let total = |field: fn(&LightStory) -> u64| stories.iter().map(field).sum();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let millis = |share| ms(late.percentile(share));
    // The picture only: sound is sent one packet at a time.
    let picture = stories.iter().max_by_key(|story| story.bytes);
    ViewersReport {
        streams: total(|story| story.streams),
        packets: total(|story| story.packets),
        lost: total(|story| story.lost),
        harmed: picture.map_or(0, |story| story.broken),
        disordered: total(|story| story.disordered),
        late_p50_ms: millis(0.5),
        late_p99_ms: millis(0.99),
        late_p999_ms: millis(0.999),
        late_max_ms: ms(late.max()),
        behind_p999_ms: ms(behind.percentile(0.999)),
        behind_max_ms: ms(behind.max()),
        burst_p50: picture.map_or(0, |story| story.burst(0.5)),
        burst_p99: picture.map_or(0, |story| story.burst(0.99)),
    }
}
