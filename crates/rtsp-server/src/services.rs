//! Films and streams in the machine's terms, backed by the real ones.

use std::sync::Arc;
use std::time::Duration;

use reelway_catalogue::{CatalogueError, Film as CatalogueFilm, Protocols};
use reelway_clock::Monotonic;
use reelway_demand::{Carriage, Demand};
use reelway_library::Library;
use reelway_rtp::PayloadOptions;
use reelway_rtsp::film::{Film, FilmError, Form, Identity};
use reelway_rtsp::seam::{self, Newcomer, Out, PlayInfo, PlayOrder, Refusal, TrackOrder};
use reelway_rtsp::target;
use reelway_sender::{
    Again as SenderAgain, FilmStream as SenderFilm, FrameWriter, Out as SenderOut, Sender, Stream,
    StreamEvent, StreamKind, TrackOut,
};
use reelway_session::{EndReason, NewSession, Protocol, Session, Sessions, Wants};
use tokio::task::spawn_blocking;

use crate::stream::{FilmStream, play_info};
use crate::watch::Watch;

/// A connection's write side.
pub(crate) type Writer = Arc<FrameWriter>;

/// The film behind the machine's handle.
#[derive(Clone, Debug)]
pub(crate) struct Original {
    film: Arc<CatalogueFilm>,
    /// The film's demand, for admission; `None` if it is not known.
    demand: Option<Arc<Demand>>,
}

/// Films, register and sender, as the machine needs them.
#[derive(Clone)]
pub(crate) struct Services {
    library: Library,
    sessions: Sessions,
    sender: Sender,
    payload: PayloadOptions,
}

impl Services {
    pub fn new(
        library: Library,
        sessions: Sessions,
        sender: Sender,
        payload: PayloadOptions,
    ) -> Services {
        Services {
            library,
            sessions,
            sender,
            payload,
        }
    }

    /// Finds the first of these titles that exists, or the server where it is to be watched, if
    /// that is another one and the viewer may be redirected.
    pub async fn film(
        &self,
        titles: Vec<String>,
        form: Form,
        may_leave: bool,
    ) -> Result<Arc<Film<Original>>, FilmError> {
        let (catalogue, payload) = (self.library.catalogue().clone(), self.payload);
        let gate = self.sessions.gate().clone();
        // Reads the index from disk if it is not in memory.
        let found = spawn_blocking(move || {
            let mut unknown = None;
            for title in &titles {
                match catalogue.film(title) {
                    Ok(film) => {
                        let film = in_form(film, form)?;
                        let demand = gate.demand(&film);
                        return over_rtsp(film, form, demand, payload);
                    }
                    Err(CatalogueError::Unknown(_)) => unknown = unknown.or(Some(title)),
                    Err(error @ CatalogueError::NotReady { .. }) => {
                        return Err(FilmError::NotReady(error.to_string()));
                    }
                    Err(error @ CatalogueError::Unplayable { .. }) => {
                        return Err(FilmError::Unplayable(error.to_string()));
                    }
                }
            }
            let title = unknown.map_or("", String::as_str);
            Err(FilmError::Unknown(
                CatalogueError::Unknown(title.to_owned()).to_string(),
            ))
        });
        let found = found.await;
        let film = found.unwrap_or_else(|error| Err(FilmError::Failed(error.to_string())))?;
        if may_leave && let Some(place) = self.library.placement().place(&film.handle.film).await {
            let url = target::base(&place.rtsp, &place.title);
            let url = url.trim_end_matches('/').to_owned();
            return Err(FilmError::Elsewhere(url));
        }
        Ok(Arc::new(film))
    }

    /// The time up to which everything that receivers sent over UDP has been read, or is being read
    /// now.
    pub fn heard_until(&self) -> Monotonic {
        self.sender.heard_until()
    }

    /// Ends the sessions that had to make room for others.
    pub fn run_farewells(&self) {
        self.sessions.run_farewells();
    }

    /// Asks the register to admit this viewer; `on_end` is called when the register ends the
    /// session.
    pub fn admit(
        &self,
        newcomer: Newcomer<Original>,
        watch: &Arc<Watch>,
        on_end: impl FnOnce(&str, &EndReason) + Send + 'static,
    ) -> Result<Session, Refusal> {
        let opened = self.sessions.open(new_session(newcomer));
        self.sessions.run_farewells();
        let session = opened.map_err(refused)?;
        // The machine tracks how long a viewer may be silent, depending on what they do.
        session.set_idle_limit(Duration::MAX);
        let seen = watch.clone();
        session.set_probe(move || seen.progress());
        let name = session.token().to_owned();
        session.on_end(move |reason| on_end(&name, reason));
        Ok(session)
    }

    /// Makes a stream that waits for `FilmStream::go`. Its events arrive on a thread that must
    /// not wait.
    pub async fn play(
        &self,
        order: PlayOrder<Writer, Original>,
        events: impl Fn(StreamEvent) + Send + Sync + 'static,
    ) -> Result<(FilmStream, PlayInfo), String> {
        let film = order.film.handle.film.clone();
        let opened = self.library.open_film(film).await;
        let film = opened.map_err(|error| error.to_string())?;
        let gate = self.sessions.gate();
        let viewer = self.sessions.by_token(&order.session);
        let links = viewer.map_or_else(Vec::new, |viewer| gate.networks_to(viewer.peer().ip()));
        let stream = Stream {
            what: StreamKind::Film(SenderFilm {
                film,
                tracks: order.tracks.into_iter().map(track_out).collect(),
                start: order.start,
                end: Some(order.end),
                links,
            }),
            events: Box::new(events),
        };
        let handle = self.sender.play(stream);
        let info = handle.ready().await.map_err(|error| error.to_string())?;
        Ok((FilmStream::new(handle), play_info(info)))
    }
}

/// Returns the film in the form in which it is to be sent.
fn in_form(film: Arc<CatalogueFilm>, form: Form) -> Result<Arc<CatalogueFilm>, FilmError> {
    match form {
        Form::Tracks => Ok(film),
        Form::TransportStream => match film.as_transport_stream() {
            Some(film) => Ok(Arc::new(film)),
            None => Err(FilmError::Unplayable(format!(
                "film '{}' is no transport stream that can be sent as it is; its tracks can: ask without ?as=ts",
                film.name
            ))),
        },
    }
}

/// Returns the machine's film, with the tracks that can be sent over RTP.
fn over_rtsp(
    film: Arc<CatalogueFilm>,
    form: Form,
    demand: Option<Arc<Demand>>,
    options: PayloadOptions,
) -> Result<Film<Original>, FilmError> {
    if let Some(reason) = Protocols::of(&film.title).rtsp {
        return Err(FilmError::Unplayable(format!(
            "film '{}' does not play over RTSP: {reason}",
            film.name
        )));
    }
    let identity = Identity {
        id: film.identity.inode,
        version: film.identity.mtime_ns.unsigned_abs(),
    };
    let original = Original {
        film: film.clone(),
        demand,
    };
    Film::new(&film.name, &film.title, identity, form, options, original)
}

/// Converts a newcomer for the register.
fn new_session(newcomer: Newcomer<Original>) -> NewSession {
    let Newcomer {
        peer,
        connection,
        film,
        carriage,
        user_agent,
        query,
    } = newcomer;
    NewSession {
        protocol: match carriage {
            seam::Carriage::UdpV4 | seam::Carriage::UdpV6 => Protocol::RtspUdp,
            seam::Carriage::Tcp => Protocol::RtspTcp,
        },
        peer,
        connection,
        title: film.title.clone(),
        duration: Duration::from_nanos(film.duration.max(0) as u64),
        user_agent,
        query,
        wants: film.handle.demand.clone().map(|demand| Wants {
            demand,
            // The tracks that the viewer will set up are not known yet.
            tracks: Vec::new(),
            carriage: carried(carriage),
            is_remote: film.handle.film.identity.is_remote(),
            goes_on: false,
            eager: None,
        }),
    }
}

/// Converts the transport of a viewer's tracks for the timetable.
pub(crate) fn carried(carriage: seam::Carriage) -> Carriage {
    match carriage {
        seam::Carriage::UdpV4 => Carriage::UdpV4,
        seam::Carriage::UdpV6 => Carriage::UdpV6,
        seam::Carriage::Tcp => Carriage::Tcp,
    }
}

/// Converts the register's refusal for the machine.
pub(crate) fn refused(refusal: reelway_session::Refusal) -> Refusal {
    let reelway_session::Refusal {
        reason,
        retry_after,
    } = refusal;
    Refusal {
        reason,
        retry_after,
    }
}

fn track_out(order: TrackOrder<Writer>) -> TrackOut {
    TrackOut {
        track: order.track.number as usize - 1,
        payload_type: order.track.payload_type,
        ssrc: order.ssrc,
        seq: order.seq,
        rtp_base: order.rtp_base,
        again: order.again.map(|again| SenderAgain {
            payload_type: again.payload_type,
            ssrc: again.ssrc,
            seq: again.seq,
        }),
        out: match order.out {
            Out::Udp { from, rtp, rtcp } => SenderOut::Udp {
                from: Some(from),
                rtp,
                rtcp,
            },
            Out::Plain { from, to } => SenderOut::Plain {
                from: Some(from),
                to,
            },
            Out::Tcp { writer, rtp, rtcp } => SenderOut::Tcp {
                conn: writer,
                rtp,
                rtcp,
            },
        },
    }
}
