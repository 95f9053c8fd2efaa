//! The outcome of one viewer over any protocol: figures and a verdict.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;

use crate::course::Course;
use crate::histogram::Histogram;
use crate::pipe::Fed;
use crate::playback::Playback;
use crate::rtsp::Watched;
use crate::story::{Story, TrackStory};
use crate::trouble::Trouble;
use crate::verdict::{Fault, Finding, Verdict};

/// Packets of a stream within a millisecond that the queues of small routers can hold. Larger
/// bursts are reported, even if nothing was lost here.
pub const HOME_QUEUE: u32 = 50;

/// The outcome of one viewer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// The requested URL.
    pub url: String,
    /// `RTSP over UDP`, `HLS`, …
    pub protocol: String,
    /// What a person would have noticed.
    pub verdict: Verdict,
    /// Time from the request to play to the first media, in milliseconds.
    pub start_ms: Option<f64>,
    /// Time from the request to the first picture, with the buffer filled, in milliseconds.
    pub shown_ms: Option<f64>,
    /// What the player showed.
    pub playback: Playback,
    /// Packets or segments that arrived.
    pub packets: u64,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// Packets that never arrived.
    pub lost: u64,
    /// Packets that arrived out of order.
    pub reordered: u64,
    /// Packets that arrived twice.
    pub repeated: u64,
    /// Access units compared with the film.
    pub compared: u64,
    /// Maximum number of packets within a millisecond.
    pub burst: u32,
    /// Packets that were lost, requested and retransmitted in time.
    pub repaired: u64,
    /// Number of packets from each sender, if several sent one stream.
    pub senders: BTreeMap<SocketAddr, u64>,
    /// What was fed to a player.
    pub fed: Option<Fed>,
    /// Lateness of access units (or segments).
    #[serde(skip)]
    pub late: Histogram,
    /// Playback second by second.
    #[serde(skip)]
    pub course: Course,
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// `1 packet`, `2 packets`.
pub(crate) fn many(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Converts what stopped a viewer into a finding.
pub fn trouble(trouble: &Trouble) -> Finding {
    let fault = match trouble {
        Trouble::Unreachable(..) => Fault::Unreachable,
        Trouble::Refused { .. } => Fault::Refused,
        Trouble::Protocol(_) => Fault::NoFilm,
        Trouble::Io(_) | Trouble::Silence(_) => Fault::BrokenOff,
    };
    let words = match trouble {
        Trouble::Unreachable(authority, error) => {
            format!("{authority} cannot be reached: {error}; is the server running there?")
        }
        Trouble::Refused {
            method,
            status,
            reason,
        } => format!("the server refused {method}: {status} {reason}"),
        other => other.to_string(),
    };
    Finding::seen(fault, words)
}

impl Outcome {
    /// Creates the outcome of a play over RTSP with a buffer of `depth`; `agreed` is the agreed
    /// number of packets within a millisecond (0: none).
    pub fn of_rtsp(
        url: &str,
        tcp: bool,
        watched: &Watched,
        depth: Duration,
        agreed: u32,
    ) -> Outcome {
        let story = &watched.story;
        let mut findings: Vec<Finding> = watched.trouble.iter().map(trouble).collect();
        if let (Some(finding), true) = (findings.first_mut(), story.start.is_some()) {
            // Playback had begun.
            finding.fault = Fault::BrokenOff;
            finding.words = format!(
                "the film broke off after {:.1} s: {}",
                (story.last - story.from) as f64 / 1e9,
                finding.words
            );
        }
        findings.extend(story.lies.iter().cloned());
        findings.extend(packets(story));
        findings.extend(shown(&story.playback));
        findings.extend(bytes(&story.tracks));
        findings.extend(bursts(story, tcp, agreed));
        findings.extend(watched.fed.as_ref().and_then(feeding));
        // Servers may send each track from a port of its own, which still counts as one sender.
        let several = story.tracks.iter().any(|track| track.senders.len() > 1);
        let mut senders = BTreeMap::new();
        for (from, packets) in story.tracks.iter().flat_map(|track| &track.senders) {
            *senders.entry(*from).or_insert(0) += packets;
        }
        let total = |field: fn(&TrackStory) -> u64| story.tracks.iter().map(field).sum();
        Outcome {
            url: url.to_owned(),
            protocol: format!("RTSP over {}", if tcp { "TCP" } else { "UDP" }),
            verdict: Verdict::of(findings),
            start_ms: story.start.map(millis),
            shown_ms: story.start.map(|start| millis(start + depth)),
            playback: story.playback.clone(),
            packets: total(|track| track.packets),
            bytes: total(|track| track.bytes),
            lost: story.lost(),
            reordered: total(|track| track.reordered),
            repeated: total(|track| track.repeated),
            compared: total(|track| track.units),
            burst: story.burst,
            repaired: total(|track| track.repaired),
            senders: if several { senders } else { BTreeMap::new() },
            fed: watched.fed.clone().and_then(Result::ok),
            late: story.late(),
            course: story.course.clone(),
        }
    }
}

impl Outcome {
    /// Creates the outcome of a play over HTTP.
    pub fn of_http(url: &str, watched: &crate::http::Watched) -> Outcome {
        let mut findings: Vec<Finding> = watched.trouble.iter().map(trouble).collect();
        if let (Some(finding), true) = (findings.first_mut(), watched.segments > 0) {
            // Playback had begun.
            finding.fault = Fault::BrokenOff;
            finding.words = format!(
                "the film broke off after {}: {}",
                many(watched.segments, "segment"),
                finding.words
            );
        }
        findings.extend(watched.findings.iter().cloned());
        findings.extend(shown(&watched.playback));
        findings.extend(bytes(&watched.tracks));
        let is_dash = url
            .split('?')
            .next()
            .is_some_and(|url| url.ends_with(".mpd"));
        Outcome {
            url: url.to_owned(),
            protocol: if is_dash { "DASH" } else { "HLS" }.to_owned(),
            verdict: Verdict::of(findings),
            start_ms: watched.start.map(millis),
            shown_ms: watched.shown.map(millis),
            playback: watched.playback.clone(),
            packets: watched.segments,
            bytes: watched.bytes,
            compared: watched.tracks.iter().map(|track| track.units).sum(),
            late: watched.late.clone(),
            course: watched.course.clone(),
            ..Outcome::default()
        }
    }
}

/// Returns findings about packets (missing, out of order, repeated), early ends and RFC violations.
fn packets(story: &Story) -> Vec<Finding> {
    let mut findings = Vec::new();
    for track in &story.tracks {
        let name = track.kind();
        if track.packets == 0 && story.start.is_some() {
            findings.push(Finding::seen(
                Fault::Lost,
                format!("nothing of the {name} arrived"),
            ));
        }
        if track.lost > 0 {
            let share = 100.0 * track.lost as f64 / (track.lost + track.packets) as f64;
            findings.push(Finding::seen(
                Fault::Lost,
                format!(
                    "{} of the {name} never arrived ({share:.2}%)",
                    many(track.lost, "packet")
                ),
            ));
        }
        if track.reordered > 0 {
            findings.push(Finding::noticed(
                Fault::Reordered,
                format!(
                    "{} of the {name} arrived out of order, {} of them too late for the buffer",
                    many(track.reordered, "packet"),
                    track.too_late
                ),
            ));
        }
        if track.repaired > 0 {
            findings.push(Finding::noticed(
                Fault::Repaired,
                format!(
                    "{} of the {name} were lost, and retransmitted in time on request",
                    many(track.repaired, "packet")
                ),
            ));
        }
        if track.repeated > 0 {
            findings.push(Finding::noticed(
                Fault::Repeated,
                format!(
                    "{} of the {name} arrived twice",
                    many(track.repeated, "packet")
                ),
            ));
        }
        if let Some(wrong) = &track.wrong {
            findings.push(Finding::seen(
                Fault::Malformed,
                format!("the {name} violates the standard: {wrong}"),
            ));
        }
    }
    if let (true, Some(to)) = (story.ended, story.to) {
        let short = to - story.last;
        if short > SHORT {
            findings.push(Finding::seen(
                Fault::BrokenOff,
                format!(
                    "the server ended the film {:.1} s before its end",
                    short as f64 / 1e9
                ),
            ));
        }
    }
    findings
}

/// Maximum shift between the tracks of a film, in nanoseconds.
const SAME_ZERO: i64 = 2_000_000;
/// Maximum part of a film that may be missing at its end, in nanoseconds: tracks differ in length.
const SHORT: i64 = 1_500_000_000;

/// Returns findings about what the player could not show.
pub(crate) fn shown(playback: &Playback) -> Vec<Finding> {
    let mut findings = Vec::new();
    if playback.stalls > 0 {
        findings.push(Finding::seen(
            Fault::Stalled,
            format!(
                "playback stalled {}, {:.2} s in total, {:.2} s at the longest",
                many(playback.stalls.into(), "time"),
                playback.stalled as f64 / 1e9,
                playback.longest_stall as f64 / 1e9
            ),
        ));
    }
    if playback.skipped > 0 {
        findings.push(Finding::seen(
            Fault::Skipped,
            format!(
                "{} of picture or sound could not be shown",
                many(playback.skipped, "frame")
            ),
        ));
    }
    findings
}

/// Returns findings about differences from the film.
pub(crate) fn bytes(tracks: &[TrackStory]) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The server chooses where a film's zero lies, as long as all tracks share it.
    let first = tracks.first().and_then(|track| track.displaced_by);
    let shifted = first.is_some_and(|first| {
        let by = |track: &TrackStory| track.displaced_by;
        tracks
            .iter()
            .all(|track| by(track).is_some_and(|by| (by - first).abs() < SAME_ZERO))
    });
    for track in tracks {
        let name = track.kind();
        let mut count = |frames: u64, fault, (one, more): (&str, &str), what: &str| {
            if frames > 0 {
                let does = if frames == 1 { one } else { more };
                let words = format!("{} of the {name} {does} {what}", many(frames, "frame"));
                findings.push(Finding::seen(fault, words));
            }
        };
        count(
            track.different,
            Fault::Changed,
            ("differs", "differ"),
            "from the film's: bytes were changed",
        );
        let are = ("is", "are");
        count(track.unknown, Fault::Changed, are, "not in the film");
        // Frames with lost or late packets are incomplete, so they do not count as left out.
        if track.lost == 0 && track.too_late == 0 && track.displaced == 0 {
            count(
                track.missing,
                Fault::Skipped,
                ("was", "were"),
                "left out although no packet is missing",
            );
        }
        if let (Some(by), false) = (track.displaced_by, shifted) {
            findings.push(Finding::noticed(
                Fault::Displaced,
                format!(
                    "{} of the {name} belong to another time of the film than the server says: {} ms {}",
                    many(track.displaced, "frame"),
                    by.abs() / 1_000_000,
                    if by > 0 { "later" } else { "earlier" }
                ),
            ));
        }
    }
    findings
}

/// Returns a finding if a player could not be fed.
fn feeding(fed: &Result<Fed, String>) -> Option<Finding> {
    let words = match fed {
        Err(why) => format!("the player that was fed: {why}"),
        Ok(fed) if fed.left_out > 0 => format!(
            "{} did not reach the player that was fed: it did not read, or was closed",
            many(fed.left_out, "access unit")
        ),
        Ok(fed) if fed.tracks_left_out > 0 => format!(
            "{} could not be fed to the player: only H.264, H.265, AAC and Opus can",
            many(fed.tracks_left_out as u64, "track")
        ),
        Ok(_) => return None,
    };
    Some(Finding::noticed(Fault::Player, words))
}

fn bursts(story: &Story, tcp: bool, agreed: u32) -> Option<Finding> {
    if tcp {
        return None;
    }
    if agreed > 0 && story.burst > agreed {
        return Some(Finding::seen(
            Fault::Burst,
            format!(
                "bursts of up to {} packets within a millisecond, where {agreed} are allowed",
                story.burst
            ),
        ));
    }
    let packets: u64 = story.tracks.iter().map(|track| track.packets).sum();
    let seconds = (story.last - story.from).max(1_000_000) as f64 / 1e9;
    (story.burst > HOME_QUEUE).then(|| {
        Finding::noticed(
            Fault::Burst,
            format!(
                "a burst of {} packets within a millisecond, {:.0} times the mean rate: small routers' queues overflow",
                story.burst,
                f64::from(story.burst) / (packets as f64 / seconds / 1000.0)
            ),
        )
    })
}
