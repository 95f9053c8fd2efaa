//! Why sessions end.

use std::fmt;

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The viewer left (TEARDOWN, RTCP BYE).
    Left,
    /// The viewer's connection closed.
    Disconnected,
    /// No sign of life within the limit.
    Expired,
    /// The operator ended it through the API.
    Kicked,
    /// The server is stopping.
    Shutdown,
    /// It had not requested media, and others needed the room.
    MadeRoom,
    /// The network or the disks became slower.
    Slower,
    /// It could not go on, for this reason.
    Failed(String),
}

impl EndReason {
    /// Returns the reason reported to the viewer; `None` if they ended the session themselves.
    pub fn for_viewer(&self) -> Option<String> {
        match self {
            EndReason::Left | EndReason::Disconnected | EndReason::Expired => None,
            EndReason::Failed(why) => Some(why.clone()),
            EndReason::Kicked | EndReason::Shutdown | EndReason::MadeRoom | EndReason::Slower => {
                Some(self.to_string())
            }
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndReason::Left => f.write_str("left"),
            EndReason::Disconnected => f.write_str("connection closed"),
            EndReason::Expired => f.write_str("no sign of life"),
            EndReason::Kicked => f.write_str("ended by the operator"),
            EndReason::Shutdown => f.write_str("server stopping"),
            EndReason::MadeRoom => f.write_str("not played yet, and others needed the room"),
            EndReason::Slower => {
                f.write_str("newest sessions make room, as the network or the disks became slower")
            }
            EndReason::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}
