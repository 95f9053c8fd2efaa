//! The protocols over which films are delivered.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// How a film is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// RTSP, media over UDP.
    RtspUdp,
    /// RTSP, media interleaved in its TCP connection.
    RtspTcp,
    /// HTTP Live Streaming.
    Hls,
    /// MPEG-DASH.
    Dash,
    /// The file, by byte ranges.
    File,
}

impl Protocol {
    const ALL: [Protocol; 5] = [
        Protocol::RtspUdp,
        Protocol::RtspTcp,
        Protocol::Hls,
        Protocol::Dash,
        Protocol::File,
    ];

    /// The name used in the API, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::RtspUdp => "rtsp/udp",
            Protocol::RtspTcp => "rtsp/tcp",
            Protocol::Hls => "hls",
            Protocol::Dash => "dash",
            Protocol::File => "file",
        }
    }
}

impl FromStr for Protocol {
    /// A message that lists the valid names.
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Protocol, &'static str> {
        let found = Protocol::ALL
            .into_iter()
            .find(|protocol| protocol.name() == name);
        found.ok_or("must be rtsp/udp, rtsp/tcp, hls, dash or file")
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Protocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
