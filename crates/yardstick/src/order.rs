//! Reordering of packets by sequence number: the front of a player's buffer. It waits for a missing
//! packet as long as the buffer allows.

use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of packets that wait for an earlier one.
const MOST_WAITING: usize = 16_384;
/// Maximum number of missing packets that are remembered; beyond it, late packets count as
/// repeated.
const MOST_GAPS: usize = 65_536;

/// Classification of a packet by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next, or one after a gap of this many.
    Ahead(u16),
    /// It was missing, and arrives in time for the buffer.
    Reordered,
    /// It was missing, and has already been given up.
    TooLate,
    /// It arrived before.
    Repeated,
}

/// Output, in order.
#[derive(Debug)]
pub enum Out<T> {
    /// This many packets are finally missing.
    Gap(u64),
    /// A packet.
    Packet(T),
}

/// Puts packets in order.
#[derive(Debug)]
pub struct Order<T> {
    /// The successor of the highest number so far, extended beyond 16 bits.
    expected: Option<u64>,
    /// The next number to be handed out.
    next: u64,
    waiting: BTreeMap<u64, (u64, T)>,
    gaps: BTreeSet<u64>,
    /// How long to wait for a missing packet, in nanoseconds.
    patience: u64,
}

impl<T> Order<T> {
    /// Creates an order that waits `patience` ns for missing packets.
    pub fn new(patience: u64) -> Order<T> {
        Order {
            expected: None,
            next: 0,
            waiting: BTreeMap::new(),
            gaps: BTreeSet::new(),
            patience,
        }
    }

    /// Sets the number of the first packet.
    pub fn begin(&mut self, seq: u16) {
        if self.expected.is_none() {
            // Far from zero, so that packets before the first have numbers, too.
            self.next = 1 << 32 | u64::from(seq);
            self.expected = Some(self.next);
        }
    }

    /// Takes a packet that arrived at `at` (ns).
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

    /// Returns the next output in order, if it has arrived, or if the wait for missing packets
    /// before it has timed out at `now` (ns).
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

    /// Returns the extended numbers that are missing and not given up yet.
    pub fn missing(&self) -> impl Iterator<Item = u64> + use<'_, T> {
        self.gaps.range(self.next..).copied()
    }

    /// Returns how many packets were sent up to the highest number so far.
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
