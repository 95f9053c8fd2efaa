//! The configuration of a source.

use std::time::Duration;

use crate::address::Address;
use crate::retry::Patience;
use crate::rounds::OFTEN;
use crate::secret::Secret;

/// Maximum number of connections to one source.
pub const MOST_CONNECTIONS: usize = 256;

/// A source of films: one or several endpoints that have the same films.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// Where the films are. The first healthy endpoint is asked.
    pub endpoints: Vec<Address>,
    /// Which of the files there are films.
    pub films: Wanted,
    /// Hosts (`host` or `host:port`) to which redirects are followed, beside those of the endpoints.
    pub redirects: Vec<String>,
    /// The token for `Authorization: Bearer`, for web servers. Only sent to the endpoints, not
    /// where they redirect to.
    pub token: Secret,
    /// Settings for S3.
    pub s3: S3Config,
    /// Folder in which the films appear; empty for none.
    pub at: String,
    /// The id of this server: films that come from it are not listed. Empty if it has none.
    pub own_id: String,
    /// Maximum number of requests at once; as many again to siblings.
    pub connections: usize,
    /// Timeout for connecting.
    pub connect: Duration,
    /// Longest time without a byte, before an answer begins and within it.
    pub stall: Duration,
    /// How long and how often to try.
    pub patience: Patience,
    /// Time between two fetches of the list of films.
    pub refresh: Duration,
    /// A recording that grows is not checked or indexed again more often than this.
    pub reindex_interval: Duration,
    /// How long the known films stay listed after an endpoint answered last.
    pub stale: Duration,
}

/// Longest time that films without an answering endpoint are listed: a year.
pub const LONGEST_STALE: Duration = Duration::from_secs(365 * 24 * 3600);

/// Which films of an endpoint are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// All that it lists: `/api/films` of a Reelway server, the folder pages of a web server, the
    /// keys of S3.
    #[default]
    Listed,
    /// Those with these paths below the endpoint.
    These(Vec<String>),
    /// Those in this document below the endpoint: one address or path per line (an M3U playlist
    /// will do).
    Document(String),
}

/// How S3 is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct S3Config {
    /// `https://host:port` of a compatible server; empty for Amazon's.
    pub endpoint: String,
    /// If empty, `AWS_REGION` of the environment, or us-east-1.
    pub region: String,
    /// If empty, the environment's (`AWS_ACCESS_KEY_ID`, …), or those of the machine's role.
    pub access_key: Secret,
    /// The key's secret.
    pub secret_key: Secret,
    /// Send requests without a signature, as public buckets allow.
    pub anonymous: bool,
}

/// How names of documents that list films end.
const LISTS: [&str; 3] = [".txt", ".m3u", ".m3u8"];

impl SourceConfig {
    /// The source that a single address stands for: a film, if its name is a film's; the films in a
    /// list (`.txt`, `.m3u`); else all films there.
    pub fn of(address: Address) -> SourceConfig {
        let last = address.last();
        let films = if reelway_catalogue::is_film(std::path::Path::new(&last)) {
            Wanted::These(vec![last])
        } else if LISTS
            .iter()
            .any(|end| last.to_ascii_lowercase().ends_with(end))
        {
            Wanted::Document(last)
        } else {
            return SourceConfig::new(address);
        };
        SourceConfig {
            films,
            ..SourceConfig::new(address.parent())
        }
    }

    /// All films of one endpoint, with the defaults.
    pub fn new(endpoint: Address) -> SourceConfig {
        SourceConfig {
            endpoints: vec![endpoint],
            films: Wanted::Listed,
            redirects: Vec::new(),
            token: Secret::default(),
            s3: S3Config::default(),
            at: String::new(),
            own_id: String::new(),
            connections: 8,
            connect: Duration::from_secs(5),
            stall: Duration::from_secs(5),
            patience: Patience::default(),
            refresh: Duration::from_secs(60),
            reindex_interval: OFTEN,
            stale: LONGEST_STALE,
        }
    }
}
