//! Recipients of media, and the timing of their data.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use reelway_media::SamplesError;
use reelway_session::EndReason;
use reelway_store::{ReadError, Source};
use reelway_sys::FileIdentity;
use reelway_viewing::{Beyond, Standing};
use tokio::sync::OwnedSemaphorePermit;

use crate::downloads::{Downloads, Share};
use crate::speed::{Carried, Speed};
use crate::viewer::Sending;

/// Deadline of a poster's bytes in seconds: after those of all viewers.
const POSTER_DUE: f64 = 60.0;
/// Deadline of an edge's bytes in seconds: its viewers may have just begun.
const EDGE_DUE: f64 = 1.0;
/// Minimum speed of data for recipients other than viewers, in bytes per second.
const LEAST_SPARE_SPEED: u64 = 256 << 10;

/// Why media cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MediaError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Samples(#[from] SamplesError),
    #[error("the session was ended")]
    Ended,
}

/// A recipient of media, and its pace.
pub(crate) enum Flow {
    /// A viewer, held to the pace of the flow.
    Viewer {
        /// Their answer, in progress.
        sending: Sending,
        /// Playing time of a byte, in seconds.
        seconds_per_byte: f64,
        /// Whether the flow shows the viewer's position.
        main: bool,
        /// The connection's speed.
        speed: Speed,
        /// What may exceed the pace; `None`: nothing.
        beyond: Option<Share>,
        /// Whether the pace may be exceeded only until the viewer has their full lead.
        catches_up: bool,
    },
    /// A recipient that is not a viewer here: gets unbooked capacity.
    Spare {
        /// The kind of recipient.
        taker: Taker,
        /// The connection's speed.
        speed: Speed,
        /// Its share of unbooked capacity.
        share: Share,
    },
}

/// A recipient of media that is not a viewer.
pub(crate) enum Taker {
    /// An edge, which has viewers of its own: it follows their pace.
    Edge,
    /// A page that draws a film's poster; only a few are served at a time.
    Poster { _turn: OwnedSemaphorePermit },
}

impl Taker {
    /// Returns the deadline of its bytes in seconds.
    fn due(&self) -> f64 {
        match self {
            Taker::Edge => EDGE_DUE,
            Taker::Poster { .. } => POSTER_DUE,
        }
    }
}

impl Flow {
    /// Creates a viewer's flow over a connection.
    pub fn of(sending: Sending, seconds_per_byte: f64, main: bool, speed: Speed) -> Flow {
        Flow::Viewer {
            sending,
            seconds_per_byte,
            main,
            speed,
            beyond: None,
            catches_up: false,
        }
    }

    /// Creates a flow of a file's bytes to a recipient at this address that is not a viewer.
    pub fn spare(
        taker: Taker,
        downloads: &Arc<Downloads>,
        file: &FileIdentity,
        (request, peer): (&Parts, IpAddr),
    ) -> Flow {
        let share = downloads.begin(file, peer);
        let speed = Speed::of(request);
        speed.carries(Carried::File {
            dscp: match taker {
                Taker::Edge => 0,
                Taker::Poster { .. } => downloads.dscp(),
            },
            is_held: !share.is_all(),
        });
        Flow::Spare {
            taker,
            speed,
            share,
        }
    }

    /// Lets the flow exceed its pace by this share.
    pub fn beyond(mut self, share: Option<Share>) -> Flow {
        if let Flow::Viewer { beyond, .. } = &mut self {
            *beyond = share;
        }
        self
    }

    /// Lets the flow exceed its pace by this share until the viewer has their full lead.
    pub fn catching_up(mut self, share: Option<Share>) -> Flow {
        if let Flow::Viewer {
            beyond, catches_up, ..
        } = &mut self
        {
            (*beyond, *catches_up) = (share, true);
        }
        self
    }

    /// Whether it goes as fast as TCP allows.
    pub fn is_unlimited(&self) -> bool {
        match self {
            Flow::Viewer {
                beyond, catches_up, ..
            } => !catches_up && beyond.as_ref().is_some_and(Share::is_all),
            Flow::Spare { share, .. } => share.is_all(),
        }
    }

    /// Records that the film's bytes from `offset` on are requested.
    pub fn comes_to(&self, source: &Source, offset: u64) {
        if let Flow::Viewer {
            sending,
            main: true,
            ..
        } = self
        {
            sending.viewer.comes_to(source, offset);
        }
    }

    /// Waits until more is due: `asked` bytes if they have already been requested, otherwise at
    /// most `most_beyond` bytes if they exceed the pace.
    pub async fn turn(&self, asked: Option<u64>, most_beyond: u64) -> Result<Turn, MediaError> {
        let (viewer, flow, seconds_per_byte, speed, beyond, catches_up) = match self {
            Flow::Viewer {
                sending: Sending { viewer, flow, .. },
                seconds_per_byte,
                speed,
                beyond,
                catches_up,
                ..
            } => (viewer, flow, seconds_per_byte, speed, beyond, *catches_up),
            Flow::Spare {
                taker,
                speed,
                share,
            } => return Ok(spare_turn((speed, share), taker.due(), asked, most_beyond).await),
        };
        let pace = viewer.pace;
        // The first seconds go as fast as the network allows, unless media is booked.
        let mut waited = !pace.is_free();
        loop {
            if viewer.session.is_ended() {
                return Err(MediaError::Ended);
            }
            let refilled = viewer.refilled();
            let standing = viewer.standing(*flow);
            let Standing {
                mut wait, ahead, ..
            } = standing;
            let share = beyond.as_ref();
            let beyond = share.filter(|_| !catches_up || standing.is_behind);
            if let Some(share) = share.filter(|_| wait.is_zero() || beyond.is_none()) {
                share.rests();
            }
            let now = reelway_clock::now();
            let limit = || {
                let beyond = beyond.map(|share| share.beyond(now));
                let beyond = beyond.unwrap_or(Beyond::Nothing);
                pace.connection_speed(&standing, *seconds_per_byte, beyond)
            };
            if wait.is_zero() {
                speed.limit(limit().filter(|_| waited));
                return Ok(Turn::at_pace(ahead));
            }
            waited = true;
            if let Some(share) = beyond {
                match share.take(asked, most_beyond, now) {
                    Ok(bytes) => {
                        speed.limit(limit());
                        return Ok(Turn {
                            ahead: match catches_up {
                                true => ahead,
                                false => ahead.max(POSTER_DUE),
                            },
                            beyond: Some(bytes),
                        });
                    }
                    Err(again) => wait = wait.min(again),
                }
            }
            // Wakes up now and then to check whether the session was ended.
            let _ = tokio::time::timeout(wait.min(Duration::from_secs(1)), refilled).await;
        }
    }

    /// Returns how long the viewer would wait for more after `bytes` are sent now.
    pub fn wait_after(&self, bytes: u64) -> Duration {
        match self {
            _ if self.is_unlimited() => Duration::ZERO,
            Flow::Viewer {
                sending: Sending { viewer, flow, .. },
                seconds_per_byte,
                ..
            } => viewer.wait_after(*flow, bytes as f64 * seconds_per_byte),
            Flow::Spare { .. } => Duration::ZERO,
        }
    }

    /// Returns the size of the next window, at most `most` bytes.
    pub fn window(&self, most: u64) -> u64 {
        match self {
            _ if self.is_unlimited() => most,
            Flow::Viewer {
                sending: Sending { viewer, flow, .. },
                seconds_per_byte,
                ..
            } => viewer.window(*flow, most, *seconds_per_byte),
            Flow::Spare { .. } => most,
        }
    }

    /// Records bytes handed over, at the film's pace or beyond it.
    pub fn sent(&self, bytes: u64, at_pace: bool) {
        if let Flow::Viewer {
            sending: Sending { viewer, flow, .. },
            seconds_per_byte,
            catches_up,
            ..
        } = self
        {
            let seconds = bytes as f64 * seconds_per_byte;
            match (at_pace, catches_up) {
                (true, _) => viewer.sent(*flow, bytes, seconds),
                (false, true) => viewer.caught_up(*flow, bytes, seconds),
                (false, false) => viewer.sent(*flow, bytes, 0.0),
            }
        }
    }

    /// Records that everything was handed over.
    pub fn is_done(&mut self) {
        if let Flow::Viewer { sending, .. } = self {
            sending.is_done();
        }
    }

    /// Logs why nothing more can be sent, and ends a viewer's session.
    pub fn fail(&self, title: &str, error: &MediaError) {
        match self {
            _ if matches!(error, MediaError::Ended) => {}
            Flow::Viewer {
                sending: Sending { viewer, .. },
                ..
            } => {
                tracing::warn!(%title, session = viewer.session.id(), "cannot send: {error}");
                if !matches!(error, MediaError::Read(ReadError::Closed)) {
                    viewer.session.end(EndReason::Failed(error.to_string()));
                }
            }
            Flow::Spare { taker, .. } => match taker {
                Taker::Edge => tracing::warn!(%title, "cannot send to an edge: {error}"),
                Taker::Poster { .. } => {
                    tracing::warn!(%title, "cannot send a piece for a poster: {error}")
                }
            },
        }
    }
}

/// Waits until a recipient that is not a viewer may be sent more, with a deadline in `due` seconds.
async fn spare_turn(
    (speed, share): (&Speed, &Share),
    due: f64,
    asked: Option<u64>,
    most: u64,
) -> Turn {
    loop {
        let now = reelway_clock::now();
        let again = match share.take(asked, most, now) {
            Ok(bytes) => {
                speed.limit(match share.beyond(now) {
                    Beyond::Everything => None,
                    Beyond::Share(speed) => Some(speed.max(LEAST_SPARE_SPEED)),
                    Beyond::Nothing => Some(LEAST_SPARE_SPEED),
                });
                return Turn {
                    ahead: due,
                    beyond: Some(bytes),
                };
            }
            Err(again) => again,
        };
        tokio::time::sleep(again.min(Duration::from_secs(1))).await;
    }
}

/// Permission to send a window now.
pub(crate) struct Turn {
    /// The viewer's lead in seconds of film.
    pub ahead: f64,
    /// Set if the window exceeds the film's pace: its maximum size in bytes.
    pub beyond: Option<u64>,
}

impl Turn {
    fn at_pace(ahead: f64) -> Turn {
        Turn {
            ahead,
            beyond: None,
        }
    }
}
