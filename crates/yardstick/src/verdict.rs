//! The verdict: what a person would have noticed, in words.

use std::fmt;

use serde::Serialize;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Nothing listens at the address, or it cannot be reached.
    Unreachable,
    /// The server refused.
    Refused,
    /// The answer is not what the URL promises.
    NoFilm,
    /// The server broke off or fell silent.
    BrokenOff,
    /// Packets never arrived.
    Lost,
    /// Playback stalled.
    Stalled,
    /// Frames were not shown.
    Skipped,
    /// Bytes differ from the film's.
    Changed,
    /// Media belongs to another place in the film than the server announced.
    Displaced,
    /// A violation of a standard.
    Malformed,
    /// RTP-Info is wrong.
    RtpInfo,
    /// Sender reports are wrong.
    SenderReports,
    /// Audio and video are not synchronised.
    Sync,
    /// Packets arrived out of order.
    Reordered,
    /// Packets arrived twice.
    Repeated,
    /// Too many packets arrived at once.
    Burst,
    /// A playlist or manifest is wrong, or times have gaps.
    Timeline,
    /// Packets were lost and retransmitted.
    Repaired,
    /// A player could not be fed (not the server's fault).
    Player,
}

/// A single finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind of fault.
    pub fault: Fault,
    /// Whether a person would have noticed it.
    pub seen: bool,
    /// A description.
    pub words: String,
}

impl Finding {
    /// Creates a finding that a person would have noticed.
    pub fn seen(fault: Fault, words: impl Into<String>) -> Finding {
        let words = words.into();
        Finding {
            fault,
            seen: true,
            words,
        }
    }

    /// Creates a finding that a person would not have noticed.
    pub fn noticed(fault: Fault, words: impl Into<String>) -> Finding {
        let words = words.into();
        Finding {
            fault,
            seen: false,
            words,
        }
    }
}

/// All findings of a viewer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The findings, worst first.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Creates a verdict from these findings.
    pub fn of(mut findings: Vec<Finding>) -> Verdict {
        findings.sort_by_key(|finding| (!finding.seen, finding.fault));
        Verdict { findings }
    }

    /// Whether it played well.
    pub fn is_well(&self) -> bool {
        !self.findings.iter().any(|finding| finding.seen)
    }

    /// Returns one word for machines: `well`, or the worst fault's name.
    pub fn word(&self) -> String {
        let worst = self.findings.iter().find(|finding| finding.seen);
        worst.map_or_else(|| "well".to_owned(), |finding| finding.fault.to_string())
    }

    /// Whether this fault is among the findings.
    pub fn names(&self, fault: Fault) -> bool {
        self.findings.iter().any(|finding| finding.fault == fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Fault::Unreachable => "unreachable",
            Fault::Refused => "refused",
            Fault::NoFilm => "no_film",
            Fault::BrokenOff => "broken_off",
            Fault::Lost => "lost",
            Fault::Stalled => "stalled",
            Fault::Skipped => "skipped",
            Fault::Changed => "changed",
            Fault::Displaced => "displaced",
            Fault::Malformed => "malformed",
            Fault::RtpInfo => "rtp_info",
            Fault::SenderReports => "sender_reports",
            Fault::Sync => "sync",
            Fault::Reordered => "reordered",
            Fault::Repeated => "repeated",
            Fault::Burst => "burst",
            Fault::Timeline => "timeline",
            Fault::Repaired => "repaired",
            Fault::Player => "player",
        };
        f.write_str(word)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}",
            match (self.is_well(), self.findings.is_empty()) {
                (true, true) => "played well",
                (true, false) => "played well; also noticed:",
                (false, _) => "did not play well:",
            }
        )?;
        for finding in &self.findings {
            let mark = if finding.seen { "✗" } else { "·" };
            writeln!(f, "  {mark} {}", finding.words)?;
        }
        Ok(())
    }
}
