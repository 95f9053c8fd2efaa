//! Sending ahead: the smoothest schedule that a viewer's buffer allows.
//!
//! What is due may be sent earlier, by as much as the viewer can hold (here: a number of seconds of
//! film), and never later. Of all schedules between these two bounds, the one with the least peak
//! and the least variance is the shortest line between them, like a string pulled tight: Salehi,
//! Zhang, Kurose, Towsley, *Supporting Stored Video: Reducing Rate Variability and End-to-End
//! Resource Requirements through Optimal Smoothing* (1996). Computed in whole bytes.

use reelway_media::Nanos;

use crate::curve::{BIN, Counted, Curve};

/// A schedule for a film from some place on: how far ahead of its time everything leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The film time at which the play begins, where nothing is ahead yet.
    from: Nanos,
    /// For each quarter second from there, how many microseconds ahead the bytes due at its
    /// beginning leave.
    lead: Vec<u32>,
    most: Nanos,
    _held: Counted,
}

impl Schedule {
    /// The film time at which what is due at film time `due` leaves: at `due` or before, in the
    /// same order.
    pub fn leaves(&self, due: Nanos) -> Nanos {
        let since = due.saturating_sub(self.from);
        if since <= 0 {
            return due;
        }
        let (bin, within) = ((since / BIN) as usize, since % BIN);
        let lead = |bin: usize| Nanos::from(self.lead.get(bin).copied().unwrap_or(0)) * 1000;
        let (here, next) = (lead(bin), lead(bin + 1));
        due - (here + (next - here) * within / BIN)
    }

    /// The furthest that anything leaves ahead.
    pub fn most(&self) -> Nanos {
        self.most
    }
}

/// The smoothest way to send the bins `from..` of `curve`, which says what is due, at most `ahead`
/// bins early: what leaves in each quarter second (nothing before `from`), and the schedule for it.
pub fn smooth(curve: &Curve, from: usize, ahead: usize) -> (Curve, Schedule) {
    let film = curve.bins();
    let due = film.get(from..).unwrap_or_default();
    // Bytes due before each quarter second's beginning.
    let mut lower = Vec::with_capacity(due.len() + 1);
    let mut sum = 0i64;
    lower.push(0);
    for bin in due {
        sum += i64::from(*bin);
        lower.push(sum);
    }
    let sent = taut(&lower, ahead);
    let sent_in = |pair: &[i64]| u32::try_from(pair[1] - pair[0]).unwrap_or(u32::MAX);
    let before = film.len() - due.len();
    let bins = std::iter::repeat_n(0, before).chain(sent.windows(2).map(sent_in));
    let lead = leads(&lower, &sent);
    let most = lead.iter().copied().max().unwrap_or(0);
    let schedule = Schedule {
        from: from as Nanos * BIN,
        most: Nanos::from(most) * 1000,
        _held: Counted::new(lead.capacity() * 4),
        lead,
    };
    (curve.like(bins.collect()), schedule)
}

/// The string pulled tight between `lower` and the same curve `ahead` steps earlier.
fn taut(lower: &[i64], ahead: usize) -> Vec<i64> {
    let last = lower.len() - 1;
    let upper = |at: usize| lower[(at + ahead).min(last)];
    let mut sent = vec![0; lower.len()];
    let mut anchor = 0;
    while anchor < last {
        let base = sent[anchor];
        // The steepest line that stays below, and the least steep that stays above, as rise over
        // run.
        let mut below: Option<(i64, usize)> = None;
        let mut above: Option<(i64, usize)> = None;
        let steeper = |a: (i64, usize), b: (i64, usize)| {
            // a.0 / a.1 > b.0 / b.1, exactly.
            i128::from(a.0) * b.1 as i128 > i128::from(b.0) * a.1 as i128
        };
        let mut next = None;
        for (at, due) in lower.iter().enumerate().skip(anchor + 1) {
            let run = at - anchor;
            let (least, most) = ((due - base, run), (upper(at) - base, run));
            if below.is_some_and(|below| steeper(least, below)) {
                next = below;
                break;
            }
            if above.is_some_and(|above| steeper(above, most)) {
                next = above;
                break;
            }
            // The last of several equals, so that the segment is as long as possible.
            if below.is_none_or(|below| !steeper(most, below)) {
                below = Some(most);
            }
            if above.is_none_or(|above| !steeper(above, least)) {
                above = Some(least);
            }
        }
        // The film's last byte: both bounds meet there.
        let (rise, run) = next.unwrap_or((lower[last] - base, last - anchor));
        for step in 1..=run {
            let line = base + (i128::from(rise) * step as i128 / run as i128) as i64;
            // Rounded down, and therefore at most a byte below what is due.
            sent[anchor + step] = line.max(lower[anchor + step]);
        }
        anchor += run;
    }
    sent
}

/// How many microseconds ahead of its time each step's first byte leaves.
fn leads(lower: &[i64], sent: &[i64]) -> Vec<u32> {
    const STEP: i64 = BIN / 1000;
    let mut leads = Vec::with_capacity(lower.len());
    let mut at = 0;
    for (step, due) in lower.iter().enumerate() {
        // The moment at which `sent` reaches what is due before this step.
        while at + 1 < sent.len() && sent[at + 1] <= *due {
            at += 1;
        }
        let within = match sent.get(at + 1) {
            Some(next) if *next > sent[at] => {
                (i128::from(due - sent[at]) * i128::from(STEP) / i128::from(next - sent[at])) as i64
            }
            _ => 0,
        };
        let leaves = at as i64 * STEP + within.clamp(0, STEP);
        leads.push(u32::try_from((step as i64 * STEP - leaves).max(0)).unwrap_or(u32::MAX));
    }
    leads
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cumulative(bins: &[u32]) -> Vec<u64> {
        let mut sum = 0;
        let mut all = vec![0];
        all.extend(bins.iter().map(|bin| {
            sum += u64::from(*bin);
            sum
        }));
        all
    }

    proptest! {
        #[test]
        fn nothing_leaves_late_nor_further_ahead_than_the_buffer_and_nothing_is_lost(
            bins in prop::collection::vec(0u32..100_000, 1..200), ahead in 0usize..40, from in 0usize..20,
        ) {
            let curve = Curve::new(bins.clone());
            let from = from.min(bins.len());
            let (sent, schedule) = smooth(&curve, from, ahead);
            let (due, sent) = (cumulative(&bins[from..]), cumulative(&sent.bins()[from..]));
            prop_assert_eq!(due.last(), sent.last());
            for at in 0..due.len() {
                prop_assert!(sent[at] >= due[at], "late at {}", at);
                prop_assert!(sent[at] <= due[(at + ahead).min(due.len() - 1)], "too early at {}", at);
            }
            let mut before = Nanos::MIN;
            for step in 0..(bins.len() as Nanos * 5) {
                let at = step * BIN / 5;
                let leaves = schedule.leaves(at);
                prop_assert!(leaves <= at && leaves >= before);
                prop_assert!(at - leaves <= ahead as Nanos * BIN + BIN);
                before = leaves;
            }
        }

        #[test]
        fn no_schedule_within_the_bounds_has_a_lower_peak(
            bins in prop::collection::vec(0u32..1000, 1..60), ahead in 0usize..12,
        ) {
            let (sent, _) = smooth(&Curve::new(bins.clone()), 0, ahead);
            let due = cumulative(&bins);
            // A lower bound on any schedule's peak: what must be sent between two moments cannot be
            // sent slower.
            let mut least = 0;
            for start in 0..bins.len() {
                for end in start + 1..=bins.len() {
                    let sent_before = due[(start + ahead).min(bins.len())];
                    let sent_before = if start == 0 { 0 } else { sent_before };
                    least = least.max(due[end].saturating_sub(sent_before).div_ceil((end - start) as u64));
                }
            }
            let peak = u64::from(sent.bins().iter().copied().max().unwrap_or(0));
            prop_assert!(peak <= least + 1, "{} against {}", peak, least);
        }
    }

    #[test]
    fn a_constant_film_needs_no_sending_ahead() {
        let (sent, schedule) = smooth(&Curve::new(vec![500; 100]), 0, 40);
        assert_eq!(sent.bins(), vec![500; 100]);
        assert_eq!(schedule.most(), 0);
    }
}
