//! A viewer's flow: the pieces of a track or a file that they request one after the other.

use reelway_time::Monotonic;

use crate::pace::{Pace, Pacer};

/// A flow.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Holds it to the pace.
    pub pacer: Pacer,
    /// The expected position of the next piece: a segment number or a file offset.
    next: u64,
    /// The position of the last piece.
    last: u64,
    /// Whether the last piece was requested at an unexpected position.
    moved: bool,
    /// Whether the viewer aborted its answer.
    cut: bool,
}

impl Flow {
    pub fn new(pace: Pace, now: Monotonic) -> Flow {
        Flow {
            pacer: Pacer::new(pace, now),
            next: u64::MAX,
            last: u64::MAX,
            moved: false,
            cut: false,
        }
    }

    /// Records a request for the piece from `at` to `next`. Returns whether it is at an unexpected
    /// position: a start or a seek.
    ///
    /// A repeated request for a piece counts as a seek: the viewer has discarded what they had. So
    /// does the piece after an aborted answer, even if it was expected. A request for a file's
    /// first byte is always a start: it comes from another viewer with the same address and
    /// program, or from the same one starting over. (Segment numbers start at 1.)
    pub fn moves(&mut self, at: u64, next: u64) -> bool {
        self.moved = at == 0 || self.next != at || self.cut;
        self.cut = false;
        self.next = next;
        self.last = at;
        self.moved
    }

    /// Records that the answer starting at `at` was aborted. Returns whether that turns the last
    /// request into a seek: players close one connection and send the next request on another, and
    /// either event may be seen first.
    pub fn is_cut(&mut self, at: u64) -> bool {
        self.cut = self.last == at;
        !self.cut && !std::mem::replace(&mut self.moved, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        Flow::new(Pace::free(20.0, 2.0), Monotonic::from_nanos(0))
    }

    #[test]
    fn segments_in_turn_are_no_seek_and_each_other_is() {
        let mut flow = flow();
        let moves = [1, 2, 3, 4].map(|number| flow.moves(number, number + 1));
        assert_eq!(moves, [true, false, false, false]);
        assert!(flow.moves(9, 10), "over four segments");
        assert!(flow.moves(9, 10), "once more");
        assert!(flow.moves(3, 4), "back again");
    }

    #[test]
    fn what_is_asked_for_after_an_answer_that_was_broken_off_is_a_seek() {
        let mut flow = flow();
        assert!(flow.moves(1, 2));
        assert!(!flow.moves(2, 3));
        assert!(!flow.is_cut(2), "nothing was asked for since");
        assert!(flow.moves(3, 4), "though it was expected");
        assert!(!flow.moves(4, 5), "once");
    }

    #[test]
    fn an_answer_may_be_seen_to_be_broken_off_after_the_next_was_asked_for() {
        let mut flow = flow();
        assert!(flow.moves(1, 2));
        assert!(!flow.moves(2, 3));
        assert!(flow.is_cut(1));
        assert!(!flow.is_cut(1), "once");
        assert!(flow.moves(7, 8));
        assert!(!flow.is_cut(2), "that it was a seek is known");
    }

    #[test]
    fn a_file_read_on_in_ranges_is_no_seek_and_each_other_place_is() {
        let mut flow = flow();
        assert!(flow.moves(0, 1000));
        assert!(!flow.moves(1000, 2000));
        assert!(!flow.moves(2000, 9999), "from where it stood to the end");
        assert!(flow.moves(2000, 9999), "the same once more");
        assert!(flow.moves(5000, 9999), "a seek");
    }

    #[test]
    fn a_file_from_its_first_byte_is_a_start_each_time() {
        let mut flow = flow();
        assert!(flow.moves(0, 9999));
        assert!(flow.moves(0, 9999), "the next one from this address");
    }
}
