//! Configuration: one TOML file, whose commented reference ([`REFERENCE`]) is its documentation.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use bytesize::ByteSize;
use reelway_sender::BackendChoice;
use serde::Deserialize;

use crate::sources::Source;

/// The commented reference, printed by `reelway serve --print-config`; a test holds it equal to
/// the defaults below.
pub const REFERENCE: &str = include_str!("config.toml");

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub films: Vec<PathBuf>,
    pub state: PathBuf,
    pub listen: Listen,
    pub names: Vec<String>,
    pub rtsp: Rtsp,
    pub rtp: Rtp,
    pub http: Http,
    pub pool: Pool,
    pub tier: Tier,
    pub sessions: Sessions,
    pub capacity: Capacity,
    pub admission: Admission,
    pub sender: Sender,
    pub log: Log,
    pub source: Vec<Source>,
}

/// Who may reach the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Listen {
    #[default]
    Loopback,
    Lan,
    Address(IpAddr),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rtsp {
    pub port: u16,
    pub timeout: u32,
    pub paused_timeout: u32,
    pub max_lag: u32,
    pub offer_retransmission: bool,
    pub max_connections: usize,
    pub max_connections_per_peer: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rtp {
    pub port: u16,
    pub rtcp_port: u16,
    pub mtu: u16,
    pub burst: usize,
    pub smooth_ahead: u32,
    pub dscp: u8,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    pub port: u16,
    pub max_connections: usize,
    pub max_connections_per_peer: usize,
    pub segment: u32,
    pub timeout: u32,
    pub ahead: u32,
    pub tokens_in_segments: bool,
    pub allowed_origins: Vec<String>,
    pub uploads: bool,
    pub max_upload: ByteSize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pool {
    pub size: ByteSize,
    pub block: ByteSize,
    pub depth: usize,
    pub policy: String,
    pub compare: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tier {
    pub dir: PathBuf,
    pub size: ByteSize,
    pub policy: String,
    pub admit: u32,
    pub daily: ByteSize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sessions {
    pub max: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Capacity {
    pub net: String,
    pub interfaces: BTreeMap<String, String>,
    pub disk: String,
    pub mem: String,
    pub cpu: String,
    pub headroom: u8,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admission {
    pub policy: String,
    pub wait: u32,
    pub ask_again: bool,
    pub classes: Vec<Class>,
    pub per_title: u32,
    pub per_address: u32,
    pub per_user: u32,
    pub user_key: PathBuf,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Class {
    pub name: String,
    pub networks: Vec<String>,
    pub titles: Vec<String>,
    pub percent: u8,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sender {
    pub threads: usize,
    #[serde(deserialize_with = "backend")]
    pub backend: BackendChoice,
    pub catch_up: u32,
    pub drop_after: u32,
    pub realtime: u8,
    pub cores: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    pub level: String,
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Human,
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            films: Vec::new(),
            state: PathBuf::new(),
            listen: Listen::Loopback,
            names: Vec::new(),
            rtsp: Rtsp::default(),
            rtp: Rtp::default(),
            http: Http::default(),
            pool: Pool::default(),
            tier: Tier::default(),
            sessions: Sessions::default(),
            capacity: Capacity::default(),
            admission: Admission::default(),
            sender: Sender::default(),
            log: Log::default(),
            source: Vec::new(),
        }
    }
}

impl Default for Rtsp {
    fn default() -> Self {
        Rtsp {
            port: 8554,
            timeout: 60,
            paused_timeout: 600,
            max_lag: 10,
            offer_retransmission: false,
            max_connections: 12_000,
            max_connections_per_peer: 4096,
        }
    }
}

impl Default for Rtp {
    fn default() -> Self {
        Rtp {
            port: 8000,
            rtcp_port: 8001,
            mtu: 1500,
            burst: 8,
            smooth_ahead: 0,
            dscp: 34,
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Http {
            port: 8080,
            max_connections: 12_000,
            max_connections_per_peer: 4096,
            segment: 6,
            timeout: 60,
            ahead: 20,
            tokens_in_segments: true,
            allowed_origins: Vec::new(),
            uploads: false,
            max_upload: ByteSize::gib(256),
        }
    }
}

impl Default for Pool {
    fn default() -> Self {
        Pool {
            size: ByteSize::mib(256),
            block: ByteSize::kib(256),
            depth: 8,
            policy: "timetable".into(),
            compare: true,
        }
    }
}

impl Default for Tier {
    fn default() -> Self {
        Tier {
            dir: PathBuf::new(),
            size: ByteSize(0),
            policy: "s3-fifo".into(),
            admit: 2,
            daily: ByteSize(0),
        }
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Sessions { max: 10_000 }
    }
}

impl Default for Capacity {
    fn default() -> Self {
        Capacity {
            net: "auto".into(),
            interfaces: BTreeMap::new(),
            disk: "auto".into(),
            mem: "none".into(),
            cpu: "auto".into(),
            headroom: 2,
        }
    }
}

impl Default for Admission {
    fn default() -> Self {
        Admission {
            policy: "exact".into(),
            wait: 0,
            ask_again: false,
            classes: Vec::new(),
            per_title: 0,
            per_address: 0,
            per_user: 0,
            user_key: PathBuf::new(),
        }
    }
}

impl Default for Sender {
    fn default() -> Self {
        Sender {
            threads: 0,
            backend: BackendChoice::Auto,
            catch_up: 1000,
            drop_after: 100,
            realtime: 0,
            cores: Vec::new(),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Log {
            level: "info".into(),
            format: LogFormat::Human,
        }
    }
}

fn backend<'de, D: serde::Deserializer<'de>>(from: D) -> Result<BackendChoice, D::Error> {
    let name = String::deserialize(from)?;
    name.parse().map_err(serde::de::Error::custom)
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "loopback" => Ok(Listen::Loopback),
            "lan" => Ok(Listen::Lan),
            address => address.parse().map(Listen::Address).map_err(|_| {
                format!(
                    "'{address}' is none of \"loopback\", \"lan\", or an IP address of this machine"
                )
            }),
        }
    }
}

impl Listen {
    /// The addresses to listen on.
    pub fn addresses(self) -> Vec<IpAddr> {
        let all = |v4: [u8; 4], v6: [u16; 8]| vec![IpAddr::from(v4), IpAddr::from(v6)];
        match self {
            Listen::Loopback => all([127, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 1]),
            Listen::Lan => all([0; 4], [0; 8]),
            Listen::Address(address) => vec![address],
        }
    }
}

impl Config {
    /// Reads a configuration file; an error names file, line and key.
    pub fn read(path: &Path) -> anyhow::Result<Config> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("configuration {}", path.display()))?;
        Config::parse(&text)
            .map_err(|error| anyhow::anyhow!("configuration {}: {error}", path.display()))
    }

    /// What a configuration file says; an error names line and key.
    fn parse(text: &str) -> Result<Config, String> {
        // toml's own message shows the line, the key, and what would be right.
        let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
        // Judged here already, where the line is known.
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

    /// Judges what types cannot: ranges, and values that do not fit each other.
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
        range("http.ahead", self.http.ahead.into(), 1, 3_600)?;
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
        match self.admission.policy.parse::<reelway_admission::Policy>() {
            Err(error) => bail!("admission.policy = \"{}\": {error}", self.admission.policy),
            Ok(reelway_admission::Policy::Smoothed(_)) if self.rtp.smooth_ahead > 0 => bail!(
                "rtp.smooth_ahead = {}: must be 0 with admission.policy = \"{}\", which sends ahead by itself",
                self.rtp.smooth_ahead,
                self.admission.policy
            ),
            Ok(_) => {}
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

    /// The state directory, which by default depends on who runs the server.
    pub fn state_directory(&self) -> anyhow::Result<PathBuf> {
        if !self.state.as_os_str().is_empty() {
            return Ok(self.state.clone());
        }
        let variable = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        // The owner of this process, as the kernel shows it; without /proc, nobody special.
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        if is_root {
            return Ok(PathBuf::from("/var/lib/reelway"));
        }
        variable("XDG_STATE_HOME")
            .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
            .map(|base| base.join("reelway"))
            .context("no place for the state directory: neither XDG_STATE_HOME nor HOME is set; name one by --state DIR")
    }

    /// The tier below memory for films elsewhere, if there is to be one.
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

/// The line (from 1) on which `key` ("rtp.mtu") has its value.
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

/// A size on the command line.
pub fn size(text: &str) -> Result<ByteSize, String> {
    text.parse()
        .map_err(|_| "a number of bytes with its unit is wanted, such as 256MiB or 2GiB".to_owned())
}

/// An address on the command line.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "an IP address with a port is wanted, such as 127.0.0.1:9554 or [::]:9554".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_shows_the_defaults() {
        let shown: Config = toml::from_str(REFERENCE).unwrap();
        assert_eq!(shown, Config::default());
        shown.check().unwrap();
    }

    #[test]
    fn the_reference_shows_every_key() {
        // A struct with a key that the reference lacks would still parse; so the reference must
        // not parse when a default is removed from under it. Count keys instead.
        let table: toml::Table = toml::from_str(REFERENCE).unwrap();
        let shown: usize = table
            .values()
            .map(|value| value.as_table().map_or(1, |table| table.len()))
            .sum();
        let debug = format!("{:#?}", Config::default());
        let sections = [
            "rtsp:",
            "rtp:",
            "http:",
            "pool:",
            "tier:",
            "sessions:",
            "capacity:",
            "admission:",
            "sender:",
            "log:",
        ];
        let keys = debug
            .lines()
            // Sources have none by default; their keys are judged in `sources.rs`.
            .filter(|line| line.contains(": ") && !line.contains(" source: ["))
            .filter(|line| {
                !sections
                    .iter()
                    .any(|section| line.trim_start().starts_with(section) && line.ends_with('{'))
            })
            .count();
        // ByteSize prints as a tuple of one number on a line of its own without a key.
        assert_eq!(
            shown, keys,
            "config.toml and config.rs differ in their keys:\n{debug}"
        );
    }

    #[test]
    fn a_wrong_key_is_named_with_its_line() {
        let error = toml::from_str::<Config>("[rtp]\nmtu = 1400\nbrust = 4\n")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("line 3") && error.contains("brust") && error.contains("burst"),
            "{error}"
        );
    }

    #[test]
    fn a_value_out_of_its_range_is_named_with_its_line() {
        for (text, wanted) in [
            (
                "films = []\n[rtp]\nport = 1\nmtu = 100\n",
                "line 4: rtp.mtu = 100: must lie between 576 and 9216",
            ),
            (
                "[pool]\npolicy = \"random\"\n",
                "line 2: pool.policy = \"random\": there is no cache policy `random`",
            ),
            (
                "[capacity]\nnet = \"0Mbit\"\n",
                "line 2: capacity.net = \"0Mbit\": must be more than 0",
            ),
            (
                "[capacity]\nnet = \"-5Mbit\"\n",
                "line 2: capacity.net = \"-5Mbit\": a rate is wanted, such as 100Mbit",
            ),
            (
                "[capacity]\ncpu = \"1.5\"\n",
                "line 2: capacity.cpu = \"1.5\": a share must be more than 0 and at most 1",
            ),
            (
                "[capacity]\ninterfaces = { eth0 = \"0bit\" }\n",
                "line 2: capacity.interfaces: eth0 = \"0bit\": must be more than 0",
            ),
            (
                "[capacity]\ninterfaces = { eth0 = \"auto\" }\n",
                "line 2: capacity.interfaces: eth0 = \"auto\": a rate is wanted",
            ),
            (
                "[admission]\nclasses = [{ name = \"a\", percent = 0 }]",
                "line 2: admission.classes: class \"a\": percent = 0: must lie between 1 and 100",
            ),
            (
                "[admission]\nclasses = [{ name = \"a\", percent = 50, networks = [\"10.0.0.0/33\"] }]",
                "line 2: admission.classes: class \"a\": `10.0.0.0/33` is no network",
            ),
            (
                "[admission]\nper_user = 2",
                "line 2: admission.per_user = 2: wants admission.user_key, as nobody is known without it",
            ),
            (
                "admission.policy = \"fair\"\n",
                "line 1: admission.policy = \"fair\": there is no policy `fair`",
            ),
            (
                "[rtp]\nsmooth_ahead = 500\n[admission]\npolicy = \"smoothed:2\"",
                "line 2: rtp.smooth_ahead = 500: must be 0 with admission.policy = \"smoothed:2\"",
            ),
            (
                "[sender]\nrealtime = 100\n",
                "line 2: sender.realtime = 100: must lie between 0 and 99",
            ),
            (
                "[sender]\ncatch_up = 1\n",
                "line 2: sender.catch_up = 1: must lie between 2 and 60000",
            ),
            (
                "[sender]\ndrop_after = 0\n",
                "line 2: sender.drop_after = 0: must lie between 1 and 60000",
            ),
            (
                "[sender]\nthreads = 1\ncores = [0, 5000]\n",
                "line 3: sender.cores = 5000: must lie between 0 and 1023",
            ),
            (
                "rtsp.max_lag = 0",
                "line 1: rtsp.max_lag = 0: must lie between 1 and 3600",
            ),
            (
                "[pool]\nblock = \"2MiB\"\nsize = \"2MiB\"\n",
                "line 3: pool.size = \"2.0 MiB\": must hold at least 16 blocks of 2.0 MiB",
            ),
            (
                "[tier]\nsize = \"1MiB\"\n",
                "line 2: tier.size = \"1.0 MiB\": must be 0, or hold at least 8 blocks of 256.0 KiB",
            ),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert!(error.starts_with(wanted), "{error}");
        }
    }

    #[test]
    fn a_wrong_value_is_named_with_its_range() {
        let config: Config = toml::from_str("[rtp]\nburst = 0\n").unwrap();
        let error = config.check().unwrap_err().to_string();
        assert_eq!(error, "rtp.burst = 0: must lie between 1 and 64");
        assert!(
            toml::from_str::<Config>("listen = \"wan\"")
                .unwrap_err()
                .to_string()
                .contains("loopback")
        );
    }
}
