//! The sender: sockets, threads, and the call that starts a stream.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_playout::{Cursor, NewStream, OnLink, Resend, State, StreamError, TURN};
use reelway_rtp::PayloadOptions;
use reelway_store::Store;
use reelway_supervise as supervise;
use reelway_sys::udp::UdpSocket;
use reelway_sys::wake;
use tokio::sync::oneshot;

use crate::backend::Way;
use crate::config::{SenderConfig, SenderError};
use crate::counters::Counters;
use crate::departure::Ways;
use crate::handle::StreamHandle;
use crate::inbox::{Command, Inbox};
use crate::links::Links;
use crate::path::{Path, UdpPath};
use crate::planner::Planner;
use crate::plans::Script;
use crate::reporter::Reporter;
use crate::route::{carriage, route};
use crate::rtcp::{Beats, Directory, listen};
use crate::share::Share;
use crate::shared::{Shared, ThreadSlot};
use crate::stats::SenderStats;
use crate::stream::{Out, Stream, StreamKind, TrackOut};
use crate::streams::{self, Owner, Rules, Track};
use crate::thread::{Neighbour, Parts, Priority, Thread, now};

/// Receive buffer of the RTCP sockets in bytes: room for some thousand reports.
const RTCP_RECEIVE: u32 = 1 << 20;
/// Receive buffer of the RTP sockets in bytes; nothing useful arrives there.
const RTP_RECEIVE: u32 = 4 << 10;

/// Priority in this machine's own queues, ahead of all unmarked packets (`TC_PRIO_INTERACTIVE`; the
/// highest that needs no privilege).
const PRIORITY: u8 = 6;

/// Rate limit of a track over TCP, as a multiple of its densest group's rate: high enough for its
/// largest pictures to arrive in time, and for a late viewer to catch up.
const TCP_RATE: u64 = 4;
/// The same over a limited link, where tracks are sent ahead of time while there is room.
const TCP_RATE_ON_LINK: u64 = 2;

/// A sender thread as seen from outside.
struct Worker {
    inbox: Inbox,
    counters: Arc<Counters>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Inner {
    config: SenderConfig,
    planner: Planner,
    workers: Vec<Worker>,
    /// Number of streams per thread that are not dropped yet.
    loads: Arc<[AtomicU64]>,
    rtp: Vec<SocketAddr>,
    rtcp: Vec<SocketAddr>,
    rules: Arc<Rules>,
    backend: &'static str,
    why: String,
    directory: Arc<Directory>,
    beats: Arc<Beats>,
    ways: Ways,
    links: Arc<Links>,
    serial: AtomicU64,
    closed: Arc<AtomicBool>,
}

/// Sends streams. Cheap to clone; all streams end when the last clone is dropped.
#[derive(Clone)]
pub struct Sender(Arc<Inner>);

/// Binds sockets on all `addresses` at one port; if that is 0, the first socket chooses it.
fn bind(
    addresses: &[IpAddr],
    port: u16,
    what: &'static str,
) -> Result<Vec<UdpSocket>, SenderError> {
    let mut port = port;
    let mut sockets: Vec<UdpSocket> = Vec::new();
    for ip in addresses {
        let address = SocketAddr::new(*ip, port);
        let socket = UdpSocket::bind(address).map_err(|error| SenderError::Bind {
            address,
            what,
            error,
        })?;
        port = socket.local_addr().port();
        sockets.push(socket);
    }
    Ok(sockets)
}

/// Binds the sockets for RTP and RTCP. If any ports will do, they are adjacent and RTP's is even,
/// as RFC 3550 section 11 recommends.
fn bind_both(config: &SenderConfig) -> Result<(Vec<UdpSocket>, Vec<UdpSocket>), SenderError> {
    let addresses = &config.addresses;
    let both = |rtp, rtcp| Ok((bind(addresses, rtp, "RTP")?, bind(addresses, rtcp, "RTCP")?));
    if (config.rtp_port, config.rtcp_port) != (0, 0) {
        return both(config.rtp_port, config.rtcp_port);
    }
    // The port next to a free one is seldom taken.
    let mut again = 0..32;
    loop {
        let probe = bind(&addresses[..1], 0, "RTP")?;
        let even = probe[0].local_addr().port() & !1;
        drop(probe);
        match both(even, even + 1) {
            Err(_) if again.next().is_some() => {}
            result => return result,
        }
    }
}

impl Sender {
    /// Opens the sockets and starts the threads.
    pub fn new(config: SenderConfig, store: Store) -> Result<Sender, SenderError> {
        if config.addresses.is_empty() {
            return Err(SenderError::NoAddress);
        }
        let threads = match config.threads {
            0 if !config.cores.is_empty() => config.cores.len(),
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let (rtp, rtcp) = bind_both(&config)?;
        let buffers = |socket: &UdpSocket, receive| {
            if let Err(error) = socket.set_buffers(config.send_buffer, receive) {
                tracing::debug!("buffers of {}: {error}", socket.local_addr());
            }
            if config.departures
                && let Err(error) = socket.hold_packets()
            {
                tracing::debug!("departure times of {}: {error}", socket.local_addr());
            }
            if let Err(error) = socket.set_marks(config.dscp, PRIORITY) {
                tracing::debug!("marks of {}: {error}", socket.local_addr());
            }
        };
        rtp.iter().for_each(|socket| buffers(socket, RTP_RECEIVE));
        rtcp.iter().for_each(|socket| buffers(socket, RTCP_RECEIVE));
        let at = |sockets: &[UdpSocket]| {
            sockets
                .iter()
                .map(UdpSocket::local_addr)
                .collect::<Vec<_>>()
        };
        let (rtp_at, rtcp_at) = (at(&rtp), at(&rtcp));

        let way = Way::choose(config.backend, &rtp);
        let closed = Arc::new(AtomicBool::new(false));
        let directory = Arc::new(Directory::default());
        let rtcp = Arc::new(rtcp);
        let beats = listen(&rtcp, &directory, &closed).map_err(SenderError::Thread)?;
        let nanos = |duration: Duration| duration.as_nanos().min(i64::MAX as u128) as u64;
        let smooth = nanos(config.smooth_ahead) as i64;
        let blocks = store.stats().blocks;
        let planner = Planner::start(store, config.payload, smooth).map_err(SenderError::Thread)?;
        let links = Arc::new(Links::new(&config.links, threads));
        let rules = Arc::new(Rules {
            burst: config.burst.clamp(1, 64),
            drop_after: nanos(config.drop_after),
            ahead: nanos(config.ahead) as i64,
            link_ahead: nanos(config.link_ahead).min(i64::MAX as u64 / 4),
            lag_limit: nanos(config.lag_limit),
            catch_up: nanos(config.catch_up).max(2 * TURN),
            report_interval: nanos(config.report_interval).max(TURN),
            behind: Share::behind(blocks),
            again: Share::again(blocks),
        });
        let priority = Arc::new(Priority {
            nice: config.nice.clamp(-20, 19),
            realtime: config.realtime.min(99),
            cores: config.cores.clone(),
        });
        let mut sockets_of = Vec::with_capacity(threads);
        for _ in 1..threads {
            let siblings: Result<Vec<_>, _> = rtp.iter().map(UdpSocket::sibling).collect();
            let siblings = siblings.map_err(|error| SenderError::Bind {
                address: rtp_at[0],
                what: "RTP",
                error,
            })?;
            siblings
                .iter()
                .for_each(|socket| buffers(socket, RTP_RECEIVE));
            sockets_of.push(siblings);
        }
        sockets_of.push(rtp);
        let mut workers = Vec::with_capacity(threads);
        let loads: Arc<[AtomicU64]> = (0..threads).map(|_| AtomicU64::new(0)).collect();
        let neighbours = Arc::new(OnceLock::new());
        for (number, sockets) in sockets_of.into_iter().enumerate() {
            let (sleeper, waker) = wake::pair().map_err(SenderError::Thread)?;
            let (inbox, commands) = Inbox::new(waker);
            let counters = Arc::new(Counters::default());
            let thread = Thread::new(Parts {
                inbox: inbox.clone(),
                commands,
                sleeper,
                sockets,
                reporter: Reporter::new(Arc::clone(&rtcp), config.cname.clone()),
                segmentation: way.segmentation,
                number,
                neighbours: Arc::clone(&neighbours),
                loads: Arc::clone(&loads),
                priority: Arc::clone(&priority),
                rules: Arc::clone(&rules),
                links: Arc::clone(&links),
                counters: Arc::clone(&counters),
                directory: Arc::clone(&directory),
                planner: planner.clone(),
            });
            let thread = std::thread::Builder::new()
                .name(format!("send-{number}"))
                .spawn(move || thread.run());
            let thread = Mutex::new(Some(thread.map_err(SenderError::Thread)?));
            workers.push(Worker {
                inbox,
                counters,
                thread,
            });
        }
        let neighbour = |worker: &Worker| Neighbour {
            inbox: worker.inbox.clone(),
            counters: Arc::clone(&worker.counters),
        };
        let _ = neighbours.set(workers.iter().map(neighbour).collect());
        tracing::info!(
            backend = way.name,
            threads,
            "sender started ({}): RTP from {rtp_at:?}, RTCP from {rtcp_at:?}",
            way.why
        );
        let serial = AtomicU64::new(1);
        Ok(Sender(Arc::new(Inner {
            config,
            planner,
            workers,
            loads,
            rtp: rtp_at,
            rtcp: rtcp_at,
            rules,
            backend: way.name,
            why: way.why,
            directory,
            beats,
            ways: Ways::default(),
            links,
            serial,
            closed,
        })))
    }

    /// Takes over a stream. It is prepared at once and sent when the handle says so. Errors are
    /// reported by the handle's [`StreamHandle::ready`].
    pub fn play(&self, stream: Stream) -> StreamHandle {
        let Stream { what, events } = stream;
        let (reply, first) = oneshot::channel();
        let inner = &*self.0;
        let outs: Vec<TrackOut> = match &what {
            StreamKind::Film(film) => film.tracks.clone(),
            StreamKind::File(file) => vec![TrackOut {
                track: 0,
                ..file.out.clone()
            }],
        };
        let way = match &what {
            StreamKind::Film(film) => inner.links.way(&film.links),
            StreamKind::File(_) => None,
        };
        let (wish, script) = match what {
            StreamKind::Film(film) => ((film.start, film.end), inner.planner.film(&film.film)),
            StreamKind::File(file) => ((0, None), inner.planner.file(&file)),
        };
        let clock_rate = |out: &TrackOut| match script.outline.payload(out.track) {
            Ok(Some(payload)) => payload.clock_rate(),
            _ => 90_000,
        };
        let sources = outs.iter().map(|out| (out.ssrc, clock_rate(out))).collect();
        let addresses = outs.iter().filter_map(|out| match out.out {
            Out::Udp { rtcp, .. } => Some(rtcp),
            Out::Tcp { .. } | Out::Plain { .. } => None,
        });
        let id = inner.serial.fetch_add(1, Ordering::Relaxed);
        // Choose the thread with the fewest streams.
        let load = |number: &usize| inner.loads[*number].load(Ordering::Relaxed);
        let number = (0..inner.workers.len()).min_by_key(load).unwrap_or(0);
        let worker = &inner.workers[number];
        let shared = Arc::new(Shared::new(
            id,
            events,
            sources,
            addresses.collect(),
            wish.0,
            ThreadSlot::new(Arc::clone(&inner.loads), number),
        ));
        let handle = StreamHandle::new(Arc::clone(&shared), worker.inbox.clone(), first);
        let is_limited = way.is_some();
        let tracks: Result<Vec<_>, _> = outs
            .into_iter()
            .map(|out| self.track(&script, out, is_limited))
            .collect();
        match tracks {
            Ok(tracks) => {
                let link = way.map(|way| {
                    let peaks = tracks
                        .iter()
                        .map(|track| script.outline.peak_rate(track.cursor.track));
                    let peak = peaks.fold(0, u64::saturating_add);
                    Box::new(OnLink::new(way, inner.rules.link_ahead, peak))
                });
                let is_held = |track: &Track| matches!(&track.path, Path::Udp(udp) if udp.held);
                let stream = streams::Stream::new(NewStream {
                    id,
                    held: tracks.iter().all(is_held),
                    carriage: carriage(&tracks),
                    script,
                    tracks,
                    link,
                    rules: Arc::clone(&inner.rules),
                    wish,
                    reply,
                    owner: Owner {
                        shared,
                        watcher: inner.planner.watcher(),
                    },
                });
                worker.inbox.send(Command::Add(Box::new(stream)));
            }
            Err(error) => {
                shared.set_state(State::Failed);
                let _ = reply.send(Err(error));
            }
        }
        handle
    }

    /// Sets the rate of a link in bytes per second; unknown link numbers are ignored.
    pub fn set_link_rate(&self, number: u8, rate: u64) {
        (self.0.links).set_rate(number, rate, reelway_clock::now().nanos());
    }

    /// Records that a connection other than the sender's streams (identified by any number) queues
    /// `bytes` (with all headers) over the links with these numbers. It sends at `speed` bytes per
    /// second, or as fast as the network allows. Streams leave it that much room.
    pub fn others_send(&self, links: &[u8], connection: u64, bytes: u64, speed: Option<u64>) {
        let now = reelway_clock::now().nanos();
        let sent = (bytes, speed);
        self.0.links.others_send(links, now, connection, sent);
    }

    /// Returns the path to a pair of UDP ports or, without RTP, to the first of them.
    fn udp(
        &self,
        from: Option<IpAddr>,
        (rtp, rtcp): (SocketAddr, SocketAddr),
        plain: bool,
    ) -> Result<Path, StreamError> {
        let unreachable =
            |to: SocketAddr| StreamError(format!("no address of this server reaches {to}"));
        let (socket, rtp) = route(&self.0.rtp, from, rtp).ok_or_else(|| unreachable(rtp))?;
        let (rtcp_socket, rtcp) =
            route(&self.0.rtcp, from, rtcp).ok_or_else(|| unreachable(rtcp))?;
        Ok(Path::Udp(Box::new(UdpPath {
            socket: socket as u8,
            held: self.0.config.departures
                && self.0.ways.keep_departures(rtp.address().ip(), now()),
            gso: true,
            rtp,
            rtcp_socket,
            rtcp,
            plain,
        })))
    }

    fn track(
        &self,
        script: &Script,
        out: TrackOut,
        is_limited: bool,
    ) -> Result<Track, StreamError> {
        let outline = &script.outline;
        let payload = outline.payload(out.track).map_err(StreamError)?;
        let preface = payload.map_or(0, |payload| payload.preface().packets.len());
        let path = match out.out {
            Out::Tcp { conn, rtp, rtcp } => Path::Tcp {
                _room: conn.room(
                    outline.peak_rate(out.track).saturating_mul(if is_limited {
                        TCP_RATE_ON_LINK
                    } else {
                        TCP_RATE
                    }),
                    (self.0.config.dscp, PRIORITY),
                ),
                conn,
                rtp,
                rtcp,
            },
            Out::Udp { from, rtp, rtcp } => self.udp(from, (rtp, rtcp), false)?,
            Out::Plain { from, to } => self.udp(from, (to, to), true)?,
        };
        // TCP loses nothing.
        let again = out.again.filter(|_| matches!(path, Path::Udp(_)));
        Ok(Track {
            path,
            payload_type: out.payload_type & 0x7f,
            ssrc: out.ssrc,
            seq: out.seq,
            rtp_base: out.rtp_base,
            packets: 0,
            octets: 0,
            resend: again.map(|again| Box::new(Resend::new(again))),
            cursor: Cursor::new(
                out.track,
                outline.groups(out.track),
                preface as u32,
                self.0.rules.burst,
                !is_limited,
            ),
        })
    }

    /// Returns the UDP ports of RTP and RTCP.
    pub fn ports(&self) -> (u16, u16) {
        let port = |sockets: &[SocketAddr]| sockets.first().map_or(0, SocketAddr::port);
        (port(&self.0.rtp), port(&self.0.rtcp))
    }

    /// Returns how packets are passed to the kernel, and why this way, in words.
    pub fn backend(&self) -> (&'static str, &str) {
        (self.0.backend, &self.0.why)
    }

    /// Returns the packet size limits, for the session description.
    pub fn payload_options(&self) -> PayloadOptions {
        self.0.config.payload
    }

    /// Returns when all threads that listen to receivers were last awake: everything that arrived
    /// over UDP before has been read or is being read now.
    pub fn heard_until(&self) -> Monotonic {
        self.0.beats.all()
    }

    /// Returns the current counts.
    pub fn stats(&self) -> SenderStats {
        let workers = &self.0.workers;
        let streams_of_threads: Vec<usize> = self
            .0
            .loads
            .iter()
            .map(|load| load.load(Ordering::Relaxed) as usize)
            .collect();
        SenderStats {
            backend: self.0.backend,
            streams: streams_of_threads.iter().sum(),
            streams_of_threads,
            missed: self.0.directory.missed(),
            plans: self.0.planner.plans(),
            ..SenderStats::of(workers.iter().map(|worker| &*worker.counters))
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        for worker in &self.workers {
            worker.inbox.send(Command::Close);
        }
        // Wait for the threads, so that viewers get BYE before the process ends.
        for worker in &self.workers {
            let thread = supervise::lock(&worker.thread).take();
            if let Some(thread) =
                thread.filter(|thread| thread.thread().id() != std::thread::current().id())
            {
                let _ = thread.join();
            }
        }
        self.planner.close();
    }
}
