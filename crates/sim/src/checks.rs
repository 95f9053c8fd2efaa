//! Checks of the rules during the run.

use reelway_admission::Resource;
use reelway_cache::BlockId;
use reelway_demand::BIN;
use reelway_media::Nanos;
use reelway_pool::Pin;

use crate::config::Rule;
use crate::copies::Copied;
use crate::node::{Ask, Held, Node};
use crate::world::{BLOCK, Page};

/// The number of future seconds in which no load may be left: longer than any film.
const TO_COME: u64 = 600;

impl Node {
    /// Checks that a viewer is given the right blocks, and that their pages are not in use for
    /// another film.
    pub fn pinned(&mut self, ask: &Ask, held: &Held) {
        let film = self.films[ask.film].number;
        if held.len() as u32 != ask.blocks {
            let what = format!(
                "{:?} of film {} gets {} blocks instead of {}",
                ask.whom,
                ask.film,
                held.len(),
                ask.blocks
            );
            self.broken(Rule::RightBlock, what);
        }
        for (block, pin) in (ask.first..).zip(held) {
            let id = BlockId { film, block };
            let page = pin.number();
            let (holds, books) = (pin.memory().holds, self.pool.holds(page));
            if (holds, books) != (Some(id), Some(id)) {
                let what = format!(
                    "page {page} is handed out as {id:?}, but {holds:?} was read into it, and the pool lists it as {books:?}"
                );
                self.broken(Rule::RightBlock, what);
            }
            let entry = self.pins.entry(page).or_insert((id, 0));
            entry.1 += 1;
            let before = entry.0;
            if before != id {
                let what =
                    format!("page {page} is handed out as {id:?}, but is pinned as {before:?}");
                self.broken(Rule::RightBlock, what);
            }
        }
    }

    /// Checks a pin that is about to be released.
    pub fn unpinned(&mut self, pin: &Pin<Page>) {
        let page = pin.number();
        let Some((id, count)) = self.pins.get_mut(&page) else {
            return self.broken(Rule::RightBlock, format!("page {page} was not pinned"));
        };
        *count -= 1;
        let (id, left) = (*id, *count);
        if left == 0 {
            self.pins.remove(&page);
        }
        self.stays(page, id);
    }

    /// Checks that a pinned page still holds its block.
    fn stays(&mut self, page: u32, id: BlockId) {
        let holds = self.pool.holds(page);
        if holds != Some(id) {
            let what =
                format!("page {page} is pinned as {id:?}, but the pool lists it as {holds:?}");
            self.broken(Rule::PinnedStays, what);
        }
    }

    /// Checks that a viewer has no more blocks than are booked for their position in the film, or
    /// than are held within the following quarter second: the next group is requested as soon as
    /// the last packet of the previous one has left, which is shortly before the current one
    /// begins. Over a limited link that may be earlier by as much as it sends ahead. A viewer whom
    /// a fault has delayed holds older blocks as well, until they have caught up.
    pub fn check_pins(&mut self, id: u64) {
        // Viewers who do not read are limited by what all of them may pin together.
        let Some(viewer) = self.viewers.get(&id).filter(|viewer| !viewer.is_behind()) else {
            return;
        };
        let place = self.lane.place_of(id);
        let Some(stream) = place.and_then(|place| self.lane.stream(place)) else {
            return;
        };
        let at = stream.position(self.now.nanos());
        let (pinned, booked) = (self.pinned_by(id), self.films[viewer.film].booked_at(at));
        let is_explained = self.explains(self.now) || self.catches_up(id, self.now);
        if pinned <= booked || viewer.is_apart || is_explained {
            return;
        }
        let ahead = self.way.as_ref().map_or(0, |_| self.rules.link_ahead);
        let until = at + BIN + ahead as Nanos;
        if pinned <= self.films[viewer.film].held_within(at..until) {
            self.counters.early += 1;
        } else {
            let what = format!(
                "viewer {id} has pinned {pinned} blocks at {:.3} s of film {}, but only {booked} are booked",
                at as f64 / 1e9,
                viewer.film
            );
            self.broken(Rule::WithinBooking, what);
        }
    }

    /// Returns the number of different blocks that a viewer has pinned.
    pub fn pinned_by(&self, id: u64) -> u64 {
        let place = self.lane.place_of(id);
        let stream = place.and_then(|place| self.lane.stream(place));
        let tracks = stream.iter().flat_map(|stream| &stream.tracks);
        let kept = self.viewers.get(&id).into_iter();
        let kept = kept.flat_map(|viewer| &viewer.kept);
        let groups = tracks.flat_map(|track| track.cursor.held()).chain(kept);
        let mut pages: Vec<u32> = groups
            .flat_map(|group| group.bytes.pins.iter().map(Pin::number))
            .collect();
        pages.sort_unstable();
        pages.dedup();
        pages.len() as u64
    }

    /// The checks of each second.
    pub fn check_second(&mut self) {
        let pins: Vec<(u32, BlockId)> = self
            .pins
            .iter()
            .map(|(page, (id, _))| (*page, *id))
            .collect();
        for (page, id) in pins {
            self.stays(page, id);
        }
        let census = self.pool.census();
        let held = census.cached + census.reading + census.lent + census.lost;
        if census.free + census.unready + held != census.blocks || census.pinned < self.pins.len() {
            let what = format!(
                "{} pages are pinned, but the pool counts {census:?}",
                self.pins.len()
            );
            self.broken(Rule::PinnedStays, what);
        }
        self.check_waits();
        self.check_connections();
        self.keep_books();
        let books = self.desk.books();
        let second = books.second();
        let booked = books.load(Resource::Memory, second).div_ceil(BLOCK);
        // Memory for answers over HTTP is set aside.
        let fetched = self.pinned_over_http();
        let pinned = self.pins.len().saturating_sub(fetched) as u64;
        self.counters.seconds += 1;
        self.counters.beyond_mean += u64::from(self.excused != self.now && pinned > booked);
        if self.asks_again
            && !self.is_unjudged
            && let Some((resource, by, second)) = self.is_overbooked()
        {
            let what = format!("the {resource} is overbooked by {by} bytes in second {second}");
            self.broken(Rule::WithinLimit, what);
        }
        self.owes();
    }

    /// Checks that requests that wait for room, or for their queue's part of the pool, have to wait.
    pub fn check_room(&mut self) {
        let waiting = self.pool.waiting();
        if waiting == 0 {
            return;
        }
        let before = self.pool.counters();
        self.with_pool(|pool, now, finished| pool.dispatch(now, finished));
        if self.pool.counters() != before || !self.answers.is_empty() {
            let what = format!(
                "{waiting} requests waited, and {} do: there was room for the others",
                self.pool.waiting()
            );
            self.broken(Rule::RoomIsGiven, what);
        }
    }

    /// The checks after all viewers have left and all reads are complete.
    pub fn check_end(&mut self) {
        for tag in self.asked.keys().copied().collect::<Vec<_>>() {
            self.broken(
                Rule::AnsweredOnce,
                format!("request {tag} is never answered"),
            );
        }
        let census = self.pool.census();
        let (pins, waiting) = (self.pins.len(), self.pool.waiting());
        if (pins, waiting, census.in_use()) != (0, 0, 0) {
            let what =
                format!("{pins} pages are still pinned, {waiting} requests still wait: {census:?}");
            self.broken(Rule::PinsReturn, what);
        }
        if (self.fetchers.len(), self.leaves) != (0, self.budget.blocks) {
            let what = format!(
                "{} viewers over HTTP remain, and {} of {} blocks may be pinned",
                self.fetchers.len(),
                self.leaves,
                self.budget.blocks
            );
            self.broken(Rule::PinsReturn, what);
        }
        if let Some(what) = self.copied.as_ref().and_then(Copied::left) {
            self.broken(Rule::PinsReturn, what);
        }
        let sessions = self.rtsp.sessions();
        if sessions > 0 {
            let what = format!("{sessions} RTSP sessions remain");
            self.broken(Rule::BookingsReturn, what);
        }
        let (there, booked) = (self.desk.len(), self.desk.books().viewers());
        if (there, booked) != (0, 0) {
            let what = format!("{there} viewers and {booked} bookings remain");
            self.broken(Rule::BookingsReturn, what);
        }
        let now = self.desk.books().second();
        for resource in self.desk.books().resources().collect::<Vec<_>>() {
            let load = |second: &u64| self.desk.books().load(resource, *second) > 0;
            if let Some(second) = (now..now + TO_COME).find(load) {
                let load = self.desk.books().load(resource, second);
                let what = format!(
                    "{load} bytes of the {resource} are still booked for {} s later",
                    second - now
                );
                self.broken(Rule::BookingsReturn, what);
            }
        }
    }
}
