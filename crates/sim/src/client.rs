//! Clients over RTSP, and the server's machine with its films.

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

/// The machine: viewers are its connections' write sides, and films go by their numbers.
pub(crate) type Server = Machine<u64, usize>;

/// How long a session may be silent.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// What a client has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// This track, counted from 0.
    Setup(usize),
    /// To play from here on; `None`: from where it stands.
    Play(Option<Nanos>),
    Pause,
    Teardown,
}

/// A client.
pub(crate) struct Client {
    pub film: usize,
    /// Where the first play is to begin.
    pub wish: Nanos,
    /// It wants its film through its own connection.
    pub is_interleaved: bool,
    /// It has no more to say when its first track is set up.
    pub never_plays: bool,
    /// What it waits for.
    pub asked: Option<Asked>,
    /// Since when it waits, or when it last did.
    pub asked_at: Monotonic,
    pub cseq: u32,
    pub session: Option<String>,
    /// What RTP-Info said of each track, until the packet of this number has come.
    pub told: [Option<u16>; 2],
}

/// The machine of a server that has no viewers.
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

/// A film as the machine has it.
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

/// A viewer's address.
pub(crate) fn address(id: u64) -> IpAddr {
    IpAddr::from([10, 0, 0, (id % 250) as u8])
}
