//! The state machine, and the execution of its actions and jobs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_demand::Schedule;
use reelway_media::Nanos;
use reelway_rtsp::film::FilmError;
use reelway_rtsp::machine::{Action, ConnId, Event, Feedback, Machine, Reported, Settings};
use reelway_rtsp::seam::{self, Job, Outcome, Refusal};
use reelway_sender::StreamEvent;
use reelway_session::{EndReason, Session, in_patience};
use reelway_supervise::{self as supervise, lock};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::services::{Original, Services, Writer, carried, refused};
use crate::stream::FilmStream;
use crate::watch::Watch;

/// Events that do not come from clients, reported by threads that must not wait.
enum Notice {
    Finished(String, Monotonic),
    Failed(String, String),
    Ended(String, Option<String>),
}

/// RTCP from a viewer over UDP; dropped if the queue is full.
type SessionFeedback = (String, Feedback);

/// The channels on which streams and the register report events.
#[derive(Clone)]
struct Ears {
    notices: mpsc::UnboundedSender<Notice>,
    feedback: mpsc::Sender<SessionFeedback>,
}

impl Ears {
    /// Passes on an event of a session's stream. Called on a sender thread, so it does not wait.
    fn tell(&self, session: &str, event: StreamEvent) {
        let session = session.to_owned();
        match event {
            StreamEvent::Ended => {
                let at = reelway_clock::now();
                drop(self.notices.send(Notice::Finished(session, at)));
            }
            StreamEvent::Failed(reason) => drop(self.notices.send(Notice::Failed(session, reason))),
            StreamEvent::Report(report) => {
                let reported = Reported {
                    lost: report.lost,
                    jitter: report.jitter,
                };
                // Reports are dropped while the queue is full.
                let feedback = Feedback::Report(report.track, reported);
                drop(self.feedback.try_send((session, feedback)));
            }
            StreamEvent::Alive => drop(self.feedback.try_send((session, Feedback::Alive))),
            StreamEvent::Left => drop(self.feedback.try_send((session, Feedback::Bye))),
        }
    }
}

/// Capacity of the report queue: a thousand viewers send about a hundred reports a second.
const MOST_FEEDBACK: usize = 4096;

/// How long receiver reports are collected before they are processed.
const GATHER: Duration = Duration::from_millis(20);

/// How long a disk may take to deliver the beginning of a film: by then viewers have given up.
const PATIENCE: Duration = Duration::from_secs(15);

/// Returns the refusal of a viewer whose session ended before they played.
fn ended_early(reason: &EndReason) -> Refusal {
    let may_return = *reason != EndReason::Kicked;
    Refusal {
        reason: reason.to_string(),
        retry_after: may_return.then_some(Duration::from_secs(1)),
    }
}

async fn in_time<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let late = || {
        format!(
            "the film's disk did not answer within {} s",
            PATIENCE.as_secs()
        )
    };
    in_patience(PATIENCE, work).await.ok_or_else(late)
}

pub(crate) struct Hub {
    machine: Mutex<Machine<Writer, Original>>,
    /// Makes the settings of a new machine.
    settings: Box<dyn Fn() -> Settings + Send + Sync>,
    services: Services,
    /// One per connection, notified when it is to close.
    doors: Mutex<HashMap<ConnId, Arc<Notify>>>,
    /// Viewers by session name.
    viewers: Mutex<HashMap<String, Viewer>>,
    ears: Ears,
}

/// An admitted viewer.
#[derive(Clone)]
struct Viewer {
    session: Session,
    watch: Arc<Watch>,
}

/// The receiving ends of [`Ears`].
pub(crate) struct News {
    notices: mpsc::UnboundedReceiver<Notice>,
    feedback: mpsc::Receiver<SessionFeedback>,
}

/// Why an ended stream cannot be moved.
const ENDED: &str = "the stream has ended";

/// The reason that viewers get after a panic.
const FAULT: &str = "ended by a fault of this program";

impl Hub {
    pub fn new(
        settings: impl Fn() -> Settings + Send + Sync + 'static,
        services: Services,
    ) -> (Hub, News) {
        let (notices, receiver) = mpsc::unbounded_channel();
        let (feedback, feedback_receiver) = mpsc::channel(MOST_FEEDBACK);
        let hub = Hub {
            machine: Mutex::new(Machine::new(settings())),
            settings: Box::new(settings),
            services,
            doors: Mutex::default(),
            viewers: Mutex::default(),
            ears: Ears { notices, feedback },
        };
        let news = News {
            notices: receiver,
            feedback: feedback_receiver,
        };
        (hub, news)
    }

    /// Registers a connection. The returned `Notify` is notified when it is to close.
    pub fn open_door(&self, conn: ConnId) -> Arc<Notify> {
        let door = Arc::new(Notify::new());
        lock(&self.doors).insert(conn, door.clone());
        door
    }

    pub fn remove_door(&self, conn: ConnId) {
        lock(&self.doors).remove(&conn);
    }

    /// Passes an event to the machine and carries out its actions, including jobs.
    pub async fn happen_and_finish(&self, event: Event<Writer, Original>) {
        let mut job = self.happen(event);
        while let Some((conn, todo)) = job {
            let outcome = self.carry_out(todo).await;
            let newcomer = match &outcome {
                Outcome::Admitted(Ok(session)) => self.viewer(session),
                _ => None,
            };
            job = self.happen(Event::Done { conn, outcome });
            // The session ended before the machine knew it, so the machine missed that event.
            if let Some(viewer) = newcomer.filter(|viewer| viewer.session.is_ended()) {
                let session = viewer.session.token().to_owned();
                let _ = self.happen(Event::Ended {
                    session,
                    words: None,
                });
            }
        }
    }

    /// Passes an event to the machine and carries out its immediate actions. Returns the job, if
    /// any: at most one, for the event's connection.
    pub fn happen(
        &self,
        event: Event<Writer, Original>,
    ) -> Option<(ConnId, Job<Writer, Original>)> {
        let actions = supervise::guard("rtsp hub", || {
            // Poisoned if another event's panic has just corrupted the machine: this event is
            // discarded like all others.
            let mut machine = self.machine.lock().ok()?;
            supervise::inject("rtsp.hub");
            let mut actions = machine.handle(reelway_clock::now(), event);
            // The visible state of sessions changes in the order of events, whichever threads they
            // arrive on.
            actions.retain(|action| !self.record(action));
            Some(actions)
        });
        let Ok(Some(actions)) = actions else {
            self.restart();
            return None;
        };
        let mut job = None;
        for action in actions {
            match action {
                Action::Do { conn, job: todo } => job = Some((conn, todo)),
                // A panic in one action does not prevent the others.
                action => {
                    let _ = supervise::guard("rtsp action", || self.act(action));
                }
            }
        }
        job
    }

    /// Applies actions that change a session's visible state; returns false for all others. A panic
    /// here does not prevent other actions.
    fn record(&self, action: &Action<Writer, Original>) -> bool {
        let (Action::Rest { session } | Action::Unclaim { session } | Action::Show { session, .. }) =
            action
        else {
            return false;
        };
        let _ = supervise::guard("rtsp action", || {
            let Some(Viewer { session, watch }) = self.viewer(session) else {
                return;
            };
            match action {
                Action::Rest { .. } => session.rests(),
                Action::Unclaim { .. } => {
                    session.waits_again();
                    watch.forget_stream();
                }
                Action::Show { state, .. } => watch.show(*state),
                _ => {}
            }
        });
        true
    }

    fn act(&self, action: Action<Writer, Original>) {
        match action {
            // A connection that cannot be written to is closed by its own task.
            Action::Send { writer, bytes } => drop(writer.write(&bytes)),
            // Carried out by the caller, or already recorded.
            Action::Do { .. }
            | Action::Rest { .. }
            | Action::Unclaim { .. }
            | Action::Show { .. } => {}
            Action::Book { session, from, to } => {
                if let (Ok(schedule), Some(stream)) =
                    (self.book(&session, from, to, false), self.stream(&session))
                {
                    stream.book(schedule);
                }
            }
            Action::Go { session } => {
                if let Some(stream) = self.stream(&session) {
                    stream.go();
                }
            }
            Action::Rtcp { session, data } => {
                if let Some(stream) = self.stream(&session) {
                    stream.rtcp(&data);
                }
            }
            Action::Stop { session, why } => {
                if let Some(stream) = self.stream(&session) {
                    stream.stop(why.as_deref());
                }
            }
            Action::Receives { session, reception } => {
                if let Some(viewer) = self.viewer(&session) {
                    viewer.watch.receives(reception);
                }
            }
            Action::Leave { session, reason } => {
                let viewer = lock(&self.viewers).remove(&session);
                if let (Some(viewer), Some(reason)) = (viewer, end_reason(reason)) {
                    viewer.session.end(reason);
                }
            }
            Action::Close { conn } => {
                if let Some(door) = lock(&self.doors).get(&conn) {
                    door.notify_one();
                }
            }
        }
    }

    /// Replaces a machine that a panic may have left inconsistent. What its sessions and
    /// connections were about to do is unknown: they end with a reason, and viewers may reconnect.
    fn restart(&self) {
        {
            let Err(poisoned) = self.machine.lock() else {
                // Another thread has done it already.
                return;
            };
            let mut machine = poisoned.into_inner();
            *machine = Machine::new((self.settings)());
            self.machine.clear_poison();
        }
        let viewers = std::mem::take(&mut *lock(&self.viewers));
        let doors: Vec<Arc<Notify>> = lock(&self.doors).values().cloned().collect();
        tracing::error!(
            "RTSP restarts after a panic: {} sessions and {} connections are ended",
            viewers.len(),
            doors.len()
        );
        for stream in viewers.values().filter_map(|viewer| viewer.watch.stream()) {
            let _ = supervise::guard("rtsp action", || stream.stop(Some(FAULT)));
        }
        for viewer in viewers.into_values() {
            let reason = EndReason::Failed(FAULT.to_owned());
            let _ = supervise::guard("rtsp action", || viewer.session.end(reason));
        }
        doors.iter().for_each(|door| door.notify_one());
    }

    async fn carry_out(&self, job: Job<Writer, Original>) -> Outcome<Original> {
        match job {
            Job::Film {
                titles,
                form,
                may_leave,
            } => {
                let late = |words| Err(FilmError::Failed(words));
                Outcome::Film(
                    in_time(self.services.film(titles, form, may_leave))
                        .await
                        .unwrap_or_else(late),
                )
            }
            Job::Admit(newcomer) => {
                let (watch, notices) = (Arc::new(Watch::default()), self.ears.notices.clone());
                let (ends, ended) = oneshot::channel();
                let on_end = move |name: &str, reason: &EndReason| {
                    drop(ends.send(reason.clone()));
                    drop(notices.send(Notice::Ended(name.to_owned(), reason.for_viewer())));
                };
                let session = match self.services.admit(*newcomer, &watch, on_end) {
                    Ok(session) => session,
                    Err(refusal) => return Outcome::Admitted(Err(refusal)),
                };
                let (name, wait) = (session.token().to_owned(), session.starts_in());
                lock(&self.viewers).insert(name.clone(), Viewer { session, watch });
                // While they wait, the machine does not know their session yet.
                if !wait.is_zero()
                    && let Ok(reason) = tokio::time::timeout(wait, ended).await
                {
                    lock(&self.viewers).remove(&name);
                    let reason = reason.unwrap_or(EndReason::MadeRoom);
                    return Outcome::Admitted(Err(ended_early(&reason)));
                }
                Outcome::Admitted(Ok(name))
            }
            Job::Claim {
                session,
                tracks,
                carriage,
            } => {
                let viewer = self.viewer(&session);
                let Some(viewer) = viewer.filter(|viewer| viewer.session.begins()) else {
                    // The session was ended a moment ago to make room for others.
                    return Outcome::Claimed(Err(ended_early(&EndReason::MadeRoom)));
                };
                let tracks = tracks.iter().map(|number| *number as usize - 1).collect();
                viewer.session.takes(tracks, carried(carriage));
                Outcome::Claimed(Ok(()))
            }
            Job::Make(order) => {
                let session = order.session.clone();
                let (ears, name) = (self.ears.clone(), session.clone());
                let events = move |event| ears.tell(&name, event);
                let made = in_time(self.services.play(*order, events)).await;
                let info = made.and_then(|made| made).map(|(stream, info)| {
                    // If the session has ended, the stream is dropped here and ends.
                    if let Some(viewer) = self.viewer(&session) {
                        viewer.watch.set_stream(Arc::new(stream));
                    }
                    info
                });
                Outcome::Made { session, info }
            }
            Job::Locate { session } => {
                let stream = self.stream(&session);
                Outcome::Located(stream.map_or(0, |stream| stream.progress().position))
            }
            Job::Judge { session, from, to } => {
                let booked = self.book(&session, from, to, true);
                Outcome::Judged(booked.map(|schedule| {
                    if let Some(stream) = self.stream(&session) {
                        stream.book(schedule);
                    }
                }))
            }
            Job::Seek {
                session,
                start,
                end,
            } => Outcome::Moved(match self.stream(&session) {
                Some(stream) => in_time(stream.seek(start, end)).await.and_then(|info| info),
                None => Err(ENDED.to_owned()),
            }),
            Job::Resume { session } => Outcome::Moved(match self.stream(&session) {
                Some(stream) => in_time(stream.resume()).await.and_then(|info| info),
                None => Err(ENDED.to_owned()),
            }),
            Job::Pause { session } => Outcome::Paused(match self.stream(&session) {
                Some(stream) => in_time(stream.pause()).await.and_then(|at| at),
                None => Err(ENDED.to_owned()),
            }),
        }
    }

    /// The time up to which everything that receivers sent over UDP has been read, or is being read
    /// now.
    pub fn heard_until(&self) -> Monotonic {
        self.services.heard_until()
    }

    fn viewer(&self, session: &str) -> Option<Viewer> {
        lock(&self.viewers).get(session).cloned()
    }

    fn stream(&self, session: &str) -> Option<Arc<FilmStream>> {
        self.viewer(session)?.watch.stream()
    }

    /// Books what a viewer is about to be sent. Returns the schedule to send by.
    fn book(
        &self,
        session: &str,
        from: Nanos,
        to: Nanos,
        may_refuse: bool,
    ) -> Result<Option<Arc<Schedule>>, Refusal> {
        let Some(viewer) = self.viewer(session) else {
            return Ok(None);
        };
        let booked = viewer.session.plays(from, to, may_refuse);
        self.services.run_farewells();
        booked.map_err(refused)
    }

    /// Processes the events of streams and the register, for ever.
    pub async fn listen(&self, news: &tokio::sync::Mutex<News>) {
        let mut news = news.lock().await;
        let News { notices, feedback } = &mut *news;
        let tells = async {
            while let Some(notice) = notices.recv().await {
                let event = match notice {
                    Notice::Finished(session, at) => Event::Finished { session, at },
                    Notice::Failed(session, reason) => Event::Failed { session, reason },
                    Notice::Ended(session, words) => Event::Ended { session, words },
                };
                // None of these events makes a job.
                self.happen(event);
            }
        };
        let hears = async {
            let mut several = Vec::new();
            while feedback.recv_many(&mut several, MOST_FEEDBACK).await > 0 {
                for (session, feedback) in several.drain(..) {
                    self.happen(Event::Feedback { session, feedback });
                }
                // Reports are not urgent, and waking up for each costs more than all the rest.
                tokio::time::sleep(GATHER).await;
            }
        };
        tokio::join!(tells, hears);
    }
}

/// The reason with which the register ends a session; `None`: it has already ended it.
fn end_reason(reason: seam::EndReason) -> Option<EndReason> {
    match reason {
        seam::EndReason::Left => Some(EndReason::Left),
        seam::EndReason::Disconnected => Some(EndReason::Disconnected),
        seam::EndReason::Expired => Some(EndReason::Expired),
        seam::EndReason::Failed(words) => Some(EndReason::Failed(words)),
        seam::EndReason::Ended(_) => None,
    }
}
