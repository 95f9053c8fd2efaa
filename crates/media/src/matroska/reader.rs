//! Determines which bytes of a file are needed next, until all of its blocks are known.

use std::ops::Range;

use super::block::{Block, BlockError};
use super::chapters;
use super::ebml::{Element, Head, HeadError, LONGEST_HEAD};
use super::entry::{FRAME_HEAD, Wants, wants};
use super::film::{Film, Frames};
use super::ids::{
    ADDITIONS, BLOCK, BLOCK_DURATION, BLOCK_GROUP, CHAPTERS, CLUSTER, EBML, INFO, REFERENCE,
    SEGMENT, SIMPLE_BLOCK, TIMESTAMP, TRACKS, is_in_segment,
};
use super::inside::{Cluster, Found, Group};
use super::text::{self, Text};
use super::tracks::{self, Info, MAX_TRACKS, MOST_BYTES};
use crate::index::{FIRST, IndexOptions, Step, check_whole};
use crate::index_error::{IndexError, IndexErrorKind};
use crate::scratch::Scratch;
use crate::texts::MOST_CUE;
use crate::time::{MAX_SECONDS, SECOND};

/// Bytes requested at an element that may be skipped: its header, and a block's.
const WINDOW: u64 = 32;
/// The longest list of chapters that is read, in bytes.
const MAX_CHAPTERS: u64 = 1 << 20;
/// The longest additions to a text block that are read, in bytes.
const MAX_ADDITIONS: u64 = 4 << 10;
/// The longest block, such that its frames fit their records together with stripped bytes.
const MAX_BLOCK: u64 = (1 << 31) - 1024;
/// The longest header of a block: the sizes of 256 frames.
const MAX_BLOCK_HEAD: u64 = 1 << 20;

/// Returns whether a file that begins with these bytes is Matroska.
pub fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(&EBML.to_be_bytes())
}

/// The current step of indexing.
#[derive(Debug)]
enum Phase {
    /// The elements are being walked.
    Walking,
    /// These bytes of first frames are needed, by track number.
    Heads(Vec<(u64, Range<u64>)>),
    /// Everything is known.
    Known,
}

/// The result of handling an element.
enum Next {
    /// Continue with the next element.
    Element,
    /// So many bytes of this element are needed.
    Bytes(u64),
    /// The film ends here.
    End,
}

/// Walks the elements of a file: it requests the bytes it needs, and is fed them.
#[derive(Debug)]
pub struct Reader {
    len: u64,
    options: IndexOptions,
    phase: Phase,
    /// The offset of the next element.
    at: u64,
    wanted: Range<u64>,
    /// The end of the segment, once it has begun.
    segment: Option<u64>,
    cluster: Option<Cluster>,
    group: Option<Group>,
    samples: u32,
    film: Film,
}

impl Reader {
    /// Creates a reader for a file of `file_len` bytes, whose frames go into scratch space.
    pub fn new(file_len: u64, options: IndexOptions, scratch: &Scratch) -> Self {
        Reader {
            len: file_len,
            options,
            phase: Phase::Walking,
            at: 0,
            wanted: 0..file_len.min(FIRST),
            segment: None,
            cluster: None,
            group: None,
            samples: options.max_samples,
            film: Film::new(scratch),
        }
    }

    /// See [`crate::Indexer::step`].
    pub fn step(&mut self) -> Result<Step, IndexError> {
        match &self.phase {
            Phase::Walking => Ok(Step::Need(self.wanted.clone())),
            Phase::Heads(heads) if !heads.is_empty() => Ok(Step::Need(heads[0].1.clone())),
            _ => std::mem::take(&mut self.film)
                .index(self.len)
                .map(Step::Done),
        }
    }

    /// See [`crate::Indexer::feed`].
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), IndexError> {
        match &mut self.phase {
            Phase::Walking => {
                check_whole(&self.wanted, bytes)?;
                self.walk(bytes)
            }
            Phase::Heads(heads) if !heads.is_empty() => {
                let (track, wanted) = heads.remove(0);
                check_whole(&wanted, bytes)?;
                self.film.heads.insert(track, bytes.to_vec());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Handles all elements that begin in these bytes.
    fn walk(&mut self, bytes: &[u8]) -> Result<(), IndexError> {
        let start = self.wanted.start;
        loop {
            self.leave();
            let have = self
                .at
                .checked_sub(start)
                .and_then(|skipped| bytes.get(skipped as usize..));
            let have = have.unwrap_or_default();
            let left = self.len - self.at;
            let next = match self.segment {
                Some(end) if self.at >= end => Next::End,
                _ if left == 0 => Next::End,
                _ => self.element(have, left)?,
            };
            match next {
                Next::Element => {}
                Next::Bytes(wanted) if have.len() as u64 >= wanted.min(left) => {
                    // The element extends past the end of the file.
                    self.note_cut();
                    return self.end();
                }
                Next::Bytes(wanted) => {
                    self.wanted = self.at..self.at + wanted.min(left);
                    return Ok(());
                }
                Next::End => return self.end(),
            }
        }
    }

    /// Leaves the elements that end here.
    fn leave(&mut self) {
        if let Some(group) = self.group.take_if(|group| self.at >= group.end)
            && let Some(found) = group.block
        {
            self.add(&found, !group.is_referring, group.duration);
        }
        self.cluster
            .take_if(|cluster| cluster.end.is_some_and(|end| self.at >= end));
    }

    /// Handles the element at `self.at`, which begins with `have`; `left` bytes remain in the file.
    fn element(&mut self, have: &[u8], left: u64) -> Result<Next, IndexError> {
        let head = match Head::parse(have) {
            Ok(head) => head,
            Err(HeadError::Short) => return Ok(Next::Bytes((have.len() as u64 + 1).max(WINDOW))),
            Err(HeadError::Wrong) if self.has_frames() => {
                self.note(format!(
                    "{left} bytes from byte {} on are no elements; the film ends there",
                    self.at
                ));
                return Ok(Next::End);
            }
            Err(HeadError::Wrong) => {
                return Err(self.error(
                    self.place(),
                    IndexErrorKind::Damaged,
                    "no element begins here".into(),
                ));
            }
        };
        debug_assert!(head.len <= LONGEST_HEAD);
        let room = left - head.len as u64;
        // An element of unknown size counts as extending to the end of the file.
        let size = head.size.unwrap_or(room);
        let is_cut = size > room;
        if self.segment.is_none() {
            return self.before_segment(head, size, is_cut);
        }
        if head.id == EBML || head.id == SEGMENT {
            self.note(format!(
                "what follows another film from byte {} on is skipped",
                self.at
            ));
            return Ok(Next::End);
        }
        if self.group.is_some() {
            return self.in_group(head, size, have);
        }
        if self.cluster.is_some() {
            if !is_in_segment(head.id) {
                return self.in_cluster(head, size, have);
            }
            self.cluster = None;
        }
        match head.id {
            CLUSTER => {
                self.cluster = Some(Cluster {
                    end: head
                        .size
                        .map(|size| self.at + (head.len as u64).saturating_add(size)),
                    time: 0,
                });
                self.at += head.len as u64;
                Ok(Next::Element)
            }
            INFO | TRACKS => self.whole(head, size, have),
            CHAPTERS if size <= MAX_CHAPTERS && !is_cut => self.whole(head, size, have),
            _ => Ok(self.pass_over(head, size, is_cut)),
        }
    }

    /// Handles an element before the segment.
    fn before_segment(&mut self, head: Head, size: u64, is_cut: bool) -> Result<Next, IndexError> {
        if head.id != SEGMENT {
            return match is_cut || head.size.is_none() {
                true => Err(self.error("EBML", IndexErrorKind::Incomplete, "is not whole".into())),
                false => Ok(self.pass_over(head, size, is_cut)),
            };
        }
        if is_cut {
            let problem = format!("says it is {size} bytes long; the file ends before that");
            return Err(self.error("Segment", IndexErrorKind::Incomplete, problem));
        }
        self.at += head.len as u64;
        self.segment = Some(self.at + size);
        Ok(Next::Element)
    }

    /// Skips an element.
    fn pass_over(&mut self, head: Head, size: u64, is_cut: bool) -> Next {
        if is_cut {
            self.note_cut();
            return Next::End;
        }
        self.at += head.len as u64 + size;
        Next::Element
    }

    /// Reads a whole element.
    fn whole(&mut self, head: Head, size: u64, have: &[u8]) -> Result<Next, IndexError> {
        let name = match head.id {
            INFO => "Segment/Info",
            CHAPTERS => "Segment/Chapters",
            _ => "Segment/Tracks",
        };
        let most = self.options.max_box.min(MOST_BYTES);
        if size > most {
            let problem = format!("takes {size} bytes; {most} are allowed");
            return Err(self.error(name, IndexErrorKind::TooLarge, problem));
        }
        let body = have.get(head.len..);
        let Some(body) = body.and_then(|body| body.get(..size as usize)) else {
            return Ok(Next::Bytes(head.len as u64 + size));
        };
        match head.id {
            INFO => self.film.info = Info::parse(body),
            CHAPTERS => self.film.chapters = chapters::parse(body),
            _ => self.film.take_tracks(self.at, tracks::parse(body)),
        }
        self.at += head.len as u64 + size;
        Ok(Next::Element)
    }

    fn in_cluster(&mut self, head: Head, size: u64, have: &[u8]) -> Result<Next, IndexError> {
        match head.id {
            TIMESTAMP => {
                let Some(time) = number(head, size, have) else {
                    return Ok(Next::Bytes(head.len as u64 + size.min(8)));
                };
                let seconds = u128::from(time) * u128::from(self.film.info.scale) / SECOND as u128;
                if seconds > MAX_SECONDS as u128 {
                    let problem = format!("begins after {seconds} s, which is no film");
                    return Err(self.error("Segment/Cluster", IndexErrorKind::Damaged, problem));
                }
                if let Some(cluster) = &mut self.cluster {
                    cluster.time = time as i64;
                }
            }
            SIMPLE_BLOCK => {
                let found = match self.block(head, size, have)? {
                    Ok(found) => found,
                    Err(wanted) => return Ok(wanted),
                };
                self.add(&found, found.block.keyframe, None);
            }
            BLOCK_GROUP => {
                self.group = Some(Group {
                    end: self.at + head.len as u64 + size,
                    block: None,
                    duration: None,
                    is_referring: false,
                });
                self.at += head.len as u64;
                return Ok(Next::Element);
            }
            _ => {}
        }
        Ok(self.pass_over(head, size, self.at + head.len as u64 + size > self.len))
    }

    fn in_group(&mut self, head: Head, size: u64, have: &[u8]) -> Result<Next, IndexError> {
        match head.id {
            BLOCK => {
                let found = match self.block(head, size, have)? {
                    Ok(found) => found,
                    Err(wanted) => return Ok(wanted),
                };
                if let Some(group) = &mut self.group {
                    group.block = Some(found);
                }
            }
            BLOCK_DURATION => {
                let Some(duration) = number(head, size, have) else {
                    return Ok(Next::Bytes(head.len as u64 + size.min(8)));
                };
                if let Some(group) = &mut self.group {
                    group.duration = Some(duration.min(1 << 40) as i64);
                }
            }
            ADDITIONS if size <= MAX_ADDITIONS => {
                let body = have.get(head.len..);
                let group = self.group.as_mut();
                let text = group.and_then(|group| group.block.as_mut()?.text.as_mut());
                if let Some(text) = text {
                    let Some(body) = body.and_then(|body| body.get(..size as usize)) else {
                        return Ok(Next::Bytes(head.len as u64 + size));
                    };
                    text.settings = text::settings_beside(body);
                }
            }
            REFERENCE => {
                if let Some(group) = &mut self.group {
                    group.is_referring = true;
                }
            }
            _ => {}
        }
        Ok(self.pass_over(head, size, self.at + head.len as u64 + size > self.len))
    }

    /// Reads the header of a block, or returns what is needed for it.
    fn block(&self, head: Head, size: u64, have: &[u8]) -> Result<Result<Found, Next>, IndexError> {
        let end = self.at + head.len as u64 + size;
        if end > self.len {
            return Ok(Err(Next::Bytes(u64::MAX)));
        }
        if size > MAX_BLOCK || end >= 1 << 48 {
            let problem = format!("has a block of {size} bytes up to byte {end}");
            return Err(self.error("Segment/Cluster", IndexErrorKind::TooLarge, problem));
        }
        let body = &have[head.len.min(have.len())..];
        let body = &body[..body.len().min(size as usize)];
        match Block::parse(body, size) {
            Ok(block) if u64::from(self.samples) < block.frames.len() as u64 => {
                let problem = format!("brings more than {} samples", self.options.max_samples);
                Err(self.error("Segment/Cluster", IndexErrorKind::TooLarge, problem))
            }
            Ok(block) => {
                let is_text = self.film.text_of.contains_key(&block.track);
                let mut text = None;
                if is_text && size <= MOST_CUE && block.frames.len() == 1 {
                    if (body.len() as u64) < size {
                        return Ok(Err(Next::Bytes(head.len as u64 + size)));
                    }
                    text = Some(Text {
                        frame: body[block.frames[0].start as usize..].to_vec(),
                        settings: String::new(),
                    });
                }
                let from = self.at + head.len as u64;
                Ok(Ok(Found { block, from, text }))
            }
            Err(BlockError::Short) if have.len() as u64 <= MAX_BLOCK_HEAD => {
                let more = (2 * have.len() as u64).max(WINDOW);
                Ok(Err(Next::Bytes(more.min(head.len as u64 + size))))
            }
            Err(BlockError::Short) => Err(self.error(
                "Segment/Cluster",
                IndexErrorKind::TooLarge,
                "has a block with an endless beginning".into(),
            )),
            Err(BlockError::Wrong(problem)) => Err(self.error(
                "Segment/Cluster",
                IndexErrorKind::Damaged,
                format!("has a block that {problem}"),
            )),
        }
    }

    /// Adds the frames or the cue of a block.
    fn add(&mut self, found: &Found, sync: bool, duration: Option<i64>) {
        let Some(cluster) = &self.cluster else {
            return;
        };
        let Found { block, from, text } = found;
        let shown = cluster.time + i64::from(block.time);
        if self.film.text_of.contains_key(&block.track) {
            if let Some(text) = text {
                self.film.add_cue(block.track, text, shown, duration);
            }
            return;
        }
        let all = &mut self.film.frames;
        if all.len() >= MAX_TRACKS && !all.contains_key(&block.track) {
            return;
        }
        let frames: Vec<Range<u64>> = block
            .frames
            .iter()
            .map(|frame| from + frame.start..from + frame.end)
            .collect();
        self.samples = self.samples.saturating_sub(frames.len() as u32);
        let scratch = &self.film.scratch;
        let of = all.entry(block.track);
        let of = of.or_insert_with(|| Frames::new(scratch));
        of.add(&frames, shown, sync, duration);
    }

    /// Handles the end of the blocks.
    fn end(&mut self) -> Result<(), IndexError> {
        // A truncated group still has its block.
        if let Some(group) = &mut self.group {
            group.end = self.at;
        }
        self.leave();
        let film = &self.film;
        if film.tracks.is_empty() {
            let (kind, problem) = match self.segment {
                Some(_) => (IndexErrorKind::Damaged, "the film has no tracks"),
                None => (IndexErrorKind::Incomplete, "the film has no segment"),
            };
            return Err(self.error(self.place(), kind, problem.into()));
        }
        let heads = film.tracks.iter().filter_map(|track| {
            let first = film.frames.get(&track.number)?.first()?;
            let head = first.start..first.end.min(first.start + FRAME_HEAD);
            let is_wanted = wants(&track.codec) == Wants::FirstFrame && !head.is_empty();
            is_wanted.then_some((track.number, head))
        });
        let heads: Vec<_> = heads.collect();
        self.phase = match heads.is_empty() {
            true => Phase::Known,
            false => Phase::Heads(heads),
        };
        Ok(())
    }

    /// Returns the name of the outermost element.
    fn place(&self) -> &'static str {
        match self.segment {
            Some(_) => "Segment",
            None => "EBML",
        }
    }

    fn has_frames(&self) -> bool {
        !self.film.tracks.is_empty() && !self.film.frames.is_empty()
    }

    fn note_cut(&mut self) {
        self.note(format!(
            "the element at byte {} is cut off; the film ends there",
            self.at
        ));
    }

    fn note(&mut self, note: String) {
        self.film.notes.push(note);
    }

    /// Returns an error that concerns the element at `self.at`.
    fn error(&self, path: &str, kind: IndexErrorKind, problem: String) -> IndexError {
        IndexError {
            path: path.to_owned(),
            offset: self.at,
            problem,
            kind,
        }
    }
}

/// Returns the body of an element as an integer; `None` if it has not been read yet.
fn number(head: Head, size: u64, have: &[u8]) -> Option<u64> {
    let body = have.get(head.len..)?.get(..size.min(8) as usize)?;
    Some(Element { id: head.id, body }.unsigned())
}
