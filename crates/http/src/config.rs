//! Settings of the HTTP side.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How the HTTP side behaves. The binary fills it from its configuration file.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// The same over TLS; `None`: not.
    pub tls: Option<TlsConfig>,
    /// Names under which this server may be asked beside `localhost` and addresses.
    pub names: Vec<String>,
    /// Origins (`https://tv.example`) whose pages may change things with the token.
    pub allowed_origins: Vec<String>,
    /// The token that changing requests must bring. Empty: nothing can be changed.
    pub api_token: String,
    /// Tokens by which edges show that they are no viewers.
    pub edge_tokens: Vec<String>,
    /// Length of segments that is aimed at.
    pub segment: Duration,
    /// Silence after which an HLS or DASH viewer is given up; films of long segments give longer.
    pub viewer_timeout: Duration,
    /// Film that is sent as fast as the network goes before the viewer is paced.
    pub ahead: Duration,
    /// Times the film's rate at which a paced viewer is sent; 0: as fast as the network goes.
    pub pace: f64,
    /// Whether who fetches a file gets beyond its film's pace what viewers have not booked.
    pub eager_downloads: bool,
    /// Differentiated services code point of files' packets (RFC 2474).
    pub download_dscp: u8,
    /// Whether addresses of segments carry the viewer's token.
    pub tokens_in_segments: bool,
    /// Whether it is found out what other cache policies would have made of the same requests.
    pub compare_policies: bool,
    /// Whether films can be put and deleted, with the token.
    pub uploads: bool,
    /// Most bytes of a film that is put.
    pub max_upload: u64,
    /// Memory for copies of blocks that sockets get without another copy, in bytes; 0: none.
    pub repeated: u64,
    /// Most connections at once.
    pub max_connections: usize,
    /// Most connections of one address (of one /64 of IPv6).
    pub max_connections_per_peer: usize,
    /// Most clients that listen to events at once; half of them of one address.
    pub max_listeners: usize,
    /// Most bytes of the API's answers and of the heads of indexes that wait for clients to take them; and as many of playlists.
    pub answers: u64,
    /// Time for a request's head to come in whole, from the end of the one before; so also the
    /// time a connection may be idle.
    pub request_timeout: Duration,
    /// Time a connection may take nothing of the media it asked for before it is closed.
    pub stall_timeout: Duration,
}

impl Default for HttpConfig {
    fn default() -> Self {
        HttpConfig {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 8080))],
            tls: None,
            names: Vec::new(),
            allowed_origins: Vec::new(),
            api_token: String::new(),
            edge_tokens: Vec::new(),
            segment: Duration::from_secs(6),
            viewer_timeout: Duration::from_secs(60),
            ahead: Duration::from_secs(20),
            pace: 2.0,
            eager_downloads: true,
            download_dscp: 0,
            tokens_in_segments: true,
            compare_policies: true,
            uploads: false,
            max_upload: 256 << 30,
            repeated: 0,
            max_connections: 12_000,
            max_connections_per_peer: 4096,
            max_listeners: 1024,
            answers: 32 << 20,
            request_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(600),
        }
    }
}

/// HTTP over TLS (RFC 2818).
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// File of the chain of certificates (PEM), the server's own first.
    pub certificate: PathBuf,
    /// File of its private key (PEM).
    pub key: PathBuf,
    /// Whether the kernel encrypts where it can.
    pub kernel: bool,
}
