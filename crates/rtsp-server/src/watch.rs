//! A session's progress: written by the hub, read by the register.

use std::sync::{Arc, Mutex, MutexGuard};

use reelway_media::SECOND;
use reelway_rtsp::seam::{Reception, State};
use reelway_session as session;
use reelway_supervise as supervise;

use crate::stream::FilmStream;

/// A session's progress.
#[derive(Default)]
pub(crate) struct Watch(Mutex<WatchState>);

#[derive(Default)]
struct WatchState {
    state: State,
    /// Its stream, even after it has ended.
    stream: Option<Arc<FilmStream>>,
    /// The client's last report for each track.
    reception: Vec<Reception>,
}

impl Watch {
    pub fn show(&self, state: State) {
        self.seen().state = state;
    }

    pub fn set_stream(&self, stream: Arc<FilmStream>) {
        self.seen().stream = Some(stream);
    }

    /// Removes a stream that never played.
    pub fn forget_stream(&self) {
        // The last reference may end the stream, so it is dropped without the lock.
        let stream = self.seen().stream.take();
        drop(stream);
    }

    pub fn stream(&self) -> Option<Arc<FilmStream>> {
        self.seen().stream.clone()
    }

    pub fn receives(&self, reception: Reception) {
        let mut seen = self.seen();
        match seen
            .reception
            .iter_mut()
            .find(|of| of.ssrc == reception.ssrc)
        {
            Some(of) => *of = reception,
            // A session has few tracks, and only their own SSRCs come here.
            None => seen.reception.push(reception),
        }
    }

    /// The session's progress, for the register.
    pub fn progress(&self) -> session::Progress {
        let seen = self.seen();
        let sent = seen.stream.as_ref().map(|stream| stream.progress());
        let heard = !seen.reception.is_empty();
        let jitter = seen
            .reception
            .iter()
            .map(|of| of.jitter_ms)
            .fold(0.0, f64::max);
        session::Progress {
            state: match seen.state {
                State::Ready => session::State::Ready,
                State::Playing => session::State::Playing,
                State::Paused => session::State::Paused,
            },
            position: sent.map(|sent| sent.position.max(0) as f64 / SECOND as f64),
            bytes: sent.map_or(0, |sent| sent.bytes),
            packets: sent.map_or(0, |sent| sent.packets),
            lost: heard.then(|| seen.reception.iter().map(|of| of.lost).sum()),
            jitter_ms: heard.then_some(jitter),
            late_p99_ms: sent.map(|sent| sent.late_p99_ms),
            late_max_ms: sent.map(|sent| sent.late_max_ms),
            dropped_frames: sent.map(|sent| sent.dropped_frames),
        }
    }

    fn seen(&self) -> MutexGuard<'_, WatchState> {
        supervise::whole(self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_receivers_report_last_of_each_track_is_added_up() {
        let watch = Watch::default();
        assert_eq!(watch.progress(), session::Progress::default());
        for (ssrc, lost, jitter_ms) in [(1, 3, 2.0), (2, 4, 1.0), (1, 5, 0.5)] {
            watch.receives(Reception {
                ssrc,
                lost,
                jitter_ms,
            });
        }
        watch.show(State::Playing);
        let progress = watch.progress();
        assert_eq!(
            (progress.lost, progress.jitter_ms),
            (Some(5 + 4), Some(1.0))
        );
        assert_eq!(progress.state, session::State::Playing);
    }
}
