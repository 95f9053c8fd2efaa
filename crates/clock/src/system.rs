//! The clock of this process as other crates use it.

use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use reelway_sys::tsc;
use reelway_time::{Boot, Monotonic, Real};

use crate::cross::{self, Crossing};
use crate::process::{self, BOOT, KernelClock, MONOTONIC, REAL};
use crate::track::Event;
use crate::trust::{self, Choice, Why};

/// The monotonic time. *Ordered*: it is read after everything that this thread has done and seen
/// before, so a time received from another thread is never later. This is the default choice.
#[inline]
pub fn now() -> Monotonic {
    Monotonic::from_nanos(process::nanos::<MONOTONIC, true>())
}

/// The monotonic time, *unordered*: it never goes back within this thread, at half the cost of
/// [`now`], but may be some nanoseconds early or late relative to other threads' actions. For
/// intervals of a thread's own work.
#[inline]
pub fn now_unordered() -> Monotonic {
    Monotonic::from_nanos(process::nanos::<MONOTONIC, false>())
}

/// The real time. If the machine's clock is set, it follows within a millisecond.
#[inline]
pub fn real() -> Real {
    Real::from_nanos(process::nanos::<REAL, true>())
}

/// The time since boot, including suspension.
#[inline]
pub fn boot() -> Boot {
    Boot::from_nanos(process::nanos::<BOOT, true>())
}

/// The monotonic time, and how far it may be from the kernel's `CLOCK_MONOTONIC` at the moment of
/// the reading; zero if it is the kernel's.
pub fn now_with_error() -> (Monotonic, Duration) {
    let (nanos, error) = process::nanos_with_error::<MONOTONIC>();
    (Monotonic::from_nanos(nanos), Duration::from_nanos(error))
}

thread_local! {
    /// The time of this thread's turn; zero before the first.
    static TURN: Cell<u64> = const { Cell::new(0) };
}

/// Begins a turn of this thread's work: reads the time, and stores it for [`coarse`].
#[inline]
pub fn turn() -> Monotonic {
    let now = now();
    TURN.set(now.nanos());
    now
}

/// The time of this thread's turn, at the cost of a nanosecond: that of the last [`turn`], or
/// [`now`] in a thread that never began one. Everything in a turn gets the same time.
#[inline]
pub fn coarse() -> Monotonic {
    match TURN.get() {
        0 => now(),
        nanos => Monotonic::from_nanos(nanos),
    }
}

/// The counter, monotonic time and real time of one moment: converts between them, for times within
/// about a minute. (The rates of the clocks drift; take a new one every second.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conversion {
    count: u64,
    monotonic: Monotonic,
    real: Real,
    /// Counts per second.
    hertz: u64,
}

impl Conversion {
    /// The conversion as of now. The counter is always zero if the time is not read from it.
    pub fn now() -> Conversion {
        // Draws both pieces, if they are due.
        let (monotonic, real) = (now(), real());
        let count = tsc::counter_ordered();
        let hertz = process::hertz(KernelClock::Monotonic);
        match (
            process::time_at::<MONOTONIC>(count),
            process::time_at::<REAL>(count),
        ) {
            (Some(monotonic), Some(real)) if hertz != 0 => Conversion {
                count,
                monotonic: Monotonic::from_nanos(monotonic),
                real: Real::from_nanos(real),
                hertz,
            },
            _ => Conversion {
                count: 0,
                monotonic,
                real,
                hertz: 0,
            },
        }
    }

    /// Returns the real time at a monotonic one.
    pub fn real(&self, monotonic: Monotonic) -> Real {
        self.real.offset(monotonic.offset_from(self.monotonic))
    }

    /// Returns the monotonic time at a real one.
    pub fn monotonic(&self, real: Real) -> Monotonic {
        self.monotonic.offset(real.offset_from(self.real))
    }

    /// Returns the count at a monotonic time; `None` if the counter is not used.
    pub fn count_at(&self, monotonic: Monotonic) -> Option<u64> {
        if self.hertz == 0 {
            return None;
        }
        let away = i128::from(monotonic.offset_from(self.monotonic)) * i128::from(self.hertz);
        Some(self.count.wrapping_add((away / 1_000_000_000) as u64))
    }
}

/// The source of this process's time, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Whether the source is the processor's counter.
    pub counter: bool,
    /// The reason.
    pub why: Why,
    /// Counts per second, as measured against the kernel's clock; zero if the counter is not used.
    pub hertz: u64,
    /// How far a reading may be from the kernel's clock, as of now.
    pub error: Duration,
    /// The comparison of the processors with each other, if it was made.
    pub crossing: Crossing,
    /// Whether the process runs on virtual processors.
    pub virtual_machine: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.counter {
            return write!(f, "the kernel's clock: {}", self.why);
        }
        write!(
            f,
            "the processor's counter ({} at {:.6} GHz): {}; within {} ns of the kernel's clock",
            trust::COUNTER.name(),
            self.hertz as f64 / 1e9,
            self.why,
            self.error.as_nanos(),
        )?;
        let Crossing {
            cpus,
            compared,
            apart,
        } = self.crossing;
        match (cpus, compared) {
            (0, _) => Ok(()),
            (1, _) => write!(f, "; one processor"),
            (_, 0) => write!(f, "; its {cpus} processors could not be compared"),
            _ => write!(
                f,
                "; {} processors compared, {apart} counts apart",
                compared + 1
            ),
        }
    }
}

/// Starts the clock in a program that will rely on it: compares the counters of all processors with
/// each other (some milliseconds), decides, and waits until the rate is known (less than a
/// millisecond). Without this call, the clock is equally accurate if the kernel has tested the
/// counters, and warms up during use.
pub fn start() -> Report {
    let (wish, _) = Choice::from_environment();
    let mut crossing = Crossing::default();
    if process::judge(wish).trusts() {
        crossing = cross::test();
        if crossing.apart != 0 {
            process::note_apart(crossing.apart);
        }
    }
    process::decide(wish);
    report_with(crossing)
}

/// The source of the time, without the comparison of all processors.
pub fn report() -> Report {
    report_with(Crossing::default())
}

fn report_with(crossing: Crossing) -> Report {
    let why = process::judge(Choice::from_environment().0);
    let counter = process::uses_counter();
    let begin = KernelTime::now();
    // With a clock source that takes microseconds to read, measuring a rate takes milliseconds.
    while counter && !process::is_tracking(KernelClock::Monotonic) && begin.passed() < 100_000_000 {
        let _ = (now(), real());
    }
    let (_, error) = now_with_error();
    Report {
        counter,
        why,
        hertz: process::hertz(KernelClock::Monotonic),
        error,
        crossing,
        virtual_machine: tsc::hypervisor(),
    }
}

/// The kernel's monotonic clock, for waits that must end whatever the counter does.
struct KernelTime(u64);

impl KernelTime {
    fn now() -> KernelTime {
        KernelTime(tsc::kernel_nanos(tsc::MONOTONIC))
    }

    fn passed(&self) -> u64 {
        tsc::kernel_nanos(tsc::MONOTONIC).saturating_sub(self.0)
    }
}

/// Sets the function that is notified, with a description, when the counter is dropped or used
/// again, or the real time was set. Only the first call has an effect.
pub fn on_change(function: fn(&str)) {
    static FUNCTION: OnceLock<fn(&str)> = OnceLock::new();
    if FUNCTION.set(function).is_ok() {
        process::set_hearer(|kind, event| {
            if !matches!(event, Event::Started(_))
                && let Some(function) = FUNCTION.get()
            {
                function(&words(kind, event).to_string());
            }
        });
    }
}

/// The description of an event of one of the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words(KernelClock, Event);

/// Describes an event of one of the clocks.
pub fn words(kind: KernelClock, event: Event) -> Words {
    Words(kind, event)
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = match self.0 {
            KernelClock::Monotonic => "monotonic",
            KernelClock::Real => "real",
            KernelClock::Boot => "boot",
            KernelClock::Raw => "raw monotonic",
        };
        write!(f, "the {clock} clock ")?;
        match self.1 {
            Event::Started(hertz) => {
                write!(f, "runs on the counter at {:.6} GHz", hertz as f64 / 1e9)
            }
            Event::Fell(nanos) => write!(
                f,
                "has fallen back to the kernel's: the counter was off by {:.1} µs (suspend, \
                 migration, or a change of frequency)",
                nanos as f64 / 1e3
            ),
            Event::CameBack => f.write_str("runs on the counter again"),
            Event::Stepped(nanos) => write!(f, "was set by {:+.6} s", nanos as f64 / 1e9),
            Event::Unfit => f.write_str(
                "stays with the kernel's: the counter is slower than 1 MHz or does not count",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_clock_is_the_kernels() {
        let report = start();
        for _ in 0..1000 {
            let before = tsc::kernel_nanos(tsc::MONOTONIC);
            let (now, error) = now_with_error();
            let after = tsc::kernel_nanos(tsc::MONOTONIC);
            let error = error.as_nanos() as u64;
            assert!(
                now.nanos() + error >= before && now.nanos() <= after + error,
                "{report}"
            );
        }
    }

    #[test]
    fn all_clocks_advance() {
        let (a, b, c) = (now(), real(), boot());
        std::thread::sleep(Duration::from_millis(3));
        for passed in [now() - a, real() - b, boot() - c] {
            assert!((2..5000).contains(&passed.as_millis()), "{passed:?}");
        }
    }

    #[test]
    fn a_turn_has_one_time_in_its_thread() {
        assert!(coarse() <= now(), "a thread without turns reads the time");
        let turn = turn();
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(coarse(), turn);
        std::thread::spawn(move || assert!(coarse() > turn))
            .join()
            .unwrap();
    }

    #[test]
    fn conversions_lead_back() {
        start();
        let conversion = Conversion::now();
        let later = now() + Duration::from_secs(3);
        assert_eq!(conversion.monotonic(conversion.real(later)), later);
        if report().counter {
            let count = conversion.count_at(later).unwrap();
            let moment = |count: u64| {
                let away = i128::from(count.wrapping_sub(conversion.count) as i64) * 1_000_000_000;
                let away = away / i128::from(conversion.hertz);
                conversion.monotonic.offset(away as i64)
            };
            let back = moment(count);
            assert!(back.offset_from(later).abs() < 5, "{back:?} for {later:?}");
            let here = moment(tsc::counter());
            assert!(here.offset_from(now()).abs() < 1_000_000);
        }
    }

    #[test]
    fn the_report_reads_as_a_sentence() {
        let text = start().to_string();
        assert!(
            text.contains("clock source") || text.contains("kernel's clock"),
            "{text}"
        );
        println!("{text}");
    }
}
