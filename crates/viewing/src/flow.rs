//! A flow of a viewer: the pieces of a track, or of a file, that they ask for one after the other.

use reelway_time::Monotonic;

use crate::pace::{Pace, Pacer};

/// One flow.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Holds it to the pace.
    pub pacer: Pacer,
    /// Where the next piece is expected: a segment's number, or a file's offset.
    next: u64,
    /// Where the last piece began.
    last: u64,
    /// Whether it was asked for somewhere else than expected.
    moved: bool,
    /// The viewer broke its answer off.
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

    /// The piece from `at` to `next` is asked for; whether that is somewhere else than expected: a
    /// start or a seek.
    ///
    /// A piece that is asked for once more is a seek: the viewer has thrown away what they had. So is the piece after an
    /// answer that was broken off, even if it was expected. And a file from its first byte is a start however often: it is
    /// the next viewer with this address and program, or the same one anew. (Segments count from 1.)
    pub fn moves(&mut self, at: u64, next: u64) -> bool {
        self.moved = at == 0 || self.next != at || self.cut;
        self.cut = false;
        self.next = next;
        self.last = at;
        self.moved
    }

    /// The answer that began at `at` was broken off. Whether that makes what was asked for since a seek: players
    /// close one connection and ask on another, and either may be seen first.
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
