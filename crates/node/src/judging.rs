//! The machine's capacity and the rules of admission, from the configuration.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use reelway_admission::{Capacity, Class, Limits, Policy, Resource};
use reelway_demand::{Eager, Reading};
use reelway_media::{Nanos, SECOND};
use reelway_sender::{LinkConfig, SenderConfig};
use reelway_session::{GateConfig, Links, Members, Users, WHOLE_NETWORK};
use tracing::{info, warn};

use crate::amounts::{Amount, LimitKind};
use crate::calibration::calibration;
use crate::config::{self, Config};

impl config::Admission {
    /// Returns the classes and their members.
    ///
    /// # Errors
    /// A message that names the class and the fault.
    pub fn classes(&self) -> Result<Vec<(Class, Members)>, String> {
        let class = |class: &config::Class| {
            let wrong = |words: String| format!("class \"{}\": {words}", class.name);
            if !(1..=100).contains(&class.percent) {
                let words = format!("percent = {}: must lie between 1 and 100", class.percent);
                return Err(wrong(words));
            }
            let networks = class.networks.iter().map(|text| {
                let words =
                    || format!("`{text}` is not a network, such as 10.1.0.0/16 or 2001:db8::/32");
                network(text).ok_or_else(|| wrong(words()))
            });
            let members = Members {
                networks: networks.collect::<Result<_, _>>()?,
                titles: class.titles.clone(),
            };
            let judged = Class {
                name: class.name.clone(),
                ceiling: 10 * u32::from(class.percent),
            };
            Ok((judged, members))
        };
        self.classes.iter().map(class).collect()
    }
}

/// Parses a network such as `10.1.0.0/16`, or a single address.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address.parse::<IpAddr>().ok()?, Some(bits.parse().ok()?)),
        None => (text.parse().ok()?, None),
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    (bits <= most).then_some((address, bits))
}

/// Returns the rules of admission.
pub fn gate(config: &Config, payload: reelway_rtp::PayloadOptions) -> anyhow::Result<GateConfig> {
    let usable = 1000 - 10 * u32::from(config.capacity.headroom);
    let mut capacity = Capacity::unlimited();
    let mut links = Links::default();
    for (_, value, what) in config.capacity.amounts() {
        let resource = match what {
            LimitKind::Net => WHOLE_NETWORK,
            LimitKind::Disk => Resource::Disk,
            LimitKind::Mem => Resource::Memory,
            LimitKind::Cpu => Resource::Processor,
            LimitKind::Origin => Resource::Origin,
        };
        match what.read(value).map_err(anyhow::Error::msg)? {
            Amount::None if what == LimitKind::Mem => warn!(
                "capacity.mem = \"none\": memory for film blocks is not booked; with more viewers than the pool can hold \
                 blocks for, all of them are late"
            ),
            Amount::None => {}
            // No measurement says what the origins carry.
            Amount::Auto if what == LimitKind::Origin => {}
            Amount::Bytes(bytes) => {
                warn_if_beyond(what, bytes, config);
                capacity = capacity.with(resource, bytes, usable);
            }
            Amount::Auto if what == LimitKind::Mem => {
                capacity = capacity.with(resource, for_viewers(config), usable);
            }
            Amount::Auto if what != LimitKind::Net => {
                let found = calibration(config)?.and_then(|found| match what {
                    LimitKind::Disk => found.disk,
                    _ => found.cpu,
                });
                if let Some(bytes) = found {
                    capacity = capacity.with(resource, bytes, usable);
                }
            }
            Amount::Share(share) => match calibration(config)?.and_then(|found| found.cpu) {
                Some(bytes) => {
                    let of_it = u128::from(bytes) * u128::from(share) / 1000;
                    capacity = capacity.with(resource, of_it as u64, usable);
                }
                None => warn!(
                    "capacity.cpu = \"{value}\" is a share of the calibrated rate, and there is no calibration: the \
                     processor is not limited (run `reelway serve --calibrate`)"
                ),
            },
            Amount::Auto => links = Links::of_machine(),
        }
    }
    let rates = config.capacity.rates().map_err(anyhow::Error::msg)?;
    let links = links
        .with_rates(&rates)
        .map_err(|error| anyhow::anyhow!("capacity.interfaces: {error}"))?;
    for (number, link) in links.iter() {
        let rate = link.speed as f64 / 125_000.0;
        match link.agreed {
            Some(agreed) if link.speed > agreed => warn!(
                "{} is configured for {rate} Mbit/s, but its link negotiated {} Mbit/s",
                link.name,
                agreed / 125_000
            ),
            _ => info!("{} carries {rate} Mbit/s", link.name),
        }
        capacity = capacity.with(Resource::Network(number), link.speed, usable);
    }
    let ahead = Nanos::from(config.http.ahead) * SECOND;
    let eager = Eager {
        first: Eager::default().first.min(ahead),
        percent: (config.http.pace * 100.0).round() as u32,
        ahead,
    };
    let admission = reelway_admission::Config {
        sent_ahead: Nanos::from(config.rtp.sent_evenly()) * (SECOND / 1000),
        link_ahead: Duration::from_millis(config.rtp.smooth_ahead.into()),
        eager,
        policy: config.admission.policy.parse().unwrap_or(Policy::Exact),
        capacity,
        limits: Limits {
            title: config.admission.per_title,
            address: config.admission.per_address,
            user: config.admission.per_user,
        },
        classes: config.admission.classes().map_err(anyhow::Error::msg)?,
        wait: config.admission.wait,
        ask_again: config.admission.ask_again,
        payload,
        reading: reading(config),
        // Only the timetable policy knows in advance which blocks viewers will need.
        pool: match config.pool.policy.as_str() {
            "timetable" => config.bytes_of_blocks(),
            _ => 0,
        },
    };
    Ok(GateConfig {
        admission,
        links,
        users: users(&config.admission.user_key)?,
    })
}

/// Returns how the sender reads films: as early as a disk may require, plus the time by which
/// packets may leave ahead.
fn reading(config: &Config) -> Reading {
    let ahead = config.rtp.smooth_ahead.max(config.rtp.sent_evenly());
    let ahead = SenderConfig::default().ahead + Duration::from_millis(ahead.into());
    Reading {
        block: config.pool.block.as_u64(),
        ahead: ahead.as_nanos() as Nanos,
    }
}

/// Returns the limited links, for the sender's pacing.
pub fn links(config: &Config, capacity: &Capacity) -> Vec<LinkConfig> {
    let link = |(resource, limit): &(Resource, u64)| match resource {
        Resource::Network(number) => Some(LinkConfig {
            number: *number,
            rate: *limit,
            queue: Duration::from_millis(config.capacity.queue.into()),
        }),
        _ => None,
    };
    capacity.limits().iter().filter_map(link).collect()
}

/// Returns the bytes of the pool for blocks that punctual viewers over RTSP hold. The rest is for
/// what HTTP may pin, and a reserve for viewers who are late.
fn for_viewers(config: &Config) -> u64 {
    let block = config.pool.block.as_u64().max(1);
    let blocks = config.bytes_of_blocks() / block;
    let others = reelway_http::pinned_blocks(blocks) + reelway_sender::reserved_blocks(blocks);
    blocks.saturating_sub(others) * block
}

/// Returns the verifier of user names, with the key from this file.
fn users(file: &Path) -> anyhow::Result<Users> {
    if file.as_os_str().is_empty() {
        return Ok(Users::default());
    }
    let what = || format!("admission.user_key: {}", file.display());
    let key = std::fs::read_to_string(file).with_context(what)?;
    Users::signed_with(key.trim_end().as_bytes())
        .map_err(anyhow::Error::msg)
        .with_context(what)
}

/// Warns of capacities that contradict what this machine reports, but keeps them: the operator may
/// know better.
fn warn_if_beyond(what: LimitKind, bytes: u64, config: &Config) {
    let links = Links::of_machine();
    let fastest: u64 = links.iter().map(|(_, link)| link.speed).sum();
    if what == LimitKind::Net && !links.is_empty() && bytes > fastest {
        warn!(
            "capacity.net = \"{}\" is more than all links together carry ({} Mbit/s)",
            config.capacity.net,
            fastest / 125_000
        );
    }
    let pool = for_viewers(config);
    if what == LimitKind::Mem && bytes > pool {
        warn!(
            "capacity.mem = \"{}\" is more than what the pool has for viewers over RTSP, {} MiB of pool.size = \"{}\"",
            config.capacity.mem,
            pool >> 20,
            config.pool.size
        );
    }
}
