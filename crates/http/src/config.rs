//! Settings of the HTTP side.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The behaviour of the HTTP side. The binary fills it from its configuration file.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// Settings for TLS; `None`: no TLS.
    pub tls: Option<TlsConfig>,
    /// Host names by which clients may address this server, besides `localhost` and IP addresses.
    pub names: Vec<String>,
    /// Origins (`https://tv.example`) whose pages may make changes with the token.
    pub allowed_origins: Vec<String>,
    /// The token that requests for changes must carry. Empty: nothing can be changed.
    pub api_token: String,
    /// Tokens that identify edges.
    pub edge_tokens: Vec<String>,
    /// Target segment length.
    pub segment: Duration,
    /// Silence after which an HLS or DASH viewer is given up; long segments extend it.
    pub viewer_timeout: Duration,
    /// Amount of film that is sent as fast as the network allows before pacing begins.
    pub ahead: Duration,
    /// Rate of paced viewers as a multiple of the film's rate; 0: as fast as the network allows.
    pub pace: f64,
    /// Whether downloads get unbooked capacity beyond their film's pace.
    pub eager_downloads: bool,
    /// Differentiated services code point of packets of file downloads (RFC 2474).
    pub download_dscp: u8,
    /// Whether segment addresses contain the viewer's token.
    pub tokens_in_segments: bool,
    /// Whether hit ratios of other cache policies are computed for the same requests.
    pub compare_policies: bool,
    /// Whether films can be uploaded and deleted, with the token.
    pub uploads: bool,
    /// Maximum size of an uploaded film in bytes.
    pub max_upload: u64,
    /// Memory for block copies that sockets get without another copy, in bytes; 0: none.
    pub repeated: u64,
    /// Maximum number of connections.
    pub max_connections: usize,
    /// Maximum number of connections from one address (one IPv6 /64).
    pub max_connections_per_peer: usize,
    /// Maximum number of clients that listen to events; half of them from one address.
    pub max_listeners: usize,
    /// Maximum bytes of API answers and index heads that wait for clients to read them; the same
    /// limit applies to playlists.
    pub answers: u64,
    /// Time within which a request's head must arrive completely, counted from the end of the
    /// previous request; thus also the maximum idle time of a connection.
    pub request_timeout: Duration,
    /// Time after which a connection that reads none of the requested media is closed.
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
    /// File with the certificate chain (PEM), the server's own first.
    pub certificate: PathBuf,
    /// File with its private key (PEM).
    pub key: PathBuf,
    /// Whether the kernel encrypts if it can.
    pub kernel: bool,
}
