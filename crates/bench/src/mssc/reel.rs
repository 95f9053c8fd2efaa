//! Reelway's sender with the same tasks: streams are handed over once, then this process sleeps.

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use reelway_catalogue::{Film, Growth, index_path};
use reelway_library::OpenFilm;
use reelway_media::{IndexOptions, Kind};
use reelway_rtp::{Header, PayloadOptions};
use reelway_sender::{
    BackendChoice, FileStream, FilmStream, Lateness, Out, Sender, SenderConfig, Stream,
    StreamEvent, StreamHandle, StreamKind, TrackOut,
};
use reelway_store::{Store, StoreConfig};

use super::task::{Account, Late, MEASURING, Outcome, Sessions, Traffic, Way};
use crate::bed::machine;

/// Size of an RTP packet of film traffic, in bytes.
pub const PACKET: usize = 1328;

/// Returns the names of the sender's backends that this machine supports; the first is the default.
pub fn backends() -> &'static [&'static str] {
    static ALL: OnceLock<Vec<&'static str>> = OnceLock::new();
    ALL.get_or_init(|| {
        let tried = |choice: &BackendChoice| {
            let store = Store::new(StoreConfig {
                pool_bytes: 8 << 20,
                ..StoreConfig::default()
            })
            .ok()?;
            let config = SenderConfig {
                rtp_port: 0,
                rtcp_port: 0,
                threads: 1,
                backend: *choice,
                ..SenderConfig::default()
            };
            Some(Sender::new(config, store).ok()?.stats().backend)
        };
        let mut all: Vec<&'static str> = Vec::new();
        // `Auto` is the first of them. An unsupported backend falls back to one already in the
        // list.
        for backend in BackendChoice::NAMES
            .iter()
            .filter_map(|(choice, _)| tried(choice))
        {
            if !all.contains(&backend) {
                all.push(backend);
            }
        }
        all
    })
}

/// Returns the way with the sender's default backend.
pub fn chosen(burst: u16) -> Way {
    let backend = backends().first().copied().unwrap_or("auto").to_owned();
    Way::Reelway { backend, burst }
}

fn config(
    backend: &str,
    burst: u16,
    from: IpAddr,
    normal_priority: bool,
) -> anyhow::Result<SenderConfig> {
    let backend = backend
        .parse()
        .map_err(|error: String| anyhow!("backend: {error}"))?;
    let own = SenderConfig::default();
    Ok(SenderConfig {
        nice: if normal_priority { 0 } else { own.nice },
        addresses: vec![from],
        rtp_port: 0,
        rtcp_port: 0,
        threads: 1,
        burst,
        backend,
        payload: PayloadOptions {
            max_payload: PACKET - Header::BYTES,
        },
        ..own
    })
}

fn started(
    backend: &str,
    burst: u16,
    from: IpAddr,
    pool_bytes: u64,
    normal_priority: bool,
) -> anyhow::Result<(Store, Sender)> {
    // If the limit cannot be raised, whatever needs more descriptors reports an error.
    let _ = reelway_sys::limits::raise_descriptors();
    let store = Store::new(StoreConfig {
        pool_bytes,
        ..StoreConfig::default()
    })?;
    // Preparing the pool's memory is not part of a stream's cost.
    while store.stats().ready < store.stats().blocks {
        std::thread::sleep(Duration::from_millis(5));
    }
    let sender = Sender::new(
        config(backend, burst, from, normal_priority)?,
        store.clone(),
    )?;
    let is = sender.stats().backend;
    if is != backend {
        bail!("asked for the backend '{backend}', got '{is}'");
    }
    Ok((store, sender))
}

/// Waits until all streams are ready, and starts them: at once, or one after the other over a time.
fn go(handles: &[StreamHandle], over: Duration) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    for handle in handles {
        runtime
            .block_on(handle.ready())
            .map_err(|error| anyhow!("{error}"))?;
    }
    let began = reelway_clock::now();
    for (number, handle) in handles.iter().enumerate() {
        // Not at equal intervals, which may match the films' own: all frames would be due together.
        let place = number as f64 + (number as f64 * 0.618_034).fract();
        let wait = over.mul_f64(place / handles.len() as f64);
        std::thread::sleep(wait.saturating_sub(reelway_clock::now().since(began)));
        handle.go();
    }
    Ok(())
}

fn finish(
    outcome: &mut Outcome,
    late: Lateness,
    store: &Store,
    sender: &Sender,
) -> anyhow::Result<()> {
    let stats = sender.stats();
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    outcome.late = Late {
        p50: millis(late.p50),
        p99: millis(late.p99),
        p999: millis(late.p999),
        max: millis(late.max),
    };
    outcome.refused = stats.refused;
    outcome.backend = stats.backend.to_owned();
    outcome.descriptors = machine::descriptors();
    outcome.memory = machine::memory_of(std::process::id())?.0;
    let pool = store.stats();
    outcome.pool = pool.blocks * u64::from(pool.block_bytes);
    outcome.bytes_read = pool.bytes_read;
    Ok(())
}

/// Sends the paper's sessions.
pub fn sessions(task: &Sessions, backend: &str) -> anyhow::Result<Outcome> {
    let from = match task.to.ip() {
        IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(_) => IpAddr::from(std::net::Ipv6Addr::LOCALHOST),
    };
    let (store, sender) = started(backend, 8, from, 16 << 20, task.normal_priority)?;
    let account = Account::open()?;
    let source = store
        .open(&task.file)
        .with_context(|| task.file.display().to_string())?;
    let (tell, events) = mpsc::channel();
    let handles: Vec<StreamHandle> = (0..task.sessions)
        .map(|ssrc| {
            let tell = tell.clone();
            let out = track(0, ssrc, task.to, task.to);
            let what = StreamKind::File(FileStream {
                source: Arc::clone(&source),
                position: 0,
                packet_bytes: task.bytes,
                interval: Duration::from_micros(task.interval_us),
                packets: Some(task.packets.into()),
                timestamp_step: (task.interval_us * 9 / 100) as u32,
                out,
            });
            sender.play(Stream {
                what,
                events: Box::new(move |event| drop(tell.send(event))),
            })
        })
        .collect();
    go(&handles, Duration::ZERO)?;
    let patience = Duration::from_micros(task.interval_us * u64::from(task.packets)) * 2
        + Duration::from_secs(10);
    let mut playing = task.sessions;
    while playing > 0 {
        match events
            .recv_timeout(patience)
            .context("the streams do not end")?
        {
            StreamEvent::Ended => playing -= 1,
            StreamEvent::Failed(reason) => bail!("a stream failed: {reason}"),
            StreamEvent::Report(_) | StreamEvent::Alive | StreamEvent::Left => {}
        }
    }
    let mut outcome = account.close()?;
    let stats = sender.stats();
    (outcome.packets, outcome.calls, outcome.runs) = (stats.packets, stats.calls, stats.runs);
    finish(&mut outcome, sender.stats().late, &store, &sender)?;
    Ok(outcome)
}

fn track(
    track: usize,
    ssrc: u32,
    rtp: std::net::SocketAddr,
    rtcp: std::net::SocketAddr,
) -> TrackOut {
    let out = Out::Udp {
        from: None,
        rtp,
        rtcp,
    };
    TrackOut {
        track,
        payload_type: 96 + track as u8,
        ssrc,
        seq: 0,
        rtp_base: 0,
        again: None,
        out,
    }
}

fn film(path: &Path, store: &Store) -> anyhow::Result<OpenFilm> {
    let (identity, index) = index_path(path, IndexOptions::default())?;
    let film = Film {
        name: path.display().to_string(),
        path: path.to_owned(),
        identity,
        title: Arc::new(index.title),
        samples: Arc::new(index.tables),
        growth: Growth::default(),
    };
    Ok(OpenFilm::open(Arc::new(film), store)?)
}

/// Sends film traffic.
pub fn traffic(task: &Traffic, backend: &str, burst: u16) -> anyhow::Result<Outcome> {
    let (store, sender) = started(backend, burst, task.from, task.pool, false)?;
    let films: Vec<_> = task
        .films
        .iter()
        .map(|path| film(path, &store))
        .collect::<anyhow::Result<_>>()?;
    let rtcp = std::net::SocketAddr::new(task.to.ip(), task.to.port() + 1);
    let seconds = task.warm_up + task.seconds + 5.0;
    let handles: Vec<StreamHandle> = (0..task.streams)
        .map(|number| {
            let opened = &films[number as usize % films.len()];
            let film = opened.film();
            let tracks = film.title.tracks.iter().enumerate();
            let tracks = tracks.filter(|(_, track)| task.sound || track.kind == Kind::Video);
            let ssrc = |track: usize| number * 2 + track as u32;
            // Positions spread over the films, as far as the duration of the run leaves room.
            let room = (film.title.duration as f64 / 1e9 - seconds).max(0.0);
            let place = room * f64::from(number) / f64::from(task.streams.max(1));
            let what = StreamKind::Film(FilmStream {
                links: Vec::new(),
                film: opened.clone(),
                tracks: tracks
                    .map(|(at, _)| track(at, ssrc(at), task.to, rtcp))
                    .collect(),
                start: (place * 1e9) as i64,
                end: None,
            });
            sender.play(Stream {
                what,
                events: Box::new(|_| {}),
            })
        })
        .collect();
    go(&handles, Duration::from_secs_f64(task.warm_up / 2.0))?;
    std::thread::sleep(Duration::from_secs_f64(task.warm_up / 2.0));
    println!("{MEASURING}");
    let (account, before) = (Account::open()?, sender.stats());
    std::thread::sleep(Duration::from_secs_f64(task.seconds));
    let mut outcome = account.close()?;
    let after = sender.stats();
    outcome.packets = after.packets - before.packets;
    outcome.calls = after.calls - before.calls;
    outcome.runs = after.runs - before.runs;
    let late = after.late_counts.since(&before.late_counts);
    finish(&mut outcome, late, &store, &sender)?;
    let failed = handles
        .iter()
        .filter(|handle| handle.progress().state == reelway_sender::State::Failed);
    let failed = failed.count();
    if failed > 0 {
        bail!("{failed} streams failed");
    }
    Ok(outcome)
}
