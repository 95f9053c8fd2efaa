//! Viewers watch: they ask for groups as the sender does, go on from one to the next, and wait where blocks are late.

use reelway_cache::Watching;
use reelway_media::Nanos;
use reelway_pool::News;
use reelway_time::Monotonic;
use reelway_timetable::{Beginning, TrackBeginning};

use crate::config::{Rule, Wrong};
use crate::node::{Ask, Event, LEAD, Node};
use crate::trace::Line;
use crate::viewer::{Cursor, Held, State};

/// How long after it is asked for a newcomer's first group is due, as in the sender.
const NEWCOMER: i64 = 200_000_000;
/// Groups of newcomers that are remembered.
const REMEMBERED: usize = 100;

impl Node {
    /// Where a play begins that is wished for from `wish` on: as the server finds it.
    pub fn beginning(&self, film: usize, wish: Nanos) -> (Nanos, Vec<Cursor>) {
        let of = &self.films[film];
        let found = Beginning::find(&of.title, &of.tables, &[0, 1], wish);
        let found = found.unwrap_or(Beginning {
            at: wish,
            tracks: Vec::new(),
        });
        let cursor =
            |begin: &Option<TrackBeginning>| Cursor::at(begin.as_ref().map(|begin| begin.group));
        (found.at, found.tracks.iter().map(cursor).collect())
    }

    /// A viewer's first groups are asked for.
    pub fn prepare(&mut self, id: u64) {
        if let Some(viewer) = self.viewers.get_mut(&id) {
            viewer.state = State::Preparing;
        }
        self.want(id);
    }

    /// An answer of the pool.
    pub fn given(&mut self, ask: &Ask, held: Option<Held>) {
        let id = ask.viewer;
        if let Some(held) = &held {
            self.pinned(ask, held);
            if let Err(why) = self.films[ask.film].plan(ask.track, ask.group) {
                let what = format!(
                    "group {} of track {} of film {}: {why}",
                    ask.group, ask.track, ask.film
                );
                self.broken(Rule::Planned, what);
            }
        }
        self.note(&Line::Gets {
            viewer: id,
            track: ask.track,
            group: ask.group,
            ok: held.is_some(),
        });
        let Some(viewer) = self
            .viewers
            .get_mut(&id)
            .filter(|viewer| viewer.epoch == ask.epoch)
        else {
            return self.release(held.into_iter().collect());
        };
        let cursor = &mut viewer.cursors[ask.track];
        if cursor.group != ask.group {
            cursor.next = Some(held);
            return self.look(id);
        }
        let Some(held) = held else {
            self.counters.failed += 1;
            return self.leave(id, "the film cannot be read");
        };
        cursor.current = Some(held);
        self.ready(id, ask);
        self.look(id);
    }

    /// Begins to play, or goes on, if a viewer has all that they need.
    fn ready(&mut self, id: u64, ask: &Ask) {
        let now = self.now.nanos() as i64;
        let Some(viewer) = self.viewers.get_mut(&id).filter(|viewer| viewer.is_ready()) else {
            return;
        };
        match viewer.state {
            State::Preparing => {
                viewer.state = State::Playing;
                viewer.origin = now - viewer.at;
                let at_ms = viewer.at / 1_000_000;
                self.note(&Line::Plays { viewer: id, at_ms });
            }
            State::Playing if viewer.stalled => {
                // What was late is due now: the timetable moves on.
                let by = now - viewer.origin - viewer.at;
                viewer.stalled = false;
                viewer.origin += by;
                if by > 0 {
                    self.was_late(id, by, ask);
                }
            }
            _ => {}
        }
    }

    /// A viewer had to wait for a group. A fault explains it; so does a group that was asked for so shortly before it was
    /// due that the disk could not be sure to read it by then, alone or behind newcomers.
    fn was_late(&mut self, id: u64, by: Nanos, ask: &Ask) {
        let caused = self.excused >= ask.at;
        let notice = ask.due.since(ask.at);
        let short = notice < self.surely(ask.blocks);
        let newcomers = self.of_newcomers(ask.at);
        let behind = !short && notice < self.surely(ask.blocks + newcomers);
        self.note(&Line::Late {
            viewer: id,
            by_us: (by / 1000) as u64,
            caused,
            short,
            behind,
        });
        if let Some(viewer) = self.viewers.get_mut(&id) {
            viewer.late = true;
        }
        if caused {
            self.counters.late += 1;
        } else if short {
            self.counters.short_notice += 1;
        } else if behind {
            self.counters.behind_newcomers += 1;
        } else {
            let what = format!(
                "viewer {id} waits {:.3} ms for group {} of track {}, asked for {:.3} ms before it was due",
                by as f64 / 1e6,
                ask.group,
                ask.track,
                notice.as_secs_f64() * 1e3
            );
            self.broken(Rule::OnTime, what);
        }
    }

    /// Goes on with a viewer who plays: over the ends of groups, up to a group that is not there.
    pub fn look(&mut self, id: u64) {
        loop {
            let Some(viewer) = self.viewers.get_mut(&id) else {
                return;
            };
            if viewer.state != State::Playing || viewer.stalled {
                break;
            }
            let film = &self.films[viewer.film];
            let position = viewer.position(self.now);
            let Some((track, ends)) = viewer.first_end(film) else {
                return self.leave(id, "the film is over");
            };
            if ends > position {
                break;
            }
            let cursor = &mut viewer.cursors[track];
            let mut before = cursor.current.take();
            if self.config.wrong == Some(Wrong::HeldTooLong) {
                before = std::mem::replace(&mut cursor.kept, before);
            }
            let sent = film.packets(track, cursor.group);
            cursor.group += 1;
            let group = cursor.group;
            self.counters.packets += sent;
            let here = match cursor.next.take() {
                _ if group >= film.parts[track].len() => {
                    cursor.done = true;
                    true
                }
                Some(Some(next)) => {
                    cursor.current = Some(next);
                    true
                }
                Some(None) => {
                    self.release(before.into_iter().collect());
                    self.counters.failed += 1;
                    return self.leave(id, "the film cannot be read");
                }
                None => {
                    (viewer.stalled, viewer.at) = (true, ends);
                    false
                }
            };
            self.release(before.into_iter().collect());
            if here {
                let excused = self.excused == self.now;
                self.counters.strict += u64::from(!excused);
                self.note(&Line::Group {
                    viewer: id,
                    track,
                    group,
                    sent,
                });
            } else {
                let at_ms = ends / 1_000_000;
                self.note(&Line::Waits { viewer: id, at_ms });
            }
        }
        self.want(id);
        self.check_pins(id);
    }

    /// Asks for the groups that are needed soon, and arranges the next look.
    fn want(&mut self, id: u64) {
        let mut asked = false;
        let Some(viewer) = self.viewers.get(&id) else {
            return;
        };
        if !matches!(viewer.state, State::Playing | State::Preparing) {
            return;
        }
        let (tracks, film, epoch) = (viewer.cursors.len(), viewer.film, viewer.epoch);
        let playing = viewer.state == State::Playing;
        for track in 0..tracks {
            let Some(viewer) = self.viewers.get_mut(&id) else {
                return;
            };
            let position = viewer.position(self.now);
            let parts = &self.films[film].parts[track];
            let cursor = &mut viewer.cursors[track];
            let Some((group, from)) = cursor.wants(parts, LEAD) else {
                continue;
            };
            if from > position || (!playing && group != cursor.group) {
                continue;
            }
            cursor.asked = Some(group);
            let part = parts[group].clone();
            let deadline = match playing {
                true => Monotonic::from_nanos((viewer.origin + part.begins).max(0) as u64),
                false => self.now.offset(NEWCOMER),
            };
            if track == 0 {
                self.watches(id, film, part.blocks.start);
            }
            let ask = Ask {
                viewer: id,
                epoch,
                track,
                group,
                film,
                first: part.blocks.start,
                blocks: part.blocks.end - part.blocks.start,
                at: self.now,
                due: deadline,
            };
            if !playing {
                let forgotten = self.newcomers.len().saturating_sub(REMEMBERED);
                self.newcomers.drain(..forgotten);
                self.newcomers.push_back((self.now, ask.blocks));
            }
            self.ask(ask);
            asked = true;
        }
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        if asked && viewer.vanishes {
            self.counters.vanished += 1;
            return self.leave(id, "they vanish");
        }
        if !playing || viewer.stalled {
            return;
        }
        let film = &self.films[film];
        let asks = viewer.cursors.iter().zip(&film.parts);
        let asks = asks.filter_map(|(cursor, parts)| Some(cursor.wants(parts, LEAD)?.1));
        let ends = viewer.first_end(film).map(|(_, ends)| ends);
        let next = asks.chain(ends).min();
        viewer.looks += 1;
        let look = Event::Look(id, viewer.looks);
        if let Some(next) = next {
            let at = Monotonic::from_nanos((viewer.origin + next).max(0) as u64);
            self.at(at.max(self.now), look);
        }
    }

    /// The cache policy learns where a viewer is.
    fn watches(&mut self, id: u64, film: usize, block: u32) {
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
        self.pool.tell_news(now);
    }

    /// Lets go of blocks; who waits for room may have it then.
    pub fn release(&mut self, held: Vec<Held>) {
        if held.is_empty() {
            return;
        }
        for pin in held.into_iter().flatten() {
            self.unpinned(&pin);
            drop(pin);
        }
        if self.pool.waiting() > 0 {
            self.with_pool(|pool, now, finished| pool.dispatch(now, finished));
        }
    }
}
