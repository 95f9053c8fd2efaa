//! Settings from the environment, read once, before `main` or at the first call.
//!
//! | variable | value | |
//! |---|---|---|
//! | `REELWAY_CLOCK` | `off` | libc's behaviour: everything goes to the vDSO |
//! | | `trust` | use the counter although the kernel does not |
//! | | `force` | the same although the processor does not report it as invariant |
//! | `REELWAY_CLOCK_ORDER` | `none` | readings unordered between threads, at half the cost |
//! | `REELWAY_CLOCK_EFAULT` | `guard` | EFAULT for every bad address |
//! | `REELWAY_CLOCK_VERBOSE` | `1` | a line at start, and one when the source changes |
//! | `REELWAY_CLOCK_STATISTICS` | `1` or a file | counts at exit, to standard error or the file |

use std::ffi::CStr;
use std::fmt::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use reelway_clock::process::{self, KERNEL_CLOCKS, KernelClock};
use reelway_clock::trust::Choice;
use reelway_sys::tsc;

use crate::guard;

/// The modes, as bits; with none of them set, the mode is plain.
#[derive(Clone, Copy)]
pub struct Mode(u32);

const READ: u32 = 1 << 31;
const OFF: u32 = 1 << 0;
const UNORDERED: u32 = 1 << 1;
const GUARD: u32 = 1 << 2;
const COUNTING: u32 = 1 << 3;

/// The mode; zero until the environment has been read.
static MODE: AtomicU32 = AtomicU32::new(0);

/// Returns the mode, reading the environment at the first call: another library's constructor may
/// run before ours.
#[inline(always)]
pub fn mode() -> Mode {
    let mode = MODE.load(Ordering::Relaxed);
    Mode(if mode == 0 { start() } else { mode })
}

/// Whether the environment has been read and has no special settings.
#[inline(always)]
pub fn is_plain() -> bool {
    MODE.load(Ordering::Relaxed) == READ
}

impl Mode {
    /// Whether everything goes to the kernel's clock.
    pub fn is_off(self) -> bool {
        self.0 & OFF != 0
    }

    pub fn is_unordered(self) -> bool {
        self.0 & UNORDERED != 0
    }

    #[inline(always)]
    pub fn guards(self) -> bool {
        self.0 & GUARD != 0
    }

    /// Counts a call, if counting is enabled.
    #[inline(always)]
    pub fn count(self, call: Call) {
        if self.0 & COUNTING != 0 {
            CALLS[call as usize].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The kinds of calls that are counted.
#[derive(Clone, Copy)]
pub enum Call {
    /// `clock_gettime` of a clock that is followed.
    ClockGettime,
    Gettimeofday,
    Time,
    Ftime,
    TimespecGet,
    /// Passed to the kernel or its vDSO: other clocks, bad addresses, everything when switched off.
    ToKernel,
}

const NAMES: [&str; 6] = [
    "clock_gettime",
    "gettimeofday",
    "time",
    "ftime",
    "timespec_get",
    "passed on",
];
static CALLS: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];

/// The target of the counts: a NUL-terminated path, or empty for standard error. It is stored
/// because a program may have cleared its environment by the time it ends (nginx does).
static STATISTICS: OnceLock<[u8; 256]> = OnceLock::new();
static VERBOSE: AtomicU32 = AtomicU32::new(0);

/// Runs before `main`, unless a call came earlier.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        mode();
    }
    at_start
};

/// Runs at `exit`, not at `_exit`.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = {
    extern "C" fn at_exit() {
        say_statistics();
    }
    at_exit
};

fn variable<'b>(name: &CStr, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    tsc::environment(name, buffer).filter(|value| !value.is_empty() && *value != b"0")
}

/// Reads the environment and decides. Two threads may do this at once, with the same result.
#[cold]
fn start() -> u32 {
    let mut buffer = [0; 256];
    let (wish, misspelt) = Choice::from_environment();
    let mut mode = READ;
    let why = process::decide(wish);
    if !why.trusts() {
        mode |= OFF;
    }
    if variable(c"REELWAY_CLOCK_ORDER", &mut buffer) == Some(b"none") {
        mode |= UNORDERED;
    }
    if let Some(value) = variable(c"REELWAY_CLOCK_STATISTICS", &mut buffer) {
        mode |= COUNTING;
        let mut path = [0; 256];
        if value != b"1" && value.len() < path.len() {
            path[..value.len()].copy_from_slice(value);
        }
        // Another thread has set the same value.
        let _ = STATISTICS.set(path);
    }
    if variable(c"REELWAY_CLOCK_EFAULT", &mut buffer) == Some(b"guard") {
        // A call must not recurse from here on: the handler is set by libc's own functions.
        MODE.store(mode, Ordering::Relaxed);
        if guard::install() {
            mode |= GUARD;
        }
    }
    if variable(c"REELWAY_CLOCK_VERBOSE", &mut buffer).is_some() {
        VERBOSE.store(1, Ordering::Relaxed);
        process::set_hearer(|kind, event| say(reelway_clock::words(kind, event)));
    }
    MODE.store(mode, Ordering::Release);
    if !process::wiped_on_fork() {
        extern "C" fn child() {
            process::forget();
        }
        // SAFETY: the function only stores to the child's own memory.
        unsafe { libc::pthread_atfork(None, None, Some(child)) };
    }
    if VERBOSE.load(Ordering::Relaxed) != 0 {
        if let Some(value) = misspelt {
            say(format_args!(
                "REELWAY_CLOCK={value} is not known: off, trust, force or auto"
            ));
        }
        let source = if why.trusts() {
            "the counter"
        } else {
            "the kernel's clock"
        };
        say(format_args!("the time comes from {source}: {why}"));
    }
    mode
}

/// A line of text in a fixed buffer: no allocation, and one write.
struct Page {
    bytes: [u8; 1024],
    length: usize,
}

impl Write for Page {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.length..];
        let count = text.len().min(room.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

impl Page {
    fn new() -> Page {
        Page {
            bytes: [0; 1024],
            length: 0,
        }
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Prints a line to standard error.
fn say(line: impl fmt::Display) {
    let mut page = Page::new();
    // Writing to a page cannot fail.
    let _ = writeln!(page, "reelway-clock[{}]: {line}", std::process::id());
    tsc::write_stderr(page.text());
}

/// Prints the counts as one line.
#[cold]
fn say_statistics() {
    let Some(path) = STATISTICS.get() else {
        return;
    };
    let mut page = Page::new();
    let _ = write!(page, "reelway-clock[{}]:", std::process::id());
    for (name, calls) in NAMES.iter().zip(&CALLS) {
        let calls = calls.load(Ordering::Relaxed);
        if calls != 0 {
            let _ = write!(page, " {name} {calls},");
        }
    }
    for kind in KERNEL_CLOCKS {
        let statistics = process::statistics(kind);
        if statistics.looks != 0 {
            let name = match kind {
                KernelClock::Monotonic => "monotonic",
                KernelClock::Real => "real",
                KernelClock::Boot => "boot",
                KernelClock::Raw => "raw",
            };
            let reelway_clock::Statistics {
                looks,
                coasts,
                falls,
                steps,
            } = statistics;
            let _ = write!(
                page,
                " {name}: looks {looks} unsure {coasts} falls {falls} steps {steps},"
            );
        }
    }
    page.length -= 1;
    let _ = page.write_str("\n");
    match CStr::from_bytes_until_nul(path) {
        Ok(path) if !path.is_empty() => tsc::append(path, page.text()),
        _ => tsc::write_stderr(page.text()),
    }
}
