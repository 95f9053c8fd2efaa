//! What a player with a buffer of a given depth would have shown of what came: pure arithmetic over
//! arrivals.
//!
//! The player begins `depth` after the first packet and then shows each access unit at its time. One
//! that comes later than that makes it wait (a stall), unless something newer is there already: then
//! it continues without it (a skipped frame). After a stall everything is shown that much later.

use std::time::Duration;

use crate::unit::ReceivedUnit;

/// Stalls closer together than this are one: a viewer does not tell them apart.
const ONE_STALL: i64 = 500_000_000;
/// A hole in the film's times of more than so many usual steps is missing frames.
const HOLE: f64 = 1.5;

/// An access unit as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Presentation time in the film, ns.
    pub media: i64,
    /// When its first packet came, ns since 1970.
    pub first: u64,
    /// When its last packet came.
    pub last: u64,
    /// Its packets.
    pub packets: u32,
    /// Whether all of them came, in the time the buffer can wait.
    pub whole: bool,
    /// Whether packets are missing between the unit before and this one's beginning.
    pub after_gap: bool,
}

/// What the player showed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Playback {
    /// Times it stood still.
    pub stalls: u32,
    /// How long it stood still in all, ns.
    pub stalled: u64,
    /// The longest single time, ns.
    pub longest_stall: u64,
    /// Access units that were not shown: missing, broken, or too late beside newer ones.
    pub skipped: u64,
    /// Access units that came after their time.
    pub late: u64,
    /// Access units shown.
    pub shown: u64,
}

impl Playback {
    /// Whether a viewer would have seen the film as it is.
    pub fn is_smooth(&self) -> bool {
        self.stalls == 0 && self.skipped == 0
    }

    /// How long it stood still in all.
    pub fn stalled(&self) -> Duration {
        Duration::from_nanos(self.stalled)
    }
}

/// The usual distance of two neighbours in ns (the median); 0 of fewer than two.
pub fn usual_step(times: impl IntoIterator<Item = i64>) -> i64 {
    let mut times: Vec<i64> = times.into_iter().collect();
    times.sort_unstable();
    let mut steps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    steps.retain(|step| *step > 0);
    steps.sort_unstable();
    steps.get(steps.len() / 2).copied().unwrap_or(0)
}

/// Plays the tracks of a film (units in the order of their sequence numbers) from a buffer of `depth`;
/// `from` (ns since 1970) is when the buffer began to fill.
pub fn simulate(tracks: &[&[Arrived]], from: u64, depth: Duration) -> Playback {
    let mut playback = Playback::default();
    // What is shown when: presentation order over all tracks, each unit knowing when anything that
    // follows it in its track was there.
    let mut order: Vec<(Arrived, u64)> = Vec::new();
    for units in tracks {
        playback.skipped += holes(units);
        let mut newer = u64::MAX;
        for unit in units.iter().rev() {
            order.push((*unit, newer));
            if unit.whole {
                newer = newer.min(unit.last);
            }
        }
    }
    order.sort_by_key(|(unit, _)| unit.media);
    let Some(begin) = order.first().map(|(unit, _)| unit.media) else {
        return playback;
    };
    let mut player = OnlinePlayer::new(depth);
    player.shown = playback;
    player.begin(begin);
    player.came(from);
    for (unit, newer) in order {
        let due = player.base.unwrap_or(0) + unit.media;
        // What is late and has newer beside it is passed over.
        let passed_over = unit.last as i64 > due && newer <= due.max(0) as u64;
        if unit.whole && !passed_over {
            player.shown.shown += 1;
            player.due(due, unit.last as i64);
        } else {
            player.shown.late += u64::from(unit.whole);
            player.shown.skipped += 1;
        }
    }
    player.shown
}

/// A player that is fed frame by frame. By itself it waits for late frames; [`simulate`], which knows the
/// whole film, makes it continue without them if something newer was there already.
#[derive(Clone, Debug)]
pub(crate) struct OnlinePlayer {
    depth: i64,
    from: i64,
    /// What is shown at the time `t` of the film is shown at `base + t`, ns since 1970.
    base: Option<i64>,
    stall: u64,
    stalled_until: i64,
    shown: Playback,
}

impl OnlinePlayer {
    /// With a buffer so deep.
    pub fn new(depth: Duration) -> OnlinePlayer {
        OnlinePlayer {
            depth: depth.as_nanos() as i64,
            from: 0,
            base: None,
            stall: 0,
            stalled_until: i64::MIN,
            shown: Playback::default(),
        }
    }

    /// From here on the film plays from `from` (ns), with an empty buffer.
    pub fn begin(&mut self, from: i64) {
        self.from = from;
        self.base = None;
        self.stalled_until = i64::MIN;
    }

    /// Something came at `at`, ns since 1970.
    pub fn came(&mut self, at: u64) {
        self.base.get_or_insert(at as i64 + self.depth - self.from);
    }

    /// An access unit has come, as far as it comes at all.
    pub fn unit(&mut self, unit: ReceivedUnit) {
        if let Some(base) = self.base {
            self.show(unit.media, unit.last, !unit.broken, base);
        }
    }

    /// The same of one that is kept.
    pub fn arrived(&mut self, unit: &Arrived) {
        if let Some(base) = self.base {
            self.show(unit.media, unit.last, unit.whole, base);
        }
    }

    fn show(&mut self, media: i64, last: u64, whole: bool, base: i64) {
        if !whole {
            self.shown.skipped += 1;
            return;
        }
        self.shown.shown += 1;
        self.due(base + media.max(self.from), last as i64);
    }

    /// The film's time that is shown at `now`, ns; before it begins, nothing.
    pub fn position(&self, now: u64) -> Option<i64> {
        self.base.map(|base| now as i64 - base)
    }

    /// A segment that begins at `start` (ns) of the film was there at `at`; how late it was, ns.
    pub fn segment(&mut self, start: i64, at: u64) -> u64 {
        let Some(base) = self.base else {
            return 0;
        };
        self.shown.shown += 1;
        self.due(base + start, at as i64);
        (at as i64 - base - start).max(0) as u64
    }

    /// What was due at `due` was there at `at`, ns since 1970.
    fn due(&mut self, due: i64, at: i64) {
        let late = at - due;
        if late <= 0 {
            return;
        }
        self.shown.late += 1;
        self.base = self.base.map(|base| base + late);
        self.shown.stalled += late as u64;
        if due > self.stalled_until.saturating_add(ONE_STALL) {
            self.shown.stalls += 1;
            self.stall = 0;
        }
        self.stall += late as u64;
        self.stalled_until = at;
        self.shown.longest_stall = self.shown.longest_stall.max(self.stall);
    }

    /// What the player has shown so far.
    pub fn shown(&self) -> &Playback {
        &self.shown
    }
}

/// Access units of which nothing came at all. Films may have holes of their own: they are looked for
/// only where packets are missing.
fn holes(units: &[Arrived]) -> u64 {
    if !units.iter().any(|unit| unit.after_gap) {
        return 0;
    }
    let step = usual_step(units.iter().map(|unit| unit.media));
    if step == 0 {
        return 0;
    }
    let mut times: Vec<i64> = units.iter().map(|unit| unit.media).collect();
    times.sort_unstable();
    let missing = |pair: &[i64]| {
        let steps = (pair[1] - pair[0]) as f64 / step as f64;
        if steps > HOLE {
            (steps.round() as u64).saturating_sub(1)
        } else {
            0
        }
    };
    times.windows(2).map(missing).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Frames of 40 ms that come as they are due, but for what `late` (ms) says of a frame.
    fn film(late: impl Fn(i64) -> Option<i64>) -> Vec<Arrived> {
        let unit = |number: i64| {
            let at = (1000 + number * 40 + late(number)?) as u64 * MS as u64;
            Some(Arrived {
                media: number * 40 * MS,
                first: at,
                last: at,
                packets: 1,
                whole: true,
                after_gap: number > 0 && late(number - 1).is_none(),
            })
        };
        (0..500).filter_map(unit).collect()
    }

    fn play(units: &[Arrived]) -> Playback {
        simulate(&[units], 1000 * MS as u64, Duration::from_secs(2))
    }

    #[test]
    fn what_the_buffer_bears_is_not_seen() {
        let playback = play(&film(|frame| Some(if frame > 200 { 1999 } else { 0 })));
        assert!(playback.is_smooth(), "{playback:?}");
        assert_eq!((playback.shown, playback.late), (500, 0));
    }

    #[test]
    fn what_comes_later_stops_the_picture_once() {
        // The server is silent for three seconds and goes on where it was.
        let playback = play(&film(|frame| Some(if frame > 200 { 3000 } else { 0 })));
        assert_eq!(
            (playback.stalls, playback.stalled, playback.skipped),
            (1, 1000 * MS as u64, 0)
        );
    }

    #[test]
    fn a_frame_that_comes_too_late_beside_newer_ones_is_skipped() {
        let playback = play(&film(|frame| Some(if frame == 200 { 2500 } else { 0 })));
        assert_eq!((playback.stalls, playback.skipped), (0, 1));
    }

    #[test]
    fn what_never_comes_is_skipped() {
        let playback = play(&film(|frame| (!(200..203).contains(&frame)).then_some(0)));
        assert_eq!((playback.stalls, playback.skipped), (0, 3));
        let mut broken = film(|_| Some(0));
        broken[7].whole = false;
        assert_eq!(play(&broken).skipped, 1);
    }

    #[test]
    fn a_server_slower_than_the_film_makes_it_stand_still_again_and_again() {
        let playback = play(&film(|frame| Some(frame * 10)));
        assert!(playback.stalled >= 2900 * MS as u64, "{playback:?}");
        assert_eq!(playback.skipped, 0);
    }

    #[test]
    fn nothing_at_all_is_nothing_shown() {
        assert_eq!(simulate(&[&[]], 0, Duration::ZERO).shown, 0);
    }
}
