//! The verdict: what a viewer would have seen, in words.

use std::fmt;

use serde::Serialize;

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Nobody listens there, or the way is closed.
    Unreachable,
    /// The server said no.
    Refused,
    /// What answers is not what the address promises.
    NoFilm,
    /// The server broke off, or fell silent.
    BrokenOff,
    /// Packets never came.
    Lost,
    /// The picture stood still.
    Stalled,
    /// Frames were not shown.
    Skipped,
    /// Bytes are not the film's.
    Changed,
    /// What came is another place of the film than the server said.
    Displaced,
    /// Against a standard.
    Malformed,
    /// RTP-Info is not true.
    RtpInfo,
    /// Sender reports are not true.
    SenderReports,
    /// Sound and picture are apart.
    Sync,
    /// Packets came out of order.
    Reordered,
    /// Packets came twice.
    Repeated,
    /// Too many packets at once.
    Burst,
    /// A playlist or manifest is not true, or times have holes.
    Timeline,
    /// Packets were lost and sent again.
    Repaired,
    /// The player that was fed (not the server's fault).
    Player,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub fault: Fault,
    /// Whether a viewer would have seen it.
    pub seen: bool,
    /// In words.
    pub words: String,
}

impl Finding {
    /// Something that a viewer would have seen.
    pub fn seen(fault: Fault, words: impl Into<String>) -> Finding {
        let words = words.into();
        Finding {
            fault,
            seen: true,
            words,
        }
    }

    /// Something wrong that a viewer would not have seen.
    pub fn noticed(fault: Fault, words: impl Into<String>) -> Finding {
        let words = words.into();
        Finding {
            fault,
            seen: false,
            words,
        }
    }
}

/// All that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The worst first.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Of these findings.
    pub fn of(mut findings: Vec<Finding>) -> Verdict {
        findings.sort_by_key(|finding| (!finding.seen, finding.fault));
        Verdict { findings }
    }

    /// Whether it played well.
    pub fn is_well(&self) -> bool {
        !self.findings.iter().any(|finding| finding.seen)
    }

    /// One word for machines: `well`, or the worst fault's.
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
