//! Checks that a viewer is sent the film from their beginning to its end: each packet once, in
//! order and on time.

use reelway_media::{Nanos, SECOND};
use reelway_playout::{Mishaps, PacketPlace, TrackBeginning};

use crate::config::Rule;
use crate::node::Node;
use crate::viewer::{State, Viewer};

/// A playing viewer may be sent nothing for longer than this only with a cause, ns.
const STANDS: Nanos = SECOND;

impl Node {
    /// Checks that packets leave in the order of the film, with consecutive sequence numbers, and
    /// that only frames that were left out are missing.
    pub fn check_slice(
        &mut self,
        id: u64,
        track: usize,
        (seq, at, preface, gone): (u16, PacketPlace, u16, u32),
        mishaps: &Mishaps,
    ) {
        self.check_mishaps(id, mishaps);
        let Some(viewer) = self.viewers.get(&id) else {
            return;
        };
        let (film, begins, unseen) = (viewer.film, viewer.begins, viewer.unseen);
        let sent = &viewer.sent[track];
        let (expected, next) = (sent.seq, sent.next);
        let place = |at: &PacketPlace| (at.group, at.packet, at.preface.unwrap_or(u16::MAX));
        let due = match next {
            Some(next) if next.packet == self.packets_of(film, track, next.group) => {
                Some(PacketPlace {
                    group: next.group + 1,
                    packet: 0,
                    preface: None,
                })
            }
            Some(next) => Some(next),
            None => self.first_of(film, track, begins).map(|first| PacketPlace {
                preface: (preface > 0).then_some(0),
                ..first
            }),
        };
        let follows = due.as_ref().map(&place) == Some(place(&at));
        // Whole frames of which no packet was sent.
        let missing = match due.filter(|_| !follows && unseen > 0) {
            Some(due) => self.frames_between(film, track, (&due, &at)),
            None => None,
        };
        let right =
            expected == seq && (follows || missing.is_some_and(|missing| missing <= unseen));
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        viewer.unseen -= missing.unwrap_or(0).min(unseen);
        let sent = &mut viewer.sent[track];
        sent.seq = seq.wrapping_add(gone as u16);
        sent.next = Some(match at.preface {
            Some(nth) if u32::from(nth) + gone < u32::from(preface) => PacketPlace {
                preface: Some(nth + gone as u16),
                ..at
            },
            Some(_) => PacketPlace {
                preface: None,
                ..at
            },
            None => PacketPlace {
                packet: at.packet + gone,
                ..at
            },
        });
        if !right {
            let what = format!(
                "viewer {id} is sent {at:?} of track {track} with sequence number {seq} instead of {due:?} with {expected}"
            );
            self.broken(Rule::InOrder, what);
        }
    }

    /// Checks the mishaps of all viewers' streams, whether they are being sent anything or not.
    pub fn check_all_mishaps(&mut self) {
        for id in self.viewers.keys().copied().collect::<Vec<_>>() {
            let place = self.lane.place_of(id);
            let stream = place.and_then(|place| self.lane.stream(place));
            if let Some(mishaps) = stream.map(|stream| *stream.mishaps()) {
                self.check_mishaps(id, &mishaps);
            }
        }
    }

    /// Checks that frames are left out and timetables moved only with a cause.
    fn check_mishaps(&mut self, id: u64, mishaps: &Mishaps) {
        let explained = self.explains(self.now) || self.catches_up(id, self.now);
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        let dropped = mishaps.dropped - viewer.dropped;
        let moved = mishaps.shifts - viewer.shifts;
        (viewer.dropped, viewer.shifts) = (mishaps.dropped, mishaps.shifts);
        viewer.unseen += dropped;
        self.counters.left_out += dropped;
        let explained = explained || viewer.is_late() || viewer.is_behind();
        viewer.moved |= moved > 0;
        if dropped + u64::from(moved) > 0 && !explained {
            let what = format!(
                "{dropped} frames are left out for viewer {id}, and their timetable is moved {moved} times, without a cause"
            );
            self.broken(Rule::SentOnTime, what);
        }
    }

    /// Checks at the end of a viewer's film that all of it was sent.
    pub fn check_whole(&mut self, id: u64, place: u32) {
        let mishaps = self.lane.stream(place).map(|stream| *stream.mishaps());
        if let Some(mishaps) = mishaps {
            self.check_mishaps(id, &mishaps);
        }
        let Some(viewer) = self.viewers.get(&id) else {
            return;
        };
        let (film, begins, mut unseen) = (viewer.film, viewer.begins, viewer.unseen);
        let next = [viewer.sent[0].next, viewer.sent[1].next];
        for track in self.films[film].tracks() {
            let next = match next[track] {
                Some(next) => Some(next),
                None => self.first_of(film, track, begins),
            };
            // A track may have nothing after the beginning.
            let Some(next) = next else {
                continue;
            };
            let last = self.films[film].parts[track].len() as u32 - 1;
            let end = PacketPlace {
                group: last,
                packet: self.packets_of(film, track, last),
                preface: None,
            };
            let missing = self.frames_between(film, track, (&next, &end));
            match missing.filter(|missing| *missing <= unseen) {
                Some(missing) => unseen -= missing,
                None => {
                    let what = format!(
                        "the film ends for viewer {id}, who was sent track {track} only up to {next:?} instead of {end:?}"
                    );
                    self.broken(Rule::InOrder, what);
                }
            }
        }
    }

    /// Once a second: checks that playing viewers are sent their film.
    pub fn check_progress(&mut self) {
        let now = self.now.nanos();
        for id in self.viewers.keys().copied().collect::<Vec<_>>() {
            let plays = |viewer: &&Viewer| {
                viewer.state == State::Playing && !viewer.is_behind() && !viewer.is_late()
            };
            let (Some(_), Some(place)) =
                (self.viewers.get(&id).filter(plays), self.lane.place_of(id))
            else {
                continue;
            };
            let Some(stream) = self.lane.stream(place) else {
                continue;
            };
            if self.explains(self.now) || self.catches_up(id, self.now) {
                continue;
            }
            let at = stream.position(now);
            let stands = stream
                .tracks
                .iter()
                .enumerate()
                .find_map(|(number, track)| {
                    let cursor = &track.cursor;
                    match cursor.head() {
                        _ if cursor.is_done() => None,
                        Some(head) => (head.due + STANDS < at).then_some((number, Some(head.due))),
                        None => {
                            let mut waits = self.waits.range((id, 0, 0, 0)..(id + 1, 0, 0, 0));
                            let is_asked = waits.any(|((_, epoch, of, _), _)| {
                                *of == number && stream.is_at(*epoch)
                            });
                            (!is_asked).then_some((number, None))
                        }
                    }
                });
            if let Some((track, due)) = stands {
                let due = due.map(|due| due as f64 / 1e9);
                let what = format!(
                    "viewer {id} is at {:.3} s, but track {track} is stuck at {due:?}",
                    at as f64 / 1e9
                );
                self.broken(Rule::SentOnTime, what);
            }
        }
    }

    /// Returns the first packet of a track if playback begins at `begins`; `None` if it
    /// has nothing there.
    fn first_of(&mut self, film: usize, track: usize, begins: Nanos) -> Option<PacketPlace> {
        let of = &self.films[film];
        let found = of.script.outline.locate(&of.tracks(), begins).ok()?;
        let TrackBeginning { group, due } = *found.tracks.get(track)?.as_ref()?;
        (group..of.parts[track].len()).find_map(|group| {
            let (plan, _) = self.films[film]
                .plan(&mut self.kept, (track, group), None)
                .ok()?;
            let frame = plan
                .plan
                .frames
                .iter()
                .find(|frame| frame.due >= due || frame.due + frame.duration > due)?;
            Some(PacketPlace {
                group: group as u32,
                packet: frame.packets.start,
                preface: None,
            })
        })
    }

    /// Returns the number of packets in a group's plan.
    fn packets_of(&mut self, film: usize, track: usize, group: u32) -> u32 {
        let plan = self.films[film].plan(&mut self.kept, (track, group as usize), None);
        plan.map_or(0, |(plan, _)| plan.plan.packets.len() as u32)
    }

    /// Returns the number of frames with packets between two positions; `None` if the first
    /// position is within a frame, or after the second.
    fn frames_between(
        &mut self,
        film: usize,
        track: usize,
        (from, to): (&PacketPlace, &PacketPlace),
    ) -> Option<u64> {
        let mut frames = 0;
        if (from.group, from.packet) > (to.group, to.packet) {
            return None;
        }
        for group in from.group..=to.group {
            let plan = self.films[film].plan(&mut self.kept, (track, group as usize), None);
            let (plan, _) = plan.ok()?;
            let first = if group == from.group { from.packet } else { 0 };
            let end = match group == to.group {
                true => to.packet,
                false => plan.plan.packets.len() as u32,
            };
            let all = plan.plan.frames.iter().map(|frame| &frame.packets);
            let mut all = all.filter(|packets| packets.end > first && packets.start < end);
            frames += all.try_fold(0, |frames, packets| {
                (packets.start >= first).then_some(frames + 1)
            })?;
        }
        Some(frames)
    }
}
