//! Catching panics.

use std::any::Any;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::thread::JoinHandle;

use crate::hook;

/// A panic ended a piece of work. The displayed text is meant for viewers; the log has the details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked {
    /// The panic's message, as in the log.
    pub message: String,
}

impl std::fmt::Display for Panicked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ended by a fault of this program")
    }
}

impl std::error::Error for Panicked {}

impl Panicked {
    fn of(payload: &(dyn Any + Send)) -> Panicked {
        let message = hook::words(payload).to_owned();
        Panicked { message }
    }
}

/// Does a piece of work; a panic in it becomes an error, and is counted under `part`.
///
/// Whatever the work shares with other threads must be as valid after a panic as before: values
/// that it owned are dropped, locks that it held are poisoned (see [`crate::essential`] and its
/// siblings).
pub fn guard<T>(part: &'static str, work: impl FnOnce() -> T) -> Result<T, Panicked> {
    let _within = hook::Within::part(part);
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panicked::of(&*payload))
}

/// The same for a future: it completes at its first panic.
pub async fn caught<T>(part: &'static str, future: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let polled = guard(part, || future.as_mut().poll(cx));
        match polled {
            Ok(polled) => polled.map(Ok),
            Err(panicked) => std::task::Poll::Ready(Err(panicked)),
        }
    })
    .await
}

/// Runs a task's loop until it returns; restarts it after a panic, with a pause if it panics often.
pub async fn keep<F: Future<Output = ()>>(part: &'static str, mut make: impl FnMut() -> F) {
    hook::started(part);
    while caught(part, async { make().await }).await.is_err() {
        tokio::time::sleep(hook::restarted(part)).await;
    }
}

/// Runs a thread's `body` until it returns; restarts it after a panic, with a pause if it panics
/// often. Panics are counted under the thread's name.
pub fn run(mut body: impl FnMut()) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a thread");
    hook::started(name);
    while catch_unwind(AssertUnwindSafe(&mut body)).is_err() {
        std::thread::sleep(hook::restarted(name));
    }
}

/// Starts a thread that runs `body` as [`run`] does.
pub fn thread(
    name: impl Into<String>,
    body: impl FnMut() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || run(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};

    #[test]
    fn a_panic_becomes_an_error_that_names_no_internals() {
        let panicked = guard("test", || -> u32 { panic!("secret {}", 7) }).unwrap_err();
        assert_eq!(panicked.message, "secret 7");
        assert_eq!(panicked.to_string(), "ended by a fault of this program");
        assert_eq!(guard("test", || 7), Ok(7));
    }

    #[test]
    fn a_future_that_panics_is_done_with_an_error() {
        let mut polls = 0;
        let future = poll_fn(|cx| {
            polls += 1;
            assert!(polls < 2, "the second poll");
            cx.waker().wake_by_ref();
            std::task::Poll::<()>::Pending
        });
        let mut future = pin!(caught("test", future));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(&mut cx).is_pending());
        let std::task::Poll::Ready(Err(panicked)) = future.as_mut().poll(&mut cx) else {
            panic!("it is not done");
        };
        assert_eq!(panicked.message, "the second poll");
    }

    #[test]
    fn a_thread_that_panics_goes_on_with_what_it_has() {
        let (sender, receiver) = mpsc::channel();
        let done = Arc::new(AtomicUsize::new(0));
        let its = Arc::clone(&done);
        let body = move || {
            for number in &receiver {
                assert!(number % 2 == 0, "an odd number");
                its.fetch_add(number, Ordering::Relaxed);
            }
        };
        let thread = thread("supervised", body).unwrap();
        for number in [2, 3, 4, 5, 6] {
            sender.send(number).unwrap();
        }
        drop(sender);
        thread.join().unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 12);
    }
}
