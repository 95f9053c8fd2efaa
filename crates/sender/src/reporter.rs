//! Sender reports: what is sent to viewers over RTCP.

use std::sync::Arc;

use reelway_rtp::rtcp;
use reelway_sys::udp::UdpSocket;

use crate::packets::FRAMING;
use crate::path::Path;
use crate::streams::{Stream, Track};
use crate::writer::WriterError;

/// Sends sender reports: the RTCP sockets, and memory for a packet.
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

    /// Sends a report for every track, with BYE and the reason for it (none: empty) if it ends here. An error: the way there
    /// is broken.
    pub fn report(&mut self, stream: &Stream, bye: Option<&str>) -> Result<(), WriterError> {
        // One reading of both clocks for all tracks.
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
            // What is sent again is a source of its own, with the timestamps of this one (RFC 4588
            // section 4); it is there once something was.
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

    /// Sends a report the way of a track's reports.
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
            // A report that finds no room is made up for by the next one.
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

/// Nanoseconds of the monotonic clock and the wall clock's NTP time of the same moment: players work out
/// presentation times from the pair. A thread held up between the readings tries again.
fn both_clocks() -> (u64, u64) {
    /// Most nanoseconds between the readings: a fraction of a timestamp's tick.
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
