//! What is to be known of a source.

use std::time::Duration;

use crate::address::Address;
use crate::retry::Patience;
use crate::rounds::OFTEN;
use crate::secret::Secret;

/// Most connections to one source.
pub const MOST_CONNECTIONS: usize = 256;

/// A source of films: one or several endpoints that have the same ones.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// Where the films are: first the one that is asked while it is well.
    pub endpoints: Vec<Address>,
    /// Which of what lies there are films.
    pub films: Wanted,
    /// Hosts (`host` or `host:port`) to which redirects are followed, beside those of the endpoints.
    pub redirects: Vec<String>,
    /// For `Authorization: Bearer`, at web servers. Sent to the endpoints only, not where they redirect to.
    pub token: Secret,
    /// For S3.
    pub s3: S3Config,
    /// Folder below which the films appear; empty: none.
    pub at: String,
    /// The id of the server that reads: films that come from it are not listed. Empty: it has none.
    pub own_id: String,
    /// Requests under way at once; as many again to siblings.
    pub connections: usize,
    /// Time for a connection to be made.
    pub connect: Duration,
    /// Longest time without a byte, before an answer begins and within it.
    pub stall: Duration,
    /// How long and how often to try.
    pub patience: Patience,
    /// Time between two looks at which films there are.
    pub refresh: Duration,
    /// A recording that grows is not asked for, nor indexed anew, more often than this.
    pub anew_every: Duration,
    /// For so long after an endpoint answered last, the films that are known are listed.
    pub stale: Duration,
}

/// Longest time for which films are listed that no endpoint answers for: a year.
pub const LONGEST_STALE: Duration = Duration::from_secs(365 * 24 * 3600);

/// Which films of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// All that it lists: a Reelway server its `/api/films`, a web server its folders' pages, S3 its keys.
    #[default]
    Listed,
    /// These, by their paths below the endpoint.
    These(Vec<String>),
    /// Those in this document below the endpoint: an address or path a line (M3U will do).
    Document(String),
}

/// How S3 is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct S3Config {
    /// `https://host:port` of a compatible server; empty: Amazon's.
    pub endpoint: String,
    /// Empty: `AWS_REGION` of the environment, or us-east-1.
    pub region: String,
    /// Empty: what the environment has (`AWS_ACCESS_KEY_ID`, …), or the machine's role.
    pub access_key: Secret,
    /// The key's secret.
    pub secret_key: Secret,
    /// Ask without a signature, as public buckets allow.
    pub anonymous: bool,
}

/// Names of documents that list films.
const LISTS: [&str; 3] = [".txt", ".m3u", ".m3u8"];

impl SourceConfig {
    /// What an address alone means: a film, where its name is a film's; the films in a list (`.txt`, `.m3u`);
    /// else all films there.
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
            anew_every: OFTEN,
            stale: LONGEST_STALE,
        }
    }
}
