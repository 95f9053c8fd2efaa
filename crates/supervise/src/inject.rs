//! Panics that tests request. Debug builds only: in a release build [`inject`] does nothing.
//!
//! `REELWAY_INJECT` names a file. Each line `POINT COUNT` that is appended to it makes the next
//! COUNT passes of that point panic.

/// A point at which tests can make the program panic.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn inject(_point: &'static str) {}

#[cfg(not(debug_assertions))]
pub(crate) fn listen() {}

#[cfg(debug_assertions)]
pub(crate) use debug::listen;
#[cfg(debug_assertions)]
pub use debug::{arm, inject};

#[cfg(debug_assertions)]
mod debug {
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    /// Whether any point is armed: checked at every pass.
    static ARMED: AtomicBool = AtomicBool::new(false);
    static POINTS: Mutex<Option<HashMap<String, u64>>> = Mutex::new(None);

    /// A point at which tests can make the program panic.
    pub fn inject(point: &'static str) {
        if ARMED.load(Ordering::Relaxed) && takes(point) {
            panic!("injected at {point}");
        }
    }

    /// Makes the next `count` passes of a point panic. For tests within the process; debug builds
    /// only.
    pub fn arm(point: &str, count: u64) {
        let mut points = POINTS.lock().unwrap_or_else(PoisonError::into_inner);
        let points = points.get_or_insert_default();
        *points.entry(point.to_owned()).or_default() += count;
        ARMED.store(true, Ordering::Relaxed);
    }

    fn takes(point: &str) -> bool {
        let mut points = POINTS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = points.as_mut().and_then(|points| points.get_mut(point)) else {
            return false;
        };
        let armed = *count > 0;
        *count = count.saturating_sub(1);
        armed
    }

    /// Reads the file named by `REELWAY_INJECT`: its present lines at once, and then new ones as
    /// they are appended.
    pub(crate) fn listen() {
        let Some(path) = std::env::var_os("REELWAY_INJECT") else {
            return;
        };
        tracing::warn!("panics are injected as {} says", path.display());
        let mut done = 0;
        let mut read = move || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            // Complete lines only.
            let end = text.rfind('\n').map_or(0, |at| at + 1);
            for line in text.get(done..end).unwrap_or_default().lines() {
                let mut words = line.split_whitespace();
                let point = words.next().unwrap_or_default().to_owned();
                let count = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
                arm(&point, count);
                tracing::warn!("armed: {count} panics at {point}");
            }
            done = done.max(end);
        };
        read();
        let read = move || {
            loop {
                std::thread::sleep(Duration::from_millis(10));
                read();
            }
        };
        if let Err(error) = std::thread::Builder::new()
            .name("inject".into())
            .spawn(read)
        {
            tracing::error!("no panics are injected: {error}");
        }
    }
}
