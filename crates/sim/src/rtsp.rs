//! The actions and jobs of the RTSP machine.

use std::time::Duration;

use reelway_demand::Carriage;
use reelway_media::SECOND;
use reelway_playout::{PlayInfo, StreamError};
use reelway_rtsp::film::FilmError;
use reelway_rtsp::machine::{Action, ConnId, Event as What};
use reelway_rtsp::seam::{self, FirstPacket, Job, Newcomer, Outcome, PlayOrder, Refusal};
use reelway_time::Monotonic;

use crate::client::{Asked, name_of, viewer_of};
use crate::coming::MADE_WAY;
use crate::config::Rule;
use crate::events::Event;
use crate::node::Node;
use crate::trace::Line;
use crate::viewer::{State, Viewer};

/// The error for a stream that no longer exists.
const ENDED: &str = "the stream has ended";

/// The refusal of viewers whose sessions have ended before they played.
fn made_way() -> Refusal {
    Refusal {
        reason: MADE_WAY.to_owned(),
        retry_after: Some(Duration::from_secs(1)),
    }
}

impl Node {
    /// Passes an event to the machine, and carries out its actions.
    pub fn happens_over_rtsp(&mut self, event: What<u64, usize>) {
        let actions = self.rtsp.handle(self.now, event);
        for action in actions {
            self.acts_over_rtsp(action);
        }
    }

    fn acts_over_rtsp(&mut self, action: Action<u64, usize>) {
        match action {
            Action::Send { writer, bytes } => self.answers_over_rtsp(writer, &bytes),
            Action::Do { conn, job } => {
                if let Some(outcome) = self.does(conn.0, job) {
                    self.happens_over_rtsp(What::Done { conn, outcome });
                }
            }
            Action::Book { session, from, .. } => {
                if let Some(id) = viewer_of(&session) {
                    let judged = self.judged.take();
                    let is_judged =
                        |(of, at, when)| of == id && at == from && self.is_in_second(when);
                    self.is_unjudged |= !judged.is_some_and(is_judged);
                    let _ = self.rebook(id, from, false);
                }
            }
            Action::Go { session } => {
                if let Some(id) = viewer_of(&session) {
                    self.flows(id);
                }
            }
            Action::Rest { session } => {
                if let Some(viewer) = viewer_of(&session).and_then(|id| self.viewers.get(&id)) {
                    self.desk.rests(self.now, viewer.booking);
                }
            }
            Action::Unclaim { session } => {
                if let Some(viewer) = viewer_of(&session).and_then(|id| self.viewers.get(&id)) {
                    self.desk.waits_again(viewer.booking);
                }
            }
            Action::Stop { session, .. } => {
                if let Some(id) = viewer_of(&session) {
                    drop(self.lane.remove(id));
                    self.release();
                }
            }
            Action::Leave { session, .. } => {
                if let Some(id) = viewer_of(&session) {
                    self.leave(id, "their session has ended");
                }
            }
            Action::Close { conn } => self.hangs_up(conn.0),
            Action::Rtcp { .. } | Action::Receives { .. } | Action::Show { .. } => {}
        }
    }

    /// Returns whether a moment lies in the current second.
    fn is_in_second(&self, moment: Monotonic) -> bool {
        let second = |moment: Monotonic| moment.nanos() / SECOND as u64;
        second(moment) == second(self.now)
    }

    /// Carries out a job. `None`: it takes a while, and its outcome is reported later.
    fn does(&mut self, conn: u64, job: Job<u64, usize>) -> Option<Outcome<usize>> {
        Some(match job {
            Job::Film { titles, .. } => {
                let titles = titles.iter();
                let found = titles.filter_map(|title| title.strip_prefix("film ")?.parse().ok());
                let film = found
                    .filter_map(|title: usize| {
                        self.described.get(*self.titles.get(title)?).cloned()
                    })
                    .next();
                let unknown = || FilmError::Unknown("there is no film of this name".to_owned());
                Outcome::Film(film.ok_or_else(unknown))
            }
            Job::Admit(newcomer) => return self.admits(conn, &newcomer),
            Job::Claim { session, .. } => {
                let viewer = viewer_of(&session).and_then(|id| self.viewers.get(&id));
                let booking = viewer.map(|viewer| viewer.booking);
                let is_there = booking.is_some_and(|booking| self.desk.begins(self.now, booking));
                Outcome::Claimed(match is_there {
                    true => Ok(()),
                    false => Err(made_way()),
                })
            }
            Job::Make(order) => {
                self.makes(&order);
                return None;
            }
            Job::Locate { session } => {
                Outcome::Located(viewer_of(&session).map_or(0, |id| self.position(id)))
            }
            Job::Judge { session, from, .. } => {
                let id = viewer_of(&session);
                let may = id.is_some_and(|id| self.rebook(id, from, true));
                self.judged = id.filter(|_| may).map(|id| (id, from, self.now));
                Outcome::Judged(if may {
                    Ok(())
                } else {
                    Err(Refusal {
                        reason: "there is no room".to_owned(),
                        retry_after: Some(Duration::from_secs(3)),
                    })
                })
            }
            Job::Seek { session, start, .. } => {
                let id = viewer_of(&session).filter(|id| self.lane.place_of(*id).is_some());
                let Some(id) = id else {
                    return Some(Outcome::Moved(Err(ENDED.to_owned())));
                };
                self.counters.seeks += 1;
                self.goes_elsewhere(id, start);
                self.lane.seek(id, start, None, id);
                self.acts();
                return None;
            }
            Job::Resume { session } => {
                let id = viewer_of(&session).filter(|id| self.lane.place_of(*id).is_some());
                let Some(id) = id else {
                    return Some(Outcome::Moved(Err(ENDED.to_owned())));
                };
                if let Some(viewer) = self.viewers.get_mut(&id) {
                    viewer.state = State::Preparing;
                    viewer.restart();
                }
                self.lane.resume(id, id, self.now.nanos());
                self.acts();
                return None;
            }
            Job::Pause { session } => {
                let id = viewer_of(&session);
                let at = id.and_then(|id| self.stands(id));
                Outcome::Paused(at.ok_or_else(|| ENDED.to_owned()))
            }
        })
    }

    /// Judges a newcomer, who may have to wait until their place is free.
    fn admits(&mut self, id: u64, newcomer: &Newcomer<usize>) -> Option<Outcome<usize>> {
        let film = newcomer.film.handle;
        let client = self.clients.get(&id);
        let at = client.map_or(0, |client| client.wish);
        let is_interleaved = client.is_some_and(|client| client.is_interleaved);
        let carriage = match is_interleaved {
            true => Carriage::Tcp,
            false => Carriage::UdpV4,
        };
        let reservation = match self.admit(id, (film, carriage), at) {
            Ok(reservation) => reservation,
            Err(refusal) => {
                return Some(Outcome::Admitted(Err(Refusal {
                    reason: refusal.reason,
                    retry_after: refusal.retry_after,
                })));
            }
        };
        let (booking, starts_in) = (reservation.id, reservation.starts_in);
        let viewer = Viewer {
            is_over_rtsp: true,
            is_welcome: starts_in.is_zero(),
            connection: is_interleaved.then(|| self.connection(film)),
            ..Viewer::new(film, booking, starts_in, at)
        };
        self.viewers.insert(id, viewer);
        if starts_in.is_zero() {
            return Some(Outcome::Admitted(Ok(name_of(id))));
        }
        self.after(starts_in, Event::Welcome(id));
        None
    }

    /// Reports that a newcomer's place is free now, unless they left while they waited.
    pub fn welcome(&mut self, id: u64) {
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        viewer.is_welcome = true;
        let outcome = Outcome::Admitted(Ok(name_of(id)));
        let conn = ConnId(id);
        self.happens_over_rtsp(What::Done { conn, outcome });
    }

    /// Creates a stream, which reports its beginning when it is ready.
    fn makes(&mut self, order: &PlayOrder<u64, usize>) {
        let Some(id) = viewer_of(&order.session) else {
            return;
        };
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        viewer.at = order.start;
        viewer.is_new = false;
        for track in &order.tracks {
            let number = track.track.number as usize - 1;
            if let Some(sent) = viewer.sent.get_mut(number) {
                sent.seq = track.seq;
            }
        }
        self.prepare(id);
    }

    /// Handles a client's stream that is ready, or that has failed.
    pub fn ready_over_rtsp(&mut self, id: u64, info: Result<PlayInfo, StreamError>) {
        let asked = self.clients.get(&id).and_then(|client| client.asked);
        let info = info.map_err(|error| error.to_string());
        if info.is_err() {
            self.counters.failed += 1;
        }
        let info = info.map(|info| seam::PlayInfo {
            start: info.start,
            tracks: info
                .tracks
                .iter()
                .map(|track| FirstPacket {
                    seq: track.seq,
                    rtp_time: track.rtp_time,
                })
                .collect(),
        });
        let is_first = self
            .viewers
            .get(&id)
            .is_some_and(|viewer| !viewer.has_played);
        let outcome = match (asked, is_first) {
            (Some(Asked::Play(_)), true) => Outcome::Made {
                session: name_of(id),
                info,
            },
            (Some(Asked::Play(_)), false) => Outcome::Moved(info),
            _ => return,
        };
        let conn = ConnId(id);
        self.happens_over_rtsp(What::Done { conn, outcome });
    }

    /// Starts a stream.
    fn flows(&mut self, id: u64) {
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        (viewer.state, viewer.has_played) = (State::Playing, true);
        let at_ms = viewer.at / 1_000_000;
        self.note(&Line::Plays { viewer: id, at_ms });
        self.lane.go(id, self.now.nanos());
    }

    /// Ends the session of a viewer who makes way for others. While they wait for their place, the
    /// machine does not know their session yet.
    pub fn makes_way(&mut self, id: u64) {
        if self
            .viewers
            .get(&id)
            .is_some_and(|viewer| viewer.is_welcome)
        {
            return self.ended_over_rtsp(id, Some(MADE_WAY.to_owned()));
        }
        self.leave(id, MADE_WAY);
        let outcome = Outcome::Admitted(Err(made_way()));
        let conn = ConnId(id);
        self.happens_over_rtsp(What::Done { conn, outcome });
    }

    /// Reports that a viewer's session was ended by the node.
    pub fn ended_over_rtsp(&mut self, id: u64, words: Option<String>) {
        let session = name_of(id);
        self.happens_over_rtsp(What::Ended { session, words });
    }

    /// Checks that the first packet after PLAY has the number given by RTP-Info, and that none
    /// comes before PLAY or after PAUSE.
    pub fn check_announced(&mut self, id: u64, track: usize, seq: u16) {
        let state = self.viewers.get(&id).map(|viewer| viewer.state);
        if state != Some(State::Playing) {
            let what = format!("viewer {id} is sent packets in state {state:?}");
            self.broken(Rule::AsTold, what);
        }
        let announced = self.clients.get_mut(&id);
        let announced = announced.and_then(|client| client.announced[track].take());
        if let Some(announced) = announced.filter(|announced| *announced != seq) {
            let what = format!(
                "viewer {id} is sent packet {seq} of track {track}, but RTP-Info announced {announced}"
            );
            self.broken(Rule::AsTold, what);
        }
    }
}
