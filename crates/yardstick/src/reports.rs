//! Checks of a server's RTCP sender reports (RFC 3550 section 6.4.1). They relate a track's RTP
//! timestamps to a clock that all tracks share, by which players synchronise audio and video.

use crate::verdict::{Fault, Finding};

/// Maximum number of reports per track: several hours.
const MOST: usize = 10_000;
/// Maximum difference between the clocks in one track's reports, in nanoseconds.
const STEADY: i64 = 20_000_000;
/// Offset between audio and video above which it is noticeable, in nanoseconds (ITU-R BT.1359:
/// audio 45 ms early or 125 ms late).
const APART: i64 = 45_000_000;
/// Maximum distance of a report's film time from that of the packets sent around it, in
/// nanoseconds.
const BESIDE: i64 = 5_000_000_000;
/// Maximum difference between a report's packet count and the packets sent, as reports overtake
/// packets.
const MISCOUNT: i64 = 64;

/// A sender report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderReport {
    /// The server's clock in ns since 1900.
    pub clock: i64,
    /// The same moment in the track's RTP clock.
    pub rtp_time: u32,
    /// Number of packets sent, according to the server.
    pub packets: u32,
}

/// The contents of an RTCP datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compound {
    /// A sender report.
    pub report: Option<SenderReport>,
    /// Whether it contains BYE.
    pub bye: bool,
}

/// Parses an RTCP datagram.
///
/// # Errors
/// A description of what is malformed.
pub fn parse(mut compound: &[u8]) -> Result<Compound, String> {
    let mut found = Compound::default();
    while !compound.is_empty() {
        let [first, kind, high, low, ..] = *compound else {
            return Err("RTCP that ends within a header".into());
        };
        let length = 4 * (usize::from(u16::from_be_bytes([high, low])) + 1);
        if first >> 6 != 2 || length > compound.len() {
            return Err("RTCP whose lengths do not fit".into());
        }
        let (packet, rest) = compound.split_at(length);
        let word = |at: usize| {
            let bytes = packet.get(at..at + 4)?;
            Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        match kind {
            200 => {
                let report = || {
                    let seconds = i64::from(word(8)?);
                    let fraction = i64::from(word(12)?);
                    Some(SenderReport {
                        clock: seconds * 1_000_000_000 + ((fraction * 1_000_000_000) >> 32),
                        rtp_time: word(16)?,
                        packets: word(20)?,
                    })
                };
                found.report = Some(report().ok_or_else(|| "a sender report cut off".to_owned())?);
            }
            203 => found.bye = true,
            _ => {}
        }
        compound = rest;
    }
    Ok(found)
}

/// A report, with the state of reception when it arrived.
#[derive(Clone, Copy, Debug)]
struct ReportSample {
    clock: i64,
    /// The film's time in the report, in nanoseconds.
    media: i64,
    /// The film's time of the newest packet at that moment.
    newest: i64,
    /// The server's packet count minus ours.
    ahead: i64,
}

/// The reports of a track.
#[derive(Debug, Default)]
pub struct Reports {
    seen: Vec<ReportSample>,
}

impl Reports {
    /// Adds a report for the film's time `media` (by RTP-Info), received when the newest packet was
    /// at `newest` and `sent` packets were known.
    pub fn add(&mut self, report: SenderReport, media: i64, newest: i64, sent: u64) {
        if self.seen.len() < MOST {
            self.seen.push(ReportSample {
                clock: report.clock,
                media,
                newest,
                ahead: i64::from(report.packets) - sent as i64,
            });
        }
    }

    /// Returns the server's clock at the film's zero by the first report, in nanoseconds.
    fn zero(&self) -> Option<i64> {
        self.seen.first().map(|seen| seen.clock - seen.media)
    }

    /// Returns the findings about the reports.
    pub fn judge(&self, track: &str) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut lie = |words: String| findings.push(Finding::noticed(Fault::SenderReports, words));
        let Some(zero) = self.zero() else {
            return findings;
        };
        let millis = |nanos: i64| nanos / 1_000_000;
        if let Some(off) = self
            .seen
            .iter()
            .map(|seen| seen.clock - seen.media - zero)
            .find(|off| off.abs() > STEADY)
        {
            lie(format!(
                "the sender reports of the {track} contradict each other by {} ms",
                millis(off.abs())
            ));
        }
        if let Some(off) = self
            .seen
            .iter()
            .map(|seen| seen.media - seen.newest)
            .find(|off| off.abs() > BESIDE)
        {
            lie(format!(
                "a sender report of the {track} names a place {} ms beside what is being sent",
                millis(off.abs())
            ));
        }
        let first = self.seen[0].ahead;
        if let Some(off) = self
            .seen
            .iter()
            .map(|seen| seen.ahead - first)
            .find(|off| off.abs() > MISCOUNT)
        {
            lie(format!(
                "the sender reports of the {track} count {} packets {} than came or were missed",
                off.abs(),
                if off > 0 { "more" } else { "fewer" }
            ));
        }
        findings
    }
}

/// Returns a finding if audio and video are not synchronised by the sender reports; `tracks` are
/// names and reports.
pub fn together(tracks: &[(&str, &Reports)]) -> Option<Finding> {
    let mut zeros = tracks
        .iter()
        .filter_map(|(name, reports)| Some((*name, reports.zero()?)));
    let (first, zero) = zeros.next()?;
    let (other, off) = zeros
        .map(|(name, other)| (name, other - zero))
        .max_by_key(|(_, off)| off.abs())?;
    (off.abs() > APART).then(|| {
        Finding::seen(
            Fault::Sync,
            format!(
                "sound and picture are apart: by RTP-Info and sender reports the {other} comes {} ms {} the {first}",
                off.abs() / 1_000_000,
                if off > 0 { "after" } else { "before" },
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(clock: i64) -> SenderReport {
        SenderReport {
            clock,
            rtp_time: 0,
            packets: 0,
        }
    }

    const S: i64 = 1_000_000_000;

    fn reports(offset: impl Fn(i64) -> i64) -> Reports {
        let mut reports = Reports::default();
        for second in 0..5 {
            let media = second * S;
            reports.add(report(100 * S + media + offset(second)), media, media, 0);
        }
        reports
    }

    #[test]
    fn honest_reports_are_believed() {
        let (sound, picture) = (reports(|_| 1_000_000), reports(|_| 0));
        assert!(sound.judge("sound").is_empty());
        assert!(together(&[("picture", &picture), ("sound", &sound)]).is_none());
    }

    #[test]
    fn a_lie_is_named() {
        let jump = reports(|second| if second > 2 { 500_000_000 } else { 0 });
        assert!(jump.judge("sound")[0].words.contains("500 ms"));
        let apart = together(&[
            ("picture", &reports(|_| 0)),
            ("sound", &reports(|_| 300_000_000)),
        ]);
        assert!(apart.unwrap().words.contains("sound comes 300 ms after"));
    }

    #[test]
    fn what_is_no_rtcp_is_told() {
        assert!(parse(&[0x80, 200, 0, 200]).is_err());
        assert!(parse(&[0x80, 200, 0, 1, 0, 0, 0, 0]).is_err());
        assert!(parse(b"GET").is_err());
        let bye = parse(&[0x81, 203, 0, 1, 0, 0, 0, 7]).unwrap();
        assert!(bye.bye && bye.report.is_none());
    }
}
