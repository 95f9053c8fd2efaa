//! What the API shows of the rest of the server, which the binary knows.

use serde::Serialize;

/// Whether newcomers are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Films are being looked at for the first time.
    Starting,
    /// As it should be.
    Serving,
    /// Stopping: nobody new comes in.
    Draining,
}

/// What the RTP sender does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sending {
    /// Bits a second over the last seconds.
    pub rate: u64,
    /// Packets a second over the last seconds.
    pub packets_per_second: u64,
    /// 99th percentile of lateness against the timetable over the last seconds, in milliseconds;
    /// `None` when nothing was sent.
    pub late_p99_ms: Option<f64>,
    /// Greatest lateness over the last seconds, in milliseconds.
    pub late_max_ms: Option<f64>,
    /// How packets go to the kernel, such as `sendmsg+gso`.
    pub backend: String,
    /// Packets since the start.
    pub packets_total: u64,
    /// Bytes since the start.
    pub bytes_total: u64,
}

/// Addresses at which viewers reach the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Addresses {
    /// `rtsp://host:port`.
    pub rtsp: String,
    /// `http://host:port`.
    pub http: String,
}

/// The rest of the server as the API sees it. Called often; must not block.
pub trait NodeView: Send + Sync {
    /// The server's name.
    fn name(&self) -> String;
    /// Whether newcomers are let in.
    fn state(&self) -> NodeState;
    /// What the sender does.
    fn sending(&self) -> Sending;
    /// Where viewers reach the server.
    fn addresses(&self) -> Addresses;
}
