//! Packets over UDP: passed to the kernel in batches, and their outcomes.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use reelway_playout::Job;
use reelway_sys::udp::{Segmentation, Sent};

use super::body::{ENOUGH, Outcome, Thread, now};
use crate::counters::add;
use crate::packets::fill_udp;
use crate::path::Path;

/// Logged once: viewers do not notice it, but it costs CPU time.
static SAID_NO_GSO: AtomicBool = AtomicBool::new(false);

impl Thread {
    /// Passes the jobs' packets to the kernel and records the outcomes.
    pub(super) fn send_jobs(&mut self) {
        let mut jobs = std::mem::take(&mut self.jobs);
        let mut first = 0;
        while first < jobs.len() {
            let mut packets = 0;
            let fits = |job: &&Job| {
                packets += (job.due.end - job.due.first) as usize;
                packets <= ENOUGH
            };
            let count = jobs[first..].iter().take_while(fits).count().max(1);
            self.send_some(&jobs, first..first + count);
            first += count;
        }
        jobs.clear();
        self.jobs = jobs;
    }

    fn send_some(&mut self, jobs: &[Job], range: Range<usize>) {
        let jobs = &jobs[range];
        let mut batch = self.turn.begin();
        let mut cells = &mut *self.cells.0;
        for (number, job) in jobs.iter().enumerate() {
            let Some(stream) = self.lane.stream(job.place) else {
                continue;
            };
            let segmentation = match &stream.tracks[job.due.track].path {
                Path::Udp(udp) if udp.gso => self.given.segmentation,
                _ => Segmentation::None,
            };
            let tag = number as u64;
            fill_udp(stream, &job.due, &mut cells, &mut batch, segmentation, tag);
        }
        let calls = self.turn_calls;
        batch.send(&self.given.sockets);
        self.turn_calls = self.turn.calls();
        let after = now();
        add(&self.given.counters.calls, self.turn_calls - calls);
        add(&self.given.counters.runs, self.turn.messages().len() as u64);
        self.outcomes.clear();
        self.outcomes.resize(jobs.len(), Outcome::default());
        for message in self.turn.messages() {
            let number = message.tag as usize;
            let Some(outcome) = self.outcomes.get_mut(number) else {
                continue;
            };
            let all = message.packets() as u32;
            let (taken, failed) = match message.sent {
                Sent::Waiting => (0, false),
                Sent::Packets(packets) => (u32::from(packets), false),
                Sent::Failed { packets, .. } => (u32::from(packets), true),
            };
            // Packets after one that found no room wait, too, to keep the order.
            if !outcome.no_room {
                outcome.taken += taken;
                outcome.refused += if failed { all - taken } else { 0 };
                outcome.no_room = !failed && taken < all;
            }
            if message.cut_refused {
                self.refused_cut.push(jobs[number].place);
            }
        }
        for (job, outcome) in jobs.iter().zip(&self.outcomes) {
            let (taken, refused) = (outcome.taken, outcome.refused);
            let bytes = self.lane.taken(job, (taken, refused), after);
            let left = after.max(job.due.departs);
            let late = left.saturating_sub(job.due.at);
            self.given.counters.sent(taken, bytes, late);
            if outcome.no_room {
                let rest = job.due.end - job.due.first - taken - refused;
                add(&self.given.counters.retried, u64::from(rest));
            }
        }
        self.cut_no_more();
    }

    /// Sends packets one by one from now on if the kernel has refused to segment runs.
    fn cut_no_more(&mut self) {
        while let Some(place) = self.refused_cut.pop() {
            let stream = self.lane.stream_mut(place);
            for track in stream.into_iter().flat_map(|stream| &mut stream.tracks) {
                if let Path::Udp(udp) = &mut track.path {
                    udp.gso = false;
                }
            }
            if !SAID_NO_GSO.swap(true, Ordering::Relaxed) {
                tracing::info!(
                    "the kernel does not cut runs of packets (GSO) on the way to some viewers: their packets are sent one by one"
                );
            }
        }
    }
}
