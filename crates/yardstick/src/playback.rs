//! Simulation of a player with a buffer of a given depth: pure arithmetic over arrival times.
//!
//! The player starts `depth` after the first packet and then shows each access unit at its time.
//! For a unit that arrives later, it waits (a stall), unless a newer unit is already there: then it
//! continues without the late one (a skipped frame). After a stall, everything is shown that much
//! later.

use std::time::Duration;

use crate::unit::ReceivedUnit;

/// Stalls closer together than this count as one, as a viewer cannot distinguish them.
const ONE_STALL: i64 = 500_000_000;
/// A gap of more than this many usual steps in the film's times is missing frames.
const HOLE: f64 = 1.5;

/// Arrival of an access unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Presentation time in the film, in nanoseconds.
    pub media: i64,
    /// Arrival of its first packet in ns since 1970.
    pub first: u64,
    /// Arrival of its last packet in ns since 1970.
    pub last: u64,
    /// Number of its packets.
    pub packets: u32,
    /// Whether all of its packets arrived within the time that the buffer can wait.
    pub whole: bool,
    /// Whether packets are missing between the previous unit and the beginning of this one.
    pub after_gap: bool,
}

/// Results of the playback.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Playback {
    /// Number of stalls.
    pub stalls: u32,
    /// Total duration of the stalls in nanoseconds.
    pub stalled: u64,
    /// Duration of the longest stall in nanoseconds.
    pub longest_stall: u64,
    /// Access units that were not shown: missing, incomplete, or late while newer ones were there.
    pub skipped: u64,
    /// Access units that arrived after their time.
    pub late: u64,
    /// Access units that were shown.
    pub shown: u64,
}

impl Playback {
    /// Whether a viewer would have seen the film without stalls or skipped frames.
    pub fn is_smooth(&self) -> bool {
        self.stalls == 0 && self.skipped == 0
    }

    /// Returns the total duration of the stalls.
    pub fn stalled(&self) -> Duration {
        Duration::from_nanos(self.stalled)
    }
}

/// Returns the usual (median) distance of neighbouring times in nanoseconds; 0 for fewer than two.
pub fn usual_step(times: impl IntoIterator<Item = i64>) -> i64 {
    let mut times: Vec<i64> = times.into_iter().collect();
    times.sort_unstable();
    let mut steps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    steps.retain(|step| *step > 0);
    steps.sort_unstable();
    steps.get(steps.len() / 2).copied().unwrap_or(0)
}

/// Plays the tracks of a film (units in order of sequence numbers) from a buffer of `depth`; `from`
/// (ns since 1970) is when the buffer began to fill.
pub fn simulate(tracks: &[&[Arrived]], from: u64, depth: Duration) -> Playback {
    let mut playback = Playback::default();
    // Presentation order over all tracks. Each unit has the earliest arrival of a complete unit
    // that follows it in its track.
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
        // A late unit is skipped if a newer one was there when it was due.
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

/// A player that is fed frame by frame. It always waits for late frames; [`simulate`], which knows
/// the whole film, makes it skip those for which something newer was already there.
#[derive(Clone, Debug)]
pub(crate) struct OnlinePlayer {
    depth: i64,
    from: i64,
    /// Time `t` of the film is shown at `base + t`, in ns since 1970.
    base: Option<i64>,
    stall: u64,
    stalled_until: i64,
    shown: Playback,
}

impl OnlinePlayer {
    /// Creates a player with a buffer of this depth.
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

    /// Plays from `from` (ns) of the film from now on, with an empty buffer.
    pub fn begin(&mut self, from: i64) {
        self.from = from;
        self.base = None;
        self.stalled_until = i64::MIN;
    }

    /// Records an arrival at `at` (ns since 1970), which starts the buffer if it is the first.
    pub fn came(&mut self, at: u64) {
        self.base.get_or_insert(at as i64 + self.depth - self.from);
    }

    /// Takes an access unit of which no more packets will arrive.
    pub fn unit(&mut self, unit: ReceivedUnit) {
        if let Some(base) = self.base {
            self.show(unit.media, unit.last, !unit.broken, base);
        }
    }

    /// Takes an access unit that a meter has kept.
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

    /// Returns the film's time shown at `now` in nanoseconds; `None` before playback begins.
    pub fn position(&self, now: u64) -> Option<i64> {
        self.base.map(|base| now as i64 - base)
    }

    /// Takes a segment that begins at `start` (ns) of the film and arrived at `at`. Returns its
    /// lateness in nanoseconds.
    pub fn segment(&mut self, start: i64, at: u64) -> u64 {
        let Some(base) = self.base else {
            return 0;
        };
        self.shown.shown += 1;
        self.due(base + start, at as i64);
        (at as i64 - base - start).max(0) as u64
    }

    /// Judges media that was due at `due` and arrived at `at`, in ns since 1970.
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

    /// Returns the results so far.
    pub fn shown(&self) -> &Playback {
        &self.shown
    }
}

/// Counts access units of which nothing arrived. Films may have gaps of their own, so this looks
/// only at tracks in which packets are missing.
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

    /// Frames of 40 ms that arrive on time, but for the delay `late` (ms) of a frame; `None`: it
    /// does not arrive.
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
        // The server is silent for three seconds and then continues where it stopped.
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
