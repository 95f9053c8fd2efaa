//! What a thread is told, and does.

use super::{Thread, now};
use crate::active::Active;
use crate::inbox::{Command, StreamId};

/// Commands obeyed at most before packets are looked after again: five thousand viewers who leave at
/// once must not make the others' packets late.
const COMMANDS: usize = 128;

impl Thread {
    pub(super) fn obey(&mut self) {
        for _ in 0..COMMANDS {
            let Ok(command) = self.commands.try_recv() else {
                return;
            };
            self.obey_one(command);
        }
    }

    fn stream(&mut self, id: StreamId) -> Option<(u32, &mut Active)> {
        let place = *self.places.get(&id)?;
        Some((place, self.streams[place as usize].as_mut()?))
    }

    fn obey_one(&mut self, command: Command) {
        let now = now();
        let Some(command) = self.pass_on(command) else {
            return;
        };
        let touched = match command {
            Command::Add(stream) => {
                self.add(stream);
                None
            }
            Command::Arrive(stream) => {
                let place = self.put(stream);
                self.will_resend(place);
                Some(place)
            }
            Command::Go(id) => self.stream(id).map(|(place, stream)| {
                stream.go(now);
                place
            }),
            Command::SendBy(id, schedule) => self.stream(id).map(|(place, stream)| {
                stream.schedule = schedule;
                place
            }),
            Command::Pause(id, reply) => {
                if let Some((_, stream)) = self.stream(id) {
                    let _ = reply.send(stream.pause(now));
                }
                None
            }
            Command::Resume(id, reply) => self.stream(id).map(|(place, stream)| {
                stream.resume(reply, now);
                place
            }),
            Command::Seek {
                stream,
                start,
                end,
                reply,
            } => {
                if let Some((_, stream)) = self.stream(stream) {
                    stream.seek(start, end, Some(reply));
                }
                None
            }
            Command::Stop(id, why) => {
                self.stop(id, &why);
                None
            }
            Command::Located {
                stream,
                epoch,
                result,
            } => {
                if let Some((_, stream)) = self.stream(stream) {
                    stream.located(epoch, result, now);
                }
                None
            }
            Command::Planned {
                stream,
                epoch,
                track,
                group,
                result,
            } => {
                let found = self.stream(stream).map(|(place, stream)| {
                    let waited = stream.planned(epoch, track, group, result, now);
                    (place, waited)
                });
                found.and_then(|(place, waited)| {
                    self.will_resend(place);
                    waited.then_some(place)
                })
            }
            Command::Missed {
                stream,
                track,
                lost,
            } => {
                if let Some((place, stream)) = self.stream(stream) {
                    stream.miss(track, &lost);
                    self.will_resend(place);
                }
                None
            }
            Command::Close => {
                for id in self.places.keys().copied().collect::<Vec<_>>() {
                    self.stop(id, "");
                }
                self.closed = true;
                None
            }
        };
        if let Some(place) = touched {
            self.touch(place, now);
        }
    }

    fn add(&mut self, mut stream: Box<Active>) {
        self.directory.enter(&stream.shared);
        let (start, end) = stream.wish;
        stream.seek(start, end, None);
        self.put(stream);
    }

    /// Gives a stream a place.
    fn put(&mut self, mut stream: Box<Active>) -> u32 {
        // It is on no list of this thread.
        stream.is_resending = false;
        let place = self.free.pop().unwrap_or(self.streams.len() as u32);
        self.places.insert(stream.id(), place);
        if place as usize == self.streams.len() {
            self.streams.push(None);
            self.armed.push(0);
            self.limited.push(false);
        }
        self.armed[place as usize] = 0;
        self.limited[place as usize] = stream.link.is_some();
        self.streams[place as usize] = Some(stream);
        place
    }

    fn stop(&mut self, id: StreamId, why: &str) {
        let Some(place) = self.places.remove(&id) else {
            return;
        };
        let Some(mut stream) = self.streams[place as usize].take() else {
            return;
        };
        if stream.owes_bye() {
            self.reporter.report(&mut stream, Some(why));
        }
        stream.said_bye(false);
        self.directory.leave(&stream.shared);
        self.free.push(place);
    }
}
