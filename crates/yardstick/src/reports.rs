//! What a server's RTCP says (RFC 3550 section 6.4.1), and whether it is true: sender reports tie a
//! track's RTP timestamps to a clock that all tracks share, and players keep sound and picture together
//! by them.

use crate::verdict::{Fault, Finding};

/// Most reports of a track that are kept: hours of them.
const MOST: usize = 10_000;
/// How far the reports of one track may disagree about its clock, ns.
const STEADY: i64 = 20_000_000;
/// Sound and picture further apart than this are noticed (ITU-R BT.1359: 45 ms before, 125 ms after).
const APART: i64 = 45_000_000;
/// How far the film's time of a report may be from that of the packets sent around it, ns.
const BESIDE: i64 = 5_000_000_000;
/// By how many packets a report's count may differ from those sent: reports overtake packets.
const MISCOUNT: i64 = 64;

/// A sender report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderReport {
    /// The server's clock, ns since 1900.
    pub clock: i64,
    /// The same moment in the track's RTP clock.
    pub rtp_time: u32,
    /// Packets sent, by the server's count.
    pub packets: u32,
}

/// What one datagram of RTCP held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compound {
    /// A sender report.
    pub report: Option<SenderReport>,
    /// Whether it said goodbye.
    pub bye: bool,
}

/// Reads a datagram of RTCP.
///
/// # Errors
/// It is none; in words.
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

/// A report with what had come when it came.
#[derive(Clone, Copy, Debug)]
struct ReportSample {
    clock: i64,
    /// The film's time that it names, ns.
    media: i64,
    /// The film's time of the newest packet then.
    newest: i64,
    /// The server's count less our own.
    ahead: i64,
}

/// The reports of a track.
#[derive(Debug, Default)]
pub struct Reports {
    seen: Vec<ReportSample>,
}

impl Reports {
    /// Notes a report that names the film's time `media` (by RTP-Info) when the packets were at `newest`
    /// and `sent` of them were known.
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

    /// The server's clock at the film's zero by the first report, ns.
    fn zero(&self) -> Option<i64> {
        self.seen.first().map(|seen| seen.clock - seen.media)
    }

    /// What is wrong with them.
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

/// Whether sound and picture are together by the sender reports, given their names and reports.
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
