//! A session: its tracks, its phase, its timeouts.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reelway_media::Nanos;
use reelway_time::Monotonic;

use crate::config::RtspConfig;
use crate::film::Film;
use crate::machine::event::ConnId;
use crate::seam::{Out, State, TrackOrder};

pub(super) struct Session<W, F> {
    pub film: Arc<Film<F>>,
    /// Address of the viewer.
    pub peer: IpAddr,
    /// The connection that controls it; `None` since that one closed.
    pub control: Option<ConnId>,
    /// The connection that carries its media, if any.
    pub media: Option<ConnId>,
    /// In the order of the description.
    pub tracks: Vec<SetUpTrack<W>>,
    pub phase: Phase,
    /// Whether its stream exists.
    pub has_stream: bool,
    /// When its stream was last started.
    pub went: Monotonic,
    /// The last sign of life.
    pub alive: Monotonic,
    /// When its receivers said BYE, unless there was a sign of life since.
    pub left: Option<Monotonic>,
    /// Whether a job is under way for it.
    pub busy: bool,
}

/// A track that was set up.
pub(super) struct SetUpTrack<W> {
    pub order: TrackOrder<W>,
    /// URL as the client wrote it in SETUP: clients compare it with RTP-Info character by
    /// character.
    pub url: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Set up, never played.
    Ready,
    Playing {
        end: Nanos,
    },
    Paused {
        end: Nanos,
    },
    /// The range was played to its end.
    Finished,
}

impl Phase {
    /// Returns the phase as shown to others.
    pub fn state(self) -> State {
        match self {
            Phase::Ready => State::Ready,
            Phase::Playing { .. } => State::Playing,
            Phase::Paused { .. } | Phase::Finished => State::Paused,
        }
    }
}

/// How long after a viewer's BYE (RFC 3550 section 6.6) their session ends. Players send it before
/// TEARDOWN, but some also when they only recreate their receivers, as for a seek: viewers who send
/// any request in this time stay.
const AFTER_BYE: Duration = Duration::from_secs(3);

impl<W, F> Session<W, F> {
    pub fn shows_life(&mut self, now: Monotonic) {
        self.alive = now;
        self.left = None;
    }

    /// Returns whether the viewer said BYE and has been silent since.
    pub fn has_left(&self, now: Monotonic) -> bool {
        self.left.is_some_and(|left| now.since(left) >= AFTER_BYE)
    }

    /// Returns how long the session may be silent; `None` if as long as its connection is open.
    fn patience(&self, config: &RtspConfig) -> Option<Duration> {
        let resting = matches!(self.phase, Phase::Paused { .. } | Phase::Finished);
        match (self.media, self.control) {
            // A client that reads is alive; one that does not read eventually lags too far behind.
            (Some(_), _) if matches!(self.phase, Phase::Playing { .. }) => None,
            (Some(_), _) | (None, Some(_)) if resting => {
                Some(config.paused_timeout.max(config.session_timeout))
            }
            _ => Some(config.session_timeout),
        }
    }

    pub fn is_expired(&self, now: Monotonic, config: &RtspConfig) -> bool {
        self.patience(config)
            .is_some_and(|patience| now.since(self.alive) > patience)
    }

    /// Returns whether all tracks are carried the same way, as the packets of a stream must be.
    pub fn goes_one_way(&self) -> bool {
        let ways = || self.tracks.iter().map(|track| track.order.out.carriage());
        ways().zip(ways().skip(1)).all(|(one, next)| one == next)
    }

    pub fn channels(&self) -> impl Iterator<Item = (u8, u8)> {
        self.tracks
            .iter()
            .filter_map(|track| match track.order.out {
                Out::Tcp { rtp, rtcp, .. } => Some((rtp, rtcp)),
                Out::Udp { .. } | Out::Plain { .. } => None,
            })
    }
}
