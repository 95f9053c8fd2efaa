//! The events of a run, line by line: always hashed, and kept as text on request.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// An event. Viewers are numbered from 0 in the order of their arrival.
#[derive(Clone, Debug, Hash)]
pub(crate) enum Line {
    Machine {
        blocks: u32,
        disk: u64,
        depth: usize,
        net: u64,
        asks_again: bool,
        policy: &'static str,
    },
    Film {
        film: usize,
        blocks: u32,
        groups: usize,
        ms: u64,
    },
    Admitted {
        viewer: u64,
        film: usize,
        at_ms: i64,
        starts_in_ms: u64,
    },
    Refused {
        viewer: u64,
        film: usize,
        why: String,
    },
    Asks {
        viewer: u64,
        track: usize,
        group: usize,
        blocks: (u32, u32),
        due_ms: i64,
    },
    Reads {
        film: u32,
        block: u32,
        page: u32,
        until_ms: u64,
    },
    Read {
        film: u32,
        block: u32,
        ok: bool,
    },
    /// A block of a view is made from these blocks of the file.
    Makes {
        film: usize,
        block: u32,
        of: (u32, u32),
    },
    Gets {
        viewer: u64,
        track: usize,
        group: usize,
        ok: bool,
    },
    Nobody {
        tag: u64,
    },
    Requests {
        viewer: u64,
        method: &'static str,
    },
    Answers {
        viewer: u64,
        status: u16,
    },
    Fetches {
        viewer: u64,
        track: usize,
        segment: u32,
        bytes: u64,
    },
    Sends {
        viewer: u64,
        track: usize,
        bytes: u64,
    },
    Given {
        viewer: u64,
        window: u64,
        copies: u64,
    },
    HasRead {
        window: u64,
    },
    Plays {
        viewer: u64,
        at_ms: i64,
    },
    Group {
        viewer: u64,
        track: usize,
        group: usize,
        sent: u64,
    },
    Misses {
        viewer: u64,
        track: usize,
        seq: u16,
    },
    Resends {
        viewer: u64,
        track: usize,
        group: u32,
        packet: u32,
    },
    Late {
        viewer: u64,
        by_us: u64,
        caused: bool,
        short: bool,
        behind: bool,
    },
    Seeks {
        viewer: u64,
        to_ms: i64,
        may: bool,
    },
    Stands {
        viewer: u64,
        millis: u64,
    },
    Pauses {
        viewer: u64,
    },
    Resumes {
        viewer: u64,
        may: bool,
    },
    Leaves {
        viewer: u64,
        why: &'static str,
    },
    Fault {
        what: String,
    },
    ReturnsBlocks {
        blocks: usize,
    },
    Broken {
        rule: &'static str,
        what: String,
    },
    End {
        requests: u64,
        read: u64,
        viewers: u64,
    },
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Machine {
                blocks,
                disk,
                depth,
                net,
                asks_again,
                policy,
            } => write!(
                f,
                "machine: {blocks} blocks, disk {disk} B/s with {depth} concurrent reads, network {net} B/s, cache \
                 policy {policy}, viewers who seek {}",
                if *asks_again {
                    "are judged again"
                } else {
                    "are not judged again"
                }
            ),
            Line::Film {
                film,
                blocks,
                groups,
                ms,
            } => {
                write!(f, "film {film}: {ms} ms, {groups} groups, {blocks} blocks")
            }
            Line::Admitted {
                viewer,
                film,
                at_ms,
                starts_in_ms,
            } => write!(
                f,
                "viewer {viewer} is admitted to film {film} at position {at_ms} ms, and begins in {starts_in_ms} ms"
            ),
            Line::Refused { viewer, film, why } => {
                write!(f, "viewer {viewer} is refused for film {film}: {why}")
            }
            Line::Asks {
                viewer,
                track,
                group,
                blocks,
                due_ms,
            } => write!(
                f,
                "viewer {viewer} asks for group {group} of track {track} (blocks {} to {}), due in {due_ms} ms",
                blocks.0,
                blocks.1.saturating_sub(1)
            ),
            Line::Reads {
                film,
                block,
                page,
                until_ms,
            } => write!(
                f,
                "disk begins to read block {block} of film {film} into page {page}, until {until_ms} ms"
            ),
            Line::Read { film, block, ok } => write!(
                f,
                "disk {} block {block} of film {film}",
                if *ok { "has read" } else { "cannot read" }
            ),
            Line::Makes {
                film,
                block,
                of: (first, end),
            } => write!(
                f,
                "block {block} of film {film} is made from blocks {first} to {} of its file",
                i64::from(*end) - 1
            ),
            Line::Gets {
                viewer,
                track,
                group,
                ok,
            } => write!(
                f,
                "viewer {viewer} {} group {group} of track {track}",
                if *ok { "gets" } else { "does not get" }
            ),
            Line::Nobody { tag } => write!(f, "request {tag} is answered, but nobody waits for it"),
            Line::Requests { viewer, method } => write!(f, "viewer {viewer} sends {method}"),
            Line::Answers { viewer, status } => write!(f, "viewer {viewer} gets status {status}"),
            Line::Fetches {
                viewer,
                track,
                segment,
                bytes,
            } => write!(
                f,
                "viewer {viewer} asks for segment {segment} of track {track}, {bytes} bytes"
            ),
            Line::Sends {
                viewer,
                track,
                bytes,
            } => write!(f, "viewer {viewer} is sent {bytes} bytes of track {track}"),
            Line::Given {
                viewer,
                window,
                copies,
            } => write!(
                f,
                "viewer {viewer}'s connection is given {copies} copies of blocks, in window {window}"
            ),
            Line::HasRead { window } => write!(f, "blocks given in window {window} are read"),
            Line::Plays { viewer, at_ms } => write!(f, "viewer {viewer} plays from {at_ms} ms on"),
            Line::Group {
                viewer,
                track,
                group,
                sent,
            } => {
                write!(
                    f,
                    "viewer {viewer} reaches group {group} of track {track}; the previous group had {sent} packets"
                )
            }
            Line::Misses { viewer, track, seq } => {
                write!(f, "viewer {viewer} misses packet {seq} of track {track}")
            }
            Line::Resends {
                viewer,
                track,
                group,
                packet,
            } => write!(
                f,
                "viewer {viewer} is sent packet {packet} of group {group} of track {track} again"
            ),
            Line::Late {
                viewer,
                by_us,
                caused,
                short,
                behind,
            } => write!(
                f,
                "viewer {viewer} gets blocks {by_us} us late{}",
                match (*caused, *short, *behind) {
                    (true, ..) =>
                        ", which is explained by a fault, by late viewers or by overbooking",
                    (_, true, _) => ", as they were requested shortly before they were due",
                    (.., true) => ", as newcomers' blocks were read first",
                    _ => "",
                }
            ),
            Line::Seeks { viewer, to_ms, may } => write!(
                f,
                "viewer {viewer} {} to {to_ms} ms",
                if *may { "seeks" } else { "may not seek" }
            ),
            Line::Stands { viewer, millis } => {
                write!(f, "viewer {viewer} reads nothing for {millis} ms")
            }
            Line::Pauses { viewer } => write!(f, "viewer {viewer} pauses"),
            Line::Resumes { viewer, may } => write!(
                f,
                "viewer {viewer} {}",
                if *may {
                    "resumes"
                } else {
                    "may not resume yet"
                }
            ),
            Line::Leaves { viewer, why } => write!(f, "viewer {viewer} leaves: {why}"),
            Line::Fault { what } => write!(f, "FAULT: {what}"),
            Line::ReturnsBlocks { blocks } => {
                write!(f, "{blocks} blocks are returned to the pool")
            }
            Line::Broken { rule, what } => write!(f, "VIOLATION of \"{rule}\": {what}"),
            Line::End {
                requests,
                read,
                viewers,
            } => write!(
                f,
                "end: {viewers} viewers were admitted, {requests} requests answered, {read} blocks read"
            ),
        }
    }
}

/// FNV-1a over words: the same in every process, which the standard library's hasher need not be.
struct Words(u64);

impl Words {
    fn word(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 = mixed ^ (mixed >> 29);
    }
}

impl Hasher for Words {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.word(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.word(number);
    }

    fn write_i64(&mut self, number: i64) {
        self.word(number as u64);
    }

    fn write_usize(&mut self, number: usize) {
        self.word(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.word(number as u64);
    }
}

/// The lines of a run.
pub(crate) struct Trace {
    hash: Words,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// Lines are kept only on request: formatting them takes longer than the run.
    pub fn new(kept: bool) -> Trace {
        Trace {
            hash: Words(0xcbf2_9ce4_8422_2325),
            lines: kept.then(Vec::new),
        }
    }

    pub fn note(&mut self, at: Duration, line: &Line) {
        self.hash.word(at.as_nanos() as u64);
        line.hash(&mut self.hash);
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>11.6} {line}", at.as_secs_f64()));
        }
    }

    /// Hashes packets that leave: they are too numerous to be read.
    pub fn slice(&mut self, viewer: u64, seq: u16, packets: u32) {
        self.hash
            .word(viewer << 48 | u64::from(seq) << 32 | u64::from(packets));
    }

    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    pub fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
