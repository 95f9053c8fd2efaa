//! Names of things as the API and the metrics have them.

use reelway_catalogue::State;
use reelway_session::{Gate, Protocol, Resource};

/// A film's state as the API and the metrics name it.
pub(crate) fn state_name(state: &State) -> &'static str {
    match state {
        State::Ready(_) => "ready",
        State::Indexing => "indexing",
        State::NotReady { .. } => "not_ready",
        State::Unplayable { .. } => "unplayable",
    }
}

/// The interface of a resource that has one of its own.
pub(crate) fn interface(gate: &Gate, resource: Resource) -> Option<String> {
    match resource {
        Resource::Network(number @ 1..) => Some(gate.config().links.name(number).to_owned()),
        _ => None,
    }
}

/// The protocol of this name.
pub(crate) fn protocol(name: &str) -> Result<Protocol, &'static str> {
    match name {
        "rtsp/udp" => Ok(Protocol::RtspUdp),
        "rtsp/tcp" => Ok(Protocol::RtspTcp),
        "hls" => Ok(Protocol::Hls),
        "dash" => Ok(Protocol::Dash),
        "file" => Ok(Protocol::File),
        _ => Err("protocol: must be rtsp/udp, rtsp/tcp, hls, dash or file"),
    }
}
