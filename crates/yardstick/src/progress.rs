//! Progress of a measuring viewer, for display before the verdict.

use std::sync::Mutex;
use std::sync::PoisonError;

use crate::playback::Playback;

/// A viewer's progress during playback.
#[derive(Debug, Default)]
pub struct Progress(Mutex<Now>);

/// State of the viewer.
#[derive(Clone, Debug, Default)]
pub struct Now {
    /// The newest film time that has arrived, in nanoseconds.
    pub media: i64,
    /// Packets (or segments) that arrived.
    pub came: u64,
    /// Packets that are missing.
    pub lost: u64,
    /// What a player would have shown.
    pub playback: Playback,
}

impl Progress {
    pub(crate) fn is_at(&self, now: Now) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Returns the viewer's current state.
    pub fn now(&self) -> Now {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Now {
    /// Describes what a viewer has seen so far.
    pub fn verdict(&self) -> String {
        let mut wrong = Vec::new();
        let seconds = self.playback.stalled as f64 / 1e9;
        match self.playback.stalls {
            0 => {}
            1 => wrong.push(format!("STALLED once, {seconds:.1} s")),
            stalls => wrong.push(format!("STALLED {stalls} times, {seconds:.1} s")),
        }
        if self.playback.skipped > 0 {
            wrong.push(format!("{} frames NOT SHOWN", self.playback.skipped));
        }
        if self.lost > 0 {
            wrong.push(format!("{} packets missing", self.lost));
        }
        match wrong.is_empty() {
            true => "plays well".to_owned(),
            false => wrong.join(", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_until_now_says_what_a_viewer_saw_before_what_was_lost() {
        let mut now = Now::default();
        assert_eq!(now.verdict(), "plays well");
        now.lost = 2;
        assert_eq!(now.verdict(), "2 packets missing");
        (now.playback.stalls, now.playback.stalled) = (1, 1_340_000_000);
        now.playback.skipped = 3;
        assert_eq!(
            now.verdict(),
            "STALLED once, 1.3 s, 3 frames NOT SHOWN, 2 packets missing"
        );
    }
}
