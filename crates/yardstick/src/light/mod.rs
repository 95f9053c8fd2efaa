//! Light viewers: thousands of streams are received through one pair of sockets. Each is judged by
//! its sequence numbers, its RTP timestamps and the kernel's arrival times, without looking into
//! the packets. They measure servers, not films. ([`viewer`] has the viewers that request the
//! films.)

mod report;
pub mod viewer;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use self::report::Reporter;
use crate::histogram::Histogram;
use crate::packet::parse;
use crate::socket::{Inbox, pair};
use crate::stream::{StreamMeter, Tally};
use crate::unit::ReceivedUnit;

/// Receive buffer of a socket in bytes: a second of some thousand streams.
const RECEIVE: usize = 256 << 20;
/// A player's buffer before it shows the first picture. Later arrivals make it stall.
const PLAYER_BUFFER: Duration = Duration::from_secs(2);

/// The combined results of many viewers of one kind of track.
#[derive(Clone, Debug, Default)]
pub struct LightStory {
    /// Number of streams from which anything arrived.
    pub streams: u64,
    /// Packets that arrived during the measurement.
    pub packets: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Packets that never arrived, by their sequence numbers.
    pub lost: u64,
    /// Streams with a missing packet, or with one that came too late for a player that buffers two
    /// seconds.
    pub broken: u64,
    /// Packets that arrived after a later one, or twice.
    pub disordered: u64,
    /// Lateness of access units: the first packet against its time, the last against the end of its
    /// frame. Each stream is measured from its tenth earliest unit of a hundred.
    pub late: Histogram,
    /// Lateness of access units as a player sees it: their times in the film count from the arrival
    /// of the stream's first packet. Unlike `late`, it ignores variations in how far ahead a server
    /// sends.
    pub behind: Histogram,
    /// For every packet, how many of its stream arrived within the millisecond that ends with it.
    pub bursts: Vec<u64>,
}

impl LightStory {
    /// Returns the number of packets within a millisecond that is not exceeded for `share` (0 to 1)
    /// of all packets.
    pub fn burst(&self, share: f64) -> usize {
        let all: u64 = self.bursts.iter().sum();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut seen = 0;
        let place = self.bursts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        place.unwrap_or(0)
    }
}

/// Largest burst that is counted separately.
const MOST_BURST: usize = 512;

/// A stream, and the arrival of its first packet in ns since 1970.
#[derive(Debug)]
struct Watched {
    meter: StreamMeter,
    began: u64,
}

#[derive(Debug)]
struct Judge {
    rate: u32,
    streams: HashMap<u32, Watched>,
    story: LightStory,
    /// Counts outside the measurement.
    aside: Tally,
    judged: Tally,
    judging: bool,
    /// Streams with a missing or late packet.
    broken: HashSet<u32>,
    /// Reports losses to the server, if enabled.
    reporter: Option<Reporter>,
}

impl Judge {
    fn new(rate: u32) -> Judge {
        let story = LightStory {
            bursts: vec![0; MOST_BURST + 1],
            ..LightStory::default()
        };
        Judge {
            rate,
            streams: HashMap::new(),
            story,
            aside: Tally::default(),
            judged: Tally::default(),
            judging: false,
            broken: HashSet::new(),
            reporter: None,
        }
    }

    fn packet(&mut self, packet: &[u8], at: u64, judging: bool) {
        let Some((header, payload)) = parse(packet) else {
            return;
        };
        if let Some(reporter) = &mut self.reporter {
            reporter.packet(header.ssrc, header.seq, at);
        }
        if judging && !self.judging {
            // Earlier events, such as a slow start, are not judged.
            self.judging = true;
            let all = self.streams.values_mut();
            all.for_each(|stream| stream.meter.forget());
        }
        let stream = self.streams.entry(header.ssrc).or_insert_with(|| Watched {
            meter: StreamMeter::new(true, self.rate),
            began: at,
        });
        let tally = if judging {
            &mut self.judged
        } else {
            &mut self.aside
        };
        stream.meter.packet(&header, payload.len(), at, tally);
        while let Some(unit) = stream.meter.next() {
            if judging {
                let behind = behind(&unit, stream.began);
                if unit.broken || behind > PLAYER_BUFFER {
                    self.broken.insert(header.ssrc);
                }
                self.story.behind.add(behind);
            }
        }
        if judging {
            self.story.bursts[(stream.meter.within() as usize).min(MOST_BURST)] += 1;
        }
    }

    /// Returns the results of the measurement.
    fn finish(mut self) -> LightStory {
        if self.judging {
            for (ssrc, stream) in &mut self.streams {
                stream.meter.finish(&mut self.judged);
                if std::iter::from_fn(|| stream.meter.next()).any(|unit| unit.broken) {
                    self.broken.insert(*ssrc);
                }
            }
        }
        let Tally {
            packets,
            bytes,
            lost,
            reordered,
            repeated,
            late,
        } = self.judged;
        LightStory {
            streams: self.streams.len() as u64,
            packets,
            bytes,
            lost,
            broken: self.broken.len() as u64,
            disordered: reordered + repeated,
            late,
            ..self.story
        }
    }
}

/// Returns the lateness of an access unit whose time in the film counts from the first packet.
fn behind(unit: &ReceivedUnit, began: u64) -> Duration {
    let due = began as i64 + unit.media;
    Duration::from_nanos((unit.last as i64 - due).max(0) as u64)
}

/// The period of the measurement in ns since 1970; shared with the receiving threads.
#[derive(Debug, Default)]
struct Window {
    from: AtomicU64,
    to: AtomicU64,
    stop: AtomicBool,
}

/// A pair of sockets for the streams of all viewers of one track, with a receiving thread.
#[derive(Debug)]
pub struct LightReceiver {
    port: u16,
    /// Bound so that incoming reports cause no ICMP errors; nothing is read from it.
    _reports: UdpSocket,
    window: Arc<Window>,
    thread: JoinHandle<io::Result<LightStory>>,
}

impl LightReceiver {
    /// Starts to receive on `address`, on `port` or, if it is 0, on any even port. `rate` is the
    /// RTP clock rate.
    ///
    /// # Errors
    /// The port is in use, or the kernel does not support arrival timestamps.
    pub fn start(address: IpAddr, port: u16, rate: u32) -> io::Result<LightReceiver> {
        LightReceiver::start_reporting(address, port, rate, None)
    }

    /// Like [`LightReceiver::start`], but also reports losses to this RTCP address of the server,
    /// as players do.
    ///
    /// # Errors
    /// Those of [`LightReceiver::start`].
    pub fn start_reporting(
        address: IpAddr,
        port: u16,
        rate: u32,
        server: Option<SocketAddr>,
    ) -> io::Result<LightReceiver> {
        let (socket, reports) = pair(address, port, RECEIVE)?;
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let port = socket.local_addr()?.port();
        let window = Arc::new(Window::default());
        let shared = Arc::clone(&window);
        let reporter = match server {
            Some(server) => Some(Reporter::new(reports.try_clone()?, server)),
            None => None,
        };
        let thread = std::thread::Builder::new()
            .name("light".to_owned())
            .spawn(move || receive(&socket, rate, &shared, reporter))?;
        Ok(LightReceiver {
            port,
            _reports: reports,
            window,
            thread,
        })
    }

    /// Returns the RTP port; RTCP uses the next one.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts the measurement.
    pub fn judge(&self) {
        self.window
            .from
            .store(reelway_clock::real().nanos(), Ordering::Relaxed);
    }

    /// Ends the measurement and returns the results.
    ///
    /// # Errors
    /// The socket failed.
    pub fn finish(self) -> io::Result<LightStory> {
        self.window
            .to
            .store(reelway_clock::real().nanos(), Ordering::Relaxed);
        // Time for packets under way.
        std::thread::sleep(Duration::from_millis(100));
        self.window.stop.store(true, Ordering::Relaxed);
        let panicked = || io::Error::other("the receiving thread panicked");
        self.thread.join().map_err(|_| panicked())?
    }
}

fn receive(
    socket: &UdpSocket,
    rate: u32,
    window: &Window,
    reporter: Option<Reporter>,
) -> io::Result<LightStory> {
    let mut judge = Judge::new(rate);
    judge.reporter = reporter;
    let mut inbox = Inbox::new();
    loop {
        let received = match inbox.receive(socket.as_raw_fd()) {
            Ok(received) => received,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock if window.stop.load(Ordering::Relaxed) => break,
                // Reports that nobody reads cause this error.
                io::ErrorKind::WouldBlock
                | io::ErrorKind::Interrupted
                | io::ErrorKind::ConnectionRefused => continue,
                _ => return Err(error),
            },
        };
        let (from, to) = (
            window.from.load(Ordering::Relaxed),
            window.to.load(Ordering::Relaxed),
        );
        let judging = from > 0 && received.at >= from && (to == 0 || received.at < to);
        for packet in inbox.datagrams(&received) {
            judge.packet(packet, received.at, judging);
        }
        // Ends even if packets keep arriving.
        if to > 0 && received.at > to + 100_000_000 {
            break;
        }
    }
    Ok(judge.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(seq: u16, time: u32) -> Vec<u8> {
        let mut packet = vec![0x80, 96];
        packet.extend(seq.to_be_bytes());
        packet.extend(time.to_be_bytes());
        packet.extend(7_u32.to_be_bytes());
        packet.extend([0; 100]);
        packet
    }

    #[test]
    fn a_gap_is_lost_and_a_late_frame_is_late() {
        let mut judge = Judge::new(90_000);
        for frame in 0..100_u32 {
            let at = 1_000_000_000
                + u64::from(frame) * 40_000_000
                + if frame == 50 { 7_000_000 } else { 0 };
            for nth in 0..2 {
                if (frame, nth) != (20, 1) {
                    judge.packet(&packet((frame * 2 + nth) as u16, frame * 3600), at, true);
                }
            }
        }
        let story = judge.finish();
        assert_eq!(
            (story.streams, story.packets, story.lost, story.disordered),
            (1, 199, 1, 0)
        );
        assert_eq!(story.broken, 1);
        assert_eq!(story.late.max(), Duration::from_millis(7));
        assert_eq!(story.burst(1.0), 2);
    }

    /// A stream of `frames` pictures of 40 ms, each of which arrives `lead` ms before its time in
    /// the film.
    fn ahead(frames: u32, lead: impl Fn(u32) -> u64) -> LightStory {
        let mut judge = Judge::new(90_000);
        for frame in 0..frames {
            let at = 60_000_000_000 + u64::from(frame) * 40_000_000 - lead(frame) * 1_000_000;
            judge.packet(&packet(frame as u16, frame * 3600), at, true);
        }
        judge.finish()
    }

    #[test]
    fn what_is_sent_ahead_more_or_less_is_there_when_a_player_needs_it() {
        // Up to eight seconds ahead in the middle, and nothing at the end.
        let story = ahead(1000, |frame| u64::from(frame.min(1000 - frame)) * 16);
        assert!(story.late.max() > PLAYER_BUFFER, "{:?}", story.late.max());
        assert_eq!(story.behind.max(), Duration::ZERO);
        assert_eq!(story.broken, 0);
    }

    #[test]
    fn what_comes_later_than_a_player_bears_breaks_the_stream() {
        let mut judge = Judge::new(90_000);
        for frame in 0..100_u32 {
            let late = if frame == 50 { 2_100_000_000 } else { 0 };
            let at = 1_000_000_000 + u64::from(frame) * 40_000_000 + late;
            judge.packet(&packet(frame as u16, frame * 3600), at, true);
        }
        let story = judge.finish();
        assert_eq!((story.lost, story.broken), (0, 1));
    }

    #[test]
    fn a_burst_at_the_beginning_does_not_make_the_rest_late() {
        let mut judge = Judge::new(90_000);
        for frame in 0..100_u32 {
            let at = 1_000_000_000 + u64::from(if frame < 5 { 0 } else { frame }) * 40_000_000;
            judge.packet(&packet(frame as u16, frame * 3600), at, true);
        }
        assert_eq!(judge.finish().late.max(), Duration::ZERO);
    }

    #[test]
    fn packets_arrive_and_are_counted() {
        let receiver = LightReceiver::start(IpAddr::from([127, 0, 0, 1]), 0, 90_000).unwrap();
        receiver.judge();
        // The kernel's clock may lag behind this process's by less than this.
        std::thread::sleep(Duration::from_millis(20));
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for seq in 0..10 {
            sender
                .send_to(&packet(seq, 0), ("127.0.0.1", receiver.port()))
                .unwrap();
        }
        let story = receiver.finish().unwrap();
        assert_eq!((story.packets, story.lost), (10, 0));
    }
}
