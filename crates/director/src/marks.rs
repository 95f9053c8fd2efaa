//! Firewall marks of packets. Each is the mark of one service in the kernel's table. Pure.
//!
//! The lower 16 bits are the configured mark; all services with it belong to this program. The
//! upper bits say where a packet goes: 0 for the virtual address, 1 for the addresses of films. Any
//! other value stands for one edge: its UDP port for RTP if the port is its own, else its number.

/// Maximum configured mark.
pub(crate) const MOST: u32 = 0xffff;
/// The lowest UDP port that an edge may have for itself. Smaller values stand for edge numbers.
pub(crate) const FIRST_PORT: u16 = 1024;
/// The upper bits of the first edge without a port of its own.
const FIRST_NUMBER: u16 = 2;

/// Returns the mark of packets to addresses of films.
pub(crate) fn films(mark: u32) -> u32 {
    1 << 16 | mark
}

/// Returns the mark of packets to the edge with this number, from 0, and this UDP port for RTP.
pub(crate) fn edge(mark: u32, number: usize, rtp: Option<u16>) -> u32 {
    let number = FIRST_NUMBER.saturating_add(u16::try_from(number).unwrap_or(u16::MAX));
    u32::from(rtp.unwrap_or(number)) << 16 | mark
}

/// Returns the UDP port of an edge's mark; `None` if it has none of its own.
pub(crate) fn port(mark: u32) -> Option<u16> {
    Some((mark >> 16) as u16).filter(|port| *port >= FIRST_PORT)
}

/// Whether `one` is a mark of the director with this configured mark.
pub(crate) fn is_ours(mark: u32, one: u32) -> bool {
    one & MOST == mark
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_another_program_are_not_ours_and_ours_differ() {
        let marks = [
            0x5ee1,
            films(0x5ee1),
            edge(0x5ee1, 0, None),
            edge(0x5ee1, 255, None),
            edge(0x5ee1, 0, Some(FIRST_PORT)),
            edge(0x5ee1, 1, Some(65_534)),
        ];
        assert!(marks.is_sorted_by(|one, other| one < other), "{marks:x?}");
        for ours in marks {
            assert!(is_ours(0x5ee1, ours), "{ours:#x}");
        }
        for other in [0x5ee2, 1 << 16, films(0x5ee2), 0] {
            assert!(!is_ours(0x5ee1, other), "{other:#x}");
        }
        assert_eq!(port(edge(0x5ee1, 3, Some(8002))), Some(8002));
        assert_eq!(port(edge(0x5ee1, 255, None)), None);
    }
}
