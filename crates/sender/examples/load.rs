//! Sends many streams of one film to a sink on loopback: measures the cost and lateness of a
//! stream.
//!
//! ```text
//! cargo run --release -p reelway-sender --example load -- FILM [--streams 200] [--seconds 30]
//!     [--burst 8] [--threads 1] [--places 200] [--pool MIB] [--backend NAME] [--drop | --to ADDRESS:PORT]
//! ```
//!
//! Streams start at different places. The sink checks sequence numbers and, from the kernel's
//! receive timestamps, counts the packets of each stream in every millisecond. With `--drop` it
//! reads nothing, so that only sending costs CPU time. `--to` sends to another address (a dummy
//! interface, for example).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use reelway_catalogue::{Film, Growth, index_path};
use reelway_library::OpenFilm;
use reelway_media::IndexOptions;
use reelway_sender::{
    BackendChoice, FilmStream, Out, Sender, SenderConfig, Stream, StreamKind, TrackOut,
};
use reelway_store::{Store, StoreConfig};
use reelway_sys::udp::UdpSocket;

struct Options {
    film: PathBuf,
    streams: u32,
    places: u32,
    seconds: u64,
    burst: u16,
    threads: usize,
    backend: BackendChoice,
    /// MiB.
    pool: u64,
    reads: bool,
    to: Option<SocketAddr>,
}

fn options() -> Option<Options> {
    let mut options = Options {
        film: PathBuf::new(),
        streams: 200,
        places: 200,
        seconds: 30,
        burst: 8,
        threads: 1,
        backend: BackendChoice::Auto,
        pool: 512,
        reads: true,
        to: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--backend" => options.backend = args.next()?.parse().ok()?,
            "--drop" => options.reads = false,
            "--to" => {
                options.to = Some(args.next()?.parse().ok()?);
                options.reads = false;
            }
            "--pool" => options.pool = args.next()?.parse().ok()?,
            "--streams" => options.streams = args.next()?.parse().ok()?,
            "--places" => options.places = args.next()?.parse().ok()?,
            "--seconds" => options.seconds = args.next()?.parse().ok()?,
            "--burst" => options.burst = args.next()?.parse().ok()?,
            "--threads" => options.threads = args.next()?.parse().ok()?,
            film => options.film = film.into(),
        }
    }
    (options.film != PathBuf::new()).then_some(options)
}

#[derive(Default)]
struct Sink {
    packets: AtomicU64,
    holes: AtomicU64,
    /// Most packets of a stream (all its tracks) within a millisecond.
    burst: AtomicU64,
}

fn receive(socket: &UdpSocket, sink: &Sink, stop: &AtomicBool) {
    // The next sequence number of each SSRC; arrival times of the last packets of each stream.
    let mut tracks: HashMap<u32, u16> = HashMap::new();
    let mut streams: HashMap<u32, Vec<u64>> = HashMap::new();
    let mut buffer = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        let Ok((_, at)) = socket.receive_stamped(&mut buffer) else {
            continue;
        };
        let ssrc = u32::from_be_bytes([buffer[8], buffer[9], buffer[10], buffer[11]]);
        let seq = u16::from_be_bytes([buffer[2], buffer[3]]);
        let hole = tracks
            .insert(ssrc, seq.wrapping_add(1))
            .is_some_and(|next| next != seq);
        let times = streams.entry(ssrc >> 1).or_default();
        times.retain(|time| time + 1_000_000 > at);
        times.push(at);
        sink.packets.fetch_add(1, Ordering::Relaxed);
        sink.holes.fetch_add(u64::from(hole), Ordering::Relaxed);
        sink.burst.fetch_max(times.len() as u64, Ordering::Relaxed);
    }
}

fn main() {
    let Some(options) = options() else {
        eprintln!(
            "usage: load FILM [--streams N] [--places N] [--seconds S] [--burst N] [--threads N] [--pool MIB] [--backend NAME] [--drop | --to ADDRESS:PORT]"
        );
        std::process::exit(2);
    };
    let (identity, index) = index_path(&options.film, IndexOptions::default()).expect("a film");
    let duration = index.title.duration;
    let samples: Arc<dyn reelway_media::Samples> = Arc::new(index.tables);
    let film = Film {
        name: "load".into(),
        path: options.film.clone(),
        identity,
        title: Arc::new(index.title),
        samples,
        growth: Growth::default(),
    };
    let film = Arc::new(film);
    let store = Store::new(StoreConfig {
        pool_bytes: options.pool << 20,
        ..StoreConfig::default()
    })
    .expect("a store");
    let config = SenderConfig {
        rtp_port: 0,
        rtcp_port: 0,
        threads: options.threads,
        burst: options.burst,
        backend: options.backend,
        addresses: vec![if options.to.is_some() {
            [0, 0, 0, 0].into()
        } else {
            [127, 0, 0, 1].into()
        }],
        ..SenderConfig::default()
    };
    let sender = Sender::new(config, store.clone()).expect("a sender");
    let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    socket
        .set_buffers(4096, if options.reads { 64 << 20 } else { 0 })
        .expect("buffers");
    socket.set_timestamps().expect("timestamps");
    socket
        .set_receive_timeout(Duration::from_millis(200))
        .expect("a timeout");
    let to = options.to.unwrap_or(socket.local_addr());
    let rtcp = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let (sink, stop) = (Arc::new(Sink::default()), Arc::new(AtomicBool::new(false)));
    let socket = Arc::new(socket);
    let receiver = options.reads.then(|| {
        let (socket, sink, stop) = (Arc::clone(&socket), Arc::clone(&sink), Arc::clone(&stop));
        std::thread::spawn(move || receive(&socket, &sink, &stop))
    });

    let film = OpenFilm::open(film, &store).expect("the film");
    let tracks = film.film().title.tracks.len().min(2);
    let room = (duration - (options.seconds as i64 + 2) * 1_000_000_000).max(0);
    let handles: Vec<_> = (0..options.streams)
        .map(|number| {
            let track = |track: usize| TrackOut {
                track,
                payload_type: 96 + track as u8,
                ssrc: number << 1 | track as u32,
                seq: 0,
                rtp_base: 0,
                again: None,
                out: Out::Udp {
                    from: None,
                    rtp: to,
                    rtcp: rtcp.local_addr(),
                },
            };
            let place = number % options.places.max(1);
            let what = StreamKind::Film(FilmStream {
                film: film.clone(),
                tracks: (0..tracks).map(track).collect(),
                start: room / i64::from(options.places.max(1)) * i64::from(place),
                end: None,
                links: Vec::new(),
            });
            sender.play(Stream {
                what,
                events: Box::new(|event| eprintln!("{event:?}")),
            })
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    for handle in &handles {
        runtime.block_on(handle.ready()).expect("ready");
        handle.go();
        // Viewers do not all arrive in the same millisecond.
        std::thread::sleep(Duration::from_micros(
            1_000_000 / u64::from(options.streams.max(1)),
        ));
    }
    let (before, cpu) = (sender.stats(), reelway_sys::time::process_cpu_ns());
    let began = reelway_clock::now();
    std::thread::sleep(Duration::from_secs(options.seconds));
    let (after, took) = (
        sender.stats(),
        reelway_clock::now().since(began).as_secs_f64(),
    );
    let process = (reelway_sys::time::process_cpu_ns() - cpu) as f64 / 1e6;
    let threads = (after.cpu - before.cpu).as_secs_f64() * 1e3;
    let stream_seconds = took * f64::from(options.streams);
    let packets = (after.packets - before.packets) as f64;
    println!(
        "backend {}, {} streams, {took:.1} s, burst {}",
        after.backend, options.streams, options.burst
    );
    println!("packets a second        {:.0}", packets / took);
    println!(
        "Mb/s a stream           {:.2}",
        (after.bytes - before.bytes) as f64 * 8.0 / 1e6 / stream_seconds
    );
    println!(
        "packets a run           {:.2}",
        packets / (after.runs - before.runs) as f64
    );
    println!(
        "runs a system call      {:.2}",
        (after.runs - before.runs) as f64 / (after.calls - before.calls) as f64
    );
    println!(
        "calls a stream-second   {:.1}",
        (after.calls - before.calls) as f64 / stream_seconds
    );
    println!(
        "turns a second          {:.0}",
        (after.turns - before.turns) as f64 / took
    );
    println!(
        "sender CPU ms/stream-s  {:.3}  ({:.0} ns a packet, {:.1}% of a core)",
        threads / stream_seconds,
        threads * 1e6 / packets,
        threads / took / 10.0
    );
    println!(
        "process CPU ms/stream-s {:.3}  (with the sink, if it reads)",
        process / stream_seconds
    );
    println!(
        "late p50 {:?} p99 {:?} p99.9 {:?} max {:?}",
        after.late.p50, after.late.p99, after.late.p999, after.late.max
    );
    println!(
        "retried {}, refused {}, shifts {}",
        after.retried, after.refused, after.shifts
    );
    let stats = store.stats();
    println!(
        "pool: {} of {} blocks in use, hits {}, misses {}, read {} MiB, plans {}",
        stats.in_use,
        stats.blocks,
        stats.hits,
        stats.misses,
        stats.bytes_read >> 20,
        after.plans
    );
    drop(handles);
    drop(sender);
    stop.store(true, Ordering::Relaxed);
    if let Some(receiver) = receiver {
        let _ = receiver.join();
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        println!(
            "sink: {} packets, {} holes, most in a millisecond {}",
            load(&sink.packets),
            load(&sink.holes),
            load(&sink.burst)
        );
    }
}
