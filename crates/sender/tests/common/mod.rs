//! A film made in memory, and receivers that record everything.
#![allow(dead_code, unused_imports)] // Each test uses a part.

mod film;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use reelway_library::OpenFilm;
use reelway_sender::{
    BackendChoice, FilmStream, Out, Sender, SenderConfig, Stream, StreamEvent, StreamHandle,
    StreamKind, TrackOut,
};
use reelway_store::{Store, StoreConfig};
use reelway_sys::udp::UdpSocket;
use reelway_tests::wait;

pub use film::*;

pub fn store() -> Store {
    Store::new(StoreConfig {
        pool_bytes: 32 << 20,
        ..StoreConfig::default()
    })
    .unwrap()
}

/// Creates a sender on ports chosen by the system.
pub fn sender(store: &Store, change: impl FnOnce(&mut SenderConfig)) -> Sender {
    let mut config = SenderConfig {
        rtp_port: 0,
        rtcp_port: 0,
        threads: 1,
        ..SenderConfig::default()
    };
    change(&mut config);
    Sender::new(config, store.clone()).unwrap()
}

/// All backends.
pub const BACKENDS: [BackendChoice; 2] = [BackendChoice::Gso, BackendChoice::Sendmmsg];

/// Creates a sender that uses this backend and no other.
pub fn sender_by(
    backend: BackendChoice,
    store: &Store,
    change: impl FnOnce(&mut SenderConfig),
) -> Sender {
    let sender = sender(store, |config| {
        config.backend = backend;
        change(config);
    });
    let (taken, why) = sender.backend();
    assert_eq!(taken, backend.to_string(), "{why}");
    assert_eq!(sender.stats().backend, taken);
    sender
}

/// Opens a socket whose packets nobody reads.
pub fn sink() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap()
}

/// An RTP packet as it arrived.
#[derive(Clone, Debug)]
pub struct Got {
    /// Time of arrival, ns since 1970.
    pub at: u64,
    pub marker: bool,
    pub payload_type: u8,
    pub seq: u16,
    pub timestamp: u32,
    pub ssrc: u32,
    pub payload: Vec<u8>,
}

impl Got {
    pub fn read(bytes: &[u8], at: u64) -> Got {
        assert!(bytes.len() > 12 && bytes[0] == 0x80, "an RTP packet");
        let word = |from: usize| u32::from_be_bytes(bytes[from..from + 4].try_into().unwrap());
        Got {
            at,
            marker: bytes[1] >> 7 == 1,
            payload_type: bytes[1] & 0x7f,
            seq: word(0) as u16,
            timestamp: word(4),
            ssrc: word(8),
            payload: bytes[12..].to_vec(),
        }
    }
}

/// A list that a thread shares with others.
type Kept<T> = Arc<Mutex<Vec<T>>>;
/// Stores a datagram and its time of arrival.
type Keep = Box<dyn Fn(&[u8], u64) + Send>;

/// A pair of sockets that records everything it receives.
pub struct Receiver {
    pub rtp: SocketAddr,
    pub rtcp: SocketAddr,
    packets: Kept<Got>,
    reports: Kept<(u64, Vec<u8>)>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    pub rtcp_socket: Arc<UdpSocket>,
}

impl Default for Receiver {
    fn default() -> Self {
        Receiver::at("127.0.0.1:0")
    }
}

impl Receiver {
    pub fn at(address: &str) -> Receiver {
        let open = || {
            let socket = UdpSocket::bind(address.parse().unwrap()).unwrap();
            socket.set_buffers(4096, 8 << 20).unwrap();
            socket.set_timestamps().unwrap();
            socket
                .set_receive_timeout(Duration::from_millis(50))
                .unwrap();
            Arc::new(socket)
        };
        let (rtp_socket, rtcp_socket) = (open(), open());
        let (rtp, rtcp) = (rtp_socket.local_addr(), rtcp_socket.local_addr());
        let stop = Arc::new(AtomicBool::new(false));
        let packets: Kept<Got> = Arc::default();
        let reports: Kept<(u64, Vec<u8>)> = Arc::default();
        let listen = |socket: Arc<UdpSocket>, keep: Keep| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut buffer = [0; 65_536];
                while !stop.load(Ordering::Relaxed) {
                    if let Ok((bytes, at)) = socket.receive_stamped(&mut buffer) {
                        keep(&buffer[..bytes], at);
                    }
                }
            })
        };
        let (keep_packets, keep_reports) = (Arc::clone(&packets), Arc::clone(&reports));
        let threads = vec![
            listen(
                rtp_socket,
                Box::new(move |bytes, at| keep_packets.lock().unwrap().push(Got::read(bytes, at))),
            ),
            listen(
                Arc::clone(&rtcp_socket),
                Box::new(move |bytes, at| keep_reports.lock().unwrap().push((at, bytes.to_vec()))),
            ),
        ];
        Receiver {
            rtp,
            rtcp,
            packets,
            reports,
            stop,
            threads,
            rtcp_socket,
        }
    }

    pub fn out(&self) -> Out {
        Out::Udp {
            from: None,
            rtp: self.rtp,
            rtcp: self.rtcp,
        }
    }

    pub fn count(&self) -> usize {
        self.packets.lock().unwrap().len()
    }

    pub fn packets(&self) -> Vec<Got> {
        self.packets.lock().unwrap().clone()
    }

    pub fn clear(&self) {
        self.packets.lock().unwrap().clear();
        self.reports.lock().unwrap().clear();
    }

    /// Returns the sender reports with their times of arrival.
    pub fn reports(&self) -> Vec<Report> {
        self.reports
            .lock()
            .unwrap()
            .iter()
            .map(|(at, bytes)| Report::read(*at, bytes))
            .collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A sender report as it arrived.
#[derive(Clone, Debug)]
pub struct Report {
    pub at: u64,
    pub ssrc: u32,
    pub ntp: u64,
    pub rtp_time: u32,
    pub packets: u32,
    pub octets: u32,
    pub cname: bool,
    pub bye: bool,
}

impl Report {
    pub fn read(at: u64, bytes: &[u8]) -> Report {
        let word = |from: usize| u32::from_be_bytes(bytes[from..from + 4].try_into().unwrap());
        assert_eq!(bytes[1], 200, "a sender report first");
        assert_eq!(bytes[29], 202, "then SDES");
        let sdes = 4 * (word(28) as usize & 0xffff) + 4;
        Report {
            at,
            ssrc: word(4),
            ntp: u64::from(word(8)) << 32 | u64::from(word(12)),
            rtp_time: word(16),
            packets: word(20),
            octets: word(24),
            cname: bytes[36] == 1,
            bye: bytes.get(28 + sdes + 1) == Some(&203),
        }
    }
}

/// Builds a NACK for packets of `source` with these numbers (RFC 4585 section 6.2.1).
pub fn nack(source: u32, lost: &[u16]) -> Vec<u8> {
    let mut out = vec![0x81, 205];
    out.extend_from_slice(&(2 + lost.len() as u16).to_be_bytes());
    out.extend_from_slice(&[7; 4]);
    out.extend_from_slice(&source.to_be_bytes());
    for seq in lost {
        out.extend_from_slice(&seq.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
    }
    out
}

/// Creates an ordinary sender with one viewer.
pub fn one_viewer() -> (Store, Sender, Viewer) {
    let store = store();
    let sender = sender(&store, |_| {});
    (store, sender, Viewer::default())
}

/// A viewer of both tracks of a film, with a receiver for each.
#[derive(Default)]
pub struct Viewer {
    pub video: Receiver,
    pub audio: Receiver,
    pub events: Arc<Mutex<Vec<StreamEvent>>>,
}

pub const VIDEO_SSRC: u32 = 0x1111_1111;
pub const AUDIO_SSRC: u32 = 0x2222_2222;
pub const VIDEO_BASE: u32 = 0xffff_f000;
pub const AUDIO_BASE: u32 = 12_345;
pub const VIDEO_SEQ: u16 = 65_500;

impl Viewer {
    pub fn stream(&self, film: &TestFilm, store: &Store, start: i64, end: Option<i64>) -> Stream {
        stream(
            film,
            store,
            start,
            end,
            self.video.out(),
            self.audio.out(),
            &self.events,
        )
    }

    /// Plays a film from the beginning as soon as it is ready.
    pub fn plays(&self, sender: &Sender, film: &TestFilm, store: &Store) -> StreamHandle {
        let handle = sender.play(self.stream(film, store, 0, None));
        block(handle.ready()).unwrap();
        handle.go();
        handle
    }

    pub fn wait_for_the_end(&self) {
        wait_until("the end", || self.has(|event| *event == StreamEvent::Ended));
    }

    /// Waits for the film's end, and until everything sent has arrived.
    pub fn gets_everything(&self, handle: &StreamHandle) {
        self.wait_for_the_end();
        self.wait_for_what_is_on_its_way(handle);
        let said_bye = |of: &Receiver| of.reports().last().is_some_and(|report| report.bye);
        wait_until("BYE", || said_bye(&self.video) && said_bye(&self.audio));
    }

    /// Waits until everything sent has arrived.
    pub fn wait_for_what_is_on_its_way(&self, handle: &StreamHandle) {
        wait_until("what is on its way", || {
            self.count() as u64 == handle.progress().packets
        });
    }

    /// Returns the number of packets that arrived.
    pub fn count(&self) -> usize {
        self.video.count() + self.audio.count()
    }

    pub fn has(&self, event: impl Fn(&StreamEvent) -> bool) -> bool {
        self.events.lock().unwrap().iter().any(event)
    }
}

pub fn stream(
    film: &TestFilm,
    store: &Store,
    start: i64,
    end: Option<i64>,
    video: Out,
    audio: Out,
    events: &Arc<Mutex<Vec<StreamEvent>>>,
) -> Stream {
    let tracks = vec![
        TrackOut {
            track: 0,
            payload_type: 96,
            ssrc: VIDEO_SSRC,
            seq: VIDEO_SEQ,
            rtp_base: VIDEO_BASE,
            again: None,
            out: video,
        },
        TrackOut {
            track: 1,
            payload_type: 97,
            ssrc: AUDIO_SSRC,
            seq: 7,
            rtp_base: AUDIO_BASE,
            again: None,
            out: audio,
        },
    ];
    let opened = OpenFilm::open(Arc::clone(&film.film), store).unwrap();
    let events = Arc::clone(events);
    Stream {
        what: StreamKind::Film(FilmStream {
            links: Vec::new(),
            film: opened,
            tracks,
            start,
            end,
        }),
        events: Box::new(move |event| events.lock().unwrap().push(event)),
    }
}

/// Waits until a condition holds; fails after ten seconds.
pub fn wait_until(what: &str, so: impl Fn() -> bool) {
    let waited = wait::until(Duration::from_secs(10), || so().then_some(()));
    waited.unwrap_or_else(|| panic!("waited in vain for {what}"));
}

/// Runs a future on this thread.
pub fn block<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

/// Checks that sequence numbers are consecutive from `first` on.
pub fn assert_whole(packets: &[Got], first: u16) {
    for (number, packet) in packets.iter().enumerate() {
        assert_eq!(
            packet.seq,
            first.wrapping_add(number as u16),
            "packet {number} of {}",
            packets.len()
        );
    }
}

/// Checks that there are at most `most` packets in any millisecond.
pub fn assert_bursts(times: &[u64], most: usize) {
    let mut times = times.to_vec();
    times.sort_unstable();
    for (number, start) in times.iter().enumerate() {
        let within = times[number..]
            .iter()
            .take_while(|at| **at < start + 1_000_000)
            .count();
        assert!(
            within <= most,
            "{within} packets within a millisecond, {most} allowed"
        );
    }
}

/// Returns NAL units with their timestamps (RFC 6184).
pub fn nals(packets: &[Got]) -> Vec<(u32, Vec<u8>)> {
    let mut out: Vec<(u32, Vec<u8>)> = Vec::new();
    for packet in packets {
        let payload = &packet.payload;
        match payload[0] & 0x1f {
            24 => {
                let mut at = 1;
                while at < payload.len() {
                    let len = usize::from(payload[at]) << 8 | usize::from(payload[at + 1]);
                    out.push((packet.timestamp, payload[at + 2..at + 2 + len].to_vec()));
                    at += 2 + len;
                }
            }
            28 => {
                if payload[1] & 0x80 != 0 {
                    out.push((
                        packet.timestamp,
                        vec![payload[0] & 0xe0 | payload[1] & 0x1f],
                    ));
                }
                out.last_mut().unwrap().1.extend_from_slice(&payload[2..]);
            }
            _ => out.push((packet.timestamp, payload.clone())),
        }
    }
    out
}

/// Returns access units with their timestamps (RFC 3640, AAC-hbr).
pub fn units(packets: &[Got]) -> Vec<(u32, Vec<u8>)> {
    let mut out = Vec::new();
    for packet in packets {
        let payload = &packet.payload;
        let count = (usize::from(payload[0]) << 8 | usize::from(payload[1])) / 16;
        let mut at = 2 + 2 * count;
        for number in 0..count {
            let size = (usize::from(payload[2 + 2 * number]) << 8
                | usize::from(payload[3 + 2 * number]))
                >> 3;
            out.push((
                packet.timestamp.wrapping_add(1024 * number as u32),
                payload[at..at + size].to_vec(),
            ));
            at += size;
        }
    }
    out
}

/// Checks that the pictures and audio received equal these ranges of the film.
pub fn assert_film(
    film: &TestFilm,
    video: &[Got],
    audio: &[Got],
    pictures: std::ops::Range<usize>,
    sounds: std::ops::Range<usize>,
) {
    let nals = nals(video);
    let kinds: Vec<_> = nals[..2].iter().map(|(_, nal)| nal[0] & 0x1f).collect();
    assert_eq!(
        kinds,
        [7, 8],
        "parameter sets come before the first picture"
    );
    assert_eq!(nals.len() - 2, pictures.len());
    for ((timestamp, nal), number) in nals[2..].iter().zip(pictures) {
        assert!(*nal == film.pictures[number], "picture {number}");
        assert_eq!(
            *timestamp,
            VIDEO_BASE.wrapping_add(number as u32 * 3600),
            "picture {number}"
        );
    }
    let units = units(audio);
    assert_eq!(units.len(), sounds.len());
    for ((timestamp, unit), number) in units.iter().zip(sounds) {
        assert!(*unit == film.sounds[number], "sound {number}");
        assert_eq!(
            *timestamp,
            AUDIO_BASE + number as u32 * 1024,
            "sound {number}"
        );
    }
}

/// Checks that the pictures and audio received are the whole film.
pub fn assert_whole_film(film: &TestFilm, video: &[Got], audio: &[Got]) {
    let (pictures, sounds) = (0..film.pictures.len(), 0..film.sounds.len());
    assert_film(film, video, audio, pictures, sounds);
}
