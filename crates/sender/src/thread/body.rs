//! The state of a sender thread.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use crossbeam_channel::Receiver;
use reelway_playout::{JOBS, Job, StreamId};
use reelway_sys::udp::{Segmentation, Turn, UdpSocket};
use reelway_sys::wake::Sleeper;

use crate::counters::Counters;
use crate::inbox::{Command, Inbox};
use crate::links::Links;
use crate::packets::Cells;
use crate::planner::Planner;
use crate::reporter::Reporter;
use crate::rtcp::Directory;
use crate::streams::{Lane, Rules};

/// Number of packets after which a batch is handed over: their bytes, which were prefetched for the
/// kernel, must still be in the processor's second-level cache when it copies them.
pub(super) const ENOUGH: usize = 256;

/// A sender thread as seen by the others and itself.
pub(crate) struct Neighbour {
    pub inbox: Inbox,
    pub counters: Arc<Counters>,
}

/// Scheduling parameters of sender threads.
pub(crate) struct Priority {
    pub nice: i32,
    /// Real-time priority; 0 means none.
    pub realtime: u8,
    /// Processors that threads are bound to; empty means any.
    pub cores: Vec<usize>,
}

/// What a sender thread is started with.
pub(crate) struct Parts {
    pub inbox: Inbox,
    pub commands: Receiver<Command>,
    pub sleeper: Sleeper,
    pub sockets: Vec<UdpSocket>,
    pub reporter: Reporter,
    /// Whether the kernel segments runs of packets.
    pub segmentation: Segmentation,
    pub number: usize,
    /// All threads by number, once all are started.
    pub neighbours: Arc<OnceLock<Vec<Neighbour>>>,
    /// Number of streams per thread.
    pub loads: Arc<[AtomicU64]>,
    pub priority: Arc<Priority>,
    pub rules: Arc<Rules>,
    pub links: Arc<Links>,
    pub counters: Arc<Counters>,
    pub directory: Arc<Directory>,
    pub planner: Planner,
}

/// Outcome of a job's packets.
#[derive(Clone, Copy, Default)]
pub(super) struct Outcome {
    pub taken: u32,
    pub refused: u32,
    pub no_room: bool,
}

/// A sender thread.
pub(crate) struct Thread {
    /// What it was started with.
    pub(super) given: Parts,
    pub(super) lane: Lane,
    /// Streams that moved to other threads; their handles still send to this one.
    pub(super) away: HashMap<StreamId, usize>,
    pub(super) balance_at: u64,
    /// When its CPU time is read next, ns.
    pub(super) cpu_at: u64,
    /// Number of dropped frames already logged.
    pub(super) reported_dropped: u64,
    pub(super) closed: bool,
    pub(super) turn: Turn,
    pub(super) turn_calls: u64,
    pub(super) cells: Cells,
    /// Scratch lists, kept so that turns do not allocate.
    pub(super) jobs: Vec<Job>,
    pub(super) connections: Vec<u32>,
    pub(super) outcomes: Vec<Outcome>,
    pub(super) refused_cut: Vec<u32>,
}

pub(crate) fn now() -> u64 {
    reelway_clock::now().nanos()
}

impl Thread {
    pub fn new(given: Parts) -> Thread {
        Thread {
            lane: Lane::new(given.number, now()),
            given,
            away: HashMap::new(),
            balance_at: 0,
            cpu_at: 0,
            reported_dropped: 0,
            closed: false,
            turn: Turn::with_room(ENOUGH),
            turn_calls: 0,
            cells: Cells::default(),
            jobs: Vec::with_capacity(JOBS),
            connections: Vec::with_capacity(JOBS),
            outcomes: Vec::with_capacity(JOBS),
            refused_cut: Vec::new(),
        }
    }
}
