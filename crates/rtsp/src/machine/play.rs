//! PLAY and PAUSE.

use reelway_media::Nanos;
use reelway_time::Monotonic;

use crate::header::range::{self, NptRange, NptStart, RangeError};
use crate::header::rtp_info;
use crate::machine::event::{Action, ConnId};
use crate::machine::session::{Phase, Session};
use crate::machine::state::Machine;
use crate::machine::step::{Judged, Pace, Pending, PlayRequest, Playing, Refused, Step, no_room};
use crate::message::Request;
use crate::response::{Response, Status};
use crate::seam::{Carriage, EndReason, Job, Out, Outcome, PlayInfo, PlayOrder, Refusal};
use crate::target::Target;

impl<W: Clone, F> Machine<W, F> {
    pub(super) fn play(
        &mut self,
        conn: ConnId,
        request: &Request,
        target: &Target,
    ) -> Result<Step<W, F>, Refused> {
        let (name, session) = self.idle_session(conn, request, target)?;
        let range = match request.headers.get("Range") {
            Some(value) => NptRange::parse(value).map_err(refuse_range)?,
            None => NptRange::UNSAID,
        };
        // Only normal speed is supported, and the response says so (RFC 2326 sections 12.34 and
        // 12.35).
        let pace = Pace {
            scale: request.headers.get("Scale").is_some(),
            speed: request.headers.get("Speed").is_some(),
        };
        let wanted = PlayRequest {
            session: name.clone(),
            range,
            pace,
        };
        match (range.start, session.phase) {
            (NptStart::Unsaid | NptStart::Now, Phase::Playing { .. } | Phase::Paused { .. }) => {
                session.busy = true;
                let job = Job::Locate { session: name };
                Ok(Step::Wait(job, Pending::Locate(wanted)))
            }
            // Its position does not matter.
            _ => self.begin_to_play(wanted, 0),
        }
    }

    /// Continues PLAY once the position of the stream is known.
    pub(super) fn located(
        &mut self,
        wanted: PlayRequest,
        position: Nanos,
    ) -> Result<Step<W, F>, Refused> {
        if let Some(session) = self.sessions.get_mut(&wanted.session) {
            session.busy = false;
        }
        self.begin_to_play(wanted, position)
    }

    /// Works out what PLAY means for a stream at `position`, and takes the first step: every move
    /// is judged before it is made.
    fn begin_to_play(
        &mut self,
        wanted: PlayRequest,
        position: Nanos,
    ) -> Result<Step<W, F>, Refused> {
        let PlayRequest {
            session: name,
            range: wish,
            pace,
        } = wanted;
        let session = self.sessions.get_mut(&name).ok_or_else(gone)?;
        let duration = session.film.duration;
        let end = match (wish, session.phase) {
            // A stream that resumes keeps the end that was requested before.
            (
                NptRange {
                    start: NptStart::Unsaid | NptStart::Now,
                    end: None,
                },
                Phase::Paused { end },
            ) => end,
            _ => wish.end.unwrap_or(duration).min(duration),
        };
        let start = match (wish.start, session.phase) {
            (NptStart::At(at), _) => Some(at),
            // From the paused position (RFC 2326 section 10.5).
            (_, Phase::Paused { .. }) if wish.end.is_none() => None,
            (_, Phase::Playing { end }) if wish.end.is_none() => {
                // Nothing changes (RFC 2326 section 10.5).
                let answer = pace
                    .add_headers(Response::ok().header("Session", name))
                    .header("Range", range::playing(position, end, duration));
                return Ok(Step::Answer(answer));
            }
            (_, Phase::Playing { .. } | Phase::Paused { .. }) => Some(position),
            (_, Phase::Ready | Phase::Finished) => Some(0),
        };
        let from = start.unwrap_or(position);
        if from >= duration.max(1) || end <= from {
            let words = format!(
                "{} is not within the film's {}",
                range::format(from, end),
                range::format(0, duration)
            );
            return Err(Response::refuse(Status::INVALID_RANGE, words)
                .header("Range", range::format(0, duration)));
        }
        if !session.goes_one_way() {
            return Err(Response::refuse(
                Status::NOT_VALID_IN_THIS_STATE,
                "the session's tracks have different transports; set all of them up with the same one",
            ));
        }
        session.busy = true;
        let playing = Playing {
            session: name.clone(),
            end,
            pace,
        };
        if session.has_stream {
            let then = start.map_or(Judged::Resume, |start| Judged::Seek { start });
            return Ok(judge(playing, from, then));
        }
        let order = PlayOrder {
            session: name.clone(),
            film: session.film.clone(),
            tracks: session
                .tracks
                .iter()
                .map(|track| track.order.clone())
                .collect(),
            start: from,
            end,
        };
        let numbers = order.tracks.iter().map(|order| order.track.number);
        let claim = Job::Claim {
            session: name,
            tracks: numbers.collect(),
            carriage: order
                .tracks
                .first()
                .map_or(Carriage::UdpV4, |order| order.out.carriage()),
        };
        Ok(Step::Wait(claim, Pending::Claim(playing, Box::new(order))))
    }

    /// Continues PLAY once it is known whether a session that never played still has its place.
    pub(super) fn claimed(
        &mut self,
        playing: Playing,
        order: Box<PlayOrder<W, F>>,
        claimed: Result<(), Refusal>,
    ) -> Result<Step<W, F>, Refused> {
        let session = self.sessions.get_mut(&playing.session);
        if let Err(refusal) = claimed {
            if let Some(session) = session {
                session.busy = false;
            }
            return Err(no_room(refusal));
        }
        if session.is_none() {
            return Err(gone());
        }
        Ok(Step::Wait(Job::Make(order), Pending::Make(playing)))
    }

    /// Continues the first PLAY once its stream is made. The stream is judged from its real
    /// beginning, known only now, and sends nothing before.
    pub(super) fn made(
        &mut self,
        playing: Playing,
        made: Result<PlayInfo, String>,
    ) -> Result<Step<W, F>, Refused> {
        let session = self.sessions.get_mut(&playing.session);
        match (made, session) {
            (Ok(info), Some(session)) => {
                session.has_stream = true;
                Ok(judge(playing, info.start, Judged::Begin(info)))
            }
            (Ok(_), None) => {
                self.stop(&playing.session);
                Err(gone())
            }
            (Err(_), None) => Err(gone()),
            (Err(reason), Some(_)) => {
                self.give_up(Pending::Make(playing));
                Err(Response::refuse(Status::INTERNAL_ERROR, reason))
            }
        }
    }

    /// Continues PLAY once judged. If refused, a stream that played before continues unchanged.
    pub(super) fn judged(
        &mut self,
        now: Monotonic,
        playing: Playing,
        then: Judged,
        judged: Result<(), Refusal>,
    ) -> Result<Step<W, F>, Refused> {
        let name = playing.session.clone();
        if let Err(refusal) = judged {
            self.give_up(Pending::Judge(playing, then));
            return Err(no_room(refusal));
        }
        let session = self.sessions.get_mut(&name).ok_or_else(gone)?;
        let job = match then {
            Judged::Begin(info) => {
                session.busy = false;
                return self.flow(now, playing, &info);
            }
            Judged::Seek { start } => Job::Seek {
                session: name,
                start,
                end: playing.end,
            },
            Judged::Resume => Job::Resume { session: name },
        };
        Ok(Step::Wait(job, Pending::Move(playing)))
    }

    /// Completes PLAY once the stream has been moved, or could not be moved.
    pub(super) fn moved(
        &mut self,
        now: Monotonic,
        playing: Playing,
        moved: Result<PlayInfo, String>,
    ) -> Result<Step<W, F>, Refused> {
        let (name, end) = (&playing.session, playing.end);
        let session = self.sessions.get_mut(name).ok_or_else(gone)?;
        session.busy = false;
        match moved {
            Ok(info) => {
                self.actions.push(Action::Book {
                    session: name.clone(),
                    from: info.start,
                    to: end,
                });
                self.flow(now, playing, &info)
            }
            Err(reason) => {
                // Wherever the stream is, it is not playing.
                self.enter(name, Phase::Paused { end });
                Err(Response::refuse(Status::INTERNAL_ERROR, reason))
            }
        }
    }

    /// Answers a successful PLAY and starts its stream.
    fn flow(
        &mut self,
        now: Monotonic,
        playing: Playing,
        info: &PlayInfo,
    ) -> Result<Step<W, F>, Refused> {
        let Playing {
            session: name,
            end,
            pace,
        } = playing;
        self.enter(&name, Phase::Playing { end });
        let session = self.sessions.get_mut(&name).ok_or_else(gone)?;
        session.went = now;
        let entries: Vec<_> = session
            .tracks
            .iter()
            .zip(&info.tracks)
            .filter(|(track, _)| !matches!(track.order.out, Out::Plain { .. }))
            .map(|(track, first)| rtp_info::Entry {
                url: track.url.clone(),
                seq: first.seq,
                rtp_time: first.rtp_time,
            })
            .collect();
        let answer = Response::ok().header("Session", name.as_str()).header(
            "Range",
            range::playing(info.start, end, session.film.duration),
        );
        let answer = match entries.is_empty() {
            false => answer.header("RTP-Info", rtp_info::format(&entries)),
            true => answer,
        };
        Ok(Step::AnswerAndGo(pace.add_headers(answer), name))
    }

    /// Returns the session that a request names, if its URL matches and it has no job under way.
    fn idle_session(
        &mut self,
        conn: ConnId,
        request: &Request,
        target: &Target,
    ) -> Result<(String, &mut Session<W, F>), Refused> {
        let (name, session) = self.session_of(conn, request)?;
        session.covers(target)?;
        match session.busy {
            true => Err(busy()),
            false => Ok((name, session)),
        }
    }

    pub(super) fn pause(
        &mut self,
        conn: ConnId,
        request: &Request,
        target: &Target,
    ) -> Result<Step<W, F>, Refused> {
        let (name, session) = self.idle_session(conn, request, target)?;
        if session.has_stream && matches!(session.phase, Phase::Playing { .. }) {
            session.busy = true;
            let job = Job::Pause {
                session: name.clone(),
            };
            return Ok(Step::Wait(job, Pending::Pause { session: name }));
        }
        // It is not playing anyway (RFC 2326 section A.2).
        Ok(Step::Answer(Response::ok().header("Session", name)))
    }

    pub(super) fn paused(
        &mut self,
        name: &str,
        at: Result<Nanos, String>,
    ) -> Result<Step<W, F>, Refused> {
        let session = self.sessions.get_mut(name).ok_or_else(gone)?;
        session.busy = false;
        self.actions.push(Action::Rest {
            session: name.to_owned(),
        });
        let at = at.map_err(|reason| Response::refuse(Status::INTERNAL_ERROR, reason))?;
        let (phase, duration) = (session.phase, session.film.duration);
        let end = match phase {
            Phase::Playing { end } => end,
            _ => duration,
        };
        // At the end there is nothing to resume: the next PLAY begins anew.
        if at >= end {
            self.enter(name, Phase::Finished);
        } else if phase != Phase::Finished {
            self.enter(name, Phase::Paused { end });
        }
        let answer = Response::ok()
            .header("Session", name)
            .header("Range", range::playing(at, end, duration));
        Ok(Step::Answer(answer))
    }

    /// Cleans up after a request that waited for a job and is refused or will not be answered.
    pub(super) fn give_up(&mut self, pending: Pending<W, F>) {
        let stands = match &pending {
            Pending::Move(Playing { end, .. }) => Some(*end),
            Pending::Pause { session } => match self.sessions.get(session).map(|of| of.phase) {
                Some(Phase::Playing { end }) => Some(end),
                _ => None,
            },
            _ => None,
        };
        let (name, claimed, made) = match pending {
            Pending::Describe { .. } | Pending::Setup(_) | Pending::Admission(_) => return,
            Pending::Locate(PlayRequest { session, .. })
            | Pending::Move(Playing { session, .. })
            | Pending::Pause { session } => (session, false, false),
            Pending::Claim(playing, _) | Pending::Make(playing) => (playing.session, true, false),
            Pending::Judge(playing, Judged::Begin(_)) => (playing.session, true, true),
            Pending::Judge(playing, _) => (playing.session, false, false),
        };
        let Some(session) = self.sessions.get_mut(&name) else {
            return;
        };
        session.busy = false;
        // Wherever the stream is, it is not playing.
        if let Some(end) = stands {
            self.enter(&name, Phase::Paused { end });
            self.actions.push(Action::Rest {
                session: name.clone(),
            });
        }
        let Some(session) = self.sessions.get_mut(&name) else {
            return;
        };
        if made {
            session.has_stream = false;
            self.stop(&name);
        }
        if claimed {
            self.actions.push(Action::Unclaim { session: name });
        }
    }

    fn stop(&mut self, name: &str) {
        self.actions.push(Action::Stop {
            session: name.to_owned(),
            why: None,
        });
    }

    /// Handles the outcome of a job whose connection is gone.
    pub(super) fn too_late(&mut self, outcome: Outcome<F>) {
        match outcome {
            Outcome::Made {
                session,
                info: Ok(_),
            } => self.stop(&session),
            Outcome::Admitted(Ok(session)) => self.actions.push(Action::Leave {
                session,
                reason: EndReason::Disconnected,
            }),
            _ => {}
        }
    }

    /// Records that the stream reached its end at this time.
    pub(super) fn finished(&mut self, name: &str, at: Monotonic) {
        if let Some(session) = self.sessions.get(name)
            && matches!(session.phase, Phase::Playing { .. })
            // It may have been moved since; a stream that has just started has not ended.
            && at > session.went
        {
            self.enter(name, Phase::Finished);
        }
    }
}

/// Asks whether there is capacity for a PLAY from here to its end.
fn judge<W, F>(playing: Playing, from: Nanos, then: Judged) -> Step<W, F> {
    let job = Job::Judge {
        session: playing.session.clone(),
        from,
        to: playing.end,
    };
    Step::Wait(job, Pending::Judge(playing, then))
}

impl<W, F> Session<W, F> {
    /// Checks that this URL addresses the whole session: tracks that were set up together play and
    /// pause together.
    fn covers(&self, target: &Target) -> Result<(), Refused> {
        let names_film = |title: String| title.is_empty() || title == self.film.title;
        if names_film(target.whole_title()) {
            return Ok(());
        }
        let set_up = |number: &u32| {
            self.tracks
                .iter()
                .any(|track| track.order.track.number == *number)
        };
        match target.track().filter(set_up) {
            _ if !names_film(target.title()) => {
                let words = format!("this session is of '{}'", self.film.title);
                Err(Response::refuse(Status::SESSION_NOT_FOUND, words))
            }
            None => Err(Response::refuse(
                Status::NOT_FOUND,
                "this track is not set up",
            )),
            Some(_) if self.tracks.len() > 1 => {
                let words = "the tracks of this session play together, by the film's URL";
                Err(Response::refuse(Status::ONLY_AGGREGATE_ALLOWED, words))
            }
            Some(_) => Ok(()),
        }
    }
}

fn refuse_range(why: RangeError) -> Response {
    match why {
        RangeError::Unit(words) => Response::refuse(Status::NOT_IMPLEMENTED, words),
        RangeError::Invalid(words) => Response::refuse(Status::INVALID_RANGE, words),
    }
}

fn busy() -> Response {
    Response::refuse(
        Status::NOT_VALID_IN_THIS_STATE,
        "another request of this session is being carried out",
    )
}

fn gone() -> Response {
    Response::refuse(Status::SESSION_NOT_FOUND, "the session has ended meanwhile")
}
