//! The machine, and those who carry out what it says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reelway_sender::FrameWriter;
use reelway_session::{EndReason, Session};
use tokio::sync::{Notify, mpsc};

use crate::machine::{Action, ConnId, Event, Machine, Said, Settings};
use crate::seam::{FilmError, Job, Outcome};
use crate::shell::library::Library;

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

/// How long a disk may take to give the beginning of a film: viewers have given up by then.
const PATIENCE: Duration = Duration::from_secs(15);

async fn in_time<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let late = |_| {
        format!(
            "the film's disk did not answer within {} s",
            PATIENCE.as_secs()
        )
    };
    tokio::time::timeout(PATIENCE, work).await.map_err(late)
}

pub(super) struct Hub {
    machine: Mutex<Machine<Writer>>,
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    pub fn new(settings: Settings, library: Library) -> (Hub, News) {
        let (told, told_receiver) = mpsc::unbounded_channel();
        let (heard, heard_receiver) = mpsc::channel(MOST_HEARD);
        let hub = Hub {
            machine: Mutex::new(Machine::new(settings)),
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
        let actions = lock(&self.machine).handle(reelway_clock::now(), event);
        let mut job = None;
        for action in actions {
            match action {
                // A connection that takes no answers is found broken by its own task.
                Action::Send { writer, bytes } => drop(writer.write(&bytes)),
                Action::Do { conn, job: todo } => job = Some((conn, todo)),
                Action::Go(playback) => playback.go(),
                Action::Stop(playback) => playback.stop(),
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
        job
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
                Outcome::Admitted(admitted.map(|(session, admission)| {
                    lock(&self.sessions).insert(admission.session.clone(), session);
                    admission
                }))
            }
            Job::Play(order) => {
                let made = in_time(self.library.play(*order, &self.ears)).await;
                Outcome::Made(made.and_then(|made| made))
            }
            Job::Seek {
                playback,
                start,
                end,
            } => Outcome::Moved(
                in_time(playback.seek(start, end))
                    .await
                    .and_then(|info| info),
            ),
            Job::Resume { playback } => {
                Outcome::Moved(in_time(playback.resume()).await.and_then(|info| info))
            }
            Job::Pause { playback } => {
                Outcome::Paused(in_time(playback.pause()).await.and_then(|at| at))
            }
        }
    }

    /// Listens to what streams and the register tell; for ever.
    pub async fn listen(&self, mut news: News) {
        loop {
            let event = tokio::select! {
                Some(told) = news.told.recv() => match told {
                    Told::Finished(session) => Event::Finished { session },
                    Told::Failed(session, reason) => Event::Failed { session, reason },
                    Told::Ended(session, reason) => Event::Ended { session, reason },
                },
                Some((session, said)) = news.heard.recv() => Event::Heard { session, said },
                else => return,
            };
            // None of these events makes a job.
            self.happen(event);
        }
    }
}
