//! The panic hook, and the register of this process.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::panic::PanicHookInfo;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::book::{Book, Problem, Severity};

static BOOK: Mutex<Book> = Mutex::new(Book::new());

/// Nothing that can panic is done under this lock: the hook takes it.
fn book() -> MutexGuard<'static, Book> {
    BOOK.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// What this thread works on, if it is not counted under its own name.
    static PART: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// This thread works on a part as long as this lives.
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

/// From now on every panic of this process is logged once and counted. For the start of a program, after
/// its log.
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
    // Only where RUST_BACKTRACE asks for it.
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

/// A part has begun to run: its panics are counted from now on, from 0.
pub(crate) fn started(part: &str) {
    book().started(part);
}

/// A part's loop was ended by a panic and is to start again; how long to pause before that.
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
        tracing::error!("{part} panics again and again; /healthz says so until it is quiet");
    } else {
        tracing::warn!("{part} starts again after a panic");
    }
    pause
}

/// Enters a problem that is no panic, or changes its message. It stays until [`clear`]; the caller
/// logs it.
pub fn raise(part: &'static str, message: &str) {
    book().raise(part, message, reelway_clock::real());
}

/// Takes out a problem entered by [`raise`]; whether it was there.
pub fn clear(part: &'static str) -> bool {
    book().clear(part)
}

/// Panics of each part since the start; parts that run and never panicked with 0.
pub fn panics() -> Vec<(String, u64)> {
    book().panics()
}

/// What is wrong, the worst first: panics of the last hour, and what was raised and not cleared.
pub fn problems() -> Vec<Problem> {
    book().problems(reelway_clock::now())
}
