//! The thread that reads films' indexes to compute their exact needs.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, Weak};

use reelway_admission::{Config, Curves, FILMS, Want, fitting};
use reelway_catalogue::Film;
use reelway_demand::{Demand, Reading};
use reelway_rtp::PayloadOptions;
use reelway_supervise as supervise;
use reelway_sys::FileIdentity;

/// The store of the curves.
type Kept = Mutex<Curves<FileIdentity>>;

/// Reads requested indexes one after the other. The thread ends with its last user.
pub(crate) struct Indexes {
    curves: Weak<Kept>,
    films: SyncSender<Arc<Film>>,
}

impl Indexes {
    /// Starts the thread.
    pub fn start(curves: &Arc<Kept>, config: &Config) -> Indexes {
        let (films, wanted) = sync_channel(FILMS);
        let curves = Arc::downgrade(curves);
        let (kept, payload, reading) = (curves.clone(), config.payload, config.reading);
        let started = supervise::thread("reelway-needs", move || {
            read_needs(&wanted, &kept, payload, reading);
        });
        if let Err(error) = started {
            tracing::warn!(
                "what films need is only estimated, as no thread can be started: {error}"
            );
        }
        Indexes { curves, films }
    }

    /// Requests the index of this film.
    pub fn read(&self, want: Want<FileIdentity>, film: &Arc<Film>) {
        if self.films.try_send(film.clone()).is_err() {
            is_read(&self.curves, &want.film);
        }
    }
}

/// Allows another index to be requested.
fn is_read(curves: &Weak<Kept>, film: &FileIdentity) {
    if let Some(curves) = curves.upgrade() {
        supervise::whole(curves.lock()).reads(film);
    }
}

fn read_needs(
    films: &Receiver<Arc<Film>>,
    curves: &Weak<Kept>,
    payload: PayloadOptions,
    reading: Reading,
) {
    for film in films {
        is_read(curves, &film.bytes_identity());
        supervise::inject("needs");
        // An unreadable index is reported when the film is played. After a panic the film's needs
        // stay an estimate.
        let demand = supervise::guard("needs of a film", || {
            supervise::inject("needs.film");
            Demand::of(&film.title, &*film.samples, payload, reading)
        });
        let (Ok(Ok(demand)), Some(curves)) = (demand, curves.upgrade()) else {
            continue;
        };
        // Viewers wait for the lock, so the computation is done outside it.
        let demand = fitting(demand);
        supervise::lock(&curves).learn(film.bytes_identity(), demand);
    }
}
