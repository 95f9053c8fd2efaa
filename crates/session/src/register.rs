//! The register of all sessions. It is generic over the session type, so that sessions can refer to
//! the register that holds them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use reelway_admission::BookingId;
use reelway_supervise::lock;

use crate::gate::Gate;

/// What remains to be done after a session has ended without its protocol being notified.
pub(crate) type Farewell = Box<dyn FnOnce() + Send>;

/// All sessions of a server; `S` is a handle on one.
pub(crate) struct Register<S> {
    /// The gate that admitted them.
    pub gate: Gate,
    present: Mutex<Present<S>>,
    /// Incremented whenever a session begins or ends.
    changes: AtomicU64,
    farewells: Mutex<Vec<Farewell>>,
    /// Number of sessions that ended so that others could be admitted.
    made_room: AtomicU64,
}

struct Present<S> {
    by_token: HashMap<String, S>,
    /// In the order in which they began.
    by_booking: BTreeMap<BookingId, S>,
}

impl<S: Clone> Register<S> {
    /// Creates an empty register.
    pub fn new(gate: Gate) -> Register<S> {
        Register {
            gate,
            present: Mutex::new(Present {
                by_token: HashMap::new(),
                by_booking: BTreeMap::new(),
            }),
            changes: AtomicU64::new(0),
            farewells: Mutex::default(),
            made_room: AtomicU64::new(0),
        }
    }

    /// Adds a session.
    pub fn enter(&self, token: &str, booking: BookingId, session: S) {
        let mut present = self.present();
        present.by_token.insert(token.to_owned(), session.clone());
        present.by_booking.insert(booking, session);
        drop(present);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a session that has ended.
    pub fn leave(&self, token: &str, booking: BookingId) {
        let mut present = self.present();
        present.by_token.remove(token);
        present.by_booking.remove(&booking);
        drop(present);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the session with this secret.
    pub fn by_token(&self, token: &str) -> Option<S> {
        self.present().by_token.get(token).cloned()
    }

    /// Returns the sessions with these bookings that still exist.
    pub fn by_bookings(&self, bookings: &[BookingId]) -> Vec<S> {
        if bookings.is_empty() {
            return Vec::new();
        }
        let present = self.present();
        let found = bookings.iter().filter_map(|id| present.by_booking.get(id));
        found.cloned().collect()
    }

    /// Returns all sessions, oldest first.
    pub fn in_order(&self) -> Vec<S> {
        self.present().by_booking.values().cloned().collect()
    }

    /// Returns the number of sessions.
    pub fn len(&self) -> usize {
        self.present().by_booking.len()
    }

    /// Returns a number that changes when a session begins or ends.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Records that a session has ended so that another viewer can be admitted.
    pub fn makes_room(&self, farewell: Farewell) {
        self.made_room.fetch_add(1, Ordering::Relaxed);
        lock(&self.farewells).push(farewell);
    }

    /// Returns the number of sessions that have ended so that others could be admitted.
    pub fn made_room(&self) -> u64 {
        self.made_room.load(Ordering::Relaxed)
    }

    /// Runs the pending farewells of ended sessions. The caller must not hold a lock of a protocol.
    pub fn run_farewells(&self) {
        let farewells = std::mem::take(&mut *lock(&self.farewells));
        farewells.into_iter().for_each(|farewell| farewell());
    }

    fn present(&self) -> MutexGuard<'_, Present<S>> {
        lock(&self.present)
    }
}
