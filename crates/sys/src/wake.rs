//! Sleeping until an absolute time, interruptible by another thread.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::check;
use crate::time::monotonic_ns;

#[derive(Debug)]
struct Shared {
    event: File,
    /// Whether the sleeper sleeps or is about to: otherwise waking it costs no system call.
    asleep: AtomicBool,
    woken: AtomicBool,
}

/// The sleeping end; one thread owns it.
#[derive(Debug)]
pub struct Sleeper(Arc<Shared>);

/// The waking end, for any number of threads.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Shared>);

/// A sleeper and its waker.
pub fn pair() -> io::Result<(Sleeper, Waker)> {
    // SAFETY: takes numbers only.
    let event = check(i64::from(unsafe {
        libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)
    }))?;
    // SAFETY: a new descriptor that nothing else owns.
    let event = unsafe { File::from_raw_fd(event as libc::c_int) };
    let shared = Arc::new(Shared {
        event,
        asleep: AtomicBool::new(false),
        woken: AtomicBool::new(false),
    });
    Ok((Sleeper(Arc::clone(&shared)), Waker(shared)))
}

impl Waker {
    /// Ends the current sleep, or the next one. The woken thread sees all earlier writes of this
    /// one.
    pub fn wake(&self) {
        self.0.woken.store(true, Ordering::SeqCst);
        if self.0.asleep.load(Ordering::SeqCst) {
            // A full counter (2^64 - 2 pending wake-ups) means that it is awake already.
            let _ = (&self.0.event).write(&1u64.to_ne_bytes());
        }
    }
}

impl Sleeper {
    /// Sleeps until `CLOCK_MONOTONIC` reaches `until` ns (for ever with `None`) or a waker wakes
    /// it. Returns whether one did since the last call.
    pub fn sleep(&self, until: Option<u64>) -> bool {
        let shared = &*self.0;
        shared.asleep.store(true, Ordering::SeqCst);
        while !shared.woken.load(Ordering::SeqCst) {
            let left = match until {
                None => None,
                Some(until) => match until.saturating_sub(monotonic_ns()) {
                    0 => break,
                    left => Some(libc::timespec {
                        tv_sec: (left / 1_000_000_000) as libc::time_t,
                        tv_nsec: (left % 1_000_000_000) as libc::c_long,
                    }),
                },
            };
            let mut poll = libc::pollfd {
                fd: shared.event.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            let timeout = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            // SAFETY: one pollfd, a timespec or null, no signal mask. A signal or an error only
            // repeats the loop.
            unsafe { libc::ppoll(&mut poll, 1, timeout, std::ptr::null()) };
            if poll.revents != 0 {
                let _ = (&shared.event).read(&mut [0; 8]);
            }
        }
        shared.asleep.store(false, Ordering::SeqCst);
        shared.woken.swap(false, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_ends_at_its_time_and_not_before() {
        let (sleeper, _waker) = pair().unwrap();
        let until = monotonic_ns() + 3_000_000;
        assert!(!sleeper.sleep(Some(until)));
        assert!(monotonic_ns() >= until);
    }

    #[test]
    fn a_waker_ends_the_sleep() {
        let (sleeper, waker) = pair().unwrap();
        let thread = std::thread::spawn(move || waker.wake());
        assert!(sleeper.sleep(None));
        thread.join().unwrap();
        assert!(
            !sleeper.sleep(Some(monotonic_ns() + 1_000_000)),
            "one wake-up ends one sleep"
        );
    }

    #[test]
    fn a_wake_up_before_the_sleep_is_not_lost() {
        let (sleeper, waker) = pair().unwrap();
        waker.wake();
        assert!(sleeper.sleep(None));
    }
}
