//! The machine, and those who carry out what it says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_media::Nanos;
use reelway_sender::FrameWriter;
use reelway_session::{EndReason, Refusal, Session, in_patience};
use reelway_supervise as supervise;
use reelway_timetable::Schedule;
use tokio::sync::{Notify, mpsc};

use crate::machine::{Action, ConnId, Event, Machine, Said, Settings};
use crate::seam::{FilmError, Job, Outcome, Playback};
use crate::shell::library::{Library, taken};

/// A connection's write side.
pub(super) type Writer = Arc<FrameWriter>;

/// What others than clients tell, on threads that must not wait.
pub(super) enum Told {
    Finished(String),
    Failed(String, String),
    Ended(String, EndReason),
}

/// RTCP of a viewer over UDP: may be lost when too much comes.
pub(super) type Heard = (String, Said);

/// Where streams and the register tell what happens.
#[derive(Clone)]
pub(super) struct Ears {
    pub told: mpsc::UnboundedSender<Told>,
    pub heard: mpsc::Sender<Heard>,
}

/// Reports that may wait: what a thousand viewers say in a minute is a hundred a second.
const MOST_HEARD: usize = 4096;

/// For how long what receivers report gathers before it is looked at.
const GATHER: Duration = Duration::from_millis(20);

/// How long a disk may take to give the beginning of a film: viewers have given up by then.
const PATIENCE: Duration = Duration::from_secs(15);

async fn in_time<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let late = || {
        format!(
            "the film's disk did not answer within {} s",
            PATIENCE.as_secs()
        )
    };
    in_patience(PATIENCE, work).await.ok_or_else(late)
}

pub(super) struct Hub {
    machine: Mutex<Machine<Writer>>,
    /// What a new machine is made from.
    settings: Box<dyn Fn() -> Settings + Send + Sync>,
    library: Library,
    /// How connections are told to close.
    doors: Mutex<HashMap<ConnId, Arc<Notify>>>,
    sessions: Mutex<HashMap<String, Session>>,
    ears: Ears,
}

/// The other ends of [`Ears`].
pub(super) struct News {
    told: mpsc::UnboundedReceiver<Told>,
    heard: mpsc::Receiver<Heard>,
}

/// Enters a list whose entries come and go one at a time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    supervise::whole(mutex.lock())
}

/// What viewers learn of a panic.
const FAULT: &str = "ended by a fault of this program";

impl Hub {
    pub fn new(
        settings: impl Fn() -> Settings + Send + Sync + 'static,
        library: Library,
    ) -> (Hub, News) {
        let (told, told_receiver) = mpsc::unbounded_channel();
        let (heard, heard_receiver) = mpsc::channel(MOST_HEARD);
        let hub = Hub {
            machine: Mutex::new(Machine::new(settings())),
            settings: Box::new(settings),
            library,
            doors: Mutex::default(),
            sessions: Mutex::default(),
            ears: Ears { told, heard },
        };
        let news = News {
            told: told_receiver,
            heard: heard_receiver,
        };
        (hub, news)
    }

    /// A new connection; what it returns is notified when it is to close.
    pub fn open_door(&self, conn: ConnId) -> Arc<Notify> {
        let door = Arc::new(Notify::new());
        lock(&self.doors).insert(conn, door.clone());
        door
    }

    pub fn remove_door(&self, conn: ConnId) {
        lock(&self.doors).remove(&conn);
    }

    /// Tells the machine what happened, and does what it says, jobs included.
    pub async fn happen_and_finish(&self, event: Event<Writer>) {
        let mut job = self.happen(event);
        while let Some((conn, todo)) = job {
            let outcome = self.carry_out(todo).await;
            job = self.happen(Event::Done { conn, outcome });
        }
    }

    /// Tells the machine what happened, and does what can be done at once. A job is returned: there
    /// is at most one, for the connection that the event is of.
    pub fn happen(&self, event: Event<Writer>) -> Option<(ConnId, Job<Writer>)> {
        let actions = supervise::guard("rtsp hub", || {
            // None where another event has just torn it: this one goes with all others.
            let mut machine = self.machine.lock().ok()?;
            supervise::inject("rtsp.hub");
            Some(machine.handle(reelway_clock::now(), event))
        });
        let Ok(Some(actions)) = actions else {
            self.start_anew();
            return None;
        };
        let mut job = None;
        for action in actions {
            match action {
                Action::Do { conn, job: todo } => job = Some((conn, todo)),
                // One that panics keeps none of the others from being done.
                action => {
                    let _ = supervise::guard("rtsp action", || self.act(action));
                }
            }
        }
        job
    }

    fn act(&self, action: Action<Writer>) {
        match action {
            // A connection that takes no answers is found broken by its own task.
            Action::Send { writer, bytes } => drop(writer.write(&bytes)),
            Action::Do { .. } => {}
            Action::Go(playback) => playback.go(),
            Action::Stop(playback, why) => playback.stop(why.as_deref()),
            Action::Leave { session, reason } => {
                let session = lock(&self.sessions).remove(&session);
                if let Some(session) = session {
                    session.end(reason);
                }
            }
            Action::Close { conn } => {
                if let Some(door) = lock(&self.doors).get(&conn) {
                    door.notify_one();
                }
            }
        }
    }

    /// Puts a new machine in the place of one that a panic may have torn. Nobody knows what its sessions
    /// and connections were about to do: they end, with a reason, and viewers may come again.
    fn start_anew(&self) {
        let playbacks = {
            let Err(poisoned) = self.machine.lock() else {
                // Another thread did it meanwhile.
                return;
            };
            let mut machine = poisoned.into_inner();
            let torn = std::mem::replace(&mut *machine, Machine::new((self.settings)()));
            self.machine.clear_poison();
            torn.into_playbacks()
        };
        let sessions = std::mem::take(&mut *lock(&self.sessions));
        let doors: Vec<Arc<Notify>> = lock(&self.doors).values().cloned().collect();
        tracing::error!(
            "RTSP starts anew after a panic: {} sessions and {} connections are ended",
            sessions.len(),
            doors.len()
        );
        for playback in playbacks {
            let _ = supervise::guard("rtsp action", || playback.stop(Some(FAULT)));
        }
        for session in sessions.into_values() {
            let reason = EndReason::Failed(FAULT.to_owned());
            let _ = supervise::guard("rtsp action", || session.end(reason));
        }
        doors.iter().for_each(|door| door.notify_one());
    }

    async fn carry_out(&self, job: Job<Writer>) -> Outcome {
        match job {
            Job::Film { titles } => {
                let late = |words| Err(FilmError::Failed(words));
                Outcome::Film(
                    in_time(self.library.film(titles))
                        .await
                        .unwrap_or_else(late),
                )
            }
            Job::Admit(viewer) => {
                let admitted = self.library.admit(*viewer, &self.ears);
                let wait = admitted
                    .as_ref()
                    .map_or(Duration::ZERO, |(session, _)| session.starts_in());
                let admitted = admitted.map(|(session, admission)| {
                    lock(&self.sessions).insert(admission.session.clone(), session);
                    admission
                });
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
                Outcome::Admitted(admitted)
            }
            Job::Play(order) => {
                let (name, end) = (order.session.clone(), order.end);
                let session = self.session(&name).filter(Session::begins);
                let Some(session) = session else {
                    // The session was sent away for others a moment ago.
                    return Outcome::Refused(Refusal {
                        reason: EndReason::MadeRoom.to_string(),
                        retry_after: Some(Duration::from_secs(1)),
                    });
                };
                let (tracks, carriage) = taken(&order.tracks);
                session.takes(tracks, carriage);
                let outcome = match in_time(self.library.play(*order, &self.ears)).await {
                    Ok(Ok((playback, info))) => match self.book(&name, info.start, end, true) {
                        Ok(schedule) => {
                            if schedule.is_some() {
                                playback.send_by(schedule);
                            }
                            Outcome::Made(Ok((playback, info)))
                        }
                        Err(refusal) => {
                            playback.stop(None);
                            Outcome::Refused(refusal)
                        }
                    },
                    Ok(Err(reason)) | Err(reason) => Outcome::Made(Err(reason)),
                };
                if !matches!(outcome, Outcome::Made(Ok(_))) {
                    session.waits_again();
                }
                outcome
            }
            Job::Seek {
                playback,
                session,
                start,
                end,
            } => {
                // Judged before it is moved, so that who is refused goes on where he was.
                if let Err(refusal) = self.book(&session, start, end, true) {
                    return Outcome::Refused(refusal);
                }
                let moved = in_time(playback.seek(start, end)).await;
                Outcome::Moved(moved.and_then(|info| info).inspect(|info| {
                    // It may begin a group earlier.
                    self.book_on(&session, &playback, info.start, end);
                }))
            }
            Job::Resume {
                playback,
                session,
                end,
            } => {
                let from = playback.progress().position;
                if let Err(refusal) = self.book(&session, from, end, true) {
                    return Outcome::Refused(refusal);
                }
                let moved = in_time(playback.resume()).await;
                Outcome::Moved(moved.and_then(|info| info).inspect(|info| {
                    self.book_on(&session, &playback, info.start, end);
                }))
            }
            Job::Pause { playback, session } => {
                let paused = in_time(playback.pause()).await.and_then(|at| at);
                if let Some(session) = self.session(&session) {
                    session.rests();
                }
                Outcome::Paused(paused)
            }
        }
    }

    /// Everything that receivers sent over UDP before this time has been read, or is being read now.
    pub fn heard_until(&self) -> Monotonic {
        self.library.heard_until()
    }

    fn session(&self, name: &str) -> Option<Session> {
        lock(&self.sessions).get(name).cloned()
    }

    /// Books what a viewer is going to be sent; the schedule to send by.
    fn book(
        &self,
        session: &str,
        from: Nanos,
        to: Nanos,
        may_refuse: bool,
    ) -> Result<Option<Arc<Schedule>>, Refusal> {
        let Some(session) = self.session(session) else {
            return Ok(None);
        };
        let booked = session.plays(from, to, may_refuse);
        self.library.say_farewell();
        booked
    }

    /// The same for one who has been let go on: from where it really is.
    fn book_on(&self, session: &str, playback: &Arc<dyn Playback>, from: Nanos, to: Nanos) {
        if let Ok(schedule @ Some(_)) = self.book(session, from, to, false) {
            playback.send_by(schedule);
        }
    }

    /// Listens to what streams and the register tell; for ever.
    pub async fn listen(&self, news: &tokio::sync::Mutex<News>) {
        let mut news = news.lock().await;
        let News { told, heard } = &mut *news;
        let tells = async {
            while let Some(told) = told.recv().await {
                let event = match told {
                    Told::Finished(session) => Event::Finished { session },
                    Told::Failed(session, reason) => Event::Failed { session, reason },
                    Told::Ended(session, reason) => Event::Ended { session, reason },
                };
                // None of these events makes a job.
                self.happen(event);
            }
        };
        let hears = async {
            let mut several = Vec::new();
            while heard.recv_many(&mut several, MOST_HEARD).await > 0 {
                for (session, said) in several.drain(..) {
                    self.happen(Event::Heard { session, said });
                }
                // Nobody waits for what reports say, and to be woken for each costs more than all the rest.
                tokio::time::sleep(GATHER).await;
            }
        };
        tokio::join!(tells, hears);
    }
}
