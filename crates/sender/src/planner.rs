//! The threads that read indexes and make plans, so that sender threads never wait for either.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_library::OpenFilm;
use reelway_media::Nanos;
use reelway_playout::{self as playout, GroupId, Kept, Lookup, StreamError, StreamId};
use reelway_rtp::PayloadOptions;
use reelway_store::{ReadError, Source, Span, Store, Watcher};
use reelway_supervise::{self as supervise, lock};
use reelway_sys::FileIdentity;

use crate::inbox::{Command, Inbox};
use crate::plans::{Pinned, Planned, Recipe, Script};
use crate::stream::FileStream;

/// Number of threads: planning is fast, but reading an index may wait for a disk.
const THREADS: usize = 2;

/// A recipient of a plan. If it is dropped without a result, it receives an error: a stream never
/// waits for a reply that was lost in a panic.
pub(crate) struct Waiter {
    pub inbox: Inbox,
    pub stream: StreamId,
    /// The stream's start that the request belongs to: replies to earlier ones are discarded.
    pub epoch: u32,
    /// Index among the stream's tracks.
    pub track: usize,
    pub group: usize,
    /// Whether the stream is waiting, so that its thread must be woken.
    pub urgent: bool,
    /// The viewer, if the group shows their position.
    pub watcher: Option<Arc<Watcher>>,
    /// Whether a result was sent.
    pub answered: bool,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.answered {
            self.reply(Err(fault()));
        }
    }
}

impl Waiter {
    /// Records the first byte of the group in the film as the viewer's next position.
    fn comes_to(&self, source: &Source, offset: u64) {
        if let Some(watcher) = &self.watcher {
            watcher.comes_to(source, offset, 1.0);
        }
    }

    fn answer(mut self, result: Result<Arc<Planned>, StreamError>) {
        self.reply(result);
    }

    fn reply(&mut self, result: Result<Arc<Planned>, StreamError>) {
        self.answered = true;
        let command = Command::Planned {
            stream: self.stream,
            epoch: self.epoch,
            track: self.track,
            group: self.group,
            result,
        };
        if self.urgent {
            self.inbox.send(command);
        } else {
            self.inbox.send_quietly(command);
        }
    }
}

/// Groups that are ready, and the waiters for each group. Each change is one step.
type Groups = Arc<Mutex<playout::Groups<Pinned, Waiter>>>;

/// A group to be planned. Its waiters get the result, or an error when this is dropped.
struct Owed {
    groups: Groups,
    script: Arc<Script>,
    id: GroupId,
    answered: bool,
}

impl Owed {
    fn answer(mut self, result: Result<Planned, StreamError>) {
        self.reply(result);
    }

    /// Sends the result to all waiters for the group.
    fn reply(&mut self, result: Result<Planned, StreamError>) {
        self.answered = true;
        let result = result.map(Arc::new);
        let key = self.script.key(self.id);
        let waiters = lock(&self.groups).made(key, result.as_ref().ok());
        for waiter in waiters {
            waiter.answer(result.clone());
        }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if !self.answered {
            self.reply(Err(fault()));
        }
    }
}

/// The error that viewers get after a panic.
fn fault() -> StreamError {
    StreamError("ended by a fault of this program".to_owned())
}

enum Job {
    Locate {
        script: Arc<Script>,
        tracks: Vec<usize>,
        wish: Nanos,
        inbox: Inbox,
        stream: StreamId,
        epoch: u32,
    },
    Read {
        owed: Owed,
        deadline: Monotonic,
    },
    Plan {
        owed: Owed,
        recipe: Recipe,
        read: Result<Span, ReadError>,
    },
}

/// A request for a group.
struct Request {
    script: Arc<Script>,
    id: GroupId,
    deadline: Monotonic,
    waiter: Waiter,
}

/// Initial capacity for requests.
const ASKED: usize = 1024;

/// How long an idle thread dozes before it waits to be notified. Requests that are not urgent do
/// not wake it meanwhile: they are made 200 ms ahead or more, and with hundreds of viewers each
/// wake-up would cost two thread switches and four system calls.
const DOZE: Duration = Duration::from_millis(20);

thread_local! {
    /// Whether this is a planner thread, which finds the jobs it queues by itself.
    static PLANS: Cell<bool> = const { Cell::new(false) };
}

/// The planner. Cheap to clone; its threads end when [`Planner::close`] is called.
#[derive(Clone)]
pub(crate) struct Planner(Arc<Inner>);

struct Inner {
    store: Store,
    options: PayloadOptions,
    /// How far ahead of time films are sent at most.
    ahead: Nanos,
    jobs: Mutex<Jobs>,
    work: Condvar,
    /// Scripts of films, held while anybody watches.
    films: Mutex<HashMap<FileIdentity, Weak<Script>>>,
    groups: Groups,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Jobs {
    /// Jobs by deadline, then in order of arrival.
    queue: BTreeMap<(Monotonic, u64), Job>,
    /// Requests of sender threads in order of arrival. Sender threads only append here, so that
    /// they neither look up nor allocate.
    asked: VecDeque<Request>,
    serial: u64,
    /// Whether a thread is dozing.
    dozes: bool,
    closed: bool,
}

impl Planner {
    /// Starts the threads.
    pub fn start(store: Store, options: PayloadOptions, ahead: Nanos) -> io::Result<Planner> {
        let inner = Inner {
            store,
            options,
            ahead,
            jobs: Mutex::new(Jobs {
                asked: VecDeque::with_capacity(ASKED),
                ..Jobs::default()
            }),
            work: Condvar::new(),
            films: Mutex::default(),
            groups: Arc::default(),
            kept: Arc::default(),
        };
        let planner = Planner(Arc::new(inner));
        for number in 0..THREADS {
            let planner = planner.clone();
            supervise::thread(format!("plan-{number}"), move || planner.run())?;
        }
        Ok(planner)
    }

    /// Ends the threads.
    pub fn close(&self) {
        let mut jobs = lock(&self.0.jobs);
        jobs.closed = true;
        let left = (
            std::mem::take(&mut jobs.queue),
            std::mem::take(&mut jobs.asked),
        );
        self.0.work.notify_all();
        drop(jobs);
        // Waiters are notified without holding the lock.
        drop(left);
    }

    /// Returns the script of a film, shared with all current viewers.
    pub fn film(&self, film: &OpenFilm) -> Arc<Script> {
        let (film, source) = (film.film(), film.source());
        let mut films = lock(&self.0.films);
        if let Some(script) = films.get(&source.identity()).and_then(Weak::upgrade) {
            // A source that is known to have changed is no longer used, and neither is its script.
            if Arc::ptr_eq(&script.source, source) {
                return script;
            }
        }
        films.retain(|_, script| script.strong_count() > 0);
        let (options, ahead) = (self.0.options, self.0.ahead);
        let script = Script::film(film, Arc::clone(source), options, ahead, &self.0.kept);
        let script = Arc::new(script);
        films.insert(source.identity(), Arc::downgrade(&script));
        script
    }

    /// Creates the script of a plain file.
    pub fn file(&self, file: &FileStream) -> Arc<Script> {
        Arc::new(Script::file(file, &self.0.kept))
    }

    /// Returns a viewer handle for the store's cache.
    pub fn watcher(&self) -> Arc<Watcher> {
        Arc::new(self.0.store.watcher())
    }

    /// Returns the number of groups in memory.
    pub fn plans(&self) -> usize {
        lock(&self.0.groups).ready()
    }

    /// Locates the start of `tracks` for a requested time, and notifies the stream.
    pub fn locate(
        &self,
        script: Arc<Script>,
        tracks: Vec<usize>,
        wish: Nanos,
        inbox: Inbox,
        stream: StreamId,
        epoch: u32,
    ) {
        self.push(
            reelway_clock::now(),
            Job::Locate {
                script,
                tracks,
                wish,
                inbox,
                stream,
                epoch,
            },
        );
    }

    /// Requests that a group is planned by `deadline`; `waiter` is notified when it is.
    pub fn request(&self, script: &Arc<Script>, id: GroupId, deadline: Monotonic, waiter: Waiter) {
        let script = Arc::clone(script);
        let mut jobs = lock(&self.0.jobs);
        let urgent = waiter.urgent;
        if !jobs.closed {
            jobs.asked.push_back(Request {
                script,
                id,
                deadline,
                waiter,
            });
            if urgent || !jobs.dozes {
                self.0.work.notify_one();
            }
        }
    }

    /// Answers a request with an existing plan, or has one made.
    fn take_up(&self, request: Request) {
        let Request {
            script,
            id,
            deadline,
            waiter,
        } = request;
        let mut groups = lock(&self.0.groups);
        let key = script.key(id);
        if let Some(offset) = groups.begins_at(key) {
            waiter.comes_to(&script.source, offset);
        }
        match groups.ask(key, waiter) {
            Lookup::Waits => return,
            Lookup::Ready(group, waiter) => {
                drop(groups);
                waiter.comes_to(&script.source, group.bytes.0.range().start);
                return waiter.answer(Ok(group));
            }
            Lookup::Make => drop(groups),
        }
        let owed = Owed {
            groups: Arc::clone(&self.0.groups),
            script,
            id,
            answered: false,
        };
        supervise::inject("planner.take_up");
        self.push(deadline, Job::Read { owed, deadline });
    }

    fn push(&self, deadline: Monotonic, job: Job) {
        let mut jobs = lock(&self.0.jobs);
        if !jobs.closed {
            jobs.serial += 1;
            let urgency = (deadline, jobs.serial);
            jobs.queue.insert(urgency, job);
            if !PLANS.get() || jobs.queue.len() > 1 {
                self.0.work.notify_one();
            }
        }
    }

    fn run(&self) {
        PLANS.set(true);
        while let ControlFlow::Continue(job) = self.next() {
            // A panic concerns one film: its waiters are notified, and the thread continues.
            match job {
                Job::Locate {
                    script,
                    tracks,
                    wish,
                    inbox,
                    stream,
                    epoch,
                } => {
                    let located = supervise::guard("planner locate", || {
                        supervise::inject("planner.locate");
                        script.outline.locate(&tracks, wish)
                    });
                    let result = located.unwrap_or_else(|_| Err(fault()));
                    inbox.send(Command::Located {
                        stream,
                        epoch,
                        result,
                    });
                }
                Job::Read { owed, deadline } => {
                    let _ = supervise::guard("planner read", || self.read(owed, deadline));
                }
                Job::Plan { owed, recipe, read } => {
                    let result = read
                        .map_err(|error| StreamError(error.to_string()))
                        .and_then(|span| plan(&owed.script, owed.id, recipe, span));
                    owed.answer(result);
                }
            }
        }
    }

    fn next(&self) -> ControlFlow<(), Job> {
        let mut jobs = lock(&self.0.jobs);
        let mut rested = false;
        loop {
            if jobs.closed {
                return ControlFlow::Break(());
            }
            if let Some(request) = jobs.asked.pop_front() {
                drop(jobs);
                self.take_up(request);
                jobs = lock(&self.0.jobs);
                rested = false;
                continue;
            }
            if let Some((_, job)) = jobs.queue.pop_first() {
                return ControlFlow::Continue(job);
            }
            let work = &self.0.work;
            if rested || jobs.dozes {
                jobs = supervise::whole(work.wait(jobs));
                continue;
            }
            jobs.dozes = true;
            let (after, _) = supervise::whole(work.wait_timeout(jobs, DOZE));
            jobs = after;
            jobs.dozes = false;
            rested = true;
        }
    }

    fn read(&self, owed: Owed, deadline: Monotonic) {
        supervise::inject("planner.read");
        let (script, id) = (&owed.script, owed.id);
        let wanted = match script.wanted(id) {
            Ok(wanted) => wanted,
            Err(error) => return owed.answer(Err(error)),
        };
        let begins = wanted.range.start;
        for waiter in lock(&self.0.groups).begins(script.key(id), begins) {
            waiter.comes_to(&script.source, begins);
        }
        let planner = Arc::downgrade(&self.0);
        let source = Arc::clone(&script.source);
        self.0
            .store
            .fetch(&source, wanted.range, deadline, move |read| {
                if let Some(planner) = planner.upgrade().map(Planner) {
                    planner.push(
                        deadline,
                        Job::Plan {
                            owed,
                            recipe: wanted.recipe,
                            read,
                        },
                    );
                }
            });
    }
}

/// Plans a group. If the packetiser panics because of an unforeseen film, only that film's viewers
/// get an error; the thread, on which all others depend, continues.
fn plan(script: &Script, id: GroupId, recipe: Recipe, span: Span) -> Result<Planned, StreamError> {
    let planned = supervise::guard("planner plan", || {
        supervise::inject("planner.plan");
        script.plan(id, recipe, span)
    });
    planned.unwrap_or_else(|_| {
        let path = script.source.path().display();
        Err(StreamError(format!(
            "{path}: group {} of track {} cannot be planned: a fault of this program",
            id.1, id.0
        )))
    })
}
