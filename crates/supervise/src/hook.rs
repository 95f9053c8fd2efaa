//! The panic hook, and the register of this process.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::panic::PanicHookInfo;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::book::{Book, Problem, Severity};

static BOOK: Mutex<Book> = Mutex::new(Book::new());

/// No code that can panic may run under this lock: the hook takes it.
fn book() -> MutexGuard<'static, Book> {
    BOOK.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The part that this thread works on, if it is not counted under its own name.
    static PART: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// While this exists, the thread works on a part.
pub(crate) struct Within(Option<&'static str>);

impl Within {
    pub fn part(part: &'static str) -> Within {
        Within(PART.replace(Some(part)))
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        PART.set(self.0);
    }
}

/// A panic's message.
pub(crate) fn words(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Makes every panic of this process be logged once and counted. To be called when a program
/// starts, after its log.
pub fn install() {
    std::panic::set_hook(Box::new(hook));
    crate::inject::listen();
}

fn hook(info: &PanicHookInfo<'_>) {
    let message = words(info.payload());
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("a thread");
    let part = PART.try_with(Cell::get).ok().flatten().unwrap_or(thread);
    let place = info
        .location()
        .map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let words = format!("{message} ({place})");
    book().panicked(part, &words, reelway_clock::now(), reelway_clock::real());
    // Only if RUST_BACKTRACE requests it.
    let trace = Backtrace::capture();
    let trace = match trace.status() {
        BacktraceStatus::Captured => format!("\n{trace}"),
        _ => String::new(),
    };
    tracing::error!(
        part,
        thread,
        place,
        "panic, a fault of this program: {message}{trace}"
    );
}

/// Registers a part that has started: its panics are counted from now on, from 0.
pub(crate) fn started(part: &str) {
    book().started(part);
}

/// Records that a part's loop ended by a panic and will restart; returns the pause before that.
pub(crate) fn restarted(part: &str) -> Duration {
    let (pause, is_failed) = {
        let now = reelway_clock::now();
        let mut book = book();
        let pause = book.restarted(part, now);
        let problems = book.problems(now);
        let failed =
            |problem: &Problem| problem.part == part && problem.severity == Severity::Failed;
        (pause, problems.iter().any(failed))
    };
    if is_failed {
        tracing::error!("{part} panics repeatedly; /healthz reports it until the panics stop");
    } else {
        tracing::warn!("{part} restarts after a panic");
    }
    pause
}

/// Adds a problem that is not a panic, or changes its message. It stays until [`clear`]; the caller
/// logs it.
pub fn raise(part: &'static str, message: &str) {
    book().raise(part, message, reelway_clock::real());
}

/// Removes a problem added by [`raise`]; returns whether it existed.
pub fn clear(part: &'static str) -> bool {
    book().clear(part)
}

/// The number of panics of each part since the start; running parts that have never panicked are
/// listed with 0.
pub fn panics() -> Vec<(String, u64)> {
    book().panics()
}

/// The current problems, the worst first: panics of the last hour, and problems that were raised
/// and not cleared.
pub fn problems() -> Vec<Problem> {
    book().problems(reelway_clock::now())
}
