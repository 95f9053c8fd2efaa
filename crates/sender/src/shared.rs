//! The part of a stream that is visible outside its sender thread.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_hint::LINE;
use reelway_media::Nanos;
use reelway_playout::{self as playout, LATENESS_BOUNDS, Mishaps, State, StreamId, Tally};
use reelway_rtp::rtcp;
use reelway_supervise as supervise;

use crate::counters::{Counters, add, set};
use crate::histogram::Lateness;
use crate::stream::{Progress, Reception, StreamEvent};

/// A stream's [`Tally`], readable by all threads: one cache line.
#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct Figures {
    packets: AtomicU64,
    bytes: AtomicU64,
    position: AtomicI64,
    behind: AtomicU64,
    late: [AtomicU32; LATENESS_BOUNDS.len() + 1],
    latest: AtomicU32,
}

const _: () = assert!(size_of::<Figures>() == LINE);

impl Figures {
    fn set(&self, tally: &Tally) {
        set(&self.packets, tally.packets);
        set(&self.bytes, tally.bytes);
        self.position.store(tally.position, Ordering::Relaxed);
        set(&self.behind, tally.behind);
        for (class, packets) in self.late.iter().zip(tally.late.classes) {
            class.store(packets, Ordering::Relaxed);
        }
        self.latest.store(tally.late.max, Ordering::Relaxed);
    }

    fn late(&self) -> Lateness {
        let classes = self.late.each_ref();
        Lateness::of_stream(&playout::Lateness {
            classes: classes.map(|class| class.load(Ordering::Relaxed)),
            max: self.latest.load(Ordering::Relaxed),
        })
    }
}

/// Public state of a stream; one thread writes, any thread may read.
pub(crate) struct Shared {
    figures: Figures,
    pub id: StreamId,
    pub events: Box<dyn Fn(StreamEvent) + Send + Sync>,
    /// SSRC and clock rate of each track.
    sources: Vec<(u32, u32)>,
    /// Destinations of its RTCP over UDP.
    pub addresses: Vec<SocketAddr>,
    /// The thread that it counts for.
    pub lane: ThreadSlot,
    state: AtomicU8,
    refused: AtomicU64,
    shifts: AtomicU32,
    dropped: AtomicU64,
    /// Number of packets retransmitted.
    resent: AtomicU64,
    /// Limits how many missing packets its receiver may report.
    misses: Allowance<256>,
    /// Limits how many messages its receiver may send.
    event_allowance: Allowance<32>,
    reception: Mutex<Vec<Option<Reception>>>,
    /// The receiver of each track.
    receivers: Mutex<Vec<Receiver>>,
}

/// The receiver of a track.
#[derive(Clone, Copy, Default)]
struct Receiver {
    /// Its SSRC, from its reports on this track.
    ssrc: Option<u32>,
    /// Whether it has sent BYE since its last report.
    gone: bool,
}

/// The number of streams per thread, and the thread that one stream counts for.
pub(crate) struct ThreadSlot {
    loads: Arc<[AtomicU64]>,
    lane: AtomicUsize,
}

/// Marks a stream that counts for no thread any more.
const GONE: usize = usize::MAX;

impl ThreadSlot {
    pub fn new(loads: Arc<[AtomicU64]>, lane: usize) -> ThreadSlot {
        loads[lane].fetch_add(1, Ordering::Relaxed);
        ThreadSlot {
            loads,
            lane: AtomicUsize::new(lane),
        }
    }

    /// Counts for another thread from now on; returns false if the stream is gone.
    pub fn go_over(&self, from: usize, to: usize) -> bool {
        let there = self
            .lane
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        if there.is_ok() {
            self.loads[from].fetch_sub(1, Ordering::Relaxed);
            self.loads[to].fetch_add(1, Ordering::Relaxed);
        }
        there.is_ok()
    }

    /// Stops counting.
    pub fn leave(&self) {
        let lane = self.lane.swap(GONE, Ordering::Relaxed);
        if let Some(load) = self.loads.get(lane) {
            load.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Limits what a receiver may request or report in a tenth of a second. Looking up packets costs
/// time and messages compete with those of others, so the cost must be limited whatever arrives.
/// For missing packets, `MOST` is all of a 30 Mb/s stream, or one in fifty at 1.5 Gb/s; for
/// messages it is more than players send in a minute.
#[derive(Default)]
struct Allowance<const MOST: u64>(AtomicU64);

impl<const MOST: u64> Allowance<MOST> {
    const WHILE: u64 = 100_000_000;

    /// Takes as many of `wanted` as are allowed at `now` (ns).
    fn take(&self, now: u64, wanted: usize) -> usize {
        let span = now / Self::WHILE;
        // The upper bits hold the span, the lower 16 how many were taken in it.
        let before = self.0.load(Ordering::Relaxed);
        let taken = if before >> 16 == span {
            before & 0xffff
        } else {
            0
        };
        let may = (MOST - taken).min(wanted as u64);
        self.0.store(span << 16 | (taken + may), Ordering::Relaxed);
        may as usize
    }
}

const STATES: [State; 7] = [
    State::Preparing,
    State::Ready,
    State::Playing,
    State::Paused,
    State::Ended,
    State::Failed,
    State::Stopped,
];

impl Shared {
    pub fn new(
        id: StreamId,
        events: Box<dyn Fn(StreamEvent) + Send + Sync>,
        sources: Vec<(u32, u32)>,
        addresses: Vec<SocketAddr>,
        position: Nanos,
        lane: ThreadSlot,
    ) -> Shared {
        let reception = Mutex::new(vec![None; sources.len()]);
        let receivers = Mutex::new(vec![Receiver::default(); sources.len()]);
        Shared {
            figures: Figures {
                position: AtomicI64::new(position),
                ..Figures::default()
            },
            id,
            events,
            sources,
            addresses,
            lane,
            state: AtomicU8::new(0),
            refused: AtomicU64::new(0),
            shifts: AtomicU32::new(0),
            dropped: AtomicU64::new(0),
            resent: AtomicU64::new(0),
            misses: Allowance::default(),
            event_allowance: Allowance::default(),
            reception,
            receivers,
        }
    }

    pub fn state(&self) -> State {
        STATES[usize::from(self.state.load(Ordering::Relaxed))]
    }

    /// Sets the state; returns the previous one.
    pub fn set_state(&self, state: State) -> State {
        let before = self.state();
        let number = STATES.iter().position(|other| *other == state).unwrap_or(0);
        self.state.store(number as u8, Ordering::Relaxed);
        before
    }

    /// Returns where [`Shared::show`] writes.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Publishes the stream's figures.
    pub fn show(&self, tally: &Tally) {
        self.figures.set(tally);
    }

    /// Publishes the stream's mishaps, which count for its thread as well.
    pub fn show_mishaps(&self, mishaps: &Mishaps, thread: &Counters) {
        let show = |shown: &AtomicU64, now: u64, all: &AtomicU64| {
            add(all, now - shown.load(Ordering::Relaxed));
            set(shown, now);
        };
        show(&self.refused, mishaps.refused, &thread.refused);
        show(&self.dropped, mishaps.dropped, &thread.dropped);
        show(&self.resent, mishaps.resent, &thread.resent);
        let before = self.shifts.swap(mishaps.shifts, Ordering::Relaxed);
        add(
            &thread.shifts,
            u64::from(mishaps.shifts.wrapping_sub(before)),
        );
    }

    pub fn progress(&self) -> Progress {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let figures = &self.figures;
        Progress {
            state: self.state(),
            position: figures.position.load(Ordering::Relaxed),
            packets: load(&figures.packets),
            bytes: load(&figures.bytes),
            late: figures.late(),
            behind: Duration::from_nanos(load(&figures.behind)),
            refused: load(&self.refused),
            shifts: self.shifts.load(Ordering::Relaxed),
            dropped: load(&self.dropped),
            resent: load(&self.resent),
            reception: supervise::lock(&self.reception).clone(),
        }
    }

    /// Returns the SSRCs of the tracks.
    pub fn ssrcs(&self) -> impl Iterator<Item = u32> + '_ {
        self.sources.iter().map(|(ssrc, _)| *ssrc)
    }

    /// Called when the receiver reports missing packets of the track with this SSRC. Returns the
    /// track, and how many packets may be retransmitted at this time (ns).
    pub fn may_miss(&self, ssrc: u32, lost: usize, now: u64) -> (Option<usize>, usize) {
        let track = self.sources.iter().position(|(source, _)| *source == ssrc);
        (track, self.misses.take(now, lost))
    }

    /// Reports a message of its receiver at `now` (ns), unless there were too many lately.
    pub fn hears(&self, event: StreamEvent, now: u64) {
        if self.event_allowance.take(now, 1) > 0 {
            (self.events)(event);
        }
    }

    /// Takes in a receiver's report on one of the tracks at `now` (ns); `ntp` is the wall clock as
    /// in sender reports. Returns false if it is not about a track of this stream.
    pub fn reported(&self, report: &rtcp::ReceptionReport, ntp: u64, now: u64) -> bool {
        let Some(track) = self
            .sources
            .iter()
            .position(|(ssrc, _)| *ssrc == report.source)
        else {
            return false;
        };
        let rate = u64::from(self.sources[track].1.max(1));
        // RFC 3550 section 6.4.1, figure 2: in 65,536ths of a second, wrapping.
        let round_trip = ((ntp >> 16) as u32)
            .wrapping_sub(report.last_sr)
            .wrapping_sub(report.delay);
        let believable = report.last_sr != 0 && round_trip < 60 << 16;
        let reception = Reception {
            track,
            lost: report.lost,
            fraction_lost: f32::from(report.fraction_lost) / 256.0,
            jitter: Duration::from_nanos(u64::from(report.jitter) * 1_000_000_000 / rate),
            round_trip: believable
                .then(|| Duration::from_micros((u64::from(round_trip) * 1_000_000) >> 16)),
        };
        supervise::lock(&self.reception)[track] = Some(reception);
        supervise::lock(&self.receivers)[track] = Receiver {
            ssrc: Some(report.from),
            gone: false,
        };
        self.hears(StreamEvent::Report(reception), now);
        true
    }

    /// Takes in BYE of `ssrc` from the RTCP address of that track. It counts only if this receiver
    /// has reported on the track: no other host on the network knows that number.
    pub fn said_bye(&self, track: usize, ssrc: u32) {
        let mut receivers = supervise::lock(&self.receivers);
        match receivers.get_mut(track) {
            Some(receiver) if receiver.ssrc == Some(ssrc) && !receiver.gone => receiver.gone = true,
            _ => return,
        }
        let all = receivers.iter().all(|receiver| receiver.gone);
        drop(receivers);
        if all {
            (self.events)(StreamEvent::Left);
        }
    }
}
