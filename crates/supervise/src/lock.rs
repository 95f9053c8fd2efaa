//! What becomes of a lock in which a panic happened.
//!
//! A panic under a lock poisons it: what it protects may be half changed. Nobody enters it without
//! saying which of three cases it is.

use std::sync::{LockResult, Mutex, MutexGuard, PoisonError};

/// Enters a lock whose contents are whole whatever panics: each change under it is one step (an insert,
/// a removal, an assignment), or it holds figures that are only shown.
pub fn whole<G>(entered: LockResult<G>) -> G {
    entered.unwrap_or_else(PoisonError::into_inner)
}

/// Enters a mutex whose contents are [`whole`] whatever panics.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    whole(mutex.lock())
}

/// Enters a lock without whose contents the server cannot work and that cannot be made anew while it
/// runs. Where a panic may have torn them, the process ends: a server that starts again is better than one
/// that gives out the wrong bytes, or lets in more viewers than it can carry.
pub fn essential<G>(entered: LockResult<G>, what: &str) -> G {
    entered.unwrap_or_else(|_| fatal(what))
}

/// Enters a lock whose contents can be made anew: after a panic under it, `make` does so before
/// anybody sees them.
pub fn reset<'m, T>(
    mutex: &'m Mutex<T>,
    what: &str,
    make: impl FnOnce(&mut T),
) -> MutexGuard<'m, T> {
    match mutex.lock() {
        Ok(entered) => entered,
        Err(poisoned) => {
            let mut entered = poisoned.into_inner();
            make(&mut entered);
            mutex.clear_poison();
            tracing::warn!("{what}: made anew after a panic");
            entered
        }
    }
}

/// Ends the process (SIGABRT), since `what` cannot be relied on any more.
pub fn fatal(what: &str) -> ! {
    tracing::error!(
        "a panic left {what} in a state that cannot be relied on; the server ends, to be started again"
    );
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_made_anew_is_made_anew_once() {
        let mutex = Mutex::new(vec![1, 2, 3]);
        let torn = crate::guard("test", || {
            let mut list = mutex.lock().unwrap();
            list.clear();
            panic!("half-way");
        });
        assert!(torn.is_err() && mutex.is_poisoned());
        assert_eq!(*reset(&mutex, "the list", |list| list.push(7)), [7]);
        assert_eq!(*reset(&mutex, "the list", |list| list.push(8)), [7]);
    }
}
