//! How a group becomes packets: the bytes that it needs, and its plan once these are in memory.

use std::ops::Range;
use std::sync::Arc;

use reelway_demand::{self as demand, Leaving};
use reelway_media::{Nanos, TimedSample};
use reelway_rtp::{Bytes, Frame, Plan};

use crate::error::StreamError;
use crate::outline::{Content, Film, GroupId, Outline};

/// What must be read for a group.
pub struct Wanted {
    /// Its samples; empty for a plain file, whose packets need none.
    pub samples: Vec<TimedSample>,
    /// The range of the file.
    pub range: Range<u64>,
}

/// A group's packets, without the film's bytes.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    /// Its frames and packets.
    pub plan: Arc<Plan>,
    /// When each frame leaves, if that differs from its own time; empty otherwise.
    pub leaving: Arc<[Leaving]>,
    /// The range of the file that it is made of.
    pub range: Range<u64>,
}

impl Outline {
    /// Returns what must be read for a group. Reads the film's index.
    pub fn wanted(&self, (track, group): GroupId) -> Result<Wanted, StreamError> {
        let film = match &self.kind {
            Content::File(cut) => {
                return Ok(Wanted {
                    samples: Vec::new(),
                    range: cut.group_bytes(group),
                });
            }
            Content::Film(film) => film,
        };
        let samples = film
            .title
            .tracks
            .get(track)
            .map(|of| of.read_group(track, group, &*film.samples))
            .transpose()
            .map_err(|error| film.fails(&error))?
            .unwrap_or_default();
        let filled = || {
            samples
                .iter()
                .map(|sample| sample.sample.bytes())
                .filter(|bytes| !bytes.is_empty())
        };
        let start = filled().map(|bytes| bytes.start).min().unwrap_or(0);
        let end = filled().map(|bytes| bytes.end).max().unwrap_or(0);
        Ok(Wanted {
            samples,
            range: start..end,
        })
    }

    /// Plans a group whose bytes, `range` of the file, are in memory. Reads the surrounding part of
    /// the film's index.
    pub fn plan(
        &self,
        (track, group): GroupId,
        samples: &[TimedSample],
        bytes: &dyn Bytes,
        range: Range<u64>,
    ) -> Result<GroupPlan, StreamError> {
        let (plan, leaving) = match &self.kind {
            Content::File(cut) => (cut.plan(group), Vec::new()),
            Content::Film(film) => {
                let payload = self.payload(track).map_err(|reason| film.fails(&reason))?;
                let plan = payload.map(|payload| payload.plan(samples, bytes));
                let plan = plan
                    .transpose()
                    .map_err(|error| film.fails(&error))?
                    .unwrap_or_default();
                let leaving = leaving(film, self.ahead(), track, &plan)?;
                (plan, leaving)
            }
        };
        Ok(GroupPlan {
            plan: Arc::new(plan),
            leaving: leaving.into(),
            range,
        })
    }
}

/// Returns when the frames of a track's plan leave if the film is sent ahead: pictures are timed so
/// that the link carries the mean of what is due soon, and sound leaves beside them. Reads the
/// film's index around them.
fn leaving(
    film: &Film,
    ahead: Nanos,
    track: usize,
    plan: &Plan,
) -> Result<Vec<Leaving>, StreamError> {
    let ([first, .., last] | [first @ last]) = &*plan.frames else {
        return Ok(Vec::new());
    };
    let Some((index, pictures)) = film.title.video().filter(|_| ahead > 0) else {
        return Ok(Vec::new());
    };
    let (from, to) = (first.due, last.due);
    let groups_until = |at: Nanos| {
        let begun = |group: &reelway_media::Group| pictures.decode(group.dts) <= at;
        pictures.groups.partition_point(begun)
    };
    // The picture at or before the first frame is in this group; what affects it begins up to
    // `ahead` before that.
    let group = groups_until(from).saturating_sub(1);
    let begin = pictures
        .groups
        .get(group)
        .map_or(from, |group| pictures.decode(group.dts).min(from));
    let begin = groups_until(begin.saturating_sub(ahead)).saturating_sub(1);
    // The picture after the last frame is in the group that begins next, if not earlier.
    let end = pictures
        .groups
        .get(groups_until(to))
        .map_or(to, |group| pictures.decode(group.dts));
    let end = groups_until(end.saturating_add(ahead)) + 1;
    let mut frames = Vec::new();
    for group in begin..end.min(pictures.groups.len()) {
        let read = pictures
            .read_group(index, group, &*film.samples)
            .map_err(|error| film.fails(&error))?;
        frames.extend(read.iter().map(|sample| demand::Due {
            at: pictures.decode(sample.dts),
            bytes: sample.sample.size,
        }));
    }
    if begin == 0 {
        let before = demand::from_the_beginning(&frames, ahead);
        frames.splice(..0, before);
    }
    let until = |at: Nanos| frames.partition_point(|frame| frame.at <= at);
    let wanted = until(from).saturating_sub(1)..(until(to) + 1).min(frames.len());
    let sent = demand::evenly(&frames, wanted, ahead);
    let leaves = |frame: &Frame| {
        let own = sent.binary_search_by_key(&frame.due, |sent| sent.due);
        match own {
            Ok(at) if track == index => sent[at],
            _ => {
                let first = demand::beside(&sent, frame.due);
                Leaving {
                    due: frame.due,
                    first,
                    last: first.saturating_add(frame.duration.max(0)),
                }
            }
        }
    };
    Ok(plan.frames.iter().map(leaves).collect())
}
