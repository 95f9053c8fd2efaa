//! Executes a thread's commands.

use reelway_playout::{State, StreamId};

use super::body::{Thread, now};
use crate::inbox::Command;

/// Maximum number of commands executed before packets are sent again: 5,000 viewers who leave at
/// once must not delay the others' packets.
const COMMANDS: usize = 128;

impl Thread {
    pub(super) fn obey(&mut self) {
        for _ in 0..COMMANDS {
            let Ok(command) = self.given.commands.try_recv() else {
                return;
            };
            if let Some(command) = self.pass_on(command) {
                self.obey_one(command);
                self.act();
            }
        }
    }

    fn obey_one(&mut self, command: Command) {
        let (lane, now) = (&mut self.lane, now());
        match command {
            Command::Add(stream) => {
                let shared = &stream.owner.shared;
                self.given.directory.enter(shared, &self.given.inbox);
                lane.add(stream);
            }
            Command::Arrive(stream) => lane.arrive(stream, now),
            Command::Go(id) => lane.go(id, now),
            Command::SendBy(id, schedule) => lane.send_by(id, schedule, now),
            Command::Pause(id, reply) => {
                let position = lane.pause(id, now);
                // The state must be visible before the reply.
                self.act();
                if let Some(position) = position {
                    let _ = reply.send(position);
                }
            }
            Command::Resume(id, reply) => lane.resume(id, reply, now),
            Command::Seek {
                stream,
                start,
                end,
                reply,
            } => lane.seek(stream, start, end, reply),
            Command::Stop(id, why) => self.stop(id, &why),
            Command::Located {
                stream,
                epoch,
                result,
            } => lane.located(stream, epoch, result, now),
            Command::Planned {
                stream,
                epoch,
                track,
                group,
                result,
            } => lane.planned(stream, (epoch, track, group), result, now),
            Command::Missed {
                stream,
                track,
                lost,
            } => lane.missed(stream, track, &lost),
            Command::Close => {
                for place in 0..self.lane.places() {
                    if let Some(id) = self.lane.stream(place).map(|stream| stream.id()) {
                        self.stop(id, "");
                    }
                }
                self.closed = true;
            }
        }
    }

    fn stop(&mut self, id: StreamId, why: &str) {
        let Some(mut stream) = self.lane.remove(id) else {
            return;
        };
        if stream.owes_bye() {
            // The viewer may be gone already.
            let _ = self.given.reporter.report(&stream, Some(why));
        }
        stream.stop();
        self.publish(&stream.owner, State::Stopped);
        self.given.directory.leave(&stream.owner.shared);
    }
}
