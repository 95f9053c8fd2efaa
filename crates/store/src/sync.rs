//! The locks and atomics that the store's threads share. In this crate's unit tests they are those
//! of shuttle, which tries one interleaving of the threads after the other (`orders.rs`): such
//! tests run within `shuttle::check_random` and the like.

#[cfg(not(test))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, fence};
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard};
#[cfg(not(test))]
pub(crate) use std::thread_local;

#[cfg(test)]
pub(crate) use shuttle::sync::atomic::{AtomicU64, AtomicUsize};
#[cfg(test)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(test)]
pub(crate) use shuttle::thread_local;

/// Locks one of the store's lists, each of which is changed in one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    reelway_supervise::whole(mutex.lock())
}

/// Shuttle's threads see each other's writes in one order, as if there were fences everywhere.
#[cfg(test)]
pub(crate) fn fence(_: std::sync::atomic::Ordering) {}
