//! Viewers' groups: requested by streams, read once for all who need them at the time, planned,
//! handed over, released.

use std::sync::Arc;
use std::time::Duration;

use reelway_cache::Watching;
use reelway_media::{Nanos, SECOND};
use reelway_playout::{Group, GroupId, Lookup, StreamError, Want};
use reelway_pool::News;
use reelway_rtp::Bytes;
use reelway_time::Monotonic;

use crate::config::{Rule, Wrong};
use crate::disk::WAY;
use crate::held::InPages;
use crate::node::{Ask, For, Held, Node};
use crate::stream::{Pages, Planned};
use crate::trace::Line;
use crate::viewer::{State, Viewer, Waiter};

/// How long after its deadline a group is assumed never to arrive, ns.
const PATIENCE: Nanos = 5_000_000_000;
/// The number of newcomers' groups that are remembered.
const REMEMBERED: usize = 100;
/// The number of groups that a wrong model keeps per viewer.
const KEPT: usize = 6;

impl Node {
    /// Handles a stream's request for a group.
    pub fn want(&mut self, id: u64, want: Want) {
        let Some(viewer) = self.viewers.get(&id) else {
            return;
        };
        let (film, playing) = (viewer.film, viewer.state == State::Playing);
        let blocks = self.films[film].parts[want.track][want.group]
            .blocks
            .clone();
        let due = Monotonic::from_nanos(want.deadline);
        self.note(&Line::Asks {
            viewer: id,
            track: want.track,
            group: want.group,
            blocks: (blocks.start, blocks.end),
            due_ms: due.offset_from(self.now) / 1_000_000,
        });
        if want.leads {
            self.watches(id, film, blocks.start);
        }
        if !playing || want.urgent {
            let blocks = self.films[film].reads(blocks.end - blocks.start);
            self.goes_ahead(blocks);
        }
        let waiter = Waiter {
            viewer: id,
            want,
            playing,
            at: self.now,
        };
        self.waits
            .insert((id, want.epoch, want.track, want.group), due);
        let key = (film as u64, (want.track, want.group));
        match self.groups.ask(key, waiter) {
            // Handed over only after the turn, as in the server, where another thread answers.
            Lookup::Ready(group, waiter) => self.ready.push_back((waiter, group)),
            Lookup::Waits => {}
            Lookup::Make => self.ask(Ask {
                film,
                whom: For::Group(want.track, want.group),
                first: blocks.start,
                blocks: blocks.end - blocks.start,
                at: self.now,
                due,
            }),
        }
        if self.viewers.get(&id).is_some_and(|viewer| viewer.vanishes) {
            self.counters.vanished += 1;
            self.leave(id, "they left without notice");
        }
    }

    /// Records that blocks are requested that are due at once, and so go ahead of others.
    pub fn goes_ahead(&mut self, blocks: u32) {
        let forgotten = self.newcomers.len().saturating_sub(REMEMBERED);
        self.newcomers.drain(..forgotten);
        self.newcomers.push_back((self.now, blocks));
    }

    /// Handles an answer of the pool: plans the group, and hands it to all waiting viewers.
    pub fn given(&mut self, ask: &Ask, id: GroupId, held: Option<Held>) {
        let made = match held {
            Some(held) => self.make(ask, id, held),
            None => Err(StreamError("the group's blocks cannot be read".to_owned())),
        };
        let made = made.map(Arc::new);
        let key = (ask.film as u64, id);
        for waiter in self.groups.made(key, made.as_ref().ok()) {
            self.give(&waiter, made.clone());
        }
    }

    /// Plans a group whose blocks are in memory.
    fn make(&mut self, ask: &Ask, id: GroupId, held: Held) -> Result<Planned, StreamError> {
        self.pinned(ask, &held);
        let bytes = Pages {
            pins: held,
            first: ask.first,
            let_go: self.let_go.clone(),
        };
        let film = &self.films[ask.film];
        let held = film.file.as_ref().map(|_| InPages {
            film,
            first: ask.first,
            pins: &bytes.pins,
        });
        let held = held.as_ref().map(|held| held as &dyn Bytes);
        let planned = film.plan(&mut self.kept, id, held);
        let received = match (&planned, held) {
            (Ok((plan, _)), Some(held)) => film.receives(plan, id, held),
            _ => Ok(()),
        };
        self.counters.compared += u64::from(film.file.is_some());
        if let Err(why) = received {
            let what = format!(
                "group {} of track {} of film {}: {why}",
                id.1, id.0, ask.film
            );
            self.broken(Rule::AsPutIn, what);
        }
        let (plan, checked) = match planned {
            Ok((plan, checked)) => (Some(plan), checked),
            Err(error) => (None, Err(error.to_string())),
        };
        if let Err(why) = checked {
            let what = format!(
                "group {} of track {} of film {}: {why}",
                id.1, id.0, ask.film
            );
            self.broken(Rule::Planned, what);
        }
        let plan = plan.ok_or_else(|| StreamError("the group cannot be planned".to_owned()))?;
        Ok(Group::new(plan, bytes))
    }

    /// Hands a waiting viewer their group, or the error.
    pub fn give(&mut self, waiter: &Waiter, made: Result<Arc<Planned>, StreamError>) {
        let (id, want) = (waiter.viewer, waiter.want);
        self.waits.remove(&(id, want.epoch, want.track, want.group));
        self.note(&Line::Gets {
            viewer: id,
            track: want.track,
            group: want.group,
            ok: made.is_ok(),
        });
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        if let Ok(group) = &made
            && matches!(
                self.config.wrong,
                Some(Wrong::HeldTooLong | Wrong::PinLeaked)
            )
        {
            viewer.kept.push_back(Arc::clone(group));
            let most = match self.config.wrong {
                Some(Wrong::HeldTooLong) => KEPT,
                _ => 1,
            };
            while viewer.kept.len() > most {
                viewer.kept.pop_front();
            }
        }
        let is_late = waiter.playing && viewer.state == State::Playing && made.is_ok();
        let by = self.now.nanos().saturating_sub(want.deadline);
        let here = self
            .lane
            .place_of(id)
            .and_then(|place| self.lane.stream(place));
        if is_late && by > 0 && here.is_some_and(|stream| stream.is_at(want.epoch)) {
            self.was_late(waiter, by as Nanos);
        }
        let which = (want.epoch, want.track, want.group);
        self.lane.planned(id, which, made, self.now.nanos());
        self.acts();
        self.check_pins(id);
    }

    /// Checks that no playing viewer is forgotten: a group that is never handed over is not found
    /// to be late otherwise.
    pub fn check_waits(&mut self) {
        let long_due = |due: &Monotonic| due.offset(PATIENCE) < self.now;
        let waits = self.waits.iter().filter(|(_, due)| long_due(due));
        for (wait, due) in waits.map(|(wait, due)| (*wait, *due)).collect::<Vec<_>>() {
            let (id, epoch, track, group) = wait;
            let place = self.lane.place_of(id);
            let stream = place.and_then(|place| self.lane.stream(place));
            let still = stream.is_some_and(|stream| stream.is_at(epoch));
            // Everything that viewers who do not read have requested is long overdue.
            let is_behind = self.viewers.get(&id).is_some_and(Viewer::is_behind);
            let is_judged = !is_behind && self.excused.offset(PATIENCE) < self.now;
            if !still || is_judged {
                self.waits.remove(&wait);
            }
            if still && is_judged {
                let by = self.now.since(due).as_secs_f64();
                let what =
                    format!("viewer {id} waits {by:.3} s for group {group} of track {track}");
                self.broken(Rule::OnTime, what);
            }
        }
    }

    /// Handles a group for which a viewer had to wait. The causes are that they did not read, a
    /// fault, or a group that was requested so shortly before it was due that the disk could not be
    /// sure to read it in time, alone or behind newcomers.
    fn was_late(&mut self, waiter: &Waiter, by: Nanos) {
        let Waiter {
            viewer: id, want, ..
        } = *waiter;
        let place = self.lane.place_of(id);
        let stream = place.and_then(|place| self.lane.stream(place));
        let at = stream.and_then(|stream| stream.tracks[want.track].cursor.at());
        // Groups for retransmission keep no viewer waiting.
        let is_past = at.is_some_and(|(at, _)| at.group as usize > want.group);
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        if viewer.is_behind() || is_past {
            return;
        }
        viewer.late[want.track] = true;
        let blocks = &self.films[viewer.film].parts[want.track][want.group].blocks;
        let blocks = self.films[viewer.film].reads(blocks.end - blocks.start);
        let due = Monotonic::from_nanos(want.deadline);
        let what = format!("group {} of track {}", want.group, want.track);
        self.explain(id, (waiter.at, due), blocks, by, &what);
    }

    /// Looks for the cause of blocks that came `by` ns late for a viewer. They were requested at
    /// `asked`, and due at `due`.
    pub fn explain(
        &mut self,
        id: u64,
        (asked, due): (Monotonic, Monotonic),
        blocks: u32,
        by: Nanos,
        what: &str,
    ) {
        let caused = self.excused >= asked;
        let notice = due.since(asked);
        let short = notice < self.surely(blocks);
        let newcomers = self.of_newcomers(asked);
        let behind = !short && notice < self.surely(blocks + newcomers);
        self.note(&Line::Late {
            viewer: id,
            by_us: (by / 1000) as u64,
            caused,
            short,
            behind,
        });
        if caused {
            self.counters.late += 1;
        } else if short {
            self.counters.short_notice += 1;
        } else if behind {
            self.counters.behind_newcomers += 1;
        } else {
            let what = format!(
                "viewer {id} waits {:.3} ms for {what}, requested {:.3} ms before the deadline",
                by as f64 / 1e6,
                notice.as_secs_f64() * 1e3
            );
            self.broken(Rule::OnTime, what);
        }
    }

    /// Returns how long before they are due blocks must be requested to be sure to arrive in time
    /// if nothing is more urgent: reads that have begun are not interrupted.
    pub fn surely(&self, blocks: u32) -> Duration {
        self.each * (self.depth + blocks) + WAY
    }

    /// Returns the number of blocks requested for newcomers from a second before `at` on.
    pub fn of_newcomers(&self, at: Monotonic) -> u32 {
        let since = at.offset(-SECOND);
        let recent = self.newcomers.iter().filter(|(at, _)| *at >= since);
        recent.map(|(_, blocks)| blocks).sum()
    }

    /// Reports a viewer's position to the cache policy.
    pub fn watches(&mut self, id: u64, film: usize, block: u32) {
        let film = self.films[film].number;
        let at = Watching {
            film,
            block,
            speed: 1.0,
        };
        self.news(News::Watches(id, at));
    }

    pub fn news(&mut self, news: News) {
        let now = self.now;
        self.pool.exchange_news(&mut vec![news]);
        self.pool.pass_on_news(now);
    }

    /// Handles the blocks that were released; requests that wait for room may then get it.
    pub fn release(&mut self) {
        let pins = std::mem::take(&mut *self.let_go.borrow_mut());
        if pins.is_empty() {
            return;
        }
        for pin in pins {
            self.unpinned(&pin);
            drop(pin);
        }
        if self.pool.waiting() > 0 {
            self.with_pool(|pool, now, finished| pool.dispatch(now, finished));
        }
    }
}
