//! `[[source]]` and `[siblings]` of the configuration: remote films.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use reelway_origin::{
    Address, GroupConfig, LONGEST_STALE, MOST_CONNECTIONS, Patience, S3Config, Secret,
    SourceConfig, Wanted, is_host,
};
use serde::Deserialize;

/// Maximum number of siblings.
const MOST_SIBLINGS: usize = 256;

/// A configured source of films; `config.toml` documents each key.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub url: Secret,
    #[serde(default)]
    pub mirrors: Vec<Secret>,
    #[serde(default)]
    pub films: Vec<String>,
    #[serde(default)]
    pub list: String,
    #[serde(default)]
    pub at: String,
    #[serde(default)]
    pub redirects: Vec<String>,
    #[serde(default)]
    pub token: Secret,
    #[serde(default = "connections")]
    pub connections: usize,
    #[serde(default = "stall")]
    pub stall: u32,
    #[serde(default = "patience")]
    pub patience: u32,
    #[serde(default = "refresh")]
    pub refresh: u32,
    #[serde(default = "stale")]
    pub stale: u32,
    #[serde(default)]
    pub endpoint: String,
    #[serde(default)]
    pub region: String,
    #[serde(default)]
    pub access_key: Secret,
    #[serde(default)]
    pub secret_key: Secret,
    #[serde(default)]
    pub anonymous: bool,
}

fn connections() -> usize {
    8
}

fn stall() -> u32 {
    5
}

fn patience() -> u32 {
    20
}

fn refresh() -> u32 {
    60
}

fn stale() -> u32 {
    LONGEST_STALE.as_secs() as u32
}

impl Source {
    /// Returns the checked configuration. Errors contain no secrets.
    pub fn config(&self) -> anyhow::Result<SourceConfig> {
        let address = |text: &Secret| Address::of(text).map_err(anyhow::Error::from);
        let first = address(&self.url)?;
        let shown = first.shown().to_owned();
        let mut config = SourceConfig::of(first);
        for mirror in &self.mirrors {
            config
                .endpoints
                .extend(SourceConfig::of(address(mirror)?).endpoints);
        }
        let range = |key: &str, value: u64, low: u64, high: u64| {
            ensure!(
                (low..=high).contains(&value),
                "{shown}: {key} = {value}: must lie between {low} and {high}"
            );
            Ok(())
        };
        range(
            "connections",
            self.connections as u64,
            1,
            MOST_CONNECTIONS as u64,
        )?;
        range("stall", self.stall.into(), 1, 600)?;
        range("patience", self.patience.into(), 1, 3600)?;
        range("refresh", self.refresh.into(), 1, 86_400)?;
        range("stale", self.stale.into(), 0, LONGEST_STALE.as_secs())?;
        ensure!(
            self.films.is_empty() || self.list.is_empty(),
            "{shown}: `films` and `list` exclude each other: use one"
        );
        ensure!(
            self.access_key.is_empty() == self.secret_key.is_empty(),
            "{shown}: `access_key` and `secret_key` go together"
        );
        for host in &self.redirects {
            ensure!(
                is_host(host),
                "{shown}: redirects: '{host}' is no host: write \"host\" or \"host:port\""
            );
        }
        if !self.films.is_empty() {
            config.films = Wanted::These(self.films.clone());
        } else if !self.list.is_empty() {
            config.films = Wanted::Document(self.list.clone());
        }
        for secret in [&self.token, &self.access_key, &self.secret_key] {
            secret.resolve().with_context(|| shown.clone())?;
        }
        let whole = Duration::from_secs(self.patience.into());
        Ok(SourceConfig {
            redirects: self.redirects.clone(),
            token: self.token.clone(),
            s3: S3Config {
                endpoint: self.endpoint.clone(),
                region: self.region.clone(),
                access_key: self.access_key.clone(),
                secret_key: self.secret_key.clone(),
                anonymous: self.anonymous,
            },
            at: self.at.trim_matches('/').to_owned(),
            connections: self.connections,
            stall: Duration::from_secs(self.stall.into()),
            patience: Patience {
                whole,
                // An endpoint that rests for all of a read's patience would never be tried again.
                most: Patience::default().most.min(whole / 4),
                ..Patience::default()
            },
            refresh: Duration::from_secs(self.refresh.into()),
            stale: Duration::from_secs(self.stale.into()),
            ..config
        })
    }
}

/// Other servers of the same remote films; `config.toml` documents each key.
#[allow(missing_docs)]
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Siblings {
    pub urls: Vec<Secret>,
    pub token: Secret,
    pub redirect: bool,
    pub host: String,
}

impl Siblings {
    /// Returns the checked configuration, without this server's id; `None` if there are no
    /// siblings. Errors contain no secrets.
    pub fn config(&self) -> anyhow::Result<Option<GroupConfig>> {
        // The colons of an IPv6 address are inside brackets.
        let has_port = self
            .host
            .rsplit(']')
            .next()
            .is_some_and(|rest| rest.contains(':'));
        ensure!(
            self.host.is_empty() || (is_host(&self.host) && !has_port),
            "siblings.host: '{}': must be a host, without a port",
            self.host
        );
        if self.urls.is_empty() {
            ensure!(
                !self.redirect,
                "siblings.redirect: there are no siblings; name them in `siblings.urls`"
            );
            return Ok(None);
        }
        let count = self.urls.len();
        ensure!(
            count <= MOST_SIBLINGS,
            "siblings.urls: {count} servers; {MOST_SIBLINGS} at most"
        );
        let addresses = self.urls.iter().map(|url| {
            let address = Address::of(url).context("siblings.urls")?;
            ensure!(
                address.is_web(),
                "siblings.urls: {}: must begin with http:// or https://",
                address.shown()
            );
            Ok(address)
        });
        let addresses = addresses.collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(
            !self.token.is_empty(),
            "siblings.token: siblings need a token, the same on all of them"
        );
        Ok(Some(GroupConfig {
            addresses,
            token: self.token.clone(),
            own_id: String::new(),
            redirects: self.redirect,
        }))
    }
}

/// Separates films on this machine from addresses of remote sources.
pub fn places(films: &[PathBuf]) -> anyhow::Result<(Vec<PathBuf>, Vec<SourceConfig>)> {
    let (mut local, mut elsewhere) = (Vec::new(), Vec::new());
    for film in films {
        match film.to_str().filter(|text| Address::is_meant(text)) {
            Some(text) => elsewhere.push(SourceConfig::of(Address::parse(text)?)),
            None => local.push(film.clone()),
        }
    }
    Ok((local, elsewhere))
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, REFERENCE};

    /// The example of the reference, without its comment signs.
    fn example() -> Config {
        let (_, example) = REFERENCE.split_once("# [[source]]").expect("an example");
        let lines = example
            .lines()
            .map(|line| line.strip_prefix("# ").unwrap_or(line));
        let text: Vec<&str> = lines.collect();
        toml::from_str(&format!("[[source]]{}", text.join("\n"))).expect("TOML")
    }

    #[test]
    fn the_reference_s_example_shows_every_key_with_its_default() {
        let shown = &example().source[0];
        let bare: Config =
            toml::from_str("[[source]]\nurl = \"https://films.example/\"").expect("TOML");
        assert_eq!(shown, &bare.source[0]);
        let keys = format!("{shown:#?}")
            .lines()
            .filter(|line| line.contains(": "))
            .count();
        let example = REFERENCE.split_once("# [[source]]").expect("an example").1;
        let in_example = example.lines().filter(|line| line.contains(" = ")).count();
        assert_eq!(in_example, keys, "{shown:#?}");
        shown.config().expect("a source");
    }

    #[test]
    fn what_cannot_be_is_told_without_secrets() {
        for (text, wanted) in [
            ("url = \"ftp://ann:s3cret@h/\"", "none of http, https, s3"),
            (
                "url = \"http://ann:s3cret@h/?s3cret\"\nconnections = 0",
                "connections = 0",
            ),
            (
                "url = \"http://h/\"\nmirrors = [\"nothing://ann:s3cret@h\"]",
                "nothing",
            ),
            (
                "url = \"http://h/\"\nfilms = [\"a.mp4\"]\nlist = \"x.m3u\"",
                "use one",
            ),
            ("url = \"s3://b\"\naccess_key = \"s3cret\"", "go together"),
            (
                "url = \"http://h/\"\ntoken = \"env:REELWAY_NO_SUCH\"",
                "REELWAY_NO_SUCH",
            ),
            ("url = \"http://h/\"\npatience = 0", "patience = 0"),
            (
                "url = \"http://h/\"\nredirects = [\"https://cdn.example/\"]",
                "is no host",
            ),
        ] {
            let config: Config = toml::from_str(&format!("[[source]]\n{text}")).expect("TOML");
            let error = format!("{:#}", config.source[0].config().unwrap_err());
            assert!(
                error.contains(wanted) && !error.contains("s3cret"),
                "{error}"
            );
        }
        let config: Config =
            toml::from_str("[[source]]\nurl = \"http://ann:s3cret@h/?s3cret\"\ntoken = \"s3cret\"")
                .expect("TOML");
        assert!(!format!("{config:?}").contains("s3cret"));
    }

    #[test]
    fn siblings_that_cannot_be_are_refused_by_the_key_that_is_wrong() {
        let known = "urls = [\"http://edge2:8080/\"]\ntoken = \"t\"\n";
        let of = |text: &str| {
            let config: Config = toml::from_str(&format!("[siblings]\n{text}")).expect("TOML");
            config.siblings.config()
        };
        for (text, wanted) in [
            ("redirect = true", "siblings.redirect"),
            ("urls = [\"http://edge2:8080/\"]", "siblings.token"),
            ("urls = [\"s3://bucket\"]\ntoken = \"t\"", "siblings.urls"),
            ("host = \"edge1:8080\"", "siblings.host"),
            ("host = \"[::1]:8080\"", "siblings.host"),
            ("host = \"http://edge1\"", "siblings.host"),
        ] {
            let error = format!("{:#}", of(text).unwrap_err());
            assert!(error.starts_with(wanted), "{text}: {error}");
        }
        for host in ["", "edge1.example", "192.0.2.1", "[2001:db8::1]"] {
            let text = format!("{known}redirect = true\nhost = \"{host}\"");
            let config = of(&text).expect("siblings").expect("some");
            assert!(config.redirects && config.addresses.len() == 1, "{host}");
        }
    }
}
