//! Viewers come and are judged, seek, pause, resume, and leave.

use std::net::IpAddr;
use std::time::Duration;

use reelway_admission::Newcomer;
use reelway_media::Nanos;
use reelway_pool::News;

use crate::config::Wrong;
use crate::node::{Event, Node};
use crate::trace::Line;
use crate::viewer::{State, Viewer};

/// Between two tries to resume.
const AGAIN: Duration = Duration::from_secs(3);

impl Node {
    /// A viewer comes and is judged.
    pub fn come(&mut self) {
        let id = self.came;
        self.came += 1;
        let film = self.random.within(0, self.films.len() as u64) as usize;
        let wish = match self.random.once_in(2) {
            true => 0,
            false => self.random.within(0, self.films[film].length() as u64) as Nanos,
        };
        let at = self.beginning(film, wish);
        let of = &self.films[film];
        let curve = &of.needs[0].1;
        let newcomer = Newcomer {
            title: &of.name,
            address: IpAddr::from([10, 0, 0, (id % 250) as u8]),
            user: None,
            class: 0,
            fast: false,
            fetches: false,
            needs: &of.needs,
            from: curve.bin_at(at),
            to: curve.len(),
        };
        let admitted = match self.judge.decide(self.now.nanos(), &newcomer, self.wait) {
            Ok(admitted) => admitted,
            Err(refused) => {
                self.counters.refused += 1;
                let why = refused.reason.to_string();
                return self.note(&Line::Refused {
                    viewer: id,
                    film,
                    why,
                });
            }
        };
        self.counters.admitted += 1;
        self.note(&Line::Admitted {
            viewer: id,
            film,
            at_ms: at / 1_000_000,
            starts_in_ms: admitted.starts_in.as_millis() as u64,
        });
        self.viewers.insert(id, Viewer::new(film, admitted.id, at));
        self.after(admitted.starts_in, Event::Begin(id, 0));
        self.change_later(id);
    }

    /// Where a play begins that is wished for from `wish` on: as the server finds it.
    fn beginning(&self, film: usize, wish: Nanos) -> Nanos {
        let found = self.films[film].script.outline.locate(&[0, 1], wish);
        found.map_or(wish, |found| found.at)
    }

    /// A viewer's beginning has come.
    pub fn begin_film(&mut self, id: u64, epoch: u32) {
        let waits = |viewer: &&Viewer| viewer.epoch == epoch && viewer.state == State::Waiting;
        if self.viewers.get(&id).as_ref().is_some_and(waits) {
            self.prepare(id);
        }
    }

    fn change_later(&mut self, id: u64) {
        let after = self.random.within(500, 25_000);
        self.after(Duration::from_millis(after), Event::Change(id));
    }

    /// A viewer does something.
    pub fn change(&mut self, id: u64) {
        let what = self.random.within(0, 10);
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        match (what, viewer.state) {
            (_, State::Paused) => {}
            (0..5, _) => self.seek(id),
            (5..8, State::Playing) => self.pause(id),
            (8, _) => return self.leave(id, "they have seen enough"),
            (9, _) => viewer.vanishes = true,
            _ => {}
        }
        self.change_later(id);
    }

    /// Books the film from a place on, instead of what was booked; whether that is granted.
    fn rebook(&mut self, id: u64, at: Nanos) -> bool {
        let Some(viewer) = self.viewers.get(&id) else {
            return false;
        };
        let needs = &self.films[viewer.film].needs;
        let curve = &needs[0].1;
        let range = (curve.bin_at(at), curve.len());
        let now = self.now.nanos();
        let result = self
            .judge
            .rebook(now, viewer.booking, needs, range, self.asks_again);
        result.is_ok()
    }

    fn seek(&mut self, id: u64) {
        let Some(viewer) = self.viewers.get(&id) else {
            return;
        };
        let film = viewer.film;
        let wish = self.random.within(0, self.films[film].length() as u64) as Nanos;
        let at = self.beginning(film, wish);
        let may = self.rebook(id, at);
        let to_ms = at / 1_000_000;
        self.note(&Line::Seeks {
            viewer: id,
            to_ms,
            may,
        });
        if !may {
            return;
        }
        self.counters.seeks += 1;
        self.goes_elsewhere(id, at);
        if self.lane.place_of(id).is_none() {
            return self.prepare(id);
        }
        self.lane.seek(id, at, None, id);
        self.acts();
    }

    /// What is sent from now on does not follow what was sent.
    fn goes_elsewhere(&mut self, id: u64, at: Nanos) {
        if let Some(viewer) = self.viewers.get_mut(&id) {
            (viewer.at, viewer.state, viewer.late) = (at, State::Preparing, false);
            viewer.epoch += 1;
            viewer.sent.iter_mut().for_each(|sent| sent.next = None);
        }
    }

    fn pause(&mut self, id: u64) {
        let now = self.now.nanos();
        let at = self.lane.pause(id, now);
        self.acts();
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        (viewer.state, viewer.late) = (State::Paused, false);
        viewer.at = at.unwrap_or(viewer.at);
        viewer.tries = 5;
        self.judge.rest(now, viewer.booking);
        self.counters.pauses += 1;
        self.note(&Line::Pauses { viewer: id });
        let after = self.random.within(200, 15_000);
        self.after(Duration::from_millis(after), Event::Resume(id));
    }

    /// A viewer who pauses wants to go on.
    pub fn resume(&mut self, id: u64) {
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        let left = viewer.tries;
        viewer.tries = left.saturating_sub(1);
        let at = viewer.at;
        let may = self.rebook(id, at);
        self.note(&Line::Resumes { viewer: id, may });
        if may {
            if let Some(viewer) = self.viewers.get_mut(&id) {
                viewer.state = State::Preparing;
            }
            self.lane.resume(id, id, self.now.nanos());
            self.acts();
        } else if left == 0 {
            self.leave(id, "they give up");
        } else {
            self.after(AGAIN, Event::Resume(id));
        }
    }

    /// A viewer leaves.
    pub fn leave(&mut self, id: u64, why: &'static str) {
        let Some(mut viewer) = self.viewers.remove(&id) else {
            return;
        };
        self.note(&Line::Leaves { viewer: id, why });
        let wrongly = self.random.once_in(4);
        if !(wrongly && self.config.wrong == Some(Wrong::BookingKept)) {
            self.judge.end(self.now.nanos(), viewer.booking);
        }
        if wrongly && self.config.wrong == Some(Wrong::PinLeaked) {
            self.leaked.extend(viewer.kept.pop_back());
        }
        self.news(News::Left(id));
        drop(self.lane.remove(id));
        drop(viewer);
        self.release();
    }
}
