//! A look at the kernel's clock and its consequences: the rate, the next piece, or the finding that
//! the counter and the kernel have moved apart. Only the holder of the lock runs this code.

use super::sample::Sample;
use super::words::{HOLD, Phase, ceil, counts_of, hertz, hold, nanos_of};
use super::{Event, Manner, Source, TrackedClock, Word};
use crate::piece::{CLOSED, MAX_COUNTS, MAX_NANOS, NOTHING, Piece};

/// The length of a piece, in nanoseconds: if the rate changes by 1000 ppm unnoticed (from one of
/// NTP's limits to the other), the clock is off by half a microsecond at its end.
const PIECE: u64 = 500_000;
/// If a look is expensive (a clock source that the hypervisor emulates), a piece lasts this many
/// looks, but at most [`LONGEST_PIECE`].
const PIECE_LOOKS: u64 = 200;
/// With this length, and 500 ppm, the clock is off by 5 µs.
const LONGEST_PIECE: u64 = 10_000_000;
/// How long before the end of a piece the next one is drawn, in nanoseconds (or four looks, if
/// longer).
const EARLY: u64 = 10_000;
/// A look of this width is good enough, even if the machine usually does better, in nanoseconds.
const GOOD_WIDTH: u64 = 1_000;
/// For how long pieces are drawn with the old rate if no look is good enough, in nanoseconds.
const COAST: u64 = 4_000_000;
/// The counter and the kernel may differ by this much at a look, plus a thousandth of the time
/// since the last one, before they count as apart, in nanoseconds. NTP changes the rate by at most
/// 500 ppm.
const APART: u64 = 20_000;
/// Rates are measured over up to twice this long, in nanoseconds; from end to end, the noise of two
/// looks is then a millionth.
const BASELINE: u64 = 32_000_000;
/// A rate is measured over at least this many widths of a look: then it is accurate to 500 ppm.
const BASELINE_WIDTHS: u64 = 1_000;
/// Smaller deviations are noise of the look, in nanoseconds.
const NOISE: u64 = 30;
/// A line may be this fraction faster or slower than the kernel's clock in order to meet it again.
const BEND: u64 = 64;
/// A clock that seems to be set twice within this time was not set: the counter is at fault. In
/// nanoseconds.
const AGAIN: u64 = 10_000_000;
/// The first time out of use after a fall, in nanoseconds; doubled at each further fall within ten
/// times the last one.
const PENALTY: u64 = 100_000_000;
/// The longest time out of use, in nanoseconds.
const LONGEST_PENALTY: u64 = 60_000_000_000;
/// After a fall, the rate is measured twice over this long, with results that must agree, in
/// nanoseconds.
const PROOF: u64 = 5_000_000;
/// How far readers without a piece stay behind the kernel's clock, in nanoseconds (plus two
/// widths).
const MARGIN: u64 = 2_000;
/// A slower counter does not resolve microseconds; a faster one is impossible.
const HERTZ: std::ops::RangeInclusive<u64> = 1_000_000..=20_000_000_000;

/// The words of the looks from which the rate is measured.
const LAST: [Word; 3] = [Word::LastCount, Word::LastNanos, Word::LastWidth];
const MID: [Word; 3] = [Word::MidCount, Word::MidNanos, Word::MidWidth];
const OLD: [Word; 3] = [Word::OldCount, Word::OldNanos, Word::OldWidth];

impl TrackedClock<'_> {
    /// Looks at the kernel's clock and draws the next piece, if possible: in continuation of
    /// `piece` (`going_on`: it has not ended yet) or after a gap.
    pub(super) fn look<S: Source>(
        &self,
        source: &S,
        piece: &Piece,
        going_on: bool,
    ) -> Option<Event> {
        match self.words.phase() {
            Phase::Fresh => {
                let sample = Sample::best(source, self.words);
                self.remember(&sample);
                self.words.set_phase(Phase::Warming);
                None
            }
            Phase::Warming => self.warm_up(source),
            Phase::Tracking => self.go_on(&Sample::best(source, self.words), piece, going_on),
            Phase::Waiting => None,
        }
    }

    /// Stores `sample` as the only look so far.
    fn remember(&self, sample: &Sample) {
        for place in [LAST, MID, OLD] {
            sample.store(self.words, place);
        }
    }

    /// Measures the rate for the first time, or again after a fall.
    fn warm_up<S: Source>(&self, source: &S) -> Option<Event> {
        let words = self.words;
        let sample = &Sample::best(source, words);
        let first = Sample::load(words, OLD);
        let counts = sample.middle().wrapping_sub(first.middle());
        let nanos = sample.nanos.wrapping_sub(first.nanos);
        if counts > i64::MAX as u64 || nanos > i64::MAX as u64 {
            // One of the two has gone back: start again from here.
            self.remember(sample);
            return None;
        }
        let Some(rate) = rate(counts, nanos) else {
            // The counter does not count, or the kernel's clock has not moved yet.
            if counts == 0 && nanos > PENALTY {
                return self.wait(sample.nanos);
            }
            return None;
        };
        if nanos < BASELINE_WIDTHS * nanos_of(sample.width + first.width, rate) / 2 {
            return None;
        }
        if !HERTZ.contains(&hertz(rate)) {
            self.wait(sample.nanos);
            return Some(Event::Unfit);
        }
        let proving = words.get(Word::MustProve) != 0;
        if proving {
            if nanos < PROOF {
                return None;
            }
            let mid = Sample::load(words, MID);
            if mid == first {
                // First half of the proof.
                words.set(Word::Rate, rate);
                sample.store(words, MID);
                return None;
            }
            let counts = sample.middle().wrapping_sub(mid.middle());
            let nanos = sample.nanos.wrapping_sub(mid.nanos);
            if nanos < PROOF {
                return None;
            }
            if apart(
                counts,
                nanos,
                words.get(Word::Rate),
                sample.width + mid.width,
            )
            .is_some()
            {
                return self.wait(sample.nanos);
            }
        }
        words.set(Word::Rate, rate);
        words.set(Word::MustProve, 0);
        // From here on, no reader gets the unmodified kernel's clock; all earlier readings lie
        // before the following look.
        words.set(Word::Margin, MARGIN + 2 * nanos_of(sample.width, rate));
        self.ring().publish(&CLOSED);
        words.set_phase(Phase::Tracking);
        let sample = Sample::best(source, words);
        sample.store(words, LAST);
        sample.store(words, MID);
        // As far ahead as the rate is known accurately enough.
        let length = (4 * nanos).min(self.length(&sample, rate));
        // The line goes through the kernel's time and the count *before* it was read, and so lies
        // above all earlier readings.
        let base = u128::from(hold(sample.nanos, words.get(Word::Floor))) << 32;
        self.draw(&sample, sample.before, base, length);
        Some(if proving {
            Event::CameBack
        } else {
            Event::Started(hertz(rate))
        })
    }

    /// Draws the next piece of a clock that is being followed.
    fn go_on(&self, sample: &Sample, piece: &Piece, going_on: bool) -> Option<Event> {
        let words = self.words;
        let last = Sample::last(words);
        let old_rate = words.get(Word::Rate);
        let width = nanos_of(sample.width, old_rate);
        let counts = sample.middle().wrapping_sub(last.middle());
        let nanos = sample.nanos.wrapping_sub(last.nanos);

        if let Some(distance) = apart(counts, nanos, old_rate, sample.width + last.width) {
            return self.moved_apart(sample, piece, distance);
        }
        if width > GOOD_WIDTH.max(4 * nanos_of(words.get(Word::Tightest), old_rate)) {
            // Interrupted in the middle, three times. The result is too uncertain to correct the
            // line; the old rate stays usable for some time.
            words.add(Word::Coasts);
            if going_on && nanos_of(counts, old_rate) < COAST {
                self.draw(
                    &last,
                    piece.start.wrapping_add(piece.hard),
                    piece.end(),
                    PIECE,
                );
            }
            return None;
        }

        let predicted = last.nanos.wrapping_add(nanos_of(counts, old_rate));
        let deviation = sample.nanos.abs_diff(predicted);
        let noise = (width + nanos_of(last.width, old_rate)) / 2 + NOISE;
        if deviation > noise || nanos > 2 * BASELINE {
            // The kernel's clock has changed its rate.
            last.store(words, OLD);
            last.store(words, MID);
        } else if sample.nanos.wrapping_sub(words.get(Word::MidNanos)) > BASELINE {
            Sample::load(words, MID).store(words, OLD);
            sample.store(words, MID);
        }
        let old = Sample::load(words, OLD);
        let baseline = sample.nanos.wrapping_sub(old.nanos);
        if baseline > BASELINE_WIDTHS * (width + nanos_of(old.width, old_rate)) / 2
            && let Some(rate) = rate(sample.middle().wrapping_sub(old.middle()), baseline)
            && HERTZ.contains(&hertz(rate))
        {
            words.set(Word::Rate, rate);
        }
        sample.store(words, LAST);

        let rate = words.get(Word::Rate);
        let (start, base) = if going_on {
            (piece.start.wrapping_add(piece.hard), piece.end())
        } else {
            // After the end of the last piece, readers have only had the kernel's clock minus the
            // margin.
            let line = line(sample, rate, sample.before);
            let ahead = (piece.end().saturating_sub(line) >> 32) as u64;
            if ahead > MARGIN + 2 * width {
                // The piece has not ended: the counter has gone back by a little.
                return self.moved_apart(sample, piece, -(ahead as i64));
            }
            (sample.before, line.max(piece.end()))
        };
        self.draw(sample, start, base, self.length(sample, rate));
        None
    }

    /// Publishes the piece from (`start`, `base`) that ends on the line through `sample`, as nearly
    /// as its slope may be adjusted.
    fn draw(&self, sample: &Sample, start: u64, base: u128, length: u64) {
        let words = self.words;
        let rate = words.get(Word::Rate);
        let hard = counts_of(length, rate).clamp(1, MAX_COUNTS);
        let early = EARLY.max(4 * nanos_of(sample.width, rate)).min(length / 2);
        let soft = hard - counts_of(early, rate).min(hard / 2);

        let goal = line(sample, rate, start.wrapping_add(hard));
        let mult = u64::try_from(goal.saturating_sub(base) / u128::from(hard)).unwrap_or(rate);
        let mult = mult.clamp(rate - rate / BEND, rate + rate / BEND);
        let off = line(sample, rate, start).abs_diff(base) >> 32;
        let width = nanos_of(sample.width, rate);
        let piece = Piece {
            start,
            hard,
            soft,
            mult,
            base,
            // Half the look, one count of the reading, and the remaining offset at the start.
            error: (width / 2 + (mult >> 32) + 2)
                .saturating_add(u64::try_from(off).unwrap_or(u64::MAX)),
            sampled: sample.middle(),
        };
        words.set(Word::Margin, MARGIN + 2 * width);
        self.ring().publish(&piece);
    }

    /// The target length of a piece, in nanoseconds.
    fn length(&self, sample: &Sample, rate: u64) -> u64 {
        let width = nanos_of(sample.width.min(self.words.get(Word::Tightest)), rate);
        (width * PIECE_LOOKS).clamp(PIECE, LONGEST_PIECE)
    }

    /// Handles that the counter and the kernel's clock have moved apart by `distance` nanoseconds.
    fn moved_apart(&self, sample: &Sample, piece: &Piece, distance: i64) -> Option<Event> {
        let words = self.words;
        let again = sample.nanos.abs_diff(words.get(Word::JumpedAt)) < AGAIN;
        words.set(Word::JumpedAt, sample.nanos);
        if self.manner == Manner::Settable && !again {
            // A program has set the clock (or the counter jumped once, which amounts to the same:
            // the kernel is right). The line restarts at the previous rate.
            words.add(Word::Steps);
            self.remember(sample);
            let rate = words.get(Word::Rate);
            let base = line(sample, rate, sample.before);
            self.draw(sample, sample.before, base, self.length(sample, rate));
            return Some(Event::Stepped(distance));
        }
        words.add(Word::Falls);
        self.fall(piece, sample.nanos, 0);
        Some(Event::Fell(distance))
    }

    /// Switches to the kernel's clock, which shows `now`, for the penalty or for `pause`
    /// nanoseconds if that is not zero. Readers get the last piece's end until the kernel's clock
    /// has reached it, unless that is far off or may step anyway.
    pub(super) fn fall(&self, piece: &Piece, now: u64, pause: u64) {
        let words = self.words;
        let floor = ceil(piece.end());
        let holds = self.manner == Manner::Steady && floor.saturating_sub(now) < HOLD;
        words.set(Word::Floor, if holds { floor } else { 0 });
        self.wait(now);
        if pause != 0 {
            words.set(Word::RetryAt, now + pause);
        }
    }

    /// Takes the counter out of use for a while. Always returns `None`.
    fn wait(&self, now: u64) -> Option<Event> {
        let words = self.words;
        let last = words.get(Word::Penalty);
        let since = now.saturating_sub(words.get(Word::RetryAt));
        let penalty = if last == 0 || since > 10 * last {
            PENALTY
        } else {
            (2 * last).min(LONGEST_PENALTY)
        };
        words.set(Word::Penalty, penalty);
        words.set(Word::RetryAt, now.saturating_add(penalty));
        words.set(Word::MustProve, 1);
        words.set_phase(Phase::Waiting);
        self.ring().publish(&NOTHING);
        None
    }
}

/// The time at `count` on the line through a look, 32.32 nanoseconds. `count` may lie before the
/// look.
fn line(sample: &Sample, rate: u64, count: u64) -> u128 {
    let away = count.wrapping_sub(sample.middle()) as i64;
    let nanos = (u128::from(sample.nanos) << 32) as i128 + i128::from(away) * i128::from(rate);
    u128::try_from(nanos).unwrap_or(0)
}

/// Nanoseconds per count, 32.32; `None` if it cannot be computed.
fn rate(counts: u64, nanos: u64) -> Option<u64> {
    let rate = (u128::from(nanos) << 32).checked_div(u128::from(counts))?;
    u64::try_from(rate).ok().filter(|&rate| rate != 0)
}

/// By how much the kernel's clock has advanced more (or, if negative, less) than the counter shows,
/// if that exceeds the tolerance.
fn apart(counts: u64, nanos: u64, rate: u64, widths: u64) -> Option<i64> {
    let by_counter = if counts > i64::MAX as u64 {
        -i128::from(nanos_of(counts.wrapping_neg(), rate))
    } else {
        i128::from(nanos_of(counts, rate))
    };
    let by_kernel = i128::from(nanos as i64);
    let distance = by_kernel - by_counter;
    let time = by_kernel.min(by_counter).max(0) as u64;
    let allowed = APART + nanos_of(widths, rate) + time / 1000;
    (distance.unsigned_abs() > u128::from(allowed))
        .then(|| i64::try_from(distance).unwrap_or(if distance < 0 { i64::MIN } else { i64::MAX }))
}

const _: () = assert!(
    LONGEST_PIECE < MAX_NANOS,
    "a fast read's product must fit 64 bits"
);
