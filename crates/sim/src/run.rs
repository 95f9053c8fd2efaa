//! A run from its seed to its end.

use std::time::Duration;

use reelway_viewing::End;

use crate::config::{Config, Outcome, Rule, Violation};
use crate::events::Event;
use crate::node::{For, Node};
use crate::trace::Line;

/// Runs a node from a seed, and returns the outcome. The same seed and configuration give the same
/// outcome, wherever and whenever they are run.
pub fn run(seed: u64, config: &Config) -> Outcome {
    let mut node = match Node::new(seed, config) {
        Ok(node) => node,
        Err(error) => {
            return Outcome {
                trace_hash: 0,
                violations: vec![Violation {
                    at: Duration::ZERO,
                    rule: Rule::Planned,
                    what: format!("a film cannot be made: {error}"),
                }],
                counters: Default::default(),
                trace: Vec::new(),
            };
        }
    };
    while let Some(event) = node.next() {
        node.excuse();
        node.happens(event);
        node.follows();
        node.check_room();
    }
    node.check_end();
    let of_pool = node.pool.counters();
    node.counters.hits = of_pool.hits;
    node.counters.reads = of_pool.misses;
    node.counters.errors = of_pool.errors;
    node.note(&Line::End {
        requests: node.counters.requests,
        read: of_pool.misses,
        viewers: node.counters.admitted,
    });
    Outcome {
        trace_hash: node.trace.hash(),
        violations: node.violations,
        counters: node.counters,
        trace: node.trace.into_lines(),
    }
}

impl Node {
    /// Handles the immediate consequences of an event.
    fn follows(&mut self) {
        loop {
            self.release();
            if let Some((ask, held)) = self.next_answer() {
                match ask.whom {
                    For::View(number) => self.file_read(&ask, number, held),
                    For::Group(track, group) => self.given(&ask, (track, group), held),
                    For::Answer(answering) => self.window_read(&ask, answering, held),
                }
            } else if let Some((waiter, group)) = self.ready.pop_front() {
                self.give(&waiter, Ok(group));
            } else {
                return;
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Come if !self.closing => self.come(),
            Event::Confirm(viewer, yes) => self.confirm(viewer, yes),
            Event::Forget(viewer) => self.forget(viewer),
            Event::Begin(viewer, epoch) => self.begin_film(viewer, epoch),
            Event::Turn(meant) => self.turn(meant),
            Event::Change(viewer) => self.change(viewer),
            Event::Resume(viewer) if self.is_over_http(viewer) => self.resumes_over_http(viewer),
            Event::Resume(viewer) => self.resume(viewer),
            Event::Asks(viewer, what) => self.asks_later(viewer, what),
            Event::Welcome(viewer) => self.welcome(viewer),
            Event::Answers(answering) => self.answers(answering),
            Event::Leaves(answering) => self.leaves(answering),
            Event::Taken(answering) => self.is_taken(answering),
            Event::Cut(answering) => self.is_cut(answering),
            Event::HasRead(window) => self.has_read(window),
            Event::Fetches(viewer, track, since) => self.fetches(viewer, track, since),
            Event::Misses(viewer, epoch, track, seq) => self.misses(viewer, epoch, track, seq),
            Event::Read(number, well) => self.read(number, well),
            Event::ReturnsBlocks(number) => self.returns_blocks(number),
            Event::Fault if !self.closing => self.fault(),
            Event::Second if !self.closing => {
                self.reports_over_rtsp();
                self.gives_up_the_silent();
                self.check_second();
                self.check_progress();
                self.check_supply();
            }
            Event::Close => {
                self.closing = true;
                self.ends_over_rtsp();
                for viewer in self.viewers.keys().copied().collect::<Vec<_>>() {
                    self.leave(viewer, "the run ends");
                }
                for viewer in self.fetchers.keys().copied().collect::<Vec<_>>() {
                    self.stops_fetching(viewer, End::Over, "the run ends");
                }
            }
            Event::Come | Event::Fault | Event::Second => {}
        }
    }
}
