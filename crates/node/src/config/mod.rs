//! Configuration: one TOML file, which its commented reference ([`REFERENCE`]) documents. This
//! module reads and checks it; its keys are in `keys.rs`.

mod keys;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use bytesize::ByteSize;
use ipnet::IpNet;

use self::keys::Tls;
pub use self::keys::{Admission, Capacity, Class, Config, Downloads, Listen, LogFormat, Pool};
pub use crate::prefill::Hours;

/// Minimum length of a token in characters, so that nobody can guess it.
const SHORTEST_TOKEN: usize = 16;

/// The commented reference, printed by `reelway serve --print-config`; a test checks that it equals
/// the defaults.
pub const REFERENCE: &str = include_str!("../config.toml");

impl keys::Rtp {
    /// Returns by how many milliseconds films are sent ahead over links without a limit, for
    /// smoothing.
    pub fn sent_evenly(&self) -> u32 {
        if self.smooth_always {
            self.smooth_ahead
        } else {
            0
        }
    }
}

impl Config {
    /// Reads a configuration file. An error names file, line and key.
    pub fn read(path: &Path) -> anyhow::Result<Config> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("configuration {}", path.display()))?;
        Config::parse(&text).map_err(|error| anyhow!("configuration {}: {error}", path.display()))
    }

    /// Parses and checks a configuration. An error names line and key.
    fn parse(text: &str) -> Result<Config, String> {
        // toml's own message shows the line, the key and the accepted values.
        let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
        // Checked here because the line is still known.
        config.check().map_err(|error| {
            let error = error.to_string();
            let key = error.split([' ', ':']).next().unwrap_or_default();
            match line_of(text, key) {
                Some(line) => format!("line {line}: {error}"),
                None => error,
            }
        })?;
        Ok(config)
    }

    /// Returns the bytes of the pool that hold copies of blocks for HTTP (`http.zero_copy`).
    pub(crate) fn repeated_bytes(&self) -> u64 {
        match self.http.zero_copy {
            true => reelway_http::repeated_bytes(self.pool.size.as_u64()),
            false => 0,
        }
    }

    /// Returns the bytes of the pool that hold blocks as they are read.
    pub(crate) fn bytes_of_blocks(&self) -> u64 {
        self.pool.size.as_u64() - self.repeated_bytes()
    }

    /// Returns the networks to which transport streams may be sent without RTP.
    ///
    /// # Errors
    /// An entry is neither an address nor a network.
    pub(crate) fn plain_udp(&self) -> anyhow::Result<Vec<IpNet>> {
        let network = |text: &String| {
            let network = text.parse::<IpNet>().ok();
            let network = network.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
            network.with_context(|| {
                format!("rtsp.plain_udp: '{text}' is neither an IP address nor a network, such as 10.20.0.0/16")
            })
        };
        self.rtsp.plain_udp.iter().map(network).collect()
    }

    /// Returns the tokens of edges and siblings, which do not count as viewers.
    ///
    /// # Errors
    /// A token cannot be read, or is short enough to be guessed.
    pub(crate) fn edge_tokens(&self) -> anyhow::Result<Vec<String>> {
        let edges = self.http.edge_tokens.iter();
        let edges = edges.map(|token| ("http.edge_tokens", token));
        let siblings = (!self.siblings.urls.is_empty()).then_some(&self.siblings.token);
        let all = edges.chain(siblings.map(|token| ("siblings.token", token)));
        all.map(|(key, token)| {
            let token = token.resolve();
            let token = token.map_err(|error| anyhow!("{key}: {error}"))?;
            ensure!(
                token.expose().len() >= SHORTEST_TOKEN,
                "{key}: a token has fewer than {SHORTEST_TOKEN} characters"
            );
            Ok(token.expose().to_owned())
        })
        .collect()
    }

    /// Checks what types cannot express: ranges, and conflicts between values.
    pub fn check(&self) -> anyhow::Result<()> {
        let range = |key: &str, value: u64, low: u64, high: u64| -> anyhow::Result<()> {
            ensure!(
                (low..=high).contains(&value),
                "{key} = {value}: must lie between {low} and {high}"
            );
            Ok(())
        };
        range("rtp.mtu", self.rtp.mtu.into(), 576, 9216)?;
        range("rtp.burst", self.rtp.burst as u64, 1, 64)?;
        range("rtp.smooth_ahead", self.rtp.smooth_ahead.into(), 0, 10_000)?;
        range("rtp.dscp", self.rtp.dscp.into(), 0, 63)?;
        range("rtsp.timeout", self.rtsp.timeout.into(), 1, 86_400)?;
        range(
            "rtsp.paused_timeout",
            self.rtsp.paused_timeout.into(),
            1,
            604_800,
        )?;
        range("rtsp.max_lag", self.rtsp.max_lag.into(), 1, 3_600)?;
        range("http.segment", self.http.segment.into(), 1, 60)?;
        range("http.timeout", self.http.timeout.into(), 5, 86_400)?;
        range(
            "http.max_listeners",
            self.http.max_listeners as u64,
            1,
            100_000,
        )?;
        let answers = self.http.answers.as_u64();
        ensure!(
            (1 << 20..=1 << 30).contains(&answers),
            "http.answers = \"{}\": must lie between 1MiB and 1GiB",
            self.http.answers
        );
        range("http.ahead", self.http.ahead.into(), 1, 3_600)?;
        self.edge_tokens()?;
        self.plain_udp()?;
        ensure!(
            self.film_addresses.is_none() || !self.siblings.redirect,
            "film_addresses: viewers are sent to these or to siblings (`siblings.redirect`), not to both"
        );
        ensure!(
            self.index.memory.as_u64() >= 32 << 20,
            "index.memory = \"{}\": must be at least 32MiB",
            self.index.memory
        );
        ensure!(
            self.index.beginning.as_u64() >= 64 << 10,
            "index.beginning = \"{}\": must be at least 64KiB",
            self.index.beginning
        );
        ensure!(
            (1.0..=100.0).contains(&self.http.pace),
            "http.pace = {}: must lie between 1 and 100",
            self.http.pace
        );
        range("http.download_dscp", self.http.download_dscp.into(), 0, 63)?;
        let Tls {
            certificate, key, ..
        } = &self.tls;
        let (has_certificate, has_key) = (*certificate != PathBuf::new(), *key != PathBuf::new());
        ensure!(
            has_key || !has_certificate,
            "tls.certificate = \"{}\": wants tls.key, the file of its private key",
            certificate.display()
        );
        ensure!(
            has_certificate || !has_key,
            "tls.key = \"{}\": wants tls.certificate, the file of its certificate",
            key.display()
        );
        range("pool.depth", self.pool.depth as u64, 1, 256)?;
        range("sender.threads", self.sender.threads as u64, 0, 256)?;
        range("sender.catch_up", self.sender.catch_up.into(), 2, 60_000)?;
        range(
            "sender.drop_after",
            self.sender.drop_after.into(),
            1,
            60_000,
        )?;
        range("sender.realtime", self.sender.realtime.into(), 0, 99)?;
        for core in &self.sender.cores {
            range("sender.cores", *core as u64, 0, 1023)?;
        }
        range("capacity.headroom", self.capacity.headroom.into(), 0, 90)?;
        range("capacity.queue", self.capacity.queue.into(), 1, 1000)?;
        // With 0, nobody could watch.
        for (key, value) in [
            ("sessions.max", self.sessions.max),
            ("sessions.per_address", self.sessions.per_address),
            (
                "sessions.unplayed_per_address",
                self.sessions.unplayed_per_address,
            ),
            (
                "sessions.unplayed_per_connection",
                self.sessions.unplayed_per_connection,
            ),
        ] {
            range(key, value as u64, 1, u32::MAX.into())?;
        }
        range("admission.wait", self.admission.wait.into(), 0, 600)?;
        for (key, value, what) in self.capacity.amounts() {
            if let Err(error) = what.read(value) {
                bail!("{key} = \"{value}\": {error}");
            }
        }
        if let Err(error) = self.capacity.rates() {
            bail!("capacity.interfaces: {error}");
        }
        if self.admission.per_user > 0 && self.admission.user_key.as_os_str().is_empty() {
            bail!(
                "admission.per_user = {}: wants admission.user_key, as nobody is known without it",
                self.admission.per_user
            );
        }
        if let Err(error) = self.admission.classes() {
            bail!("admission.classes: {error}");
        }
        if let Err(error) = self.admission.policy.parse::<reelway_admission::Policy>() {
            bail!("admission.policy = \"{}\": {error}", self.admission.policy);
        }
        if let Err(error) = self.pool.policy.parse::<reelway_cache::Spec>() {
            bail!("pool.policy = \"{}\": {error}", self.pool.policy);
        }
        let block = self.pool.block.as_u64();
        if !block.is_power_of_two() || !(64 << 10..=2 << 20).contains(&block) {
            bail!(
                "pool.block = \"{}\": must be a power of two between 64KiB and 2MiB",
                self.pool.block
            );
        }
        let blocks = self.pool.size.as_u64() / block;
        ensure!(
            blocks >= 16,
            "pool.size = \"{}\": must hold at least 16 blocks of {}",
            self.pool.size,
            self.pool.block
        );
        if let Err(error) = self.tier.policy.parse::<reelway_cache::Spec>() {
            bail!("tier.policy = \"{}\": {error}", self.tier.policy);
        }
        range("tier.admit", self.tier.admit.into(), 1, 1000)?;
        let (blocks, most) = (self.tier.size.as_u64() / block, u64::from(u32::MAX) / 2);
        ensure!(
            self.tier.size.as_u64() == 0 || (8..=most).contains(&blocks),
            "tier.size = \"{}\": must be 0, or hold at least 8 blocks of {}",
            self.tier.size,
            self.pool.block
        );
        self.siblings.config()?;
        for source in &self.source {
            source.config().context("source")?;
        }
        if self.rtp.port != 0 {
            ensure!(
                self.rtp.port != self.rtp.rtcp_port,
                "rtp.port and rtp.rtcp_port must differ"
            );
        }
        Ok(())
    }

    /// Returns the state directory. Its default depends on the user that runs the server.
    pub fn state_directory(&self) -> anyhow::Result<PathBuf> {
        if !self.state.as_os_str().is_empty() {
            return Ok(self.state.clone());
        }
        let variable = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        // The owner of this process, as the kernel shows it. Without /proc, it is not taken for
        // root.
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        if is_root {
            return Ok(PathBuf::from("/var/lib/reelway"));
        }
        variable("XDG_STATE_HOME")
            .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
            .map(|base| base.join("reelway"))
            .context("no place for the state directory: neither XDG_STATE_HOME nor HOME is set; name one by --state DIR")
    }

    /// Returns the configuration of the tier for remote films, if there is to be one.
    pub fn tier(&self) -> anyhow::Result<Option<reelway_store::TierConfig>> {
        if self.tier.size.as_u64() == 0 {
            return Ok(None);
        }
        let dir = match self.tier.dir.as_os_str().is_empty() {
            true => self.state_directory()?.join("tier"),
            false => self.tier.dir.clone(),
        };
        let daily = match self.tier.daily.as_u64() {
            0 => self.tier.size,
            _ => self.tier.daily,
        };
        Ok(Some(reelway_store::TierConfig {
            dir,
            bytes: self.tier.size.as_u64(),
            policy: self.tier.policy.parse()?,
            admit: self.tier.admit,
            daily: daily.as_u64(),
        }))
    }
}

/// Returns the line (from 1) of the value of `key` ("rtp.mtu").
fn line_of(text: &str, key: &str) -> Option<usize> {
    let (section, name) = key.split_once('.')?;
    let document = toml::de::DeTable::parse(text).ok()?;
    let start = document
        .get_ref()
        .get(section)?
        .get_ref()
        .get(name)?
        .span()
        .start;
    Some(text.get(..start)?.matches('\n').count() + 1)
}

/// Parses a size on the command line.
pub fn size(text: &str) -> Result<ByteSize, String> {
    text.parse()
        .map_err(|_| "must be a number of bytes with its unit, such as 256MiB or 2GiB".to_owned())
}

/// Parses a socket address on the command line.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "must be an IP address with a port, such as 127.0.0.1:9554 or [::]:9554".to_owned()
    })
}
