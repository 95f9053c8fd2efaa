//! Where a source may redirect to: its own hosts, and those that its configuration names. Other
//! redirects could make this server request any address inside its network.

use reqwest::Url;
use reqwest::redirect::Policy;

use crate::address::Scheme;
use crate::config::SourceConfig;

/// Maximum number of redirects that are followed for one request.
const MOST: usize = 5;

/// A host, and its port unless it is the scheme's default.
type Host = (String, Option<u16>);

/// The hosts to which redirects are followed, beside the one that was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(Vec<Host>);

/// A redirect that is not followed. Messages show the host only: the rest of an address may be a
/// secret.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error(
        "the server there redirects to {0}, which is no host of this source; to allow it: redirects = [\"{0}\"] in its [[source]]"
    )]
    Foreign(String),
    #[error("the server there redirects from https to http ({0}), which is not followed")]
    Plain(String),
    #[error("the server there redirects more than {MOST} times")]
    TooMany,
}

/// Parses a host of the configuration: `host` or `host:port`.
fn parse(text: &str) -> Option<Host> {
    let url = Url::parse(&format!("http://{text}/")).ok()?;
    let bare = url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    // `Url::port` is `None` for the scheme's default port, even if it was written out.
    let port = match url.port() {
        None if text.ends_with(":80") => Some(80),
        port => port,
    };
    (bare && !text.contains('/')).then(|| Some((url.host_str()?.to_owned(), port)))?
}

/// Whether a text is valid in `redirects` of a source: `host` or `host:port`.
pub fn is_host(text: &str) -> bool {
    parse(text).is_some()
}

impl Hosts {
    /// No further hosts: only the host that was asked may answer.
    pub fn none() -> Hosts {
        Hosts::default()
    }

    /// The hosts of a source's addresses, and those to which its configuration allows redirects.
    pub fn of(config: &SourceConfig) -> Hosts {
        let endpoints = config.endpoints.iter();
        let own = endpoints.filter(|endpoint| endpoint.scheme == Scheme::Web);
        let named = config.redirects.iter().filter_map(|text| parse(text));
        Hosts(
            own.map(|endpoint| endpoint.authority())
                .chain(named)
                .collect(),
        )
    }

    /// Whether to follow a redirect to `next`. `previous` begins with the original request.
    fn judge(&self, previous: &[Url], next: &Url) -> Result<(), Refused> {
        let shown = || {
            let host = next.host_str().unwrap_or_default();
            match next.port() {
                Some(port) => format!("{host}:{port}"),
                None => host.to_owned(),
            }
        };
        if previous.len() > MOST {
            return Err(Refused::TooMany);
        }
        let is_next = |(host, port): &Host| {
            next.host_str() == Some(host)
                && match port {
                    Some(port) => next.port_or_known_default() == Some(*port),
                    None => next.port().is_none(),
                }
        };
        let asked = previous.first().and_then(authority);
        if !asked.iter().chain(&self.0).any(is_next) {
            return Err(Refused::Foreign(shown()));
        }
        if next.scheme() != "https" && previous.last().is_some_and(|last| last.scheme() == "https")
        {
            return Err(Refused::Plain(shown()));
        }
        Ok(())
    }

    /// The redirect policy for an HTTP client.
    pub fn policy(self) -> Policy {
        Policy::custom(
            move |attempt| match self.judge(attempt.previous(), attempt.url()) {
                Ok(()) => attempt.follow(),
                Err(refused) => attempt.error(refused),
            },
        )
    }
}

/// Host and port of an address.
pub(crate) fn authority(url: &Url) -> Option<Host> {
    Some((url.host_str()?.to_owned(), url.port()))
}

/// The refused redirect that caused this error, if one did.
pub(crate) fn refused<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Refused> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref() {
            return Some(refused);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;

    fn hosts(endpoints: &[&str], redirects: &[&str]) -> Hosts {
        let endpoints = endpoints
            .iter()
            .map(|endpoint| Address::parse(endpoint).unwrap());
        let mut config = SourceConfig::new(Address::parse("s3://bucket/").unwrap());
        config.endpoints = endpoints.collect();
        config.redirects = redirects.iter().map(|host| host.to_string()).collect();
        Hosts::of(&config)
    }

    #[test]
    fn redirects_are_followed_within_the_hosts_of_a_source_only() {
        let hosts = hosts(
            &["http://films.example/a/", "https://mirror.example:8443/"],
            &[
                "cdn.example",
                "other.example:9000",
                "[2001:db8::1]:81",
                "old.example:80",
            ],
        );
        let judge = |from: &str, to: &str| {
            let (from, to) = (Url::parse(from).unwrap(), Url::parse(to).unwrap());
            hosts.judge(&[from], &to)
        };
        let from = "http://films.example/a/film.mp4";
        for to in [
            "http://films.example/b/film.mp4",
            "https://films.example/film.mp4",
            "https://mirror.example:8443/film.mp4",
            "https://cdn.example/film.mp4",
            "http://cdn.example/film.mp4",
            "http://other.example:9000/",
            "http://[2001:db8::1]:81/",
            "http://old.example/",
        ] {
            assert_eq!(judge(from, to), Ok(()), "{to}");
        }
        for to in [
            "http://films.example:8080/",
            "https://mirror.example/",
            "http://cdn.example:8080/",
            "http://other.example/",
            "http://127.0.0.1/",
            "http://films.example.evil.example/",
            "http://films.example@evil.example/",
            "https://old.example/",
            "http://bucket/",
        ] {
            assert!(matches!(judge(from, to), Err(Refused::Foreign(_))), "{to}");
        }
        let text = judge(from, "http://ann:s3cret@evil.example:81/s3cret?s3cret").unwrap_err();
        let text = text.to_string();
        assert!(
            text.contains("evil.example:81") && text.contains("redirects = "),
            "{text}"
        );
        assert!(!text.contains("s3cret"), "{text}");
        // If the host that was asked is not a web server's address of the source, as with S3, it
        // may redirect to itself.
        let endpoint = "http://s3.example:9000/bucket/key";
        assert_eq!(judge(endpoint, "http://s3.example:9000/other"), Ok(()));
        assert!(judge(endpoint, "http://bucket:9000/other").is_err());
    }

    #[test]
    fn encryption_is_not_given_up_and_circles_end() {
        let hosts = hosts(&["https://films.example/"], &[]);
        let (tls, plain) = (
            Url::parse("https://films.example/").unwrap(),
            Url::parse("http://films.example/").unwrap(),
        );
        let refused = hosts.judge(std::slice::from_ref(&tls), &plain);
        assert!(matches!(refused, Err(Refused::Plain(_))), "{refused:?}");
        assert_eq!(hosts.judge(&vec![tls.clone(); MOST], &tls), Ok(()));
        assert_eq!(
            hosts.judge(&vec![tls.clone(); MOST + 1], &tls),
            Err(Refused::TooMany)
        );
    }

    #[test]
    fn a_host_is_a_name_or_address_with_a_port_or_without() {
        for good in [
            "a.example",
            "a.example:80",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:9",
        ] {
            assert!(is_host(good), "{good}");
        }
        for bad in [
            "",
            "http://a/",
            "a/b",
            "a?b",
            "a#b",
            "u@a",
            "a:x",
            "a:99999",
            "a b",
            ":80",
        ] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
