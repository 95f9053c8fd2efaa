//! Packets in the order of their sequence numbers again: the front of a player's buffer. A missing
//! packet is waited for as long as the buffer is deep.

use std::collections::{BTreeMap, BTreeSet};

/// Most packets that wait for one before them.
const MOST_WAITING: usize = 16_384;
/// Most missing packets remembered by number; beyond it what comes late counts as repeated.
const MOST_GAPS: usize = 65_536;

/// What a packet's number says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next, or one after a gap of so many.
    Ahead(u16),
    /// It was missed, and comes in time for the buffer.
    Reordered,
    /// It was missed, and given up already.
    TooLate,
    /// It was there before.
    Repeated,
}

/// What comes out, in order.
#[derive(Debug)]
pub enum Out<T> {
    /// So many packets are missing here for good.
    Gap(u64),
    /// A packet.
    Packet(T),
}

/// Puts packets in order.
#[derive(Debug)]
pub struct Order<T> {
    /// The number after the highest seen, extended beyond 16 bits.
    expected: Option<u64>,
    /// The next to be handed out.
    next: u64,
    waiting: BTreeMap<u64, (u64, T)>,
    gaps: BTreeSet<u64>,
    /// How long a gap is waited for, ns.
    patience: u64,
}

impl<T> Order<T> {
    /// Waits `patience` ns for what is missing.
    pub fn new(patience: u64) -> Order<T> {
        Order {
            expected: None,
            next: 0,
            waiting: BTreeMap::new(),
            gaps: BTreeSet::new(),
            patience,
        }
    }

    /// Says which packet is the first.
    pub fn begin(&mut self, seq: u16) {
        if self.expected.is_none() {
            // Far from zero, so that what comes before the first has a number too.
            self.next = 1 << 32 | u64::from(seq);
            self.expected = Some(self.next);
        }
    }

    /// Takes a packet that came at `at`, ns.
    pub fn push(&mut self, seq: u16, at: u64, packet: T) -> Arrival {
        self.begin(seq);
        let expected = self.expected.unwrap_or(self.next);
        let ahead = seq.wrapping_sub(expected as u16);
        if ahead < 0x8000 {
            let number = expected + u64::from(ahead);
            for missing in expected..number {
                self.gaps.insert(missing);
            }
            while self.gaps.len() > MOST_GAPS {
                self.gaps.pop_first();
            }
            self.expected = Some(number + 1);
            self.waiting.insert(number, (at, packet));
            return Arrival::Ahead(ahead);
        }
        let number = expected - u64::from(ahead.wrapping_neg());
        if !self.gaps.remove(&number) {
            return Arrival::Repeated;
        }
        if number < self.next {
            return Arrival::TooLate;
        }
        self.waiting.insert(number, (at, packet));
        Arrival::Reordered
    }

    /// The next in order, if it is there, or if what is missing before it has been waited for long
    /// enough at `now`, ns.
    pub fn pop(&mut self, now: u64) -> Option<Out<T>> {
        let (number, came) = {
            let (number, (came, _)) = self.waiting.first_key_value()?;
            (*number, *came)
        };
        if number > self.next {
            let waited = now.saturating_sub(came);
            if waited <= self.patience && self.waiting.len() < MOST_WAITING {
                return None;
            }
            let missing = number - self.next;
            self.next = number;
            return Some(Out::Gap(missing));
        }
        self.next = number + 1;
        let (_, (_, packet)) = self.waiting.pop_first()?;
        Some(Out::Packet(packet))
    }

    /// Numbers that are missing and not given up yet, with all 64 bits.
    pub fn missing(&self) -> impl Iterator<Item = u64> + use<'_, T> {
        self.gaps.range(self.next..).copied()
    }

    /// How many packets were sent up to the highest seen.
    pub fn span(&self, first: u16) -> u64 {
        let begin = 1 << 32 | u64::from(first);
        self.expected
            .map_or(0, |expected| expected.saturating_sub(begin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(order: &mut Order<u16>, now: u64) -> Vec<Option<u16>> {
        let mut out = Vec::new();
        while let Some(next) = order.pop(now) {
            out.push(match next {
                Out::Gap(missing) => {
                    assert_eq!(missing, 1);
                    None
                }
                Out::Packet(packet) => Some(packet),
            });
        }
        out
    }

    #[test]
    fn what_comes_out_of_order_leaves_in_order() {
        let mut order = Order::new(100);
        for (seq, place) in [
            (65_534, Arrival::Ahead(0)),
            (0, Arrival::Ahead(1)),
            (1, Arrival::Ahead(0)),
            (65_535, Arrival::Reordered),
            (65_535, Arrival::Repeated),
            (1, Arrival::Repeated),
        ] {
            assert_eq!(order.push(seq, 10, seq), place, "{seq}");
        }
        assert_eq!(
            drain(&mut order, 10),
            [65_534, 65_535, 0, 1].map(Some).to_vec()
        );
    }

    #[test]
    fn what_does_not_come_is_given_up_after_the_buffers_time() {
        let mut order = Order::new(100);
        order.push(1, 0, 1);
        order.push(3, 10, 3);
        assert_eq!(drain(&mut order, 110), [Some(1)]);
        assert_eq!(drain(&mut order, 111), [None, Some(3)]);
        assert_eq!(order.push(2, 120, 2), Arrival::TooLate);
        assert_eq!(drain(&mut order, 1000), []);
        assert_eq!(order.span(1), 3);
    }
}
