//! S3 and compatible stores, through the crate `object_store`, which signs and lists. Its own
//! retries are off, so that all sources retry in the same way.

use std::ops::Range;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpClient, HttpConnector};
use object_store::path::Path;
use object_store::{
    ClientOptions, Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt,
    RetryConfig,
};

use crate::address::Address;
use crate::config::S3Config;
use crate::fault::Fault;
use crate::redirects::{Hosts, refused};
use crate::version::Version;
use crate::web::{build, choose_cryptography};

/// Maximum number of objects of a list that are looked at.
const MOST_OBJECTS: usize = 10_000_000;

/// A bucket, or the part of it below a prefix.
#[derive(Debug)]
pub(crate) struct S3 {
    store: AmazonS3,
    address: Address,
    prefix: String,
    stall: Duration,
}

/// Makes clients that follow redirects only where the source allows them.
#[derive(Debug)]
struct Connector {
    hosts: Hosts,
    connect: Duration,
    /// Whether the endpoint is reached without TLS.
    plain: bool,
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        // No timeout for a whole answer: this module checks that bytes keep coming.
        let client = build(self.plain, || {
            reqwest::Client::builder()
                .connect_timeout(self.connect)
                .redirect(self.hosts.clone().policy())
                .referer(false)
        });
        let client = client.map_err(|error| Error::Generic {
            store: "S3",
            source: Box::new(error),
        })?;
        Ok(HttpClient::new(client))
    }
}

impl S3 {
    pub fn new(
        address: Address,
        config: &S3Config,
        hosts: Hosts,
        connect: Duration,
        stall: Duration,
    ) -> Result<S3, String> {
        choose_cryptography();
        let secret = |secret: &crate::Secret| secret.resolve().map_err(|error| error.to_string());
        let (key, secret_key) = (secret(&config.access_key)?, secret(&config.secret_key)?);
        // What the configuration leaves out is taken from the environment's `AWS_…`.
        let plain = config.endpoint.starts_with("http://");
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(address.host())
            .with_allow_http(plain)
            .with_retry(RetryConfig {
                max_retries: 0,
                ..RetryConfig::default()
            })
            .with_http_connector(Connector {
                hosts,
                connect,
                plain,
            });
        if !config.endpoint.is_empty() {
            builder = builder.with_endpoint(config.endpoint.trim_end_matches('/'));
        }
        if !config.region.is_empty() {
            builder = builder.with_region(&config.region);
        }
        if config.anonymous {
            builder = builder.with_config(AmazonS3ConfigKey::SkipSignature, "true");
        } else if !key.is_empty() {
            builder = builder
                .with_access_key_id(key.expose())
                .with_secret_access_key(secret_key.expose());
        }
        let store = builder.build().map_err(|error| fault(error).to_string())?;
        let prefix = address.path();
        Ok(S3 {
            store,
            address,
            prefix,
            stall,
        })
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    fn key(&self, path: &str) -> Result<Path, Fault> {
        let text = match self.prefix.as_str() {
            "" => path.to_owned(),
            prefix => format!("{prefix}/{path}"),
        };
        Path::parse(&text).map_err(|error| Fault::Wrong(format!("no key of S3: {error}")))
    }

    /// Returns the version of a film there.
    pub async fn probe(&self, path: &str) -> Result<Version, Fault> {
        let key = self.key(path)?;
        match tokio::time::timeout(self.stall, self.store.head(&key)).await {
            Ok(meta) => meta.map(|meta| version(&meta)).map_err(fault),
            Err(_) => Err(Fault::Stalled(self.stall)),
        }
    }

    /// Fills `into` with the film's bytes `range`; `have` counts the bytes received, even before a
    /// fault.
    pub async fn part(
        &self,
        path: &str,
        wanted: &Version,
        range: Range<u64>,
        into: &mut [u8],
        have: &mut usize,
    ) -> Result<(), Fault> {
        let key = self.key(path)?;
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: wanted.strong().map(str::to_owned),
            ..GetOptions::default()
        };
        let answer =
            match tokio::time::timeout(self.stall, self.store.get_opts(&key, options)).await {
                Ok(answer) => answer.map_err(fault)?,
                Err(_) => return Err(Fault::Stalled(self.stall)),
            };
        let there = version(&answer.meta);
        if there.len != wanted.len || !wanted.fits(there.etag.as_deref(), there.modified) {
            return Err(Fault::Changed("another object under this key".into()));
        }
        if answer.range.start != range.start || answer.range.end > range.end {
            return Err(Fault::Wrong(format!(
                "bytes {}-{} where {}-{} were asked for",
                answer.range.start, answer.range.end, range.start, range.end
            )));
        }
        let coming = (answer.range.end - answer.range.start) as usize;
        let mut stream = answer.into_stream();
        let mut at = 0;
        while at < coming {
            let chunk = match tokio::time::timeout(self.stall, stream.next()).await {
                Ok(Some(chunk)) => chunk.map_err(fault)?,
                Ok(None) => {
                    return Err(Fault::Broken(format!(
                        "the answer ended after {at} of {coming} bytes"
                    )));
                }
                Err(_) => return Err(Fault::Stalled(self.stall)),
            };
            let Some(place) = into.get_mut(at..at + chunk.len()) else {
                *have = 0;
                return Err(Fault::Wrong(format!(
                    "more than the {coming} bytes announced"
                )));
            };
            place.copy_from_slice(&chunk);
            at += chunk.len();
            *have = at;
        }
        Ok(())
    }

    /// Fetches a small object as text.
    pub async fn document(&self, path: &str, most: usize) -> Result<String, Fault> {
        let version = self.probe(path).await?;
        let len = usize::try_from(version.len).ok().filter(|len| *len <= most);
        let len = len.ok_or_else(|| Fault::Wrong(format!("a list of more than {most} bytes")))?;
        let (mut bytes, mut have) = (vec![0; len], 0);
        if len > 0 {
            self.part(path, &version, 0..len as u64, &mut bytes, &mut have)
                .await?;
        }
        bytes.truncate(have);
        String::from_utf8(bytes).map_err(|_| Fault::Wrong("a list that is not UTF-8".into()))
    }

    /// The wanted objects below the prefix, with their versions: at most `most`, plus one if there
    /// are more.
    pub async fn list(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        most: usize,
    ) -> Result<Vec<(String, Version)>, Fault> {
        let prefix = match self.prefix.as_str() {
            "" => None,
            prefix => Some(Path::parse(prefix).map_err(|error| Fault::Wrong(error.to_string()))?),
        };
        let cut = if self.prefix.is_empty() {
            0
        } else {
            self.prefix.len() + 1
        };
        let mut stream = self.store.list(prefix.as_ref());
        let mut found = Vec::new();
        for _ in 0..MOST_OBJECTS {
            let next = tokio::time::timeout(self.stall, stream.try_next()).await;
            let next = next.map_err(|_| Fault::Stalled(self.stall))?;
            let Some(meta) = next.map_err(fault)? else {
                return Ok(found);
            };
            let path = meta.location.as_ref().get(cut..);
            if let Some(path) = path.filter(|path| is_wanted(path)) {
                found.push((path.to_owned(), version(&meta)));
            }
            if found.len() > most {
                return Ok(found);
            }
        }
        Err(Fault::Wrong(format!(
            "a bucket of more than {MOST_OBJECTS} objects: name a prefix of those that are films"
        )))
    }
}

fn version(meta: &ObjectMeta) -> Version {
    Version {
        len: meta.size,
        etag: meta.e_tag.clone(),
        modified: Some(meta.last_modified.timestamp()),
        edition: None,
    }
}

/// Converts an error. Its own text is not shown: S3's answers repeat key names and what was signed.
fn fault(error: Error) -> Fault {
    match error {
        Error::NotFound { .. } => Fault::Gone(404),
        // This text repeats the name of an object, and nothing else.
        Error::InvalidPath { source } => Fault::Wrong(format!(
            "{source}: rename this object, or name the films (`films` of the source) or a list of them (`list`)"
        )),
        Error::Precondition { .. } | Error::NotModified { .. } => {
            Fault::Changed("status 412".into())
        }
        Error::PermissionDenied { .. } => Fault::Forbidden(403),
        Error::Unauthenticated { .. } => Fault::Forbidden(401),
        error => {
            if let Some(refused) = refused(&error) {
                return Fault::Redirected(refused.to_string());
            }
            let words = error.to_string();
            match status(&words) {
                Some(status @ (429 | 503)) => Fault::SlowDown {
                    status,
                    after: None,
                },
                Some(status @ (401 | 403)) => Fault::Forbidden(status),
                Some(404) => Fault::Gone(404),
                Some(416) => Fault::Changed("status 416".into()),
                Some(status @ 500..) => {
                    Fault::Broken(format!("the origin failed (status {status})"))
                }
                Some(status) => Fault::Wrong(match code(&words) {
                    Some(code) => format!("status {status}, {code}"),
                    None => format!("status {status}"),
                }),
                None => Fault::Broken(cause(&error)),
            }
        }
    }
}

/// The status in an error's text: the crate does not offer it in any other form.
fn status(words: &str) -> Option<u16> {
    let (_, rest) = words.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// S3's name of an error, such as `SlowDown`.
fn code(words: &str) -> Option<&str> {
    let (_, rest) = words.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    code.bytes()
        .all(|byte| byte.is_ascii_alphanumeric())
        .then_some(code)
}

/// The innermost cause: the errors around it contain the address.
fn cause(error: &Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(inner) = deepest.source() {
        deepest = inner;
    }
    let words: String = deepest.to_string().chars().take(200).collect();
    match words.contains("://") {
        true => "an unintelligible answer".into(),
        false => words,
    }
}
