//! What is known of a stream outside its sender thread.

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

/// A stream's [`Tally`] for all threads: one cache line.
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

/// One thread writes, any may read.
pub(crate) struct Shared {
    figures: Figures,
    pub id: StreamId,
    pub events: Box<dyn Fn(StreamEvent) + Send + Sync>,
    /// SSRC and clock rate of each track.
    sources: Vec<(u32, u32)>,
    /// Where its RTCP goes over UDP.
    pub addresses: Vec<SocketAddr>,
    /// Which thread it counts for.
    pub lane: ThreadSlot,
    state: AtomicU8,
    refused: AtomicU64,
    shifts: AtomicU32,
    dropped: AtomicU64,
    /// Packets sent again.
    resent: AtomicU64,
    /// What its receiver missed lately …
    misses: Allowance<256>,
    /// … and said.
    said: Allowance<32>,
    reception: Mutex<Vec<Option<Reception>>>,
    /// Who receives each track.
    receivers: Mutex<Vec<Receiver>>,
}

/// Who receives a track.
#[derive(Clone, Copy, Default)]
struct Receiver {
    /// Their SSRC, as their reports on this track name it.
    ssrc: Option<u32>,
    /// They have said BYE since their last report.
    gone: bool,
}

/// How many streams each thread has, and which of them one stream counts for.
pub(crate) struct ThreadSlot {
    loads: Arc<[AtomicU64]>,
    lane: AtomicUsize,
}

/// A stream that is gone counts for no thread.
const GONE: usize = usize::MAX;

impl ThreadSlot {
    pub fn new(loads: Arc<[AtomicU64]>, lane: usize) -> ThreadSlot {
        loads[lane].fetch_add(1, Ordering::Relaxed);
        ThreadSlot {
            loads,
            lane: AtomicUsize::new(lane),
        }
    }

    /// Counts for another thread from now on; false if the stream is gone.
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

    /// Counts no more.
    pub fn leave(&self) {
        let lane = self.lane.swap(GONE, Ordering::Relaxed);
        if let Some(load) = self.loads.get(lane) {
            load.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What a receiver may ask for or say in a tenth of a second: to look for a packet costs, what is said takes a place among what
/// others say, and what costs is bounded whatever comes in. Of packets that are missed, `MOST` is all of a stream of 30 Mb/s, or
/// one in fifty of 1.5 Gb/s; of what is said, more than players say in a minute.
#[derive(Default)]
struct Allowance<const MOST: u64>(AtomicU64);

impl<const MOST: u64> Allowance<MOST> {
    const WHILE: u64 = 100_000_000;

    /// Takes as many of `wanted` as are allowed at `now` (ns).
    fn take(&self, now: u64, wanted: usize) -> usize {
        let span = now / Self::WHILE;
        // The span in the upper bits, how many were taken in it in the lower 16.
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
            said: Allowance::default(),
            reception,
            receivers,
        }
    }

    pub fn state(&self) -> State {
        STATES[usize::from(self.state.load(Ordering::Relaxed))]
    }

    /// The stream does something else. What it did before.
    pub fn set_state(&self, state: State) -> State {
        let before = self.state();
        let number = STATES.iter().position(|other| *other == state).unwrap_or(0);
        self.state.store(number as u8, Ordering::Relaxed);
        before
    }

    /// Where [`Shared::show`] writes.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Shows what the stream has done.
    pub fn show(&self, tally: &Tally) {
        self.figures.set(tally);
    }

    /// Shows what has happened to the stream, which counts for its thread as well.
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

    /// SSRCs of the tracks.
    pub fn ssrcs(&self) -> impl Iterator<Item = u32> + '_ {
        self.sources.iter().map(|(ssrc, _)| *ssrc)
    }

    /// The receiver misses so many packets of the track with this SSRC: the track, and how many of them it may ask for at
    /// this time (ns).
    pub fn may_miss(&self, ssrc: u32, lost: usize, now: u64) -> (Option<usize>, usize) {
        let track = self.sources.iter().position(|(source, _)| *source == ssrc);
        (track, self.misses.take(now, lost))
    }

    /// Tells what its receiver says at `now` (ns), unless that has said very much lately.
    pub fn hears(&self, said: StreamEvent, now: u64) {
        if self.said.take(now, 1) > 0 {
            (self.events)(said);
        }
    }

    /// Takes in what a receiver says of one of the tracks at `now` (ns); `ntp` is the wall clock as in sender reports.
    /// False if it speaks of no track of this stream.
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

    /// Takes in BYE of `ssrc` from where the RTCP of that track goes. It counts for the receiver who
    /// has reported on the track: nobody else on the network knows that number.
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
