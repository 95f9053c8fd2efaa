//! What can be seen of a session from outside: written by the state machine, read by the register.

use std::sync::{Arc, Mutex, MutexGuard};

use reelway_media::SECOND;
use reelway_session::{Progress, State};
use reelway_supervise as supervise;

use crate::seam::Playback;

/// A session's progress.
#[derive(Default)]
pub struct Watch(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    state: State,
    playback: Option<Arc<dyn Playback>>,
    /// What the client said last of each track.
    reception: Vec<Reception>,
}

/// What a client says of how a track arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reception {
    /// The track's SSRC.
    pub ssrc: u32,
    /// Packets lost since it began.
    pub lost: u64,
    /// Interarrival jitter in milliseconds.
    pub jitter_ms: f64,
}

impl Watch {
    pub(crate) fn set_state(&self, state: State) {
        self.seen().state = state;
    }

    pub(crate) fn set_playback(&self, playback: Arc<dyn Playback>) {
        self.seen().playback = Some(playback);
    }

    pub(crate) fn heard(&self, reception: Reception) {
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
    pub fn progress(&self) -> Progress {
        let seen = self.seen();
        let sent = seen.playback.as_ref().map(|playback| playback.progress());
        let heard = !seen.reception.is_empty();
        let jitter = seen
            .reception
            .iter()
            .map(|of| of.jitter_ms)
            .fold(0.0, f64::max);
        Progress {
            state: seen.state,
            position: sent.map(|sent| sent.position.max(0) as f64 / SECOND as f64),
            bytes: sent.map_or(0, |sent| sent.bytes),
            packets: sent.map_or(0, |sent| sent.packets),
            lost: heard.then(|| seen.reception.iter().map(|of| of.lost).sum()),
            jitter_ms: heard.then_some(jitter),
            late_p99_ms: sent.map(|sent| sent.late_p99_ms),
            late_max_ms: sent.map(|sent| sent.late_max_ms),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        supervise::whole(self.0.lock())
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Watch").field(&self.progress()).finish()
    }
}
