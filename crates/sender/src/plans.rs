//! What is sent, group by group: of a film as its packetiser plans it, of any file cut to packets.
//!
//! A [`Script`] is made once for a film and shared by all who watch it, and so are its plans: their bytes are held
//! as long as somebody sends from them, and the plans themselves somewhat longer (`kept.rs`).

mod kept;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use reelway_catalogue::Film;
use reelway_media::{Nanos, TimedSample};
use reelway_rtp::{Bytes, Frame, Packet, Payload, PayloadOptions, Plan};
use reelway_store::{Source, Span};
use reelway_supervise as supervise;
use reelway_timetable::{self as timetable, Leaving};

pub(crate) use self::kept::{Kept, Known};
use crate::planner::Waiter;
use crate::stream::{FileStream, StreamError};

/// Most packets of a group of a plain file: keeps its plan at some 20 KB.
const FILE_GROUP_PACKETS: u64 = 256;
/// What a group is taken to last at least, where its rate is asked for.
const SHORTEST: Nanos = 100_000_000;
/// Most bytes of a group of a plain file.
const FILE_GROUP_BYTES: u64 = 256 << 10;

/// A group ready to be sent: its plan, and its bytes in memory.
#[derive(Debug)]
pub(crate) struct Planned {
    pub plan: Arc<Plan>,
    pub span: Span,
    /// When each frame leaves, where that is not its own time; none otherwise.
    pub leaving: Arc<[Leaving]>,
}

impl Planned {
    fn new(known: Known, span: Span) -> Planned {
        let Known { plan, leaving, .. } = known;
        Planned {
            plan,
            span,
            leaving,
        }
    }
}

/// Film bytes for the packetiser.
struct InSpan<'a>(&'a Span);

impl Bytes for InSpan<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> bool {
        self.0.read_at(offset, buf)
    }
}

/// A plan that exists or is being made.
pub(crate) enum Entry {
    Making {
        /// Who is told when it is there.
        waiters: Vec<Waiter>,
        /// The first byte of the film that is read for it, once that is known.
        begins: Option<u64>,
    },
    Made(Weak<Planned>),
}

/// Number of a track within the script, and of a group within the track.
pub(crate) type GroupId = (usize, usize);

/// What is sent, whoever it is sent to.
pub(crate) struct Script {
    pub source: Arc<Source>,
    kind: Kind,
    /// How far ahead of its time a film is sent at most, so that it is sent evenly.
    ahead: Nanos,
    plans: Mutex<HashMap<GroupId, Entry>>,
    /// Plans of all films that are kept.
    kept: Arc<Mutex<Kept>>,
    /// Its number among them.
    number: u64,
}

enum Kind {
    Film {
        film: Arc<Film>,
        payloads: Vec<Result<Payload, String>>,
    },
    File(Cut),
}

/// How a plain file is cut.
#[derive(Clone, Debug)]
struct Cut {
    bytes: Range<u64>,
    packet_bytes: u64,
    interval: Nanos,
    timestamp_step: u32,
    group_packets: u64,
}

/// Enters the plans that are kept; after a panic under the lock none are.
fn enter(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    supervise::reset(kept, "the plans kept", Kept::forget)
}

/// What must be read for a group.
pub(crate) struct Wanted {
    pub recipe: Recipe,
    pub range: Range<u64>,
}

/// What a group's plan is made from.
pub(crate) enum Recipe {
    /// The plan, made before.
    Known(Known),
    /// Samples of a film; none of a plain file, whose packets need none.
    Samples(Vec<TimedSample>),
}

impl Script {
    /// A film's; the payload formats are made once, here. It is sent evenly, up to `ahead` before its time.
    pub fn film(
        film: Arc<Film>,
        source: Arc<Source>,
        options: PayloadOptions,
        ahead: Nanos,
        kept: &Arc<Mutex<Kept>>,
    ) -> Script {
        let ahead = if film.title.video().is_some() {
            ahead
        } else {
            0
        };
        let payload =
            |track| Payload::new(track, options).map_err(|unsupported| unsupported.reason);
        let payloads = film.title.tracks.iter().map(payload).collect();
        let number = enter(kept).script();
        Script {
            source,
            kind: Kind::Film { film, payloads },
            ahead,
            plans: Mutex::default(),
            kept: Arc::clone(kept),
            number,
        }
    }

    /// A plain file's.
    pub fn file(stream: &FileStream) -> Script {
        let packet_bytes = u64::from(stream.packet_bytes.max(1));
        let len = stream.source.len();
        let most = stream
            .packets
            .and_then(|packets| packets.checked_mul(packet_bytes))
            .unwrap_or(u64::MAX);
        let start = stream.position.min(len);
        let cut = Cut {
            bytes: start..start.saturating_add(most).min(len),
            packet_bytes,
            interval: stream.interval.as_nanos().min(i64::MAX as u128) as Nanos,
            timestamp_step: stream.timestamp_step,
            group_packets: (FILE_GROUP_BYTES / packet_bytes).clamp(1, FILE_GROUP_PACKETS),
        };
        Script {
            source: Arc::clone(&stream.source),
            kind: Kind::File(cut),
            ahead: 0,
            plans: Mutex::default(),
            kept: Arc::default(),
            number: 0,
        }
    }

    /// How far ahead of its time anything may leave.
    pub fn ahead(&self) -> Nanos {
        self.ahead
    }

    /// The film, if it is one.
    pub fn as_film(&self) -> Option<&Arc<Film>> {
        match &self.kind {
            Kind::Film { film, .. } => Some(film),
            Kind::File(_) => None,
        }
    }

    /// Whether a track is a film's picture.
    pub fn is_picture(&self, track: usize) -> bool {
        let film = self.as_film();
        let track = film.and_then(|film| film.title.tracks.get(track));
        track.is_some_and(|track| track.kind == reelway_media::Kind::Video)
    }

    /// Plans by group.
    pub fn plans(&self) -> MutexGuard<'_, HashMap<GroupId, Entry>> {
        // Entries come and go one at a time.
        supervise::whole(self.plans.lock())
    }

    /// The packetiser of a track of a film, or why there is none.
    pub fn payload(&self, track: usize) -> Result<Option<&Payload>, String> {
        match &self.kind {
            Kind::File(_) => Ok(None),
            Kind::Film { payloads, .. } => match payloads.get(track) {
                Some(Ok(payload)) => Ok(Some(payload)),
                Some(Err(reason)) => Err(reason.clone()),
                None => Err(format!("the film has no track number {track}")),
            },
        }
    }

    /// Groups of a track.
    pub fn groups(&self, track: usize) -> usize {
        match &self.kind {
            Kind::Film { film, .. } => film
                .title
                .tracks
                .get(track)
                .map_or(0, |track| track.groups.len()),
            Kind::File(cut) => cut.packets().div_ceil(cut.group_packets) as usize,
        }
    }

    /// When a group's first packet is due on the film's timeline.
    pub fn group_due(&self, track: usize, group: usize) -> Nanos {
        match &self.kind {
            Kind::Film { film, .. } => {
                let track = film.title.tracks.get(track);
                track
                    .and_then(|track| Some(track.decode(track.groups.get(group)?.dts)))
                    .unwrap_or(Nanos::MAX)
            }
            Kind::File(cut) => cut.due(group as u64 * cut.group_packets),
        }
    }

    /// Bytes a second of a track where it is densest, over the time of a group.
    pub fn peak_rate(&self, track: usize) -> u64 {
        let rate = |bytes: u64, nanos: Nanos| {
            let nanos = nanos.max(1) as u128;
            (u128::from(bytes) * 1_000_000_000 / nanos).min(u128::from(u64::MAX)) as u64
        };
        match &self.kind {
            Kind::File(cut) => rate(cut.packet_bytes, cut.interval),
            Kind::Film { film, .. } => {
                let Some(track) = film.title.tracks.get(track) else {
                    return 0;
                };
                let ends = track
                    .groups
                    .iter()
                    .skip(1)
                    .map(|group| track.decode(group.dts));
                let ends = ends.chain([film.title.duration]);
                let groups = track.groups.iter().zip(ends);
                // A group of a few samples at a film's end may be very short.
                let rate = |(group, end): (reelway_media::Group, Nanos)| {
                    let lasts = end.saturating_sub(track.decode(group.dts));
                    rate(group.bytes.into(), lasts.max(SHORTEST))
                };
                groups.map(rate).max().unwrap_or(0)
            }
        }
    }

    /// The group of a plain file whose packets are due at `at`; `None` for a film and for no packets.
    pub fn file_group_at(&self, at: Nanos) -> Option<usize> {
        let Kind::File(cut) = &self.kind else {
            return None;
        };
        let packet = at.checked_div(cut.interval).unwrap_or(0).max(0) as u64;
        let last = self.groups(0).checked_sub(1)?;
        Some(((packet / cut.group_packets) as usize).min(last))
    }

    /// Presentation length.
    pub fn duration(&self) -> Nanos {
        match &self.kind {
            Kind::Film { film, .. } => film.title.duration,
            Kind::File(cut) => cut.due(cut.packets()),
        }
    }

    /// The RTP timestamp of a film position, before the viewer's base is added.
    pub fn rtp_time(&self, track: usize, at: Nanos) -> u32 {
        match &self.kind {
            Kind::File(cut) => {
                let steps = i128::from(at) * i128::from(cut.timestamp_step);
                steps.checked_div(i128::from(cut.interval)).unwrap_or(0) as u32
            }
            Kind::Film { .. } => self
                .payload(track)
                .ok()
                .flatten()
                .map_or(0, |payload| payload.rtp_time(at)),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        enter(&self.kept)
    }

    /// What must be read for a group. Reads the film's index, if the plan is not kept.
    pub fn wanted(&self, id: GroupId) -> Result<Wanted, StreamError> {
        if let Some(known) = self.kept().get((self.number, id)) {
            return Ok(Wanted {
                range: known.range.clone(),
                recipe: Recipe::Known(known),
            });
        }
        let (track, group) = id;
        let film = match &self.kind {
            Kind::File(cut) => {
                return Ok(Wanted {
                    recipe: Recipe::Samples(Vec::new()),
                    range: cut.group_bytes(group),
                });
            }
            Kind::Film { film, .. } => film,
        };
        let samples = film
            .title
            .tracks
            .get(track)
            .map(|of| of.read_group(track, group, &*film.samples))
            .transpose()
            .map_err(|error| StreamError(format!("{}: {error}", film.path.display())))?
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
            recipe: Recipe::Samples(samples),
            range: start..end,
        })
    }

    /// Plans a group whose bytes are in memory.
    pub fn plan(
        &self,
        (track, group): GroupId,
        recipe: Recipe,
        span: Span,
    ) -> Result<Planned, StreamError> {
        let samples = match recipe {
            Recipe::Known(known) => return Ok(Planned::new(known, span)),
            Recipe::Samples(samples) => samples,
        };
        let plan = match &self.kind {
            Kind::File(cut) => cut.plan(group),
            Kind::Film { film, .. } => {
                let fail = |what: &dyn std::fmt::Display| {
                    StreamError(format!("{}: {what}", film.path.display()))
                };
                let payload = self.payload(track).map_err(|reason| fail(&reason))?;
                let plan = payload.map(|payload| payload.plan(&samples, &InSpan(&span)));
                plan.transpose()
                    .map_err(|error| fail(&error))?
                    .unwrap_or_default()
            }
        };
        let known = Known {
            leaving: self.leaving(track, &plan)?.into(),
            plan: Arc::new(plan),
            range: span.range(),
        };
        self.kept()
            .put((self.number, (track, group)), known.clone());
        Ok(Planned::new(known, span))
    }

    /// When the frames of a track's plan leave, if the film is sent ahead: pictures so that the link sees
    /// the mean of what is due soon, sound beside them. Reads the film's index around them.
    fn leaving(&self, track: usize, plan: &Plan) -> Result<Vec<Leaving>, StreamError> {
        let (Some(film), [first, .., last] | [first @ last]) = (self.as_film(), &*plan.frames)
        else {
            return Ok(Vec::new());
        };
        let Some((index, pictures)) = film.title.video().filter(|_| self.ahead > 0) else {
            return Ok(Vec::new());
        };
        let (from, to, ahead) = (first.due, last.due, self.ahead);
        let groups_until = |at: Nanos| {
            let begun = |group: &reelway_media::Group| pictures.decode(group.dts) <= at;
            pictures.groups.partition_point(begun)
        };
        // The picture at or before the first frame is in this group, and all that counts for it up to
        // `ahead` before that.
        let group = groups_until(from).saturating_sub(1);
        let begin = pictures
            .groups
            .get(group)
            .map_or(from, |group| pictures.decode(group.dts).min(from));
        let begin = groups_until(begin.saturating_sub(ahead)).saturating_sub(1);
        // The picture behind the last frame is in the group that begins next, if not before.
        let end = pictures
            .groups
            .get(groups_until(to))
            .map_or(to, |group| pictures.decode(group.dts));
        let end = groups_until(end.saturating_add(ahead)) + 1;
        let mut frames = Vec::new();
        for group in begin..end.min(pictures.groups.len()) {
            let read = pictures
                .read_group(index, group, &*film.samples)
                .map_err(|error| StreamError(format!("{}: {error}", film.path.display())))?;
            frames.extend(read.iter().map(|sample| timetable::Due {
                at: pictures.decode(sample.dts),
                bytes: sample.sample.size,
            }));
        }
        if begin == 0 {
            let before = timetable::from_the_beginning(&frames, ahead);
            frames.splice(..0, before);
        }
        let until = |at: Nanos| frames.partition_point(|frame| frame.at <= at);
        let wanted = until(from).saturating_sub(1)..(until(to) + 1).min(frames.len());
        let sent = timetable::evenly(&frames, wanted, ahead);
        let leaves = |frame: &Frame| {
            let own = sent.binary_search_by_key(&frame.due, |sent| sent.due);
            match own {
                Ok(at) if track == index => sent[at],
                _ => {
                    let first = timetable::beside(&sent, frame.due);
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
}

impl Cut {
    fn packets(&self) -> u64 {
        (self.bytes.end - self.bytes.start).div_ceil(self.packet_bytes)
    }

    fn due(&self, packet: u64) -> Nanos {
        self.interval
            .saturating_mul(packet.min(i64::MAX as u64) as i64)
    }

    fn group_packets(&self, group: usize) -> Range<u64> {
        let first = (group as u64)
            .saturating_mul(self.group_packets)
            .min(self.packets());
        first..(first + self.group_packets).min(self.packets())
    }

    fn bytes_of(&self, packets: Range<u64>) -> Range<u64> {
        let at = |packet: u64| (self.bytes.start + packet * self.packet_bytes).min(self.bytes.end);
        at(packets.start)..at(packets.end)
    }

    fn group_bytes(&self, group: usize) -> Range<u64> {
        self.bytes_of(self.group_packets(group))
    }

    fn plan(&self, group: usize) -> Plan {
        let mut plan = Plan::default();
        for packet in self.group_packets(group) {
            let bytes = self.bytes_of(packet..packet + 1);
            let len = (bytes.end - bytes.start) as u32;
            let number = plan.packets.len() as u32;
            let due = self.due(packet);
            plan.packets
                .push(Packet::of_film(bytes.start, len as u16, false));
            plan.frames.push(Frame {
                due,
                duration: self.interval,
                shown: due,
                rtp_time: (packet as u32).wrapping_mul(self.timestamp_step),
                packets: number..number + 1,
                sync: true,
                droppable: false,
            });
        }
        plan
    }
}
