//! The network load of an answer.

/// Bytes on the wire per 16 bytes of an answer: TCP, IP and Ethernet headers add less than a
/// sixteenth.
pub(crate) const WIRE: u64 = 17;

/// Returns the bytes on the wire for `bytes` of an answer.
pub fn on_wire(bytes: u64) -> u64 {
    (bytes / 16).saturating_mul(WIRE).saturating_add(bytes % 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_takes_a_sixteenth_more_on_the_wire() {
        assert_eq!([0, 15, 16, 1600].map(on_wire), [0, 15, 17, 1700]);
        assert_eq!(on_wire(u64::MAX), u64::MAX);
    }
}
