//! A session: its tracks, its phase, how long it may be silent.

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
    /// Whose it is.
    pub peer: IpAddr,
    /// The connection that controls it; none since that one closed.
    pub control: Option<ConnId>,
    /// The connection that media goes into, if it goes into one.
    pub media: Option<ConnId>,
    /// In the order of the description.
    pub tracks: Vec<SetUpTrack<W>>,
    pub phase: Phase,
    /// Whether its stream has been made.
    pub has_stream: bool,
    /// When its stream was last let go.
    pub went: Monotonic,
    /// The last sign of life.
    pub alive: Monotonic,
    /// When its receivers said BYE, if nothing was heard of it since.
    pub left: Option<Monotonic>,
    /// A job is being done for it.
    pub busy: bool,
}

/// A track that was set up.
pub(super) struct SetUpTrack<W> {
    pub order: TrackOrder<W>,
    /// As the client wrote it in SETUP: clients compare RTP-Info with it letter by letter.
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
    /// The range has been played to its end.
    Finished,
}

impl Phase {
    /// As others see it.
    pub fn state(self) -> State {
        match self {
            Phase::Ready => State::Ready,
            Phase::Playing { .. } => State::Playing,
            Phase::Paused { .. } | Phase::Finished => State::Paused,
        }
    }
}

/// How long after a viewer's BYE (RFC 3550 section 6.6) their session ends. Players say it before they
/// ask for TEARDOWN, and some when they only set up their receivers anew, as for a seek: a viewer who
/// asks for anything in this time stays.
const AFTER_BYE: Duration = Duration::from_secs(3);

impl<W, F> Session<W, F> {
    pub fn shows_life(&mut self, now: Monotonic) {
        self.alive = now;
        self.left = None;
    }

    /// Whether the viewer has said BYE and meant it.
    pub fn has_left(&self, now: Monotonic) -> bool {
        self.left.is_some_and(|left| now.since(left) >= AFTER_BYE)
    }

    /// How long it may be silent; `None`: as long as its connection stands.
    fn patience(&self, config: &RtspConfig) -> Option<Duration> {
        let resting = matches!(self.phase, Phase::Paused { .. } | Phase::Finished);
        match (self.media, self.control) {
            // A client that reads is alive; one that does not lags too far at some time.
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

    /// Whether all tracks are carried alike: a stream's packets have one way.
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
