//! Requests read from and written to files.
//!
//! **CSV**, one request per line, ordered by time:
//!
//! ```text
//! # film 1500 6000          film 0 has 1500 blocks (objects 0 to 1499) and plays 6000 seconds
//! # film 1240 4960          film 1 has objects 1500 to 2739
//! # warm                    the requests before this line train the policy and are not counted
//! time,id,bytes,viewer,speed
//! 12.5,1500,4194304,7,1     viewer 7 asks for the first block of film 1
//! 90.000,-,0,7              viewer 7 leaves
//! ```
//!
//! Times are seconds since any moment. Viewer (a number above 0) and speed may be missing. If no
//! films are declared, an id is any number, and identifies an object of its own.
//!
//! **oracleGeneral**, as libCacheSim writes it: records of 24 bytes, little-endian: time in seconds (4
//! bytes), id (8), bytes (4), and the number of the next request of the same id (8, not used).
//!
//! **vscsi**, as VMware's tracer writes it and libCacheSim reads it: little-endian records of 32
//! bytes (serial number 4, bytes 4, segments 4, command 2, version 2, first block 8, time in
//! microseconds 8) in version 1, and of 40 bytes (command 2, version 2, serial number 4, bytes 4,
//! segments 4, first block 8, time 8, time of the answer 8) in version 2; the version is the upper
//! byte of its field. An object is identified by its first block.

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::time::Duration;

use reelway_determinism::FixedMap;

use super::{Event, Requests};

/// Maximum number of requests in a trace, which have to fit the machine's memory.
const MOST: usize = 100_000_000;
/// Maximum length of a line, in bytes.
const LINE: u64 = 4096;
/// Maximum number of blocks of all films.
const MOST_BLOCKS: u64 = 1 << 31;

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A line is invalid.
    #[error("line {line}: {what}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The error, and the correct form.
        what: String,
    },
    /// The trace as a whole is invalid.
    #[error("{0}")]
    Whole(String),
    /// It could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A trace while it is read.
#[derive(Default)]
struct Reading {
    requests: Requests,
    /// Objects by their ids, if no films are declared.
    names: FixedMap<u64, u32>,
    /// The most bytes requested of each object.
    bytes: Vec<u32>,
    declared: bool,
    last: u64,
}

impl Reading {
    fn film(&mut self, blocks: u32, seconds: f64) -> Result<(), String> {
        if !self.requests.events.is_empty() {
            return Err("films are declared before the first request".into());
        }
        let all = self.requests.objects() as u64 + u64::from(blocks);
        if blocks == 0 || all > MOST_BLOCKS {
            return Err(format!(
                "a film of {blocks} blocks: from 1 to {MOST_BLOCKS} blocks in all are possible"
            ));
        }
        let duration = Duration::try_from_secs_f64(seconds)
            .map_err(|_| format!("a film of {seconds} seconds: a length above 0 is needed"))?;
        self.declared = true;
        self.requests.add(blocks, duration);
        self.bytes.resize(self.requests.objects(), 0);
        Ok(())
    }

    fn at(&mut self, seconds: f64) -> Result<u64, String> {
        if !(0.0..1e12).contains(&seconds) {
            return Err(format!("time {seconds}: seconds from 0 to 1e12 are needed"));
        }
        let at = (seconds * 1000.0).round() as u64;
        if at < self.last {
            return Err(format!(
                "time {seconds} comes after {}: requests are in the order of time",
                self.last as f64 / 1000.0
            ));
        }
        self.last = at;
        Ok(at)
    }

    fn used(&mut self, at: u64, id: u64, bytes: u32, who: (u32, i16)) -> Result<(), String> {
        if self.requests.events.len() >= MOST {
            return Err(format!("more than {MOST} requests do not fit"));
        }
        let object = if self.declared {
            let objects = self.requests.objects();
            u32::try_from(id)
                .ok()
                .filter(|object| (*object as usize) < objects)
                .ok_or_else(|| {
                    format!(
                        "id {id}: the films declared have blocks 0 to {}",
                        objects - 1
                    )
                })?
        } else {
            let next = self.names.len() as u32;
            let object = *self.names.entry(id).or_insert(next);
            if object == next {
                self.requests.add(1, Duration::ZERO);
                self.bytes.push(0);
            }
            object
        };
        if bytes == 0 {
            return Err("a request for 0 bytes".into());
        }
        let most = &mut self.bytes[object as usize];
        *most = (*most).max(bytes);
        let (viewer, speed) = who;
        self.requests.events.push(Event::Use {
            at,
            object,
            bytes,
            viewer,
            speed,
        });
        Ok(())
    }

    fn end(mut self) -> Result<Requests, TraceError> {
        let is_use = |event: &Event| matches!(event, Event::Use { .. });
        if !self.requests.events.iter().any(is_use) {
            return Err(TraceError::Whole("there is no request in it".into()));
        }
        // If films are declared, all their blocks count, even those that nobody requests.
        let largest = self.bytes.iter().copied().max().unwrap_or(0);
        self.requests.catalogue = match self.declared {
            true => self.requests.objects() as u64 * u64::from(largest),
            false => self.bytes.iter().map(|bytes| u64::from(*bytes)).sum(),
        };
        Ok(self.requests)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(words) = line.strip_prefix('#') {
            let words: Vec<&str> = words.split_whitespace().collect();
            return match words[..] {
                ["film", blocks, seconds, ..] => {
                    self.film(number(blocks, "blocks")?, number(seconds, "seconds")?)
                }
                ["warm", ..] => {
                    self.requests.warm = self.requests.events.len();
                    Ok(())
                }
                // A comment.
                _ => Ok(()),
            };
        }
        let columns: Vec<&str> = line.split(',').map(str::trim).collect();
        let [time, id, bytes, ref rest @ ..] = columns[..] else {
            return Err(
                "time,id,bytes is needed, with viewer,speed after it where they are known".into(),
            );
        };
        if time == "time" && self.requests.events.is_empty() {
            return Ok(());
        }
        let at = number(time, "time").and_then(|time| self.at(time))?;
        let given = |nth: usize| rest.get(nth).copied().filter(|text| !text.is_empty());
        let viewer = given(0).map_or(Ok(0), |text| number(text, "viewer"))?;
        if id == "-" {
            self.requests.events.push(Event::Left { at, viewer });
            return Ok(());
        }
        let speed: f64 = given(1).map_or(Ok(1.0), |text| number(text, "speed"))?;
        if !(-300.0..=300.0).contains(&speed) {
            return Err(format!("speed {speed}: from -300 to 300 is needed"));
        }
        let who = (viewer, (speed * 100.0) as i16);
        self.used(at, number(id, "id")?, number(bytes, "bytes")?, who)
    }
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{what} `{text}`: a number is needed, within its range"))
}

/// Reads a CSV trace.
///
/// # Errors
///
/// The trace is invalid; the error names the line.
pub fn read_csv(mut from: impl BufRead) -> Result<Requests, TraceError> {
    let mut reading = Reading::default();
    let mut text = String::new();
    for line in 1.. {
        text.clear();
        let wrong = |what: String| TraceError::Line { line, what };
        match (&mut from).take(LINE).read_line(&mut text) {
            Ok(0) => break,
            Ok(read) if read as u64 == LINE && !text.ends_with('\n') => {
                return Err(wrong(format!("longer than {LINE} bytes: this is no trace")));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(wrong("no text: this is no CSV trace".into()));
            }
            Err(error) => return Err(error.into()),
        }
        let line = text.trim();
        if !line.is_empty() {
            reading.line(line).map_err(wrong)?;
        }
    }
    reading.end()
}

/// Reads an oracleGeneral trace.
///
/// # Errors
///
/// The trace is invalid; the error names the record's number as its line.
pub fn read_oracle_general(from: impl Read) -> Result<Requests, TraceError> {
    records(from, |record: &[u8; 24]| {
        Ok((
            u64::from(u32_at(record, 0)),
            u64_at(record, 4),
            u32_at(record, 12),
        ))
    })
}

/// Reads a vscsi trace of version 1 or 2.
///
/// # Errors
///
/// The trace is invalid; the error names the record's number as its line.
pub fn read_vscsi(mut from: impl Read) -> Result<Requests, TraceError> {
    // The position of the version depends on the version: its upper byte is byte 15 of a record in
    // version 1, and byte 3 in version 2.
    let mut head = [0; 16];
    from.read_exact(&mut head)?;
    let from = head.as_slice().chain(from);
    let to_seconds = |micros: u64| micros / 1_000_000;
    match (head[3], head[15]) {
        (2, _) => records(from, |record: &[u8; 40]| match record[3] {
            2 => Ok((
                to_seconds(u64_at(record, 24)),
                u64_at(record, 16),
                u32_at(record, 8),
            )),
            other => Err(format!("version {other} among records of version 2")),
        }),
        (_, 1) => records(from, |record: &[u8; 32]| match record[15] {
            1 => Ok((
                to_seconds(u64_at(record, 24)),
                u64_at(record, 16),
                u32_at(record, 4),
            )),
            other => Err(format!("version {other} among records of version 1")),
        }),
        _ => Err(TraceError::Whole(
            "no vscsi trace: its first record has neither version 1 nor 2".into(),
        )),
    }
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([0, 1, 2, 3].map(|nth| record[at + nth]))
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from(u32_at(record, at)) | u64::from(u32_at(record, at + 4)) << 32
}

/// Reads requests from records of one size, each of a time in seconds, an id and bytes.
fn records<const SIZE: usize>(
    mut from: impl Read,
    parse: impl Fn(&[u8; SIZE]) -> Result<(u64, u64, u32), String>,
) -> Result<Requests, TraceError> {
    let mut reading = Reading::default();
    let mut record = [0; SIZE];
    let mut first = None;
    for line in 1.. {
        let mut have = 0;
        while have < SIZE {
            match from.read(&mut record[have..])? {
                0 => break,
                read => have += read,
            }
        }
        if have == 0 {
            break;
        }
        let wrong = |what: String| TraceError::Line { line, what };
        if have < SIZE {
            return Err(wrong(format!("cut off: records have {SIZE} bytes")));
        }
        let used = parse(&record).and_then(|(seconds, id, bytes)| {
            let since = seconds.saturating_sub(*first.get_or_insert(seconds));
            let at = reading.at(since as f64)?;
            reading.used(at, id, bytes, (0, 100))
        });
        used.map_err(wrong)?;
    }
    reading.end()
}

/// Writes requests as a CSV trace from which [`read_csv`] reads the same, to the millisecond.
///
/// # Errors
///
/// Writing fails.
pub fn write_csv(requests: &Requests, mut to: impl Write) -> io::Result<()> {
    for film in &requests.films {
        writeln!(to, "# film {} {}", film.blocks, film.duration.as_secs_f64())?;
    }
    writeln!(to, "time,id,bytes,viewer,speed")?;
    for (number, event) in requests.events.iter().enumerate() {
        if number == requests.warm && number > 0 {
            writeln!(to, "# warm")?;
        }
        let seconds = event.at() as f64 / 1000.0;
        match event {
            Event::Use {
                object,
                bytes,
                viewer,
                speed,
                ..
            } => {
                write!(to, "{seconds},{object},{bytes}")?;
                match viewer {
                    0 => writeln!(to)?,
                    _ => writeln!(to, ",{viewer},{}", f64::from(*speed) / 100.0)?,
                }
            }
            Event::Left { viewer, .. } => writeln!(to, "{seconds},-,0,{viewer}")?,
        }
    }
    to.flush()
}
