//! Turns events into actions: code common to all methods.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use reelway_time::Monotonic;

use crate::machine::describe::METHODS;
use crate::machine::event::{Action, ConnId, Event};
use crate::machine::state::{Connection, Machine};
use crate::machine::step::{Pending, Refused, RequestHead, Step};
use crate::message::{Method, Request};
use crate::parser::Malformed;
use crate::response::{Response, Status};
use crate::seam::{EndReason, Outcome};
use crate::target::Target;

impl<W: Clone, F> Machine<W, F> {
    /// Handles an event at `now`; returns the resulting actions, in order.
    pub fn handle(&mut self, now: Monotonic, event: Event<W, F>) -> Vec<Action<W, F>> {
        match event {
            Event::Connected {
                conn,
                peer,
                local,
                writer,
            } => {
                let connection = Connection {
                    peer: canonical(peer),
                    local: canonical(local),
                    writer,
                    heard: now,
                    query: None,
                    sessions: Vec::new(),
                    channels: BTreeMap::new(),
                    closing: false,
                    pending: None,
                };
                self.connections.insert(conn, connection);
            }
            Event::Request { conn, request } => self.request(now, conn, request),
            Event::Malformed { conn, bad } => self.malformed(now, conn, bad),
            Event::Frame {
                conn,
                channel,
                data,
            } => self.frame(now, conn, channel, data),
            Event::Done { conn, outcome } => self.done(now, conn, outcome),
            Event::Disconnected { conn } => self.disconnected(conn),
            Event::Feedback { session, feedback } => self.feedback(now, &session, feedback),
            Event::Finished { session, at } => self.finished(&session, at),
            Event::Failed { session, reason } => {
                self.end(&session, EndReason::Failed(reason), true)
            }
            Event::Ended { session, words } => self.end(&session, EndReason::Ended(words), true),
            Event::Tick { heard_until } => self.tick(now.min(heard_until)),
        }
        std::mem::take(&mut self.actions)
    }

    fn request(&mut self, now: Monotonic, conn: ConnId, request: Request) {
        let open = self
            .connections
            .get_mut(&conn)
            .filter(|connection| !connection.closing);
        let Some(connection) = open else { return };
        connection.heard = now;
        let closes = |value: &str| {
            value
                .split(',')
                .any(|word| word.trim().eq_ignore_ascii_case("close"))
        };
        let asked = RequestHead {
            method: request.method.clone(),
            url: request.url.clone(),
            cseq: request.cseq().map(str::to_owned),
            timestamp: request.headers.get("Timestamp").map(str::to_owned),
            close: request.headers.all("Connection").any(closes),
        };
        if connection.pending.is_some() {
            // Should not happen: the next request is read after the response.
            let refused = Response::refuse(
                Status::NOT_VALID_IN_THIS_STATE,
                "the last request is not answered yet",
            );
            return self.answer(conn, &asked, &refused);
        }
        let step = self.step(now, conn, &request);
        self.carry_on(conn, asked, step);
    }

    fn step(
        &mut self,
        now: Monotonic,
        conn: ConnId,
        request: &Request,
    ) -> Result<Step<W, F>, Refused> {
        if request.version.0 != 1 {
            return Err(Response::refuse(
                Status::VERSION_NOT_SUPPORTED,
                "this server speaks RTSP/1.0",
            ));
        }
        if request.cseq().is_none() {
            return Err(Response::refuse(
                Status::BAD_REQUEST,
                "CSeq, a number, is missing",
            ));
        }
        self.authorize(request)?;
        let required = request
            .headers
            .all("Require")
            .chain(request.headers.all("Proxy-Require"));
        let required: Vec<&str> = required.filter(|value| !value.is_empty()).collect();
        if !required.is_empty() {
            // No extensions are supported that a client could require.
            let unsupported = required.join(", ");
            return Err(
                Response::new(Status::OPTION_NOT_SUPPORTED).header("Unsupported", unsupported)
            );
        }
        self.alive(now, conn, request);
        let target = Target::parse(&request.url);
        match &request.method {
            Method::Options => self.options(conn, request),
            Method::Describe => self.describe(conn, request, &target),
            Method::Setup => self.setup(now, conn, request, &target),
            Method::Play => self.play(conn, request, &target),
            Method::Pause => self.pause(conn, request, &target),
            Method::Teardown => self.teardown(conn, request, &target),
            Method::GetParameter | Method::SetParameter => self.parameter(conn, request),
            Method::Announce | Method::Record | Method::Redirect => {
                let words = format!("{} is not for clients of this server", request.method);
                Err(Response::refuse(Status::METHOD_NOT_ALLOWED, words).header("Allow", METHODS))
            }
            Method::Other(_) => {
                Err(Response::new(Status::NOT_IMPLEMENTED).header("Allow", METHODS))
            }
        }
    }

    /// Checks that this client may make requests at all. Basic and Digest authentication will be
    /// checked here (401); admission of viewers is decided by [`crate::seam::Job::Admit`].
    fn authorize(&self, _: &Request) -> Result<(), Refused> {
        Ok(())
    }

    fn done(&mut self, now: Monotonic, conn: ConnId, outcome: Outcome<F>) {
        let pending = self
            .connections
            .get_mut(&conn)
            .and_then(|connection| connection.pending.take());
        let Some((asked, pending)) = pending else {
            return self.too_late(outcome);
        };
        let step = match (pending, outcome) {
            (Pending::Describe(described), Outcome::Film(film)) => {
                self.described(conn, &described, film)
            }
            (Pending::Setup(setup), Outcome::Film(film)) => self.may_set_up(conn, *setup, film),
            (Pending::Admission(agreement), Outcome::Admitted(session)) => {
                self.admitted(now, conn, *agreement, session)
            }
            (Pending::Locate(wanted), Outcome::Located(position)) => self.located(wanted, position),
            (Pending::Claim(playing, order), Outcome::Claimed(claimed)) => {
                self.claimed(playing, order, claimed)
            }
            (Pending::Make(playing), Outcome::Made { info, .. }) => self.made(playing, info),
            (Pending::Judge(playing, then), Outcome::Judged(judged)) => {
                self.judged(now, playing, then, judged)
            }
            (Pending::Move(playing), Outcome::Moved(info)) => self.moved(now, playing, info),
            (Pending::Pause { session }, Outcome::Paused(at)) => self.paused(&session, at),
            (pending, outcome) => {
                self.give_up(pending);
                self.too_late(outcome);
                Err(Response::new(Status::INTERNAL_ERROR))
            }
        };
        self.carry_on(conn, asked, step);
    }

    fn carry_on(&mut self, conn: ConnId, asked: RequestHead, step: Result<Step<W, F>, Refused>) {
        match step {
            Ok(Step::Wait(job, pending)) => {
                let Some(connection) = self.connections.get_mut(&conn) else {
                    return self.give_up(pending);
                };
                connection.pending = Some((asked, pending));
                self.actions.push(Action::Do { conn, job });
            }
            Ok(Step::Answer(answer)) | Err(answer) => self.answer(conn, &asked, &answer),
            Ok(Step::AnswerAndGo(answer, session)) => {
                self.answer(conn, &asked, &answer);
                self.actions.push(Action::Go { session });
            }
        }
    }

    fn answer(&mut self, conn: ConnId, asked: &RequestHead, answer: &Response) {
        let Some(connection) = self.connections.get(&conn) else {
            return;
        };
        tracing::debug!(
            peer = %connection.peer, method = %asked.method, url = asked.url.as_str(),
            answer = answer.status().code(), reason = answer.reason(), "rtsp request"
        );
        let answer = match &asked.timestamp {
            Some(timestamp) => &answer.clone().header("Timestamp", timestamp.as_str()),
            None => answer,
        };
        let bytes = answer.to_bytes(asked.cseq.as_deref());
        self.actions.push(Action::Send {
            writer: connection.writer.clone(),
            bytes,
        });
        if asked.close {
            self.close(conn);
        }
    }

    fn malformed(&mut self, now: Monotonic, conn: ConnId, bad: Malformed) {
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
        connection.heard = now;
        tracing::debug!(peer = %connection.peer, %bad, "rtsp message not understood");
        let bytes = Response::refuse(bad.status, bad.reason).to_bytes(bad.cseq.as_deref());
        self.actions.push(Action::Send {
            writer: connection.writer.clone(),
            bytes,
        });
        if bad.lost {
            self.close(conn);
        }
    }
}

/// Converts IPv4-mapped IPv6 addresses (of a dual-stack socket) to IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip == address.ip() => address,
        ip => SocketAddr::new(ip, address.port()),
    }
}
