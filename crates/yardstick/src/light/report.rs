//! RTCP of light viewers, if enabled: receiver reports of losses (RFC 3550 section 6.4.2), as
//! players send them.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};

/// Time between two reports of a stream in nanoseconds.
const EVERY: u64 = 5_000_000_000;

/// Counts of one stream.
#[derive(Debug)]
struct Counted {
    /// First and highest sequence number, extended beyond 16 bits.
    first: u32,
    highest: u32,
    received: u32,
    /// Time of the next report in nanoseconds.
    due: u64,
}

/// Counts packets and sends reports.
#[derive(Debug)]
pub(super) struct Reporter {
    socket: UdpSocket,
    server: SocketAddr,
    streams: HashMap<u32, Counted>,
}

impl Reporter {
    /// Creates a reporter that sends from `socket` to the server's RTCP address.
    pub fn new(socket: UdpSocket, server: SocketAddr) -> Reporter {
        Reporter {
            socket,
            server,
            streams: HashMap::new(),
        }
    }

    /// Counts a packet that arrived at `at` (ns), and sends a report if it is due.
    pub fn packet(&mut self, ssrc: u32, seq: u16, at: u64) {
        let counted = self.streams.entry(ssrc).or_insert(Counted {
            first: seq.into(),
            highest: seq.into(),
            received: 0,
            // Spread, so that streams are not reported all at once.
            due: at + EVERY / 2 + u64::from(ssrc) % (EVERY / 2),
        });
        counted.received += 1;
        let ahead = seq.wrapping_sub(counted.highest as u16);
        if ahead < 0x8000 {
            counted.highest += u32::from(ahead);
        }
        if at < counted.due {
            return;
        }
        counted.due = at + EVERY;
        let expected = counted.highest - counted.first + 1;
        let lost = expected.saturating_sub(counted.received).min(0x7f_ffff);
        let mut report = vec![0x81, 201, 0, 7];
        for word in [1, ssrc, lost, counted.highest, 0, 0, 0] {
            report.extend(word.to_be_bytes());
        }
        // If a report is lost, the next one replaces it.
        let _ = self.socket.send_to(&report, self.server);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_stream_is_reported_every_five_seconds_with_what_never_came() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut reporter = Reporter::new(socket, server.local_addr().unwrap());
        // 20 packets per second across a wrap of the sequence numbers; every tenth is missing.
        for nth in 0..220u32 {
            if nth % 10 != 9 {
                let seq = 65_500u16.wrapping_add(nth as u16);
                reporter.packet(7, seq, u64::from(nth) * 50_000_000);
            }
        }
        let mut report = [0; 64];
        let mut lost = Vec::new();
        for _ in 0..2 {
            let length = server.recv(&mut report).unwrap();
            assert_eq!((length, report[0], report[1]), (32, 0x81, 201));
            let word = |at: usize| u32::from_be_bytes(report[at..at + 4].try_into().unwrap());
            assert_eq!(word(8), 7);
            lost.push(word(12));
        }
        assert!((4..=10).contains(&lost[0]), "{lost:?}");
        assert_eq!(
            lost[1],
            lost[0] + 10,
            "of a hundred packets in five seconds"
        );
    }
}
