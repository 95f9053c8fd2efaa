//! The lane's turns, and the kernel that takes its packets: all at once, unless a
//! fault prevents that.

use std::sync::Arc;

use reelway_demand::Carriage;
use reelway_playout::{
    Again, Cursor, Effect, Job, NewStream, OnLink, Resend, State as Stands, StreamError, TURN,
    Track,
};
use reelway_rtsp::machine::Event as What;
use reelway_time::Monotonic;

use crate::client::name_of;
use crate::config::Rule;
use crate::node::Node;
use crate::stream::{Nothing, Stream};
use crate::trace::Line;
use crate::viewer::{State, Viewer};
use crate::world::LATE;

impl Node {
    /// Begins to prepare a viewer's stream.
    pub fn prepare(&mut self, id: u64) {
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        viewer.state = State::Preparing;
        viewer.begins = viewer.at;
        let (film, at, sent) = (viewer.film, viewer.at, viewer.sent.clone());
        let carriage = viewer.carriage();
        let script = Arc::clone(&self.films[film].script);
        let is_lossy = carriage != Carriage::Tcp && self.wire.is_lossy();
        let track = |number: usize| {
            let outline = &script.outline;
            let payload = outline.payload(number).ok().flatten();
            let preface = payload.map_or(0, |payload| payload.preface().packets.len());
            Track {
                ssrc: id as u32 * 2 + number as u32,
                rtp_base: 0,
                packets: 0,
                octets: 0,
                seq: sent[number].seq,
                payload_type: 96 + number as u8,
                resend: is_lossy.then(|| {
                    Box::new(Resend::new(Again {
                        payload_type: 106 + number as u8,
                        ssrc: (1 << 24) + id as u32 * 2 + number as u32,
                        seq: 0,
                    }))
                }),
                cursor: Cursor::new(
                    number,
                    outline.groups(number),
                    preface as u32,
                    self.rules.burst,
                    true,
                ),
                path: Nothing,
            }
        };
        let numbers = self.films[film].tracks();
        let tracks = numbers.iter().map(|number| track(*number)).collect();
        let link = self.way.as_ref().map(|way| {
            let peaks = numbers.iter();
            let peak = peaks.map(|number| script.outline.peak_rate(*number)).sum();
            Box::new(OnLink::new(Arc::clone(way), self.rules.link_ahead, peak))
        });
        let stream = Stream::new(NewStream {
            id,
            script,
            tracks,
            carriage,
            held: false,
            link,
            rules: Arc::clone(&self.rules),
            wish: (at, None),
            reply: id,
            owner: Nothing,
        });
        self.lane.add(Box::new(stream));
        self.acts();
    }

    /// Runs a turn of the lane that was due at `meant`.
    pub fn turn(&mut self, meant: u64) {
        let now = self.now.nanos();
        if now.saturating_sub(meant) > self.rules.catch_up {
            self.lane.stood_still(now - meant);
        }
        self.tells_link();
        self.lane.turn(now);
        let mut jobs = std::mem::take(&mut self.jobs);
        let mut connections = Vec::new();
        while self.lane.poll(now, &mut jobs, &mut connections) {
            self.acts();
            for job in jobs.drain(..) {
                self.send(&job);
            }
            self.write(&mut connections);
            self.lane.settle(now);
            self.acts();
        }
        self.jobs = jobs;
        self.send_lost();
        self.check_all_mishaps();
    }

    /// Carries out the lane's effects.
    pub fn acts(&mut self) {
        while let Some((place, effect)) = self.lane.effect() {
            let Some(stream) = self.lane.stream(place) else {
                continue;
            };
            let id = stream.id();
            match effect {
                Effect::Locate { epoch, wish } => {
                    let tracks: Vec<usize> = (0..stream.tracks.len()).collect();
                    let found = stream.script().outline.locate(&tracks, wish);
                    self.lane.located(id, epoch, found, self.now.nanos());
                }
                Effect::Want(want) => self.want(id, want),
                Effect::Answer(_, answer) if self.is_over_rtsp(id) => {
                    self.ready_over_rtsp(id, answer);
                }
                Effect::Answer(_, answer) => self.answered(id, answer.map(|info| info.start)),
                Effect::State(Stands::Ended) if self.is_over_rtsp(id) => {
                    self.check_whole(id, place);
                    self.finished_over_rtsp(id)
                }
                Effect::Failed(error) if self.is_over_rtsp(id) => {
                    self.judges_end(id, &error);
                    let (session, reason) = (name_of(id), error.to_string());
                    self.happens_over_rtsp(What::Failed { session, reason });
                }
                Effect::State(Stands::Ended) => {
                    self.check_whole(id, place);
                    self.leave(id, "the film has ended");
                }
                Effect::Failed(error) => {
                    let why = self.judges_end(id, &error);
                    self.leave(id, why);
                }
                Effect::State(_) | Effect::Report { .. } => {}
            }
        }
    }

    /// Handles a stream that ends with an error, and returns why the viewer leaves. No viewer who
    /// reads may be disconnected.
    fn judges_end(&mut self, id: u64, error: &StreamError) -> &'static str {
        if !error.to_string().contains("disconnected") {
            self.counters.failed += 1;
            return "the film cannot be read";
        }
        self.counters.disconnected += 1;
        if !self.viewers.get(&id).is_some_and(Viewer::is_behind) {
            let what = format!("viewer {id} is disconnected, but did read: {error}");
            self.broken(Rule::OnTime, what);
        }
        "they read nothing for too long"
    }

    /// Handles a viewer's stream that is ready, or that has failed.
    fn answered(&mut self, id: u64, begins: Result<i64, StreamError>) {
        let Ok(at) = begins else {
            self.counters.failed += 1;
            return self.leave(id, "the film cannot be read");
        };
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        let first = std::mem::take(&mut viewer.is_new);
        // The first play is judged from where it really begins.
        if first && !self.rebook(id, at, true) {
            self.counters.refused += 1;
            return self.leave(id, "there is no room for them any more");
        }
        if let Some(viewer) = self.viewers.get_mut(&id) {
            viewer.state = State::Playing;
        }
        let at_ms = at / 1_000_000;
        self.note(&Line::Plays { viewer: id, at_ms });
        self.lane.go(id, self.now.nanos());
    }

    /// Hands packets to the kernel.
    fn send(&mut self, job: &Job) {
        let Some(stream) = self.lane.stream(job.place) else {
            return;
        };
        let (id, track) = (stream.id(), &stream.tracks[job.due.track]);
        let cap = track.cursor.head().map_or(0, |head| head.cap);
        let (seq, at, mishaps) = (track.seq, track.cursor.at(), *stream.mishaps());
        let all = job.due.end - job.due.first;
        let (taken, refused) = self.kernel.takes(self.now, all, &mut self.random);
        let gone = taken + refused;
        self.trace.slice(id, seq, gone);
        if gone > 0 {
            self.check_announced(id, job.due.track, seq);
        }
        if let Some((at, preface)) = at {
            self.check_slice(id, job.due.track, (seq, at, preface, gone), &mishaps);
            self.travel(id, job.due.track, (seq, at, preface), taken);
        }
        self.check_burst(id, gone, cap);
        if gone > 0 {
            self.check_time(id, job.due.track, job.due.at);
        }
        self.counters.refused_packets += u64::from(refused);
        let bytes = self.lane.taken(job, (taken, refused), self.now.nanos());
        self.hand_over(id, Carriage::UdpV4, (bytes as u32, taken));
        self.counters.packets += u64::from(taken);
        self.comes_to_next(job.place, job.due.track, id, gone);
    }

    /// Checks the time of a viewer's packets that are due at `due` and leave now.
    pub fn check_time(&mut self, id: u64, track: usize, due: u64) {
        let now = self.now.nanos();
        let late = now.saturating_sub(due);
        let ahead = self.way.as_ref().map_or(0, |_| self.rules.link_ahead);
        if due > now + TURN + ahead {
            let what = format!(
                "packets of viewer {id} leave {:.3} ms before their time",
                (due - now) as f64 / 1e6
            );
            self.broken(Rule::SentOnTime, what);
        }
        if late <= LATE
            && let Some(viewer) = self.viewers.get_mut(&id)
        {
            viewer.late[track] = false;
        }
        let due = Monotonic::from_nanos(due);
        let is_explained = self.explains(due) || self.catches_up(id, due) || self.is_late(id);
        if late > self.may_be_late() && !is_explained {
            let what = format!(
                "packets of viewer {id} leave {:.3} ms late",
                late as f64 / 1e6
            );
            self.broken(Rule::SentOnTime, what);
        }
    }

    /// Returns how late packets may be without a cause, ns. Bookings are means of a second; if HTTP
    /// viewers share a limited link, their film leaves within the second at their connections'
    /// speeds. No frame is left out for that.
    fn may_be_late(&self) -> u64 {
        match self.way.is_some() && self.has_http {
            true => self.rules.drop_after,
            false => LATE,
        }
    }

    fn is_late(&self, id: u64) -> bool {
        self.viewers.get(&id).is_some_and(Viewer::is_late)
    }

    /// Checks that no millisecond exceeds the burst rule.
    pub fn check_burst(&mut self, id: u64, gone: u32, cap: u32) {
        let burst = u32::from(self.rules.burst);
        let now = self.now.nanos();
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        let (all, may) = viewer.leaves(now, gone, cap);
        if all > may.max(burst) {
            let what = format!("viewer {id} is sent {all} packets within a millisecond");
            self.broken(Rule::Burst, what);
        }
    }

    /// Records when a viewer has reached another group.
    pub fn comes_to_next(&mut self, place: u32, track: usize, id: u64, gone: u32) {
        let Some(stream) = self.lane.stream(place) else {
            return;
        };
        let cursor = &stream.tracks[track].cursor;
        let group = cursor.at().map(|(at, _)| at.group);
        let done = cursor.is_done();
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        let sent = &mut viewer.sent[track];
        sent.of_group += u64::from(gone);
        let before = sent.next.map(|next| next.group);
        if before == group && !done {
            return;
        }
        let (count, next) = (std::mem::take(&mut sent.of_group), before.unwrap_or(0) + 1);
        if group.is_some() {
            let excused = self.excused == self.now;
            self.counters.strict += u64::from(!excused);
        }
        self.note(&Line::Group {
            viewer: id,
            track,
            group: next as usize,
            sent: count,
        });
        self.release();
        self.check_pins(id);
    }
}
