//! A web server that is asked for byte ranges.

use std::ops::Range;
use std::sync::Once;
use std::time::Duration;

use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderValue, IF_MATCH, IF_UNMODIFIED_SINCE, RANGE,
    VIA,
};
use reqwest::{Client, ClientBuilder, Response, StatusCode};

use crate::address::Address;
use crate::check;
use crate::fault::Fault;
use crate::recording::RecordingStatus;
use crate::redirects::{self, Hosts};
use crate::secret::Secret;
use crate::version::Version;
use crate::via;

/// The media type of an index.
const INDEX: &str = "application/vnd.reelway.index";

/// A client for one web server.
#[derive(Debug)]
pub(crate) struct Web {
    client: Client,
    address: Address,
    stall: Duration,
}

/// Installs the cryptography that rustls uses, once per process.
pub(crate) fn choose_cryptography() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that one is installed already, which will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Builds a client. For a `plain` address, the machine need not have certificates of authorities:
/// the client then trusts no HTTPS server to which a redirect may lead.
pub(crate) fn build(plain: bool, builder: impl Fn() -> ClientBuilder) -> reqwest::Result<Client> {
    match builder().build() {
        Err(_) if plain => builder().tls_certs_only([]).build(),
        built => built,
    }
}

impl Web {
    /// Creates a client for this endpoint. `token` is sent as `Authorization: Bearer`; neither the
    /// token nor user and password are sent to another host after a redirect.
    pub fn new(
        address: Address,
        token: &Secret,
        hosts: Hosts,
        connect: Duration,
        stall: Duration,
    ) -> Result<Web, String> {
        choose_cryptography();
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if !token.is_empty() {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
                .map_err(|_| "the token has characters that cannot be sent".to_owned())?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let client = build(!address.is_encrypted(), || {
            Client::builder()
                .user_agent(concat!("Reelway/", env!("CARGO_PKG_VERSION"), " (edge)"))
                .default_headers(headers.clone())
                .connect_timeout(connect)
                .redirect(hosts.clone().policy())
                .referer(false)
        })
        .map_err(|error| described(&error))?;
        Ok(Web {
            client,
            address,
            stall,
        })
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    async fn ask(&self, path: &str, query: &str, headers: HeaderMap) -> Result<Response, Fault> {
        let mut request = self
            .client
            .get(self.address.below(path, query))
            .headers(headers);
        if let Some((user, password)) = &self.address.user {
            request = request.basic_auth(user, Some(password.expose()));
        }
        match tokio::time::timeout(self.stall, request.send()).await {
            Ok(answer) => answer.map_err(|error| match redirects::refused(&error) {
                Some(refused) => Fault::Redirected(refused.to_string()),
                None => Fault::Broken(described(&error)),
            }),
            Err(_) => Err(Fault::Stalled(self.stall)),
        }
    }

    /// Returns the version of a film there, the Reelway servers through which it comes, and its
    /// state as a recording.
    pub async fn probe(
        &self,
        path: &str,
    ) -> Result<(Version, Vec<String>, RecordingStatus), Fault> {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_static("bytes=0-0"));
        let answer = self.ask(path, "", headers).await?;
        let version = check::probed(answer.status(), answer.headers())?;
        let lines = answer.headers().get_all(VIA).iter();
        let via = via::ids(lines.filter_map(|line| line.to_str().ok()));
        let recording = check::recording(answer.headers());
        Ok((
            version,
            via,
            recording.map_or(RecordingStatus::default(), |said| said.status),
        ))
    }

    /// Fills `into` with the film's bytes `range`; `have` counts the bytes received, even before a
    /// fault.
    pub async fn part(
        &self,
        path: &str,
        version: &Version,
        range: Range<u64>,
        into: &mut [u8],
        have: &mut usize,
    ) -> Result<(), Fault> {
        let mut answer = self.ask(path, "", conditions(version, &range)).await?;
        let coming = check::part(answer.status(), answer.headers(), &range, version)?;
        let coming = usize::try_from(coming)
            .unwrap_or(usize::MAX)
            .min(into.len());
        let mut at = 0;
        while at < coming {
            let Some(chunk) = self.chunk(&mut answer).await? else {
                return Err(Fault::Broken(format!(
                    "the answer ended after {at} of {coming} bytes"
                )));
            };
            // The server sent more than it announced: nothing of it can be trusted.
            let Some(place) = into[..coming].get_mut(at..at + chunk.len()) else {
                *have = 0;
                return Err(Fault::Wrong(format!(
                    "more than the {coming} bytes announced"
                )));
            };
            place.copy_from_slice(&chunk);
            at += chunk.len();
            *have = at;
        }
        // The connection can only be used again if the answer was read to its end.
        match self.chunk(&mut answer).await {
            Ok(Some(more)) if !more.is_empty() => {
                *have = 0;
                Err(Fault::Wrong(format!(
                    "more than the {coming} bytes announced"
                )))
            }
            _ => Ok(()),
        }
    }

    async fn chunk(&self, answer: &mut Response) -> Result<Option<bytes::Bytes>, Fault> {
        match tokio::time::timeout(self.stall, answer.chunk()).await {
            Ok(chunk) => chunk.map_err(|error| Fault::Broken(described(&error))),
            Err(_) => Err(Fault::Stalled(self.stall)),
        }
    }

    /// Fetches an index of this version of a film and passes each piece to `take`, with the index's
    /// version, which may be longer for a recording. `false` if the server has no index.
    pub async fn index(
        &self,
        path: &str,
        version: &Version,
        mut take: impl FnMut(&Version, &[u8]) -> Result<(), Fault>,
    ) -> Result<bool, Fault> {
        let mut headers = HeaderMap::new();
        if version.edition.is_none()
            && let Some(tag) = version.strong()
            && let Ok(tag) = HeaderValue::from_str(tag)
        {
            headers.insert(IF_MATCH, tag);
        }
        let mut answer = self.ask(path, "", headers).await?;
        match answer.status() {
            StatusCode::OK => {}
            // Older servers have no indexes.
            StatusCode::NOT_FOUND => return Ok(false),
            status => return Err(check::refusal(status, answer.headers())),
        }
        let given = answer.headers().get(reqwest::header::CONTENT_TYPE);
        if given.is_none_or(|given| given != INDEX) {
            return Ok(false);
        }
        let version = check::indexed(answer.headers(), version)?;
        while let Some(chunk) = self.chunk(&mut answer).await? {
            take(&version, &chunk)?;
        }
        Ok(true)
    }

    /// Fetches a small document as text; `None` if it does not exist (404) or is of another type
    /// (one that does not begin with `media_type`).
    pub async fn document(
        &self,
        path: &str,
        query: &str,
        media_type: &str,
        most: usize,
    ) -> Result<Option<String>, Fault> {
        let mut answer = self.ask(path, query, HeaderMap::new()).await?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            status => return Err(check::refusal(status, answer.headers())),
        }
        let given = answer.headers().get(reqwest::header::CONTENT_TYPE);
        let given = given
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if !given.starts_with(media_type) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk(&mut answer).await? {
            if bytes.len() + chunk.len() > most {
                return Err(Fault::Wrong(format!(
                    "a document of more than {most} bytes"
                )));
            }
            bytes.extend_from_slice(&chunk);
        }
        String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| Fault::Wrong("a document that is not UTF-8".into()))
    }
}

/// The headers that ask for these bytes of this version only.
fn conditions(version: &Version, range: &Range<u64>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut set = |name, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    };
    set(
        RANGE,
        &format!("bytes={}-{}", range.start, range.end.saturating_sub(1)),
    );
    if version.edition.is_some() {
        // It may have grown, but its first bytes stay the same: the answer shows whether it is
        // still this recording.
    } else if let Some(tag) = version.strong() {
        set(IF_MATCH, tag);
    } else if let Some(modified) = version
        .modified
        .and_then(|seconds| u64::try_from(seconds).ok())
    {
        let time = std::time::UNIX_EPOCH + Duration::from_secs(modified);
        set(IF_UNMODIFIED_SINCE, &httpdate::fmt_http_date(time));
    }
    headers
}

/// Describes an error of reqwest without the address, which may hold a secret, and with the
/// innermost cause, which says most.
pub(crate) fn described(error: &reqwest::Error) -> String {
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    let mut deepest = None;
    while let Some(inner) = cause {
        deepest = Some(inner.to_string());
        cause = inner.source();
    }
    let what = if error.is_connect() {
        "no connection"
    } else if error.is_body() || error.is_decode() {
        "the connection broke"
    } else {
        "the request failed"
    };
    match deepest {
        Some(deepest) => format!("{what}: {deepest}"),
        None => what.to_owned(),
    }
}
