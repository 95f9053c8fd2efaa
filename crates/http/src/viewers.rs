//! The sessions of viewers over HTTP ([`reelway_viewing::Viewers`] identifies them). A newcomer is
//! admitted or refused when they request the first playlist.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reelway_demand::Carriage;
use reelway_session::{EndReason, NewSession, Protocol, Refusal, Sessions, Wants};
use reelway_store::Store;
use reelway_supervise as supervise;
use reelway_viewing::{Caller, Delivery, End, Entry, Film, Key, Mismatch, Pace, Piece};

use crate::films::{Recorded, Show};
use crate::renditions::Wanted;
use crate::viewer::{Sending, Viewer};

/// Why a caller is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// There is no room for them, or they may not watch.
    Refused(Refusal),
    /// They are not a viewer, or no longer one.
    NoViewer(reelway_viewing::Denied),
}

impl From<reelway_viewing::Denied> for Denied {
    fn from(denied: reelway_viewing::Denied) -> Denied {
        Denied::NoViewer(denied)
    }
}

/// All viewers over HTTP.
pub(crate) struct Viewers(Arc<Inner>);

struct Inner {
    sessions: Sessions,
    store: Store,
    timeout: Duration,
    pace: Pace,
    known: Mutex<reelway_viewing::Viewers<Arc<Viewer>>>,
}

/// A caller who is about to become a viewer.
struct Newcomer<'a> {
    /// The key by which they are already known.
    key: Option<Key>,
    delivery: Delivery,
    query: Option<String>,
    /// The film's growth: they continue when it gets longer.
    recorded: Option<Recorded>,
    caller: &'a Caller,
}

impl Viewers {
    pub fn new(sessions: Sessions, store: Store, timeout: Duration, pace: Pace) -> Viewers {
        let knows_users = sessions.gate().config().users.are_known();
        Viewers(Arc::new(Inner {
            sessions,
            store,
            timeout,
            pace,
            known: Mutex::new(reelway_viewing::Viewers::new(knows_users)),
        }))
    }

    /// Begins a viewer's session with the multivariant playlist or the MPD; a caller with a token
    /// continues theirs.
    pub fn begin(
        &self,
        delivery: Delivery,
        wanted: &Wanted,
        caller: &Caller,
    ) -> Result<Arc<Viewer>, Denied> {
        if caller.token.is_some() {
            return self.resume(delivery, wanted, caller);
        }
        let newcomer = Newcomer {
            key: None,
            delivery,
            query: caller.query.clone(),
            recorded: wanted.recorded,
            caller,
        };
        self.open(&wanted.show, newcomer)
    }

    /// Returns the viewer who requests something below the playlist. A request for a rendition
    /// belongs to a viewer of its film, unless they began with the rendition itself.
    pub fn resume(
        &self,
        delivery: Delivery,
        wanted: &Wanted,
        caller: &Caller,
    ) -> Result<Arc<Viewer>, Denied> {
        let now = reelway_clock::now();
        let film_of_set = wanted.best.as_ref().unwrap_or(&wanted.show);
        let title = &film_of_set.film.name;
        let found = self.0.known().find(caller, title, delivery, now)?;
        // A viewer who was given up at this very moment begins again.
        let present = found
            .present
            .filter(|present| !present.viewer.session.is_ended());
        let Some(present) = present else {
            let newcomer = Newcomer {
                key: Some(found.key),
                delivery: found.delivery,
                query: found.query,
                recorded: wanted.recorded,
                caller,
            };
            return self.open(film_of_set, newcomer);
        };
        let show = match present.check(film(&wanted.show)) {
            Err(Mismatch::OtherFilm) => film_of_set,
            _ => &wanted.show,
        };
        if let Err(mismatch) = present.check(film(show)) {
            if mismatch == Mismatch::Replaced {
                let why = "the film was replaced while it was watched".into();
                present.viewer.session.end(EndReason::Failed(why));
            }
            return Err(Denied::NoViewer(mismatch.into()));
        }
        if present.viewer.has_grown(show.film.identity)
            && let Some(demand) = self.0.sessions.gate().demand(&show.film)
        {
            present.viewer.session.grows(demand);
            self.run_farewells();
        }
        Ok(present.viewer)
    }

    /// Records a request for a piece, whose answer is in progress until the returned value is
    /// dropped. A viewer may be refused if they lost their place before their first request.
    pub fn asks(&self, viewer: &Arc<Viewer>, piece: &Piece) -> Result<Sending, Denied> {
        let sending = viewer.asks(piece);
        self.run_farewells();
        sending.map_err(Denied::Refused)
    }

    /// Ends the sessions that had to make room for others; none of this file's locks may be held.
    fn run_farewells(&self) {
        self.0.sessions.run_farewells();
    }

    fn open(&self, show: &Show, newcomer: Newcomer<'_>) -> Result<Arc<Viewer>, Denied> {
        let opened = self.let_in(show, newcomer);
        self.run_farewells();
        opened
    }

    fn let_in(&self, show: &Show, newcomer: Newcomer<'_>) -> Result<Arc<Viewer>, Denied> {
        let Newcomer {
            key,
            delivery,
            query,
            recorded,
            caller,
        } = newcomer;
        let inner = &self.0;
        let demand = inner.sessions.gate().demand(&show.film);
        let wants = demand.map(|demand| Wants {
            tracks: match delivery {
                // A file contains all tracks.
                Delivery::File => (0..show.film.title.tracks.len()).collect(),
                Delivery::Hls | Delivery::TransportStream | Delivery::Dash => Vec::new(),
            },
            demand,
            carriage: Carriage::Http,
            is_remote: show.film.identity.is_remote(),
            goes_on: recorded.is_some_and(|recorded| recorded.goes_on(reelway_clock::now())),
            eager: None,
        });
        let gate = inner.sessions.gate();
        let wants =
            wants.map(|wants| gate.slowly_if_narrow(wants, &show.film.name, caller.peer.ip()));
        let booked = wants.as_ref().and_then(|wants| wants.eager);
        let pace = booked.filter(|_| !inner.pace.is_free());
        let pace = pace.map_or(inner.pace, |eager| Pace::booked(&eager));
        let session = NewSession {
            protocol: match delivery {
                Delivery::Hls | Delivery::TransportStream => Protocol::Hls,
                Delivery::Dash => Protocol::Dash,
                Delivery::File => Protocol::File,
            },
            peer: caller.peer,
            connection: caller.connection,
            title: show.film.name.clone(),
            duration: Duration::from_nanos(show.package.duration().max(0) as u64),
            user_agent: caller.agent.clone(),
            query: query.clone(),
            wants,
        };
        // The lock is held so that two requests of one newcomer do not open two sessions.
        let mut known = inner.known();
        let present = key.as_ref().and_then(|key| known.get(key));
        if let Some(present) = present.filter(|present| !present.viewer.session.is_ended()) {
            let is_theirs = present.check(film(show));
            is_theirs.map_err(|mismatch| Denied::NoViewer(mismatch.into()))?;
            return Ok(present.viewer.clone());
        }
        let session = inner.sessions.open(session).map_err(Denied::Refused)?;
        let key = key.unwrap_or_else(|| Key::Token(session.token().to_owned()));
        let viewer = Arc::new(Viewer::new(
            session.clone(),
            key.token().to_owned(),
            show.film.identity,
            (pace, inner.timeout),
            inner.store.watcher(),
        ));
        let began = (delivery, query.as_ref());
        let entry = known.enter(key, film(show), began, viewer.clone());
        drop(known);
        let probed = Arc::downgrade(&viewer);
        session.set_probe(move || {
            let viewer = probed.upgrade();
            viewer.map(|viewer| viewer.progress()).unwrap_or_default()
        });
        let inner = Arc::downgrade(inner);
        session.on_end(move |reason| {
            if let Some(inner) = inner.upgrade() {
                inner.forget(entry, reason);
            }
        });
        Ok(viewer)
    }
}

impl Inner {
    fn known(&self) -> MutexGuard<'_, reelway_viewing::Viewers<Arc<Viewer>>> {
        supervise::whole(self.known.lock())
    }

    fn forget(&self, entry: Entry, reason: &EndReason) {
        let end = match reason {
            EndReason::Kicked => End::Kicked,
            EndReason::Failed(why) => End::Failed(why.clone()),
            EndReason::Slower => End::Failed(reason.to_string()),
            EndReason::Expired | EndReason::MadeRoom => End::Silent,
            EndReason::Left | EndReason::Disconnected | EndReason::Shutdown => End::Over,
        };
        let now = reelway_clock::now();
        self.known().leave(entry, end, now);
    }
}

/// Returns the film in the terms of the viewers' register.
fn film(show: &Show) -> Film<'_> {
    Film {
        title: &show.film.name,
        edition: &show.edition,
        as_stream: show.stream.is_some(),
    }
}
