//! RTCP to viewers: sender reports.

use std::sync::Arc;

use reelway_rtp::rtcp;
use reelway_sys::udp::UdpSocket;

use crate::packets::FRAMING;
use crate::path::Path;
use crate::streams::{Stream, Track};
use crate::writer::WriterError;

/// Sends sender reports; holds the RTCP sockets and memory for a packet.
pub(crate) struct Reporter {
    pub sockets: Arc<Vec<UdpSocket>>,
    pub cname: String,
    packet: Vec<u8>,
}

impl Reporter {
    pub fn new(sockets: Arc<Vec<UdpSocket>>, cname: String) -> Reporter {
        Reporter {
            sockets,
            cname,
            packet: Vec::with_capacity(256),
        }
    }

    /// Sends a report for every track. If the stream ends here, it includes BYE with the reason
    /// `bye` (empty: none). Fails if the connection is broken.
    pub fn report(&mut self, stream: &Stream, bye: Option<&str>) -> Result<(), WriterError> {
        // Read both clocks once for all tracks.
        let (now, ntp) = both_clocks();
        let mut result = Ok(());
        for track in &stream.tracks {
            let rtp_time = stream.rtp_now(track, now);
            let report = rtcp::SenderReport {
                ssrc: track.ssrc,
                ntp,
                rtp_time,
                packets: track.packets,
                bytes: track.octets,
            };
            result = result.and(self.send(track, &report, bye));
            // Retransmissions are a source of their own with the timestamps of this one (RFC 4588
            // section 4), which exists once a packet was retransmitted.
            if let Some(resend) = track.resend.as_ref().filter(|resend| resend.packets > 0) {
                let report = rtcp::SenderReport {
                    ssrc: resend.ssrc,
                    ntp,
                    rtp_time,
                    packets: resend.packets,
                    bytes: resend.octets,
                };
                result = result.and(self.send(track, &report, bye));
            }
        }
        result
    }

    /// Sends a report over the path of a track.
    fn send(
        &mut self,
        track: &Track,
        report: &rtcp::SenderReport,
        bye: Option<&str>,
    ) -> Result<(), WriterError> {
        self.packet.clear();
        self.packet.extend_from_slice(&[b'$', 0, 0, 0]);
        rtcp::write(report, &self.cname, bye, &mut self.packet);
        match &track.path {
            Path::Udp(udp) if udp.plain => Ok(()),
            // A report that finds no room is superseded by the next one.
            Path::Udp(udp) => {
                if let Some(socket) = self.sockets.get(udp.rtcp_socket) {
                    let _ = socket.send(&self.packet[FRAMING..], &udp.rtcp);
                }
                Ok(())
            }
            Path::Tcp { conn, rtcp, .. } => {
                let bytes = (self.packet.len() - FRAMING) as u16;
                self.packet[1] = *rtcp;
                self.packet[2..FRAMING].copy_from_slice(&bytes.to_be_bytes());
                conn.write(&self.packet).map(drop)
            }
        }
    }
}

/// Returns the monotonic clock in nanoseconds and the wall clock's NTP time of the same moment,
/// from which players compute presentation times. Retries if the thread was interrupted between the
/// readings.
fn both_clocks() -> (u64, u64) {
    /// Maximum time between the readings, ns: a fraction of a timestamp's tick.
    const CLOSE: u64 = 2_000;
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..5 {
        let before = reelway_clock::now().nanos();
        let ntp = reelway_clock::real().ntp();
        let apart = reelway_clock::now().nanos() - before;
        if apart < best.0 {
            best = (apart, before + apart / 2, ntp);
        }
        if apart < CLOSE {
            break;
        }
    }
    (best.1, best.2)
}
