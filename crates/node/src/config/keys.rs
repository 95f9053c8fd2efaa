//! Every key of the configuration file with its type and default, section by section.
#![allow(missing_docs)] // `config.toml` documents each key.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use bytesize::ByteSize;
use reelway_film_addresses::{self as film_addresses, FilmAddresses};
use reelway_origin::Secret;
use reelway_sender::BackendChoice;
use serde::Deserialize;

use crate::prefill::Hours;
use crate::sources::{Siblings, Source};

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub films: Vec<PathBuf>,
    pub state: PathBuf,
    pub listen: Listen,
    pub names: Vec<String>,
    #[serde(deserialize_with = "film_addresses::optional")]
    pub film_addresses: Option<FilmAddresses>,
    pub rtsp: Rtsp,
    pub rtp: Rtp,
    pub http: Http,
    pub tls: Tls,
    pub pool: Pool,
    pub index: Index,
    pub tier: Tier,
    pub sessions: Sessions,
    pub capacity: Capacity,
    pub admission: Admission,
    pub sender: Sender,
    pub log: Log,
    pub siblings: Siblings,
    pub source: Vec<Source>,
}

/// The networks from which the server can be reached.
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
    pub plain_udp: Vec<String>,
    pub max_connections: usize,
    pub max_connections_per_peer: usize,
    pub max_sessions_per_connection: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rtp {
    pub port: u16,
    pub rtcp_port: u16,
    pub mtu: u16,
    pub burst: usize,
    pub smooth_ahead: u32,
    pub smooth_always: bool,
    pub dscp: u8,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    pub port: u16,
    pub max_connections: usize,
    pub max_connections_per_peer: usize,
    pub max_listeners: usize,
    pub answers: ByteSize,
    pub segment: u32,
    pub timeout: u32,
    pub ahead: u32,
    pub pace: f64,
    pub downloads: Downloads,
    pub download_dscp: u8,
    pub zero_copy: bool,
    pub tokens_in_segments: bool,
    pub allowed_origins: Vec<String>,
    pub edge_tokens: Vec<Secret>,
    pub uploads: bool,
    pub max_upload: ByteSize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    pub port: u16,
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub kernel: bool,
}

/// What downloads get beyond their film's pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Downloads {
    Spare,
    Paced,
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

/// Frame rate in pictures per second: "25", or a fraction such as "30000/1001".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct FrameRate(pub u32, pub u32);

impl TryFrom<String> for FrameRate {
    type Error = String;

    fn try_from(text: String) -> Result<FrameRate, String> {
        let (count, seconds) = text.split_once('/').unwrap_or((&text, "1"));
        let number = |part: &str| part.trim().parse::<u32>().ok().filter(|number| *number > 0);
        match (number(count), number(seconds)) {
            (Some(count), Some(seconds)) if (1..=300).contains(&(count / seconds)) => {
                Ok(FrameRate(count, seconds))
            }
            _ => Err(format!(
                "{text:?} is no number of pictures a second from 1 to 300, such as \"25\" or \"30000/1001\""
            )),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Index {
    pub memory: ByteSize,
    pub beginning: ByteSize,
    pub frame_rate: FrameRate,
    pub packets_after: u32,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tier {
    pub dir: PathBuf,
    pub size: ByteSize,
    pub policy: String,
    pub admit: u32,
    pub daily: ByteSize,
    #[serde(deserialize_with = "hours")]
    pub prefill: Option<Hours>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sessions {
    pub max: usize,
    pub per_address: usize,
    pub unplayed_per_address: usize,
    pub unplayed_per_connection: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Capacity {
    pub net: String,
    pub interfaces: BTreeMap<String, String>,
    pub disk: String,
    pub mem: String,
    pub cpu: String,
    pub origin: String,
    pub headroom: u8,
    pub queue: u32,
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
    /// `None`: the former value "io_uring".
    pub backend: Option<BackendChoice>,
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
            film_addresses: None,
            rtsp: Rtsp::default(),
            rtp: Rtp::default(),
            http: Http::default(),
            tls: Tls::default(),
            pool: Pool::default(),
            index: Index::default(),
            tier: Tier::default(),
            sessions: Sessions::default(),
            capacity: Capacity::default(),
            admission: Admission::default(),
            sender: Sender::default(),
            log: Log::default(),
            siblings: Siblings::default(),
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
            plain_udp: Vec::new(),
            max_connections: 12_000,
            max_connections_per_peer: 4096,
            max_sessions_per_connection: 8,
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
            smooth_ahead: 1000,
            smooth_always: false,
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
            max_listeners: 1024,
            answers: ByteSize::mib(32),
            segment: 6,
            timeout: 60,
            ahead: 20,
            pace: 2.0,
            downloads: Downloads::Spare,
            download_dscp: 0,
            zero_copy: false,
            tokens_in_segments: true,
            allowed_origins: Vec::new(),
            edge_tokens: Vec::new(),
            uploads: false,
            max_upload: ByteSize::gib(256),
        }
    }
}

impl Default for Tls {
    fn default() -> Self {
        Tls {
            port: 8443,
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            kernel: true,
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

impl Default for Index {
    fn default() -> Self {
        Index {
            memory: ByteSize::mib(64),
            beginning: ByteSize::gib(1),
            frame_rate: FrameRate(25, 1),
            packets_after: 60,
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
            prefill: None,
        }
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Sessions {
            max: 10_000,
            per_address: 5_000,
            unplayed_per_address: 1_000,
            unplayed_per_connection: 16,
        }
    }
}

impl Default for Capacity {
    fn default() -> Self {
        Capacity {
            net: "auto".into(),
            interfaces: BTreeMap::new(),
            disk: "auto".into(),
            mem: "auto".into(),
            cpu: "auto".into(),
            origin: "none".into(),
            headroom: 2,
            queue: 20,
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
            backend: Some(BackendChoice::Auto),
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

/// Parses hours; empty: none.
fn hours<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Hours>, D::Error> {
    match String::deserialize(from)?.as_str() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}

fn backend<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<BackendChoice>, D::Error> {
    let name = String::deserialize(from)?;
    if name == "io_uring" {
        return Ok(None);
    }
    name.parse().map(Some).map_err(serde::de::Error::custom)
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
    /// Returns the addresses to listen on.
    pub fn addresses(self) -> Vec<IpAddr> {
        let all = |v4: [u8; 4], v6: [u16; 8]| vec![IpAddr::from(v4), IpAddr::from(v6)];
        match self {
            Listen::Loopback => all([127, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 1]),
            Listen::Lan => all([0; 4], [0; 8]),
            Listen::Address(address) => vec![address],
        }
    }
}
