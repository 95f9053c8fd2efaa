//! SETUP: transports, and admission of newcomers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reelway_rtp::sdp::Profile;
use reelway_time::Monotonic;

use crate::film::{Film, FilmError, FilmTrack, Form};
use crate::header::rtp_info;
use crate::header::transport::{Agreed, Offer, offers};
use crate::machine::describe::{no_film_named, refuse_film};
use crate::machine::event::{Action, ConnId};
use crate::machine::session::{Phase, Session, SetUpTrack};
use crate::machine::state::Machine;
use crate::machine::step::{Agreement, FirstSetup, Pending, Refused, SetupRequest, Step, no_room};
use crate::message::Request;
use crate::response::{Response, Status};
use crate::seam::{Again, EndReason, Job, Newcomer, Out, Refusal, TrackOrder};
use crate::target::{self, Target};

/// Maximum length of a stored User-Agent.
const USER_AGENT_CHARS: usize = 120;

impl<W: Clone, F> Machine<W, F> {
    pub(super) fn setup(
        &mut self,
        now: Monotonic,
        conn: ConnId,
        request: &Request,
        target: &Target,
    ) -> Result<Step<W, F>, Refused> {
        let origin = self.origin(conn, target);
        let Some(connection) = self.connections.get(&conn) else {
            return Err(Response::new(Status::INTERNAL_ERROR));
        };
        let (mut can, mut cannot) = (Vec::new(), Vec::new());
        for value in request.headers.all("Transport") {
            let (of_value, not_of_value) = offers(value, connection.peer.ip());
            can.extend(of_value);
            cannot.extend(not_of_value);
        }
        if can.is_empty() {
            let words = if cannot.is_empty() {
                "the Transport header is missing".to_owned()
            } else {
                cannot.join("; ")
            };
            return Err(Response::refuse(Status::UNSUPPORTED_TRANSPORT, words));
        }
        let wish = SetupRequest {
            url: request.url.clone(),
            origin,
            offers: can,
            cannot,
        };
        if request.session().is_some() {
            return self.setup_another(now, conn, request, target, wish);
        }
        if connection.sessions.len() >= self.settings.config.sessions_per_connection {
            let words = format!(
                "this connection has {} sessions, as many as `rtsp.max_sessions_per_connection` allows",
                connection.sessions.len()
            );
            return Err(Response::refuse(Status::UNAVAILABLE, words));
        }
        if target.is_server() {
            return Err(no_film_named());
        }
        let mut titles = vec![target.title(), target.whole_title()];
        titles.dedup();
        titles.retain(|title| !title.is_empty());
        let user_agent = request
            .headers
            .get("User-Agent")
            .map(printable)
            .filter(|name| !name.is_empty());
        let setup = FirstSetup {
            wish,
            target: target.clone(),
            user_agent,
        };
        Ok(Step::Wait(
            Job::Film {
                titles,
                form: target.form(),
                may_leave: false,
            },
            Pending::Setup(Box::new(setup)),
        ))
    }

    /// Sets up a further track of a session, or changes the transport of one it has.
    fn setup_another(
        &mut self,
        now: Monotonic,
        conn: ConnId,
        request: &Request,
        target: &Target,
        wish: SetupRequest,
    ) -> Result<Step<W, F>, Refused> {
        let (name, session) = self.session_of(conn, request)?;
        if session.busy || matches!(session.phase, Phase::Playing { .. }) {
            let words = "tracks are set up before the first PLAY";
            return Err(Response::refuse(Status::NOT_VALID_IN_THIS_STATE, words));
        }
        let film = session.film.clone();
        let named = [target.title(), target.whole_title()];
        if !named
            .iter()
            .any(|title| title.is_empty() || *title == film.title)
        {
            let words = format!(
                "this session is of '{}'; another film needs a session of its own",
                film.title
            );
            return Err(Response::refuse(Status::AGGREGATE_NOT_ALLOWED, words));
        }
        if target.form() != film.form {
            let words = "a film as a transport stream and its tracks need sessions of their own";
            return Err(Response::refuse(Status::AGGREGATE_NOT_ALLOWED, words));
        }
        let track = which_track(&film, target)?;
        if session.has_stream {
            // The next PLAY would make a new stream with all tracks, whose sequence numbers would
            // not continue; players set up all tracks first.
            let words = "tracks are set up before the first PLAY";
            return Err(Response::refuse(Status::NOT_VALID_IN_THIS_STATE, words));
        }
        let (track, agreed) = self.agree(conn, Some(&name), &film, track, wish)?;
        self.add_track(conn, &name, track);
        if let Some(session) = self.sessions.get_mut(&name) {
            session.shows_life(now);
        }
        Ok(Step::Answer(self.set_up(&name, agreed)))
    }

    /// Continues the first SETUP of a session once the film is open.
    pub(super) fn may_set_up(
        &mut self,
        conn: ConnId,
        setup: FirstSetup,
        film: Result<Arc<Film<F>>, FilmError>,
    ) -> Result<Step<W, F>, Refused> {
        let film = film.map_err(refuse_film)?;
        let track = which_track(&film, &setup.target)?;
        let (track, agreed) = self.agree(conn, None, &film, track, setup.wish)?;
        let Some(connection) = self.connections.get(&conn) else {
            return Err(Response::new(Status::INTERNAL_ERROR));
        };
        let peer = match track.order.out {
            // The links to that address carry the media.
            Out::Plain { to, .. } if to.ip() != connection.peer.ip().to_canonical() => to,
            _ => connection.peer,
        };
        let newcomer = Newcomer {
            peer,
            connection: conn.0,
            film: film.clone(),
            carriage: track.order.out.carriage(),
            user_agent: setup.user_agent,
            query: match setup.target.about_viewer() {
                Some(query) => Some(query.to_owned()),
                None => connection.query.clone(),
            },
        };
        let agreement = Agreement {
            film,
            track,
            agreed,
        };
        Ok(Step::Wait(
            Job::Admit(Box::new(newcomer)),
            Pending::Admission(Box::new(agreement)),
        ))
    }

    /// Completes the first SETUP of a session: the viewer is admitted with this session name, or
    /// refused.
    pub(super) fn admitted(
        &mut self,
        now: Monotonic,
        conn: ConnId,
        agreement: Agreement<W, F>,
        admitted: Result<String, Refusal>,
    ) -> Result<Step<W, F>, Refused> {
        let name = admitted.map_err(no_room)?;
        let Some(connection) = self.connections.get_mut(&conn) else {
            self.actions.push(Action::Leave {
                session: name,
                reason: EndReason::Disconnected,
            });
            return Err(Response::new(Status::INTERNAL_ERROR));
        };
        connection.sessions.push(name.clone());
        let session = Session {
            film: agreement.film,
            peer: connection.peer.ip(),
            control: Some(conn),
            media: None,
            tracks: Vec::new(),
            phase: Phase::Ready,
            has_stream: false,
            went: now,
            alive: now,
            left: None,
            busy: false,
        };
        self.sessions.insert(name.clone(), session);
        self.add_track(conn, &name, agreement.track);
        Ok(Step::Answer(self.set_up(&name, agreement.agreed)))
    }

    fn set_up(&self, session: &str, agreed: Agreed) -> Response {
        let timeout = timeout_seconds(self.settings.config.session_timeout);
        Response::ok()
            .header("Session", format!("{session};timeout={timeout}"))
            .header("Transport", agreed.to_string())
            .header("Cache-Control", "no-cache")
    }

    /// Accepts the first of the offered transports that is available.
    fn agree(
        &mut self,
        conn: ConnId,
        session: Option<&str>,
        film: &Film<F>,
        track: FilmTrack,
        wish: SetupRequest,
    ) -> Result<(SetUpTrack<W>, Agreed), Refused> {
        let ssrc = self.free_ssrc();
        let (seq, rtp_base) = ((self.settings.random)() as u16, (self.settings.random)());
        let Some(connection) = self.connections.get(&conn) else {
            return Err(Response::new(Status::INTERNAL_ERROR));
        };
        let media = session
            .and_then(|name| self.sessions.get(name))
            .and_then(|session| session.media);
        // A track that is set up again may reuse its own channels.
        let own = session
            .and_then(|name| self.sessions.get(name))
            .into_iter()
            .flat_map(|session| &session.tracks);
        let own: Vec<u8> = own
            .filter(|other| other.order.track.number == track.number)
            .flat_map(|other| match other.order.out {
                Out::Tcp { rtp, rtcp, .. } => vec![rtp, rtcp],
                Out::Udp { .. } | Out::Plain { .. } => Vec::new(),
            })
            .collect();
        let taken =
            |channel: u8| connection.channels.contains_key(&channel) && !own.contains(&channel);
        let mut cannot = wish.cannot;
        for offer in wish.offers {
            let (out, agreed) = match offer {
                Offer::Udp { rtp, rtcp, profile } => {
                    let server = match connection.peer {
                        SocketAddr::V4(_) => self.settings.udp_v4,
                        SocketAddr::V6(_) => self.settings.udp_v6,
                    };
                    let Some(server) = server else {
                        cannot.push("this server sends no UDP over your IP version".to_owned());
                        continue;
                    };
                    let (mut to_rtp, mut to_rtcp) = (connection.peer, connection.peer);
                    to_rtp.set_port(rtp);
                    to_rtcp.set_port(rtcp);
                    let source = connection.local.ip();
                    let agreed = Agreed::Udp {
                        client: (rtp, rtcp),
                        server,
                        source,
                        ssrc,
                        profile,
                    };
                    (
                        Out::Udp {
                            from: source,
                            rtp: to_rtp,
                            rtcp: to_rtcp,
                        },
                        agreed,
                    )
                }
                Offer::Plain { name, to } => {
                    let from = match self.source_of_plain(film, connection.local.ip(), to) {
                        Ok(from) => from,
                        Err(words) => {
                            cannot.push(words);
                            continue;
                        }
                    };
                    let from_ip = from.ip();
                    (
                        Out::Plain { from: from_ip, to },
                        Agreed::Plain { name, to, from },
                    )
                }
                Offer::Tcp { .. } if media.is_some_and(|media| media != conn) => {
                    cannot.push("this session's media is sent over another connection".to_owned());
                    continue;
                }
                Offer::Tcp { channels, profile } => {
                    let wanted =
                        channels.filter(|(rtp, rtcp)| rtp != rtcp && !taken(*rtp) && !taken(*rtcp));
                    // A client that requests the same channels for all its tracks is given others.
                    let free = || {
                        (0..=254u8)
                            .step_by(2)
                            .map(|rtp| (rtp, rtp + 1))
                            .find(|(rtp, rtcp)| !taken(*rtp) && !taken(*rtcp))
                    };
                    let Some((rtp, rtcp)) = wanted.or_else(free) else {
                        cannot.push("no channel of this connection is free".to_owned());
                        continue;
                    };
                    let agreed = Agreed::Tcp {
                        channels: (rtp, rtcp),
                        ssrc,
                        profile,
                    };
                    (
                        Out::Tcp {
                            writer: connection.writer.clone(),
                            rtp,
                            rtcp,
                        },
                        agreed,
                    )
                }
            };
            let url = if rtp_info::can_carry(&wish.url) && wish.url.contains("://") {
                wish.url
            } else {
                let base = target::base(&wish.origin, &film.title);
                base + &film.control(track.number)
            };
            // Clients that ask for feedback get retransmission; over TCP nothing is lost.
            let feedback = match agreed {
                Agreed::Udp { profile, .. } => profile == Profile::Avpf,
                Agreed::Tcp { .. } | Agreed::Plain { .. } => false,
            };
            let again = feedback.then(|| Again {
                payload_type: track.rtx_type,
                ssrc: self.free_ssrc(),
                seq: (self.settings.random)() as u16,
            });
            let order = TrackOrder {
                track,
                ssrc,
                seq,
                rtp_base,
                again,
                out,
            };
            return Ok((SetUpTrack { order, url }, agreed));
        }
        Err(Response::refuse(
            Status::UNSUPPORTED_TRANSPORT,
            cannot.join("; "),
        ))
    }

    /// Returns the source address for sending a film without RTP. `local` is the server's address
    /// that the viewer connected to.
    ///
    /// # Errors
    /// Fails with the reason if it cannot be sent.
    fn source_of_plain(
        &self,
        film: &Film<F>,
        local: IpAddr,
        to: SocketAddr,
    ) -> Result<SocketAddr, String> {
        if film.form != Form::TransportStream {
            return Err(
                "only a film as a transport stream (?as=ts) is sent without RTP".to_owned(),
            );
        }
        let ip = to.ip();
        let allowed = &self.settings.config.plain_udp;
        if !allowed.iter().any(|network| network.contains(&ip)) {
            return Err(format!(
                "nothing is sent to {ip} without RTP; `rtsp.plain_udp` in the configuration allows it"
            ));
        }
        let server = match ip {
            IpAddr::V4(_) => self.settings.udp_v4,
            IpAddr::V6(_) => self.settings.udp_v6,
        };
        let local = local.to_canonical();
        match server {
            Some((port, _)) if local.is_ipv4() == ip.is_ipv4() => Ok(SocketAddr::new(local, port)),
            _ => Err(format!("this server sends no UDP to {ip} from {local}")),
        }
    }

    fn add_track(&mut self, conn: ConnId, name: &str, track: SetUpTrack<W>) {
        self.remove_track(name, track.order.track.number);
        let Some(session) = self.sessions.get_mut(name) else {
            return;
        };
        self.ssrcs.insert(track.order.ssrc);
        self.ssrcs.extend(track.order.again.map(|again| again.ssrc));
        if let Out::Tcp { rtp, rtcp, .. } = track.order.out {
            session.media = Some(conn);
            if let Some(connection) = self.connections.get_mut(&conn) {
                connection.channels.insert(rtp, name.to_owned());
                connection.channels.insert(rtcp, name.to_owned());
            }
        }
        let place = |track: &SetUpTrack<W>| {
            session
                .film
                .tracks
                .iter()
                .position(|of| *of == track.order.track)
        };
        let (at, mut all) = (place(&track), std::mem::take(&mut session.tracks));
        let at = all.partition_point(|other| place(other) < at);
        all.insert(at, track);
        session.tracks = all;
    }

    fn free_ssrc(&mut self) -> u32 {
        loop {
            let ssrc = (self.settings.random)();
            if !self.ssrcs.contains(&ssrc) {
                return ssrc;
            }
        }
    }
}

fn which_track<F>(film: &Film<F>, target: &Target) -> Result<FilmTrack, Refused> {
    // A film whose own name looks like a track is meant as a whole.
    let number = target
        .track()
        .filter(|_| target.title().is_empty() || target.title() == film.title);
    match (number, film.tracks.as_slice()) {
        (Some(number), tracks) => {
            let found = tracks.iter().find(|track| track.number == number).copied();
            found.ok_or_else(|| {
                let words = format!(
                    "'{}' has no track {number} that can be sent over RTP",
                    film.title
                );
                Response::refuse(Status::NOT_FOUND, words)
            })
        }
        (None, [only]) => Ok(*only),
        (None, tracks) => {
            let words = format!(
                "'{}' has {} tracks, each is set up by its own URL",
                film.title,
                tracks.len()
            );
            Err(Response::refuse(Status::AGGREGATE_NOT_ALLOWED, words))
        }
    }
}

fn printable(name: &str) -> String {
    name.chars()
        .filter(|c| !c.is_control())
        .take(USER_AGENT_CHARS)
        .collect()
}

/// Returns the seconds for `Session: …;timeout=`.
fn timeout_seconds(timeout: Duration) -> u64 {
    timeout.as_secs().max(1)
}
