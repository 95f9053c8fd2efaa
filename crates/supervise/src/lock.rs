//! Locks in which a panic occurred.
//!
//! A panic under a lock poisons it: the protected data may be half changed. Code that takes the
//! lock must choose one of three cases.

use std::sync::{LockResult, Mutex, MutexGuard, PoisonError};

/// Takes a lock whose data stay consistent even if a panic occurs: each change under it is a single
/// step (an insert, a removal, an assignment), or it holds figures that are only shown.
pub fn whole<G>(entered: LockResult<G>) -> G {
    entered.unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex whose data stay [`whole`] even if a panic occurs.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    whole(mutex.lock())
}

/// Takes a lock whose data the server cannot work without and cannot rebuild while it runs. If a
/// panic may have left them inconsistent, the process ends: a server that restarts is better than
/// one that sends the wrong bytes, or admits more viewers than it can carry.
pub fn essential<G>(entered: LockResult<G>, what: &str) -> G {
    entered.unwrap_or_else(|_| fatal(what))
}

/// Locks a mutex whose data can be rebuilt: after a panic under it, `make` does so before any other
/// code sees them.
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
            tracing::warn!("{what}: rebuilt after a panic");
            entered
        }
    }
}

/// Ends the process (SIGABRT), because `what` cannot be relied on any more.
pub fn fatal(what: &str) -> ! {
    tracing::error!("a panic left {what} in an unreliable state; the server ends, to be restarted");
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
