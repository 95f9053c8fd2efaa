//! The memory of a sender thread.

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

/// Packets that are handed over as soon as there are so many: their bytes, which were fetched for the kernel, must
/// still be in the processor's second cache when it copies them.
pub(super) const ENOUGH: usize = 256;

/// Another thread, or this one.
pub(crate) struct Neighbour {
    pub inbox: Inbox,
    pub counters: Arc<Counters>,
}

/// What a thread asks of the scheduler.
pub(crate) struct Priority {
    pub nice: i32,
    /// Real-time priority; 0: none.
    pub realtime: u8,
    /// Processors, by threads; none: any.
    pub cores: Vec<usize>,
}

/// What a sender thread is given.
pub(crate) struct Parts {
    pub inbox: Inbox,
    pub commands: Receiver<Command>,
    pub sleeper: Sleeper,
    pub sockets: Vec<UdpSocket>,
    pub reporter: Reporter,
    /// Whether the kernel cuts runs of packets.
    pub segmentation: Segmentation,
    pub number: usize,
    /// All threads by number, once they all are there.
    pub neighbours: Arc<OnceLock<Vec<Neighbour>>>,
    /// Streams of each thread.
    pub loads: Arc<[AtomicU64]>,
    pub priority: Arc<Priority>,
    pub rules: Arc<Rules>,
    pub links: Arc<Links>,
    pub counters: Arc<Counters>,
    pub directory: Arc<Directory>,
    pub planner: Planner,
}

/// What became of the packets of a job.
#[derive(Clone, Copy, Default)]
pub(super) struct Outcome {
    pub taken: u32,
    pub refused: u32,
    pub no_room: bool,
}

/// What a sender thread has.
pub(crate) struct Thread {
    /// What it was given.
    pub(super) given: Parts,
    pub(super) lane: Lane,
    /// Streams that went over to other threads: their handles still speak to this one.
    pub(super) away: HashMap<StreamId, usize>,
    pub(super) balance_at: u64,
    /// When its CPU time is read next.
    pub(super) cpu_at: u64,
    /// Dropped frames that the log knows of.
    pub(super) told_dropped: u64,
    pub(super) closed: bool,
    pub(super) turn: Turn,
    pub(super) turn_calls: u64,
    pub(super) cells: Cells,
    /// Scratch lists, kept so that a turn allocates nothing.
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
            told_dropped: 0,
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
