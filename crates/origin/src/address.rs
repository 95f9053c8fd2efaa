//! Addresses of endpoints (`http://host/films/`, `s3://bucket/prefix`) and of films below them.
//! Secrets in an address (user and password, a query that may be a signature) are kept apart from
//! the part that is shown.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::Url;

use crate::secret::Secret;

/// Maximum length of a film's path below its endpoint, in bytes.
const MOST_PATH: usize = 1024;

/// Everything but unreserved characters (RFC 3986 2.3) is encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http://` or `https://`.
    Web,
    /// `s3://BUCKET/PREFIX`.
    S3,
}

/// The address of an endpoint: a folder of films, or a single document.
#[derive(Clone, Debug)]
pub struct Address {
    /// Web server or S3.
    pub scheme: Scheme,
    /// Without user, password, query and fragment.
    url: Url,
    /// `user:password` of the address.
    pub(crate) user: Option<(String, Secret)>,
    query: Secret,
}

/// Why a text is not an address of an endpoint.
#[derive(Debug, thiserror::Error)]
#[error("'{shown}' is not an address of films: {why}")]
pub struct AddressError {
    shown: String,
    why: String,
}

impl Address {
    /// Whether a text is meant as an address rather than a path.
    pub fn is_meant(text: &str) -> bool {
        ["http://", "https://", "s3://"].iter().any(|scheme| {
            text.get(..scheme.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })
    }

    /// Whether it is reached over HTTPS.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Parses an address that may hold user and password.
    ///
    /// # Errors
    /// The same as [`Address::parse`].
    pub fn of(secret: &Secret) -> Result<Address, AddressError> {
        Address::parse(secret.expose())
    }

    /// Parses an address.
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        // The error does not show anything that could be a secret.
        let shown = || {
            let start = text.split(['?', '#']).next().unwrap_or_default();
            match start.split_once("://") {
                Some((scheme, rest)) => {
                    let host = rest.split('/').next().unwrap_or_default();
                    let rest = &rest[host.rfind('@').map_or(0, |at| at + 1)..];
                    format!("{scheme}://{rest}")
                }
                None => start.to_owned(),
            }
        };
        let error = |why: String| AddressError {
            shown: shown(),
            why,
        };
        let mut url = Url::parse(text).map_err(|why| error(why.to_string()))?;
        let scheme = match url.scheme() {
            "http" | "https" => Scheme::Web,
            "s3" => Scheme::S3,
            other => return Err(error(format!("'{other}' is none of http, https, s3"))),
        };
        if url.host_str().unwrap_or_default().is_empty() {
            return Err(error("a host (or bucket) is missing".into()));
        }
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let user = (!url.username().is_empty() || url.password().is_some()).then(|| {
            let password = url.password().unwrap_or_default();
            (decode(url.username()), Secret::new(decode(password)))
        });
        let query = Secret::new(url.query().unwrap_or_default());
        // Cannot fail: these addresses have hosts.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        url.set_fragment(None);
        Ok(Address {
            scheme,
            url,
            user,
            query,
        })
    }

    /// Whether it is the address of a web server.
    pub fn is_web(&self) -> bool {
        self.scheme == Scheme::Web
    }

    /// The address as it is shown: without secrets, and without a slash at its end.
    pub fn shown(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// `host` or `host:port`; for S3, the bucket.
    pub fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        match self.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// Host and port; the port is `None` if it is the scheme's default.
    pub(crate) fn authority(&self) -> (String, Option<u16>) {
        let host = self.url.host_str().unwrap_or_default();
        (host.to_owned(), self.url.port())
    }

    /// The decoded path, without slashes around it; for S3, the prefix.
    pub fn path(&self) -> String {
        percent_decode_str(self.url.path())
            .decode_utf8_lossy()
            .trim_matches('/')
            .to_owned()
    }

    /// The last part of the decoded path; for a single film or list, its file name.
    pub fn last(&self) -> String {
        self.path()
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    /// The address of the folder that contains it.
    pub fn parent(&self) -> Address {
        let mut parent = self.clone();
        let path = self.url.path().trim_end_matches('/');
        let path = &path[..path.rfind('/').map_or(0, |slash| slash + 1)];
        parent.url.set_path(path);
        parent
    }

    /// The URL to request from a web server: the address of `path` (decoded, relative; a slash at
    /// its end stays) below this endpoint, including the secrets of the query.
    pub(crate) fn below(&self, path: &str, more: &str) -> Url {
        let mut url = self.url.clone();
        let base = self.url.path().trim_end_matches('/').to_owned();
        let parts = path.split('/').filter(|part| !part.is_empty());
        let mut whole = parts.fold(base, |mut whole, part| {
            whole.push('/');
            whole.extend(utf8_percent_encode(part, ENCODED));
            whole
        });
        if path.ends_with('/') {
            whole.push('/');
        }
        url.set_path(&whole);
        let query = [self.query.expose(), more]
            .into_iter()
            .filter(|part| !part.is_empty());
        let query: Vec<&str> = query.collect();
        if !query.is_empty() {
            url.set_query(Some(&query.join("&")));
        }
        url
    }

    /// The full address of a path that begins at the host's root.
    pub(crate) fn at_root(&self, path: &str) -> String {
        let mut url = self.url.clone();
        url.set_path("");
        format!("{}{path}", url.as_str().trim_end_matches('/'))
    }

    /// The path, decoded and below this endpoint, of an entry in a list: a path below it, or a full
    /// address. `None` if the entry lies elsewhere or is invalid.
    pub(crate) fn relative(&self, entry: &str) -> Option<String> {
        let path = if Address::is_meant(entry) {
            let whole = Url::parse(entry).ok()?;
            let same = whole.scheme() == self.url.scheme()
                && whole.host_str() == self.url.host_str()
                && whole.port_or_known_default() == self.url.port_or_known_default();
            let base = format!("{}/", self.url.path().trim_end_matches('/'));
            same.then(|| whole.path().strip_prefix(&base).map(str::to_owned))??
        } else {
            entry
                .split(['?', '#'])
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let path = percent_decode_str(&path).decode_utf8().ok()?;
        let path = path.strip_prefix("./").unwrap_or(&path);
        is_path(path).then(|| path.to_owned())
    }
}

/// Whether this can be the path of a film below an endpoint: names separated by slashes, without
/// parts that servers resolve differently (empty, `.` and `..`).
pub(crate) fn is_path(path: &str) -> bool {
    (1..=MOST_PATH).contains(&path.len())
        && !path.chars().any(char::is_control)
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_an_address_are_not_shown() {
        let address =
            Address::parse("https://ann:s3cr%40t@films.example:8443/a%20b/?key=t0ken#x").unwrap();
        assert_eq!(address.shown(), "https://films.example:8443/a%20b");
        assert_eq!(address.path(), "a b");
        let (user, password) = address.user.clone().unwrap();
        assert_eq!((user.as_str(), password.expose()), ("ann", "s3cr@t"));
        let asked = address.below("c d/ü.mp4", "page=2");
        assert_eq!(
            asked.as_str(),
            "https://films.example:8443/a%20b/c%20d/%C3%BC.mp4?key=t0ken&page=2"
        );
        let text = format!("{address:?}");
        assert!(!text.contains("s3cr") && !text.contains("t0ken"), "{text}");
        for wrong in [
            "ftp://ann:s3cret@h/x",
            "http://ann:s3cret@/x?t0ken",
            "http://ann:s3cret@h:99999/",
        ] {
            let text = Address::parse(wrong).unwrap_err().to_string();
            assert!(
                !text.contains("s3cret") && !text.contains("t0ken"),
                "{text}"
            );
        }
    }

    #[test]
    fn entries_of_a_list_lie_below_their_place() {
        let endpoint = Address::parse("http://h:80/films/").unwrap();
        for (entry, path) in [
            ("a.mp4", Some("a.mp4")),
            ("./b/c%20d.mp4", Some("b/c d.mp4")),
            ("http://h/films/e.mp4?x=1", Some("e.mp4")),
            ("http://other/films/e.mp4", None),
            ("http://h/filmsx/e.mp4", None),
            ("../up.mp4", None),
            ("b/%2e%2e/up.mp4", None),
            ("/etc/passwd", None),
            ("a//b.mp4", None),
            ("%ff.mp4", None),
            ("", None),
        ] {
            assert_eq!(endpoint.relative(entry).as_deref(), path, "{entry}");
        }
    }

    #[test]
    fn a_bucket_and_its_prefix() {
        let endpoint = Address::parse("s3://films/archive/2026/").unwrap();
        assert_eq!(
            (
                endpoint.scheme,
                endpoint.host().as_str(),
                endpoint.path().as_str()
            ),
            (Scheme::S3, "films", "archive/2026")
        );
        assert_eq!(endpoint.shown(), "s3://films/archive/2026");
        let film = Address::parse("http://h/films/a%20b.mp4").unwrap();
        assert_eq!(
            (film.last().as_str(), film.parent().shown()),
            ("a b.mp4", "http://h/films")
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in "(https?|s3)://.{0,40}|.{0,40}", entry in ".{0,30}") {
            if let Ok(address) = Address::parse(&text) {
                let _ = (address.relative(&entry), address.below(&entry, ""), address.parent());
            }
        }
    }
}
