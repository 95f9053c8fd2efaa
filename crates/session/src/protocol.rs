//! The protocols by which films are delivered.

use std::fmt;

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
    /// The file by byte ranges.
    File,
}

impl Protocol {
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
