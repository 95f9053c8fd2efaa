//! RTSP clients, and the server's machine with its films.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reelway_media::Nanos;
use reelway_rtp::PayloadOptions;
use reelway_rtsp::RtspConfig;
use reelway_rtsp::film::{Film, Form, Identity};
use reelway_rtsp::machine::{Machine, Settings};
use reelway_time::Monotonic;

use crate::film::Film as Played;

/// The machine: viewers stand for the write sides of its connections, and films are
/// identified by number.
pub(crate) type Server = Machine<u64, usize>;

/// How long a session may be silent.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// This track, counted from 0.
    Setup(usize),
    /// Play from this position on; `None`: from the current one.
    Play(Option<Nanos>),
    Pause,
    Teardown,
}

/// An RTSP client.
pub(crate) struct Client {
    pub film: usize,
    /// The position at which the first play should begin.
    pub wish: Nanos,
    /// Whether it wants its film over its own connection.
    pub is_interleaved: bool,
    /// Whether it sends no more requests once its first track is set up.
    pub never_plays: bool,
    /// The request whose response it waits for.
    pub asked: Option<Asked>,
    /// When it began to wait for the last request's response.
    pub asked_at: Monotonic,
    pub cseq: u32,
    pub session: Option<String>,
    /// The sequence number that RTP-Info gave for each track, until the first packet has come.
    pub announced: [Option<u16>; 2],
}

/// Creates the machine of a server without viewers.
pub(crate) fn server() -> Server {
    let mut number = 0u32;
    Machine::new(Settings {
        config: RtspConfig {
            session_timeout: SILENCE,
            ..RtspConfig::default()
        },
        udp_v4: Some((8000, 8001)),
        udp_v6: None,
        random: Box::new(move || {
            number = number.wrapping_add(0x9e37_79b9);
            number
        }),
    })
}

/// Returns a film as the machine describes it.
pub(crate) fn described(film: &Played, number: usize) -> Option<Arc<Film<usize>>> {
    let identity = Identity {
        id: number as u64,
        version: number as u64,
    };
    let options = PayloadOptions::default();
    Film::new(
        &film.name,
        &film.title,
        identity,
        Form::Tracks,
        options,
        number,
    )
    .ok()
    .map(Arc::new)
}

pub(crate) fn name_of(id: u64) -> String {
    format!("viewer-{id}")
}

pub(crate) fn viewer_of(session: &str) -> Option<u64> {
    session.strip_prefix("viewer-")?.parse().ok()
}

/// Returns a viewer's address.
pub(crate) fn address(id: u64) -> IpAddr {
    IpAddr::from([10, 0, 0, (id % 250) as u8])
}
