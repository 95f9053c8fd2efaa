//! The clocks of this process: the kernel's four, followed with the counter, or read from the
//! kernel if the counter cannot be trusted.
//!
//! Allocates nothing, never blocks, and needs no initialisation: a first call, from a constructor
//! or a signal handler, decides which source the time comes from. The preload library uses this
//! module.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use reelway_sys::tsc::{self, ForkPage, Halves};

use crate::cross;
use crate::track::{Event, Manner, Source, Statistics, TRACK_WORDS, TrackedClock};
use crate::trust::{self, Choice, Why};

/// A kernel clock that is followed; its value is the constant in the functions below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelClock {
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// `CLOCK_REALTIME`.
    Real,
    /// `CLOCK_BOOTTIME`.
    Boot,
    /// `CLOCK_MONOTONIC_RAW`.
    Raw,
}

/// [`KernelClock::Monotonic`] as a constant.
pub const MONOTONIC: usize = KernelClock::Monotonic as usize;
/// [`KernelClock::Real`] as a constant.
pub const REAL: usize = KernelClock::Real as usize;
/// [`KernelClock::Boot`] as a constant.
pub const BOOT: usize = KernelClock::Boot as usize;
/// [`KernelClock::Raw`] as a constant.
pub const RAW: usize = KernelClock::Raw as usize;

/// All clocks that are followed.
pub const KERNEL_CLOCKS: [KernelClock; 4] = [
    KernelClock::Monotonic,
    KernelClock::Real,
    KernelClock::Boot,
    KernelClock::Raw,
];
/// Their numbers in the kernel.
const NUMBERS: [i32; 4] = [
    tsc::MONOTONIC,
    tsc::REALTIME,
    tsc::BOOTTIME,
    tsc::MONOTONIC_RAW,
];

/// The state of all four clocks; zeros in a forked child.
static PAGE: ForkPage = ForkPage::new();

const UNDECIDED: u32 = 0;
const COUNTER: u32 = 1;
const KERNEL: u32 = 2;
/// The source of the time. A forked child keeps it.
static DECISION: AtomicU32 = AtomicU32::new(UNDECIDED);
/// The largest difference seen between two processors' counters, in counts.
static APART: AtomicU64 = AtomicU64::new(0);
/// Whether the kernel clears [`PAGE`] in a child.
static WIPED: AtomicU32 = AtomicU32::new(0);
/// The function that receives events. Reading it never blocks.
static HEARER: OnceLock<fn(KernelClock, Event)> = OnceLock::new();

/// The counter and one of the kernel's clocks.
#[derive(Clone, Copy)]
struct Machine<const KIND: usize>;

impl<const KIND: usize> Source for Machine<KIND> {
    #[inline(always)]
    fn counter_ordered(&self) -> u64 {
        tsc::counter_ordered()
    }

    #[inline(always)]
    fn kernel(&self) -> u64 {
        tsc::kernel_nanos(NUMBERS[KIND])
    }

    fn hear(&self, event: Event) {
        if let Some(function) = HEARER.get() {
            function(KERNEL_CLOCKS[KIND], event);
        }
    }
}

#[inline(always)]
fn track<const KIND: usize>() -> TrackedClock<'static> {
    let (tracks, _) = PAGE.0.as_chunks::<TRACK_WORDS>();
    let manner = if KIND == REAL {
        Manner::Settable
    } else {
        Manner::Steady
    };
    TrackedClock::new(&tracks[KIND], manner)
}

/// Reads the counter, ordered after the thread's earlier instructions or not.
#[inline(always)]
fn count<const ORDERED: bool>() -> Halves {
    if ORDERED {
        tsc::counter_ordered_halves()
    } else {
        tsc::counter_halves()
    }
}

/// Nanoseconds of a clock.
#[inline(always)]
pub fn nanos<const KIND: usize, const ORDERED: bool>() -> u64 {
    track::<KIND>()
        .nanos(count::<ORDERED>)
        .unwrap_or_else(slow::<KIND>)
}

/// Seconds and nanoseconds of a clock.
pub fn second_nanos<const KIND: usize, const ORDERED: bool>() -> (u64, u64) {
    fast_second_nanos::<KIND, ORDERED>().unwrap_or_else(|| {
        let nanos = slow::<KIND>();
        (nanos / 1_000_000_000, nanos % 1_000_000_000)
    })
}

/// Seconds and microseconds of a clock.
pub fn second_micros<const KIND: usize, const ORDERED: bool>() -> (u64, u64) {
    fast_second_micros::<KIND, ORDERED>().unwrap_or_else(|| {
        let nanos = slow::<KIND>();
        (nanos / 1_000_000_000, nanos % 1_000_000_000 / 1_000)
    })
}

/// [`second_nanos`] if reading the counter is enough: makes no call, so that a function that
/// otherwise ends with a call of the full version saves no registers for it.
#[inline(always)]
pub fn fast_second_nanos<const KIND: usize, const ORDERED: bool>() -> Option<(u64, u64)> {
    track::<KIND>().second_nanos(count::<ORDERED>)
}

/// [`second_micros`] if reading the counter is enough.
#[inline(always)]
pub fn fast_second_micros<const KIND: usize, const ORDERED: bool>() -> Option<(u64, u64)> {
    track::<KIND>().second_micros(count::<ORDERED>)
}

#[cold]
#[inline(never)]
fn slow<const KIND: usize>() -> u64 {
    let track = track::<KIND>();
    if uses_counter() {
        track.slow(&Machine::<KIND>)
    } else {
        track.hold(tsc::kernel_nanos(NUMBERS[KIND]))
    }
}

/// Nanoseconds of a clock, and how far they may be from the kernel's.
pub fn nanos_with_error<const KIND: usize>() -> (u64, u64) {
    if uses_counter() {
        track::<KIND>().nanos_with_error(&Machine::<KIND>)
    } else {
        (slow::<KIND>(), 0)
    }
}

/// The time of a clock at a count; see `TrackedClock::time_at`.
pub fn time_at<const KIND: usize>(count: u64) -> Option<u64> {
    track::<KIND>().time_at(count)
}

/// The count at a time of a clock; see `TrackedClock::count_at`.
pub fn count_at<const KIND: usize>(nanos: u64) -> Option<u64> {
    track::<KIND>().count_at(nanos)
}

/// Whether the counter is used; decides if that is still open.
pub fn uses_counter() -> bool {
    match DECISION.load(Ordering::Acquire) {
        UNDECIDED => decide(Choice::from_environment().0).trusts(),
        decision => decision == COUNTER,
    }
}

/// Decides which source the time comes from, and returns the reason.
pub fn decide(wish: Choice) -> Why {
    let mut why = judge(wish);
    if matches!(why, Why::TrustedByHand(_)) {
        // The processors' counters have not been compared yet.
        note_apart(cross::hop());
        why = judge(wish);
    }
    if WIPED.load(Ordering::Relaxed) == 0 && PAGE.wipe_on_fork() {
        WIPED.store(1, Ordering::Relaxed);
    }
    let decision = if why.trusts() { COUNTER } else { KERNEL };
    DECISION.store(decision, Ordering::Release);
    why
}

/// Judges anew which source the time should come from, and why.
pub fn judge(wish: Choice) -> Why {
    let why = trust::judge(wish);
    let apart = APART.load(Ordering::Relaxed);
    if why.trusts() && apart != 0 {
        Why::ProcessorsApart(apart)
    } else {
        why
    }
}

/// Records that the counters of two processors differ by this many counts.
pub fn note_apart(counts: u64) {
    APART.fetch_max(counts, Ordering::Relaxed);
}

/// Whether the kernel clears the clocks' state in a forked child; if not, the child should call
/// [`forget`].
pub fn wiped_on_fork() -> bool {
    WIPED.load(Ordering::Relaxed) != 0
}

/// Resets all clocks, as in a child. Only while there is a single thread.
pub fn forget() {
    PAGE.clear();
}

/// To be called when this process has set the real time: the next reader compares with the
/// kernel's.
pub fn real_was_set() {
    track::<REAL>().look_again();
}

/// Statistics of a clock since the start or the fork.
pub fn statistics(kind: KernelClock) -> Statistics {
    any(kind).statistics()
}

/// Whether a clock is currently read from the counter (from soon after its first reading, except
/// while the counter is not trusted).
pub fn is_tracking(kind: KernelClock) -> bool {
    any(kind).is_tracking()
}

/// Counts per second as measured for a clock; zero if not known yet.
pub fn hertz(kind: KernelClock) -> u64 {
    any(kind).hertz()
}

fn any(kind: KernelClock) -> TrackedClock<'static> {
    match kind {
        KernelClock::Monotonic => track::<MONOTONIC>(),
        KernelClock::Real => track::<REAL>(),
        KernelClock::Boot => track::<BOOT>(),
        KernelClock::Raw => track::<RAW>(),
    }
}

/// Sets the function that receives events; only the first call has an effect. It is called with no
/// lock held, perhaps in a signal handler.
pub fn set_hearer(function: fn(KernelClock, Event)) {
    // An `Err` means that one is set already.
    let _ = HEARER.set(function);
}
