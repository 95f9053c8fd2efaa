//! The firewall marks of packets, each the mark of one service in the kernel's table. Pure.
//!
//! The lower 16 bits are the configured mark; with all that have them this program does what it likes. The upper ones tell what
//! the packets are: nothing for those to the virtual address, 1 for those to addresses of films, and an edge's UDP port for
//! what viewers send to it alone.

/// The largest configured mark where there are others beside it.
pub(crate) const MOST: u32 = 0xffff;

/// Of packets to addresses of films.
pub(crate) fn films(mark: u32) -> u32 {
    1 << 16 | mark
}

/// Of packets to the edge with this UDP port for RTP.
pub(crate) fn edge(mark: u32, rtp: u16) -> u32 {
    u32::from(rtp) << 16 | mark
}

/// The UDP port of an edge's mark.
pub(crate) fn port(mark: u32) -> u16 {
    (mark >> 16) as u16
}

/// Whether a mark is one of the director's with this configured mark.
pub(crate) fn is_ours(mark: u32, one: u32) -> bool {
    one == mark || (mark <= MOST && one & MOST == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_another_program_are_not_ours() {
        for ours in [
            0x5ee1,
            films(0x5ee1),
            edge(0x5ee1, 8000),
            edge(0x5ee1, u16::MAX),
        ] {
            assert!(is_ours(0x5ee1, ours), "{ours:#x}");
        }
        for other in [0x5ee2, 1 << 16, films(0x5ee2), 0] {
            assert!(!is_ours(0x5ee1, other), "{other:#x}");
        }
        assert_eq!(port(edge(0x5ee1, 8002)), 8002);
        // A large one stands for itself.
        assert!(is_ours(0x1_5ee1, 0x1_5ee1) && !is_ours(0x1_5ee1, 0x2_5ee1));
    }
}
