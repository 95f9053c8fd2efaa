//! The register: which sessions there are. It knows nothing of what a session is, so that sessions can know the register
//! that they are in.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use reelway_admission::BookingId;
use reelway_supervise::lock;

use crate::gate::Gate;

/// What is left to do when a session has ended and its protocol has not heard of it.
pub(crate) type Farewell = Box<dyn FnOnce() + Send>;

/// All sessions of a server, of which `S` is a handle.
pub(crate) struct Register<S> {
    /// Where they were admitted.
    pub gate: Gate,
    present: Mutex<Present<S>>,
    /// Goes up with every session that comes or goes.
    changes: AtomicU64,
    farewells: Mutex<Vec<Farewell>>,
    /// Sessions that ended so that others could be admitted.
    made_room: AtomicU64,
}

struct Present<S> {
    by_token: HashMap<String, S>,
    /// In the order in which they began.
    by_booking: BTreeMap<BookingId, S>,
}

impl<S: Clone> Register<S> {
    /// No sessions.
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

    /// A session begins.
    pub fn enter(&self, token: &str, booking: BookingId, session: S) {
        let mut present = self.present();
        present.by_token.insert(token.to_owned(), session.clone());
        present.by_booking.insert(booking, session);
        drop(present);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// A session has ended.
    pub fn leave(&self, token: &str, booking: BookingId) {
        let mut present = self.present();
        present.by_token.remove(token);
        present.by_booking.remove(&booking);
        drop(present);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// The session with this secret.
    pub fn by_token(&self, token: &str) -> Option<S> {
        self.present().by_token.get(token).cloned()
    }

    /// The sessions with these bookings, as far as there are such.
    pub fn by_bookings(&self, bookings: &[BookingId]) -> Vec<S> {
        if bookings.is_empty() {
            return Vec::new();
        }
        let present = self.present();
        let found = bookings.iter().filter_map(|id| present.by_booking.get(id));
        found.cloned().collect()
    }

    /// All sessions, the oldest first.
    pub fn in_order(&self) -> Vec<S> {
        self.present().by_booking.values().cloned().collect()
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.present().by_booking.len()
    }

    /// A number that changes when a session comes or goes.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// A session has ended so that another viewer can be admitted.
    pub fn makes_room(&self, farewell: Farewell) {
        self.made_room.fetch_add(1, Ordering::Relaxed);
        lock(&self.farewells).push(farewell);
    }

    /// How many sessions have ended so that others could be admitted.
    pub fn made_room(&self) -> u64 {
        self.made_room.load(Ordering::Relaxed)
    }

    /// What is left to do for sessions that have ended. The caller holds no lock of a protocol.
    pub fn say_farewell(&self) {
        let farewells = std::mem::take(&mut *lock(&self.farewells));
        farewells.into_iter().for_each(|farewell| farewell());
    }

    fn present(&self) -> MutexGuard<'_, Present<S>> {
        lock(&self.present)
    }
}
