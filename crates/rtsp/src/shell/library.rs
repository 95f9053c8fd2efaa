//! Films and streams as the machine knows them, made of the real ones.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_catalogue::{Catalogue, CatalogueError, Film as CatalogueFilm, Protocols};
use reelway_clock::Monotonic;
use reelway_media::Nanos;
use reelway_rtp::sdp::{Description, Profile, Section};
use reelway_rtp::{Payload, PayloadOptions};
use reelway_sender::{
    Again as SenderAgain, FilmStream, Out as SenderOut, Sender, State, Stream, StreamError,
    StreamEvent, StreamHandle, TrackOut, What,
};
use reelway_session::{NewSession, Refusal, Session, Sessions};
use reelway_store::Store;
use reelway_supervise as supervise;
use reelway_timetable::{Carriage, Demand, Schedule};
use tokio::task::spawn_blocking;

use crate::machine::{Reported, Said, carriage};
use crate::response::SERVER;
use crate::seam::{
    Admission, Film, FilmError, FilmTrack, FirstPacket, Out, PlayInfo, PlayOrder, Playback, Sent,
    Soon, TrackOrder,
};
use crate::shell::hub::{Ears, Told, Writer};
use crate::watch::Watch;

/// First payload type of those that a session description assigns (RFC 3551 section 6).
const FIRST_DYNAMIC: u8 = 96;

/// The other rooms, as this one needs them.
#[derive(Clone)]
pub(super) struct Library {
    catalogue: Arc<dyn Catalogue>,
    sessions: Sessions,
    sender: Sender,
    store: Store,
    payload: PayloadOptions,
}

impl Library {
    pub fn new(
        catalogue: Arc<dyn Catalogue>,
        sessions: Sessions,
        sender: Sender,
        store: Store,
        payload: PayloadOptions,
    ) -> Library {
        Library {
            catalogue,
            sessions,
            sender,
            store,
            payload,
        }
    }

    /// The first of these that there is.
    pub async fn film(&self, titles: Vec<String>) -> Result<Arc<dyn Film>, FilmError> {
        let (catalogue, payload) = (self.catalogue.clone(), self.payload);
        let gate = self.sessions.gate().clone();
        // An index that is not in memory is read from disk.
        let found = spawn_blocking(move || {
            let mut unknown = None;
            for title in &titles {
                match catalogue.film(title) {
                    Ok(film) => {
                        let demand = gate.demand(&film);
                        return RtspFilm::new(film, payload, demand);
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
        match found.await {
            Ok(found) => found.map(|film| Arc::new(film) as Arc<dyn Film>),
            Err(error) => Err(FilmError::Failed(error.to_string())),
        }
    }

    /// Everything that receivers sent over UDP before this time has been read, or is being read now.
    pub fn heard_until(&self) -> Monotonic {
        self.sender.heard_until()
    }

    /// Ends what was sent away for others.
    pub fn say_farewell(&self) {
        self.sessions.say_farewell();
    }

    /// Asks the register whether this viewer may come in.
    pub fn admit(&self, viewer: NewSession, ears: &Ears) -> Result<(Session, Admission), Refusal> {
        let opened = self.sessions.open(viewer);
        self.sessions.say_farewell();
        let session = opened?;
        // How long a viewer may be silent is known here, by what he does.
        session.set_idle_limit(Duration::MAX);
        let watch = Arc::new(Watch::default());
        let seen = watch.clone();
        session.set_probe(move || seen.progress());
        let (name, told) = (session.token().to_owned(), ears.told.clone());
        session.on_end(move |reason| drop(told.send(Told::Ended(name, reason.clone()))));
        let admission = Admission {
            session: session.token().to_owned(),
            watch,
        };
        Ok((session, admission))
    }

    /// Makes a stream that waits to be let go.
    pub async fn play(
        &self,
        order: PlayOrder<Writer>,
        ears: &Ears,
    ) -> Result<(Arc<dyn Playback>, PlayInfo), String> {
        let film = order
            .film
            .in_catalogue()
            .ok_or("the film is not of this catalogue")?;
        let (store, opened) = (self.store.clone(), film.clone());
        let source = spawn_blocking(move || store.open(&opened.path)).await;
        let source = match source {
            Ok(Ok(source)) => source,
            Ok(Err(error)) => {
                return Err(format!("film '{}' cannot be opened: {error}", film.name));
            }
            Err(error) => return Err(error.to_string()),
        };
        if source.identity() != film.identity {
            return Err(format!(
                "film '{}' was replaced and is being indexed again",
                film.name
            ));
        }
        let gate = self.sessions.gate();
        let viewer = self.sessions.by_token(&order.session);
        let links = viewer.map_or_else(Vec::new, |viewer| gate.networks_to(viewer.peer().ip()));
        let (session, ears) = (order.session, ears.clone());
        let stream = Stream {
            what: What::Film(FilmStream {
                film,
                source,
                tracks: order.tracks.into_iter().map(track_out).collect(),
                start: order.start,
                end: Some(order.end),
                links,
            }),
            events: Box::new(move |event| tell(&ears, &session, event)),
        };
        let handle = self.sender.play(stream);
        let info = handle.ready().await.map_err(|error| error.to_string())?;
        Ok((Arc::new(FilmPlayback::new(handle)), play_info(info)))
    }
}

/// On a sender thread: passes on what happens, and does not wait.
fn tell(ears: &Ears, session: &str, event: StreamEvent) {
    let session = session.to_owned();
    match event {
        StreamEvent::Ended => drop(ears.told.send(Told::Finished(session))),
        StreamEvent::Failed(reason) => drop(ears.told.send(Told::Failed(session, reason))),
        StreamEvent::Report(report) => {
            let reported = Reported {
                lost: report.lost,
                jitter: report.jitter,
            };
            // Where too much is reported, some of it is not heard.
            let said = Said::Report(report.track, reported);
            drop(ears.heard.try_send((session, said)));
        }
        StreamEvent::Alive => drop(ears.heard.try_send((session, Said::Alive))),
        StreamEvent::Left => drop(ears.heard.try_send((session, Said::Bye))),
    }
}

/// Which tracks of its title an order is for, and how they get to the viewer.
pub(super) fn taken(tracks: &[TrackOrder<Writer>]) -> (Vec<usize>, Carriage) {
    let numbers = tracks
        .iter()
        .map(|order| order.track.number as usize - 1)
        .collect();
    let carriage = tracks
        .first()
        .map_or(Carriage::UdpV4, |order| carriage(&order.out));
    (numbers, carriage)
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
            Out::Tcp { writer, rtp, rtcp } => SenderOut::Tcp {
                conn: writer,
                rtp,
                rtcp,
            },
        },
    }
}

fn play_info(info: reelway_sender::PlayInfo) -> PlayInfo {
    let first = |track: &reelway_sender::TrackInfo| FirstPacket {
        seq: track.seq,
        rtp_time: track.rtp_time,
    };
    PlayInfo {
        start: info.start,
        tracks: info.tracks.iter().map(first).collect(),
    }
}

/// A film of the catalogue with what of it goes over RTP.
#[derive(Debug)]
struct RtspFilm {
    film: Arc<CatalogueFilm>,
    tracks: Vec<FilmTrack>,
    payloads: Vec<Payload>,
    demand: Option<Arc<Demand>>,
}

impl RtspFilm {
    fn new(
        film: Arc<CatalogueFilm>,
        options: PayloadOptions,
        demand: Option<Arc<Demand>>,
    ) -> Result<RtspFilm, FilmError> {
        let name = &film.name;
        if let Some(reason) = Protocols::of(&film.title).rtsp {
            return Err(FilmError::Unplayable(format!(
                "film '{name}' does not play over RTSP: {reason}"
            )));
        }
        let (mut tracks, mut payloads, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
        for (number, track) in (1u32..).zip(&film.title.tracks) {
            let payload_type = FIRST_DYNAMIC.saturating_add(tracks.len().min(255) as u8);
            if payload_type > 127 {
                break;
            }
            match Payload::new(track, options) {
                Ok(payload) => {
                    let clock_rate = payload.clock_rate();
                    tracks.push(FilmTrack {
                        number,
                        payload_type,
                        clock_rate,
                    });
                    payloads.push(payload);
                }
                Err(unsupported) => reasons.push(unsupported.reason),
            }
        }
        if tracks.is_empty() {
            let reasons = reasons.join("; ");
            return Err(FilmError::Unplayable(format!(
                "film '{name}' does not play over RTSP: {reasons}"
            )));
        }
        Ok(RtspFilm {
            film,
            tracks,
            payloads,
            demand,
        })
    }
}

impl Film for RtspFilm {
    fn title(&self) -> &str {
        &self.film.name
    }

    fn duration(&self) -> Nanos {
        self.film.title.duration
    }

    fn tracks(&self) -> &[FilmTrack] {
        &self.tracks
    }

    fn sdp(&self, server: IpAddr, profile: Profile) -> String {
        let controls: Vec<String> = self
            .tracks
            .iter()
            .map(|track| format!("track={}", track.number))
            .collect();
        let sections = self.tracks.iter().zip(&self.payloads).zip(&controls);
        let sections: Vec<Section<'_>> = sections
            .map(|((track, payload), control)| Section {
                media: payload.sdp(),
                payload_type: track.payload_type,
                control,
                rtx: Some(track.rtx_type()),
            })
            .collect();
        let identity = &self.film.identity;
        let file_name = self.film.name.rsplit('/').next().unwrap_or(&self.film.name);
        Description {
            id: identity.inode,
            version: identity.mtime_ns.unsigned_abs(),
            server,
            name: self.film.title.name.as_deref().unwrap_or(file_name),
            tool: SERVER,
            duration: self.duration(),
            profile,
            sections: &sections,
        }
        .to_text()
    }

    fn in_catalogue(&self) -> Option<Arc<CatalogueFilm>> {
        Some(self.film.clone())
    }

    fn demand(&self) -> Option<Arc<Demand>> {
        self.demand.clone()
    }
}

/// A stream of the sender's. It is over when its handle is dropped.
struct FilmPlayback {
    handle: Mutex<Option<Arc<StreamHandle>>>,
    /// How far it had come when it was stopped.
    last: Mutex<Sent>,
}

impl FilmPlayback {
    fn new(handle: StreamHandle) -> FilmPlayback {
        FilmPlayback {
            handle: Mutex::new(Some(Arc::new(handle))),
            last: Mutex::default(),
        }
    }

    fn handle(&self) -> Option<Arc<StreamHandle>> {
        supervise::whole(self.handle.lock()).clone()
    }

    /// What `act` promises of the stream, unless it has been stopped.
    fn ask<T, F>(&self, act: impl FnOnce(Arc<StreamHandle>) -> F + Send + 'static) -> Soon<T>
    where
        F: Future<Output = Result<T, StreamError>> + Send,
        T: Send + 'static,
    {
        let handle = self.handle();
        Box::pin(async move {
            let handle = handle.ok_or("the stream has ended")?;
            act(handle).await.map_err(|error| error.to_string())
        })
    }
}

impl Playback for FilmPlayback {
    fn go(&self) {
        if let Some(handle) = self.handle() {
            handle.go();
        }
    }

    fn seek(&self, start: Nanos, end: Nanos) -> Soon<PlayInfo> {
        self.ask(move |handle| async move { handle.seek(start, Some(end)).await.map(play_info) })
    }

    fn send_by(&self, schedule: Option<Arc<Schedule>>) {
        if let Some(handle) = self.handle() {
            handle.send_by(schedule);
        }
    }

    fn pause(&self) -> Soon<Nanos> {
        self.ask(|handle| async move { Ok(handle.pause().await) })
    }

    fn resume(&self) -> Soon<PlayInfo> {
        self.ask(|handle| async move { handle.resume().await.map(play_info) })
    }

    fn rtcp(&self, data: &[u8]) {
        if let Some(handle) = self.handle() {
            handle.rtcp(data);
        }
    }

    fn stop(&self, why: Option<&str>) {
        let handle = supervise::whole(self.handle.lock()).take();
        if let Some(handle) = handle {
            if let Some(why) = why {
                handle.say_why(why);
            }
            *supervise::whole(self.last.lock()) = sent(&handle);
        }
    }

    fn is_finished(&self) -> bool {
        self.handle()
            .is_some_and(|handle| handle.progress().state == State::Ended)
    }

    fn progress(&self) -> Sent {
        match self.handle() {
            Some(handle) => sent(&handle),
            None => *supervise::whole(self.last.lock()),
        }
    }
}

fn sent(handle: &StreamHandle) -> Sent {
    let progress = handle.progress();
    let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
    Sent {
        position: progress.position,
        bytes: progress.bytes,
        packets: progress.packets,
        late_p99_ms: ms(progress.late.p99),
        late_max_ms: ms(progress.late.max),
    }
}
