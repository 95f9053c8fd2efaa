//! PLAY and PAUSE.

use std::sync::Arc;

use reelway_media::Nanos;
use reelway_session::Refusal;

use crate::header::range::{self, NptRange, NptStart, RangeError};
use crate::header::rtp_info;
use crate::machine::session::{Phase, Session};
use crate::machine::{Action, ConnId, Machine, Pending, Refused, Step};
use crate::message::Request;
use crate::response::{Response, Status};
use crate::seam::{Job, Outcome, PlayInfo, PlayOrder, Playback};
use crate::target::Target;

/// A PLAY that waits for its stream.
pub(super) struct Playing {
    session: String,
    end: Nanos,
    pace: Pace,
}

/// Whether the answer has to say at which pace the film plays.
#[derive(Clone, Copy)]
struct Pace {
    scale: bool,
    speed: bool,
}

impl<W: Clone> Machine<W> {
    pub(super) fn play(
        &mut self,
        conn: ConnId,
        request: &Request,
        target: &Target,
    ) -> Result<Step<W>, Refused> {
        let (name, session) = self.session_of(conn, request)?;
        session.covers(target)?;
        if session.busy {
            return Err(busy());
        }
        let wish = match request.headers.get("Range") {
            Some(value) => NptRange::parse(value).map_err(refuse_range)?,
            None => NptRange::UNSAID,
        };
        // Another pace than the film's own is not to be had; the answer says so (RFC 2326 sections
        // 12.34 and 12.35).
        let pace = Pace {
            scale: request.headers.get("Scale").is_some(),
            speed: request.headers.get("Speed").is_some(),
        };
        let duration = session.film.duration();
        let end = match (wish, session.phase) {
            // What goes on, goes on to the end that was wished for.
            (
                NptRange {
                    start: NptStart::Unsaid | NptStart::Now,
                    end: None,
                },
                Phase::Paused { end },
            ) => end,
            _ => wish.end.unwrap_or(duration).min(duration),
        };
        let position = session
            .playback
            .as_ref()
            .map_or(0, |playback| playback.progress().position);
        let start = match (wish.start, session.phase) {
            (NptStart::At(at), _) => Some(at),
            // From where it was paused (RFC 2326 section 10.5).
            (_, Phase::Paused { .. }) if wish.end.is_none() => None,
            (_, Phase::Playing { end }) if wish.end.is_none() => {
                // Nothing new is wished for (RFC 2326 section 10.5).
                let answer = pace
                    .say(Response::ok().header("Session", name))
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
        let job = match (&session.playback, start) {
            (Some(playback), Some(start)) => Job::Seek {
                playback: playback.clone(),
                session: name.clone(),
                start,
                end,
            },
            (Some(playback), None) => Job::Resume {
                playback: playback.clone(),
                session: name.clone(),
                end,
            },
            (None, start) => Job::Play(Box::new(PlayOrder {
                session: name.clone(),
                film: session.film.clone(),
                tracks: session
                    .tracks
                    .iter()
                    .map(|track| track.order.clone())
                    .collect(),
                start: start.unwrap_or(0),
                end,
            })),
        };
        session.busy = true;
        Ok(Step::Wait(
            job,
            Pending::Play(Playing {
                session: name,
                end,
                pace,
            }),
        ))
    }

    /// The first PLAY's stream is made.
    pub(super) fn made(
        &mut self,
        playing: Playing,
        made: Result<(Arc<dyn Playback>, PlayInfo), String>,
    ) -> Result<Step<W>, Refused> {
        let info = made.map(|(playback, info)| {
            match self.sessions.get_mut(&playing.session) {
                Some(session) => {
                    session.watch.set_playback(playback.clone());
                    session.playback = Some(playback);
                }
                None => self.actions.push(Action::Stop(playback, None)),
            }
            info
        });
        self.moved(playing, info)
    }

    /// There is no room; what it did before it goes on doing.
    pub(super) fn no_room(
        &mut self,
        playing: &Playing,
        refusal: Refusal,
    ) -> Result<Step<W>, Refused> {
        if let Some(session) = self.sessions.get_mut(&playing.session) {
            session.busy = false;
        }
        Err(Response::not_enough(refusal))
    }

    pub(super) fn moved(
        &mut self,
        playing: Playing,
        info: Result<PlayInfo, String>,
    ) -> Result<Step<W>, Refused> {
        let Playing {
            session: name,
            end,
            pace,
        } = playing;
        let Some(session) = self.sessions.get_mut(&name) else {
            return Err(gone());
        };
        session.busy = false;
        let (info, playback) = match (info, session.playback.clone()) {
            (Ok(info), Some(playback)) => (info, playback),
            (Ok(_), None) => return Err(Response::new(Status::INTERNAL_ERROR)),
            (Err(reason), playback) => {
                // Wherever it stands, it does not flow.
                if playback.is_some() {
                    session.enter(Phase::Paused { end });
                }
                return Err(Response::refuse(Status::INTERNAL_ERROR, reason));
            }
        };
        let entries = session
            .tracks
            .iter()
            .zip(&info.tracks)
            .map(|(track, first)| rtp_info::Entry {
                url: track.url.clone(),
                seq: first.seq,
                rtp_time: first.rtp_time,
            });
        let entries: Vec<_> = entries.collect();
        session.enter(Phase::Playing { end });
        let answer = Response::ok()
            .header("Session", name)
            .header(
                "Range",
                range::playing(info.start, end, session.film.duration()),
            )
            .header("RTP-Info", rtp_info::format(&entries));
        Ok(Step::AnswerAndGo(pace.say(answer), playback))
    }

    pub(super) fn pause(
        &mut self,
        conn: ConnId,
        request: &Request,
        target: &Target,
    ) -> Result<Step<W>, Refused> {
        let (name, session) = self.session_of(conn, request)?;
        session.covers(target)?;
        if session.busy {
            return Err(busy());
        }
        match &session.playback {
            Some(playback) if matches!(session.phase, Phase::Playing { .. }) => {
                let job = Job::Pause {
                    playback: playback.clone(),
                    session: name.clone(),
                };
                session.busy = true;
                Ok(Step::Wait(job, Pending::Pause { session: name }))
            }
            // It stands already (RFC 2326 section A.2).
            _ => Ok(Step::Answer(Response::ok().header("Session", name))),
        }
    }

    pub(super) fn paused(
        &mut self,
        name: &str,
        at: Result<Nanos, String>,
    ) -> Result<Step<W>, Refused> {
        let session = self.sessions.get_mut(name).ok_or_else(gone)?;
        session.busy = false;
        let at = at.map_err(|reason| Response::refuse(Status::INTERNAL_ERROR, reason))?;
        // At the end there is nothing to go on with: the next PLAY begins anew.
        let end = match session.phase {
            Phase::Playing { end } => end,
            _ => session.film.duration(),
        };
        if session.phase != Phase::Finished {
            session.enter(Phase::Paused { end });
        }
        let answer = Response::ok()
            .header("Session", name)
            .header("Range", range::playing(at, end, session.film.duration()));
        Ok(Step::Answer(answer))
    }

    /// A job came back to a connection that is no more.
    pub(super) fn too_late(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Made(Ok((playback, _))) => self.actions.push(Action::Stop(playback, None)),
            Outcome::Admitted(Ok(admission)) => {
                let reason = reelway_session::EndReason::Disconnected;
                self.actions.push(Action::Leave {
                    session: admission.session,
                    reason,
                });
            }
            _ => {}
        }
    }

    /// The stream has come to its end and said BYE.
    pub(super) fn finished(&mut self, name: &str) {
        if let Some(session) = self.sessions.get_mut(name)
            && matches!(session.phase, Phase::Playing { .. })
            // It may have been moved meanwhile.
            && session.playback.as_ref().is_some_and(|playback| playback.is_finished())
        {
            session.enter(Phase::Finished);
        }
    }
}

impl<W> Session<W> {
    /// Whether PLAY and PAUSE of this URL are of the whole session: tracks that were set up
    /// together move together.
    fn covers(&self, target: &Target) -> Result<(), Refused> {
        let names_film = |title: String| title.is_empty() || title == self.film.title();
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
                let words = format!("this session is of '{}'", self.film.title());
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

impl Pace {
    fn say(self, mut answer: Response) -> Response {
        if self.scale {
            answer = answer.header("Scale", "1.0");
        }
        if self.speed {
            answer = answer.header("Speed", "1.0");
        }
        answer
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
