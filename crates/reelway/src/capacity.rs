//! Amounts of what a machine can carry, as people write them: in the configuration and in `--capacity`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use bytesize::ByteSize;
use reelway_admission::{Capacity, Class, Limits, Policy, Resource};
use reelway_bench::calibrate::{Calibration, USUAL};
use reelway_demand::{Eager, Reading};
use reelway_http::Calibrated;
use reelway_media::{Nanos, SECOND};
use reelway_sender::{LinkConfig, SenderConfig};
use reelway_session::{GateConfig, Links, Members, Users, WHOLE_NETWORK};
use tracing::{info, warn};

use crate::config::{self, Config};
use crate::sources::places;

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Bytes a second on the wire.
    Net,
    /// Bytes a second from the disks.
    Disk,
    /// Bytes of the pool.
    Mem,
    /// Bytes a second that the processor can send.
    Cpu,
}

/// How much there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// What the machine says.
    Auto,
    /// No limit.
    None,
    /// Bytes, or bytes a second.
    Bytes(u64),
    /// Thousandths of what was calibrated.
    Share(u32),
}

impl What {
    /// Reads an amount.
    ///
    /// # Errors
    /// It is none, or 0; in words.
    pub fn read(self, text: &str) -> Result<Amount, String> {
        let amount = match (self, text) {
            (_, "auto") => return Ok(Amount::Auto),
            (_, "none") => return Ok(Amount::None),
            (What::Cpu, _) if text.parse::<f64>().is_ok() => return share(text).map(Amount::Share),
            (What::Cpu, _) => bits(text).ok_or(
                "must be a share of the calibrated rate, such as 0.8, or a rate, such as 2.5Gbit",
            ),
            (What::Net, _) => bits(text).ok_or("must be a rate, such as 100Mbit or 2.5Gbit"),
            (What::Disk, _) => {
                let bytes = text.strip_suffix("/s").unwrap_or(text);
                size(bytes).ok_or("must be in bytes per second, such as 80MB/s")
            }
            (What::Mem, _) => size(text).ok_or("must be a size, such as 128MiB"),
        }?;
        match amount {
            0 => Err("must be more than 0; \"none\" is no limit".into()),
            bytes => Ok(Amount::Bytes(bytes)),
        }
    }
}

/// `0.8`: in thousandths.
fn share(text: &str) -> Result<u32, String> {
    let share = text.parse::<f64>().unwrap_or(f64::NAN);
    if share > 0.0 && share <= 1.0 {
        return Ok(((share * 1e3).round() as u32).max(1));
    }
    Err("a share must be more than 0 and at most 1; a rate has a unit, such as 2.5Gbit".into())
}

fn size(text: &str) -> Option<u64> {
    text.parse::<ByteSize>().ok().map(|size| size.as_u64())
}

/// `100Mbit`, `2.5Gbit/s`: as bytes a second.
fn bits(text: &str) -> Option<u64> {
    let text = text.strip_suffix("/s").unwrap_or(text);
    let number = text.strip_suffix("bit")?;
    let (number, unit) = match number.char_indices().next_back()? {
        (at, 'k' | 'K') => (&number[..at], 1e3),
        (at, 'M') => (&number[..at], 1e6),
        (at, 'G') => (&number[..at], 1e9),
        (at, 'T') => (&number[..at], 1e12),
        _ => (number, 1.0),
    };
    let number = number.trim_end();
    let plain = !number.is_empty()
        && number
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = number.parse().ok().filter(|_| plain)?;
    let bytes = number * unit / 8.0;
    // Beyond what counts exactly there is no machine.
    (bytes < 9e15).then_some(bytes as u64)
}

/// What `--capacity` names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(Vec<(What, String)>);

/// Reads `--capacity`.
pub fn flag(text: &str) -> Result<Amounts, String> {
    let mut amounts = Vec::new();
    for part in text.split(',').map(str::trim) {
        let what = part.split_once('=').and_then(|(key, value)| {
            let what = match key.trim() {
                "net" => What::Net,
                "disk" => What::Disk,
                "mem" => What::Mem,
                "cpu" => What::Cpu,
                _ => return None,
            };
            Some((what, value.trim()))
        });
        let (what, value) = what.ok_or_else(|| {
            format!("`{part}`: must be net=RATE, disk=RATE, mem=SIZE or cpu=SHARE")
        })?;
        what.read(value)
            .map_err(|error| format!("`{part}`: {error}"))?;
        amounts.push((what, value.to_owned()));
    }
    Ok(Amounts(amounts))
}

impl Amounts {
    /// Goes over what the file says.
    pub fn over(self, config: &mut config::Capacity) {
        for (what, value) in self.0 {
            *match what {
                What::Net => &mut config.net,
                What::Disk => &mut config.disk,
                What::Mem => &mut config.mem,
                What::Cpu => &mut config.cpu,
            } = value;
        }
    }
}

impl config::Capacity {
    /// Its keys, what they say, and of what.
    pub fn amounts(&self) -> [(&'static str, &str, What); 4] {
        [
            ("capacity.net", &self.net, What::Net),
            ("capacity.disk", &self.disk, What::Disk),
            ("capacity.mem", &self.mem, What::Mem),
            ("capacity.cpu", &self.cpu, What::Cpu),
        ]
    }

    /// What is set of interfaces one by one, bytes a second.
    ///
    /// # Errors
    /// What is wrong with which, in words.
    pub fn rates(&self) -> Result<BTreeMap<String, u64>, String> {
        let rate = |(name, text): (&String, &String)| match What::Net.read(text) {
            Ok(Amount::Bytes(bytes)) => Ok((name.clone(), bytes)),
            Ok(_) => Err(format!(
                "{name} = \"{text}\": must be a rate, such as 100Mbit"
            )),
            Err(error) => Err(format!("{name} = \"{text}\": {error}")),
        };
        self.interfaces.iter().map(rate).collect()
    }
}

impl config::Admission {
    /// Classes and who belongs to them.
    ///
    /// # Errors
    /// What is wrong with which, in words.
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

/// `10.1.0.0/16`, or a single address.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address.parse::<IpAddr>().ok()?, Some(bits.parse().ok()?)),
        None => (text.parse().ok()?, None),
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    (bits <= most).then_some((address, bits))
}

/// How newcomers are judged.
pub fn gate(config: &Config, payload: reelway_rtp::PayloadOptions) -> anyhow::Result<GateConfig> {
    let usable = 1000 - 10 * u32::from(config.capacity.headroom);
    let mut capacity = Capacity::unlimited();
    let mut links = Links::default();
    for (_, value, what) in config.capacity.amounts() {
        let resource = match what {
            What::Net => WHOLE_NETWORK,
            What::Disk => Resource::Disk,
            What::Mem => Resource::Memory,
            What::Cpu => Resource::Processor,
        };
        match what.read(value).map_err(anyhow::Error::msg)? {
            Amount::None if what == What::Mem => warn!(
                "capacity.mem = \"none\": memory for film blocks is not booked; with more viewers than the pool can hold \
                 blocks for, all of them are late"
            ),
            Amount::None => {}
            Amount::Bytes(bytes) => {
                warn_if_beyond(what, bytes, config);
                capacity = capacity.with(resource, bytes, usable);
            }
            Amount::Auto if what == What::Mem => {
                capacity = capacity.with(resource, for_viewers(config), usable);
            }
            Amount::Auto if what != What::Net => {
                let found = calibration(config)?.and_then(|found| match what {
                    What::Disk => found.disk,
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
        // No other policy knows who comes when.
        pool: match config.pool.policy.as_str() {
            "timetable" => config.pool.size.as_u64(),
            _ => 0,
        },
    };
    Ok(GateConfig {
        admission,
        links,
        users: users(&config.admission.user_key)?,
    })
}

/// How the sender reads films: as long before they leave as a disk may need, and they may leave ahead of their time.
fn reading(config: &Config) -> Reading {
    let ahead = config.rtp.smooth_ahead.max(config.rtp.sent_evenly());
    let ahead = SenderConfig::default().ahead + Duration::from_millis(ahead.into());
    Reading {
        block: config.pool.block.as_u64(),
        ahead: ahead.as_nanos() as Nanos,
    }
}

/// The limited links, as the sender paces what it hands to them.
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

/// Bytes of the pool that are there for what viewers over RTSP hold who are on time; the rest is what HTTP may pin, and
/// what is set aside for viewers who are not.
fn for_viewers(config: &Config) -> u64 {
    let block = config.pool.block.as_u64().max(1);
    let blocks = config.pool.size.as_u64() / block;
    let others = reelway_http::pinned_blocks(blocks) + reelway_sender::reserved_blocks(blocks);
    blocks.saturating_sub(others) * block
}

/// Who knows users by the key in this file.
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

/// Where what was found is kept.
const CALIBRATION: &str = "calibration.json";
const CHART: &str = "calibration.svg";

/// What was found here, as it was written.
pub fn calibrated(state: &Path) -> Option<Calibrated> {
    let read = |name| std::fs::read_to_string(state.join(name)).ok();
    Some(Calibrated {
        report: read(CALIBRATION)?,
        chart: read(CHART)?,
    })
}

/// What `reelway serve --calibrate` found, if it was run here.
fn calibration(config: &Config) -> anyhow::Result<Option<Calibration>> {
    let path = config.state_directory()?.join(CALIBRATION);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            warn!("{}: {error}: the calibration is not used", path.display());
            return Ok(None);
        }
    };
    let read = serde_json::from_str(&text);
    read.map(Some).with_context(|| {
        format!(
            "{}: delete it, or run reelway serve --calibrate again",
            path.display()
        )
    })
}

/// Measures the machine's capacity for about `whole`, and stores the result in the state directory for the next start.
pub fn calibrate(config: &Config, whole: Duration) -> anyhow::Result<()> {
    let state = config.state_directory()?;
    std::fs::create_dir_all(&state).with_context(|| state.display().to_string())?;
    let (films, _) = places(&config.films)?;
    println!(
        "This takes about {} seconds; nothing else should use the machine meanwhile.",
        whole.as_secs()
    );
    if whole < USUAL {
        println!(
            "It is less than the usual {} seconds: the figures will be coarse.",
            USUAL.as_secs()
        );
    }
    let found = reelway_bench::calibrate::calibrate(&films, whole, &|words| println!("{words}"))?;
    let keep = |name: &str, text: String| -> anyhow::Result<()> {
        let path = state.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        println!("  {}", path.display());
        Ok(())
    };
    println!("kept in");
    keep(CALIBRATION, serde_json::to_string_pretty(&found)? + "\n")?;
    keep(CHART, found.chart())?;
    println!(
        "From the next start on, capacity.disk and capacity.cpu have these values where they are \"auto\":"
    );
    let rate = |bytes: Option<u64>, of_byte: f64, unit: &str| match bytes {
        Some(bytes) => format!("\"{:.0}{unit}\"", bytes as f64 * of_byte / 1e6),
        None => "\"none\"".to_owned(),
    };
    println!("  disk = {}", rate(found.disk, 1.0, "MB/s"));
    println!("  cpu = {}", rate(found.cpu, 8.0, "Mbit"));
    Ok(())
}

/// Logs capacities that contradict what is seen here, and uses them: the operator may know better.
fn warn_if_beyond(what: What, bytes: u64, config: &Config) {
    let links = Links::of_machine();
    let fastest: u64 = links.iter().map(|(_, link)| link.speed).sum();
    if what == What::Net && !links.is_empty() && bytes > fastest {
        warn!(
            "capacity.net = \"{}\" is more than all links together carry ({} Mbit/s)",
            config.capacity.net,
            fastest / 125_000
        );
    }
    let pool = for_viewers(config);
    if what == What::Mem && bytes > pool {
        warn!(
            "capacity.mem = \"{}\" is more than what the pool has for viewers over RTSP, {} MiB of pool.size = \"{}\"",
            config.capacity.mem,
            pool >> 20,
            config.pool.size
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("100Mbit", 12_500_000),
            ("2.5Gbit/s", 312_500_000),
            ("64 kbit", 8_000),
            ("8bit", 1),
        ] {
            assert_eq!(What::Net.read(text), Ok(Amount::Bytes(bytes)), "{text}");
        }
        assert_eq!(What::Disk.read("80MB/s"), Ok(Amount::Bytes(80_000_000)));
        assert_eq!(What::Mem.read("128MiB"), Ok(Amount::Bytes(128 << 20)));
        assert_eq!(What::Net.read("auto"), Ok(Amount::Auto));
        for text in [
            "",
            "fast",
            "-1Mbit",
            "100",
            "1e3Mbit",
            "nanbit",
            "infbit",
            "0bit",
            "1Pbit",
            "Mbit",
            "1.2.3Mbit",
        ] {
            assert!(What::Net.read(text).is_err(), "{text}");
        }
        assert_eq!(What::Mem.read("auto"), Ok(Amount::Auto));
    }

    #[test]
    fn a_share_of_the_processor_lies_above_0_and_up_to_1() {
        assert_eq!(What::Cpu.read("0.8"), Ok(Amount::Share(800)));
        assert_eq!(What::Cpu.read("1"), Ok(Amount::Share(1000)));
        assert_eq!(What::Cpu.read("8Mbit"), Ok(Amount::Bytes(1_000_000)));
        for text in ["0", "-0.5", "1.01", "80", "nan", "inf", "80%"] {
            let error = What::Cpu.read(text).unwrap_err();
            assert!(error.contains("share"), "{text}: {error}");
        }
    }

    #[test]
    fn the_flag_goes_over_what_it_names_and_over_nothing_else() {
        let mut config = config::Capacity::default();
        flag("net=100Mbit, disk=80MB/s").unwrap().over(&mut config);
        assert_eq!(
            (config.net.as_str(), config.disk.as_str()),
            ("100Mbit", "80MB/s")
        );
        assert_eq!(config.mem, "auto");
        let error = flag("net=100Mbit,tape=3").unwrap_err();
        assert!(
            error.contains("tape=3") && error.contains("disk=RATE"),
            "{error}"
        );
        assert!(flag("net=0bit").unwrap_err().contains("more than 0"));
    }
}
