//! Amounts that a machine can carry, as users write them in the configuration and in `--capacity`.

use std::collections::BTreeMap;

use bytesize::ByteSize;

use crate::config;

/// A kind of resource that can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// Bytes per second on the wire.
    Net,
    /// Bytes per second from the disks.
    Disk,
    /// Bytes of the pool.
    Mem,
    /// Bytes per second that the processor can send.
    Cpu,
    /// Bytes per second from other servers.
    Origin,
}

/// An amount of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// The amount that the machine reports.
    Auto,
    /// No limit.
    None,
    /// Bytes, or bytes per second.
    Bytes(u64),
    /// Thousandths of the calibrated rate.
    Share(u32),
}

impl LimitKind {
    /// Parses an amount.
    ///
    /// # Errors
    /// A description of what is wrong: the text is not an amount, or it is 0.
    pub fn read(self, text: &str) -> Result<Amount, String> {
        let amount = match (self, text) {
            (_, "auto") => return Ok(Amount::Auto),
            (_, "none") => return Ok(Amount::None),
            (LimitKind::Cpu, _) if text.parse::<f64>().is_ok() => {
                return share(text).map(Amount::Share);
            }
            (LimitKind::Cpu, _) => bits(text).ok_or(
                "must be a share of the calibrated rate, such as 0.8, or a rate, such as 2.5Gbit",
            ),
            (LimitKind::Net | LimitKind::Origin, _) => {
                bits(text).ok_or("must be a rate, such as 100Mbit or 2.5Gbit")
            }
            (LimitKind::Disk, _) => {
                let bytes = text.strip_suffix("/s").unwrap_or(text);
                size(bytes).ok_or("must be in bytes per second, such as 80MB/s")
            }
            (LimitKind::Mem, _) => size(text).ok_or("must be a size, such as 128MiB"),
        }?;
        match amount {
            0 => Err("must be more than 0; \"none\" is no limit".into()),
            bytes => Ok(Amount::Bytes(bytes)),
        }
    }
}

/// Parses a share such as `0.8`, in thousandths.
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

/// Parses a rate such as `100Mbit` or `2.5Gbit/s`, in bytes per second.
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
    // Up to here, f64 represents integers exactly; no machine has more.
    (bytes < 9e15).then_some(bytes as u64)
}

/// The amounts of `--capacity`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(Vec<(LimitKind, String)>);

/// Parses the value of `--capacity`.
pub fn flag(text: &str) -> Result<Amounts, String> {
    let mut amounts = Vec::new();
    for part in text.split(',').map(str::trim) {
        let what = part.split_once('=').and_then(|(key, value)| {
            let what = match key.trim() {
                "net" => LimitKind::Net,
                "disk" => LimitKind::Disk,
                "mem" => LimitKind::Mem,
                "cpu" => LimitKind::Cpu,
                "origin" => LimitKind::Origin,
                _ => return None,
            };
            Some((what, value.trim()))
        });
        let (what, value) = what.ok_or_else(|| {
            format!("`{part}`: must be net=RATE, disk=RATE, mem=SIZE, cpu=SHARE or origin=RATE")
        })?;
        what.read(value)
            .map_err(|error| format!("`{part}`: {error}"))?;
        amounts.push((what, value.to_owned()));
    }
    Ok(Amounts(amounts))
}

impl Amounts {
    /// Overrides the amounts of the configuration file.
    pub fn over(self, config: &mut config::Capacity) {
        for (what, value) in self.0 {
            *match what {
                LimitKind::Net => &mut config.net,
                LimitKind::Disk => &mut config.disk,
                LimitKind::Mem => &mut config.mem,
                LimitKind::Cpu => &mut config.cpu,
                LimitKind::Origin => &mut config.origin,
            } = value;
        }
    }
}

impl config::Capacity {
    /// Returns each amount's key, its text and its kind.
    pub fn amounts(&self) -> [(&'static str, &str, LimitKind); 5] {
        [
            ("capacity.net", &self.net, LimitKind::Net),
            ("capacity.disk", &self.disk, LimitKind::Disk),
            ("capacity.mem", &self.mem, LimitKind::Mem),
            ("capacity.cpu", &self.cpu, LimitKind::Cpu),
            ("capacity.origin", &self.origin, LimitKind::Origin),
        ]
    }

    /// Returns the rates configured for single interfaces, in bytes per second.
    ///
    /// # Errors
    /// A message that names the interface and the fault.
    pub fn rates(&self) -> Result<BTreeMap<String, u64>, String> {
        let rate = |(name, text): (&String, &String)| match LimitKind::Net.read(text) {
            Ok(Amount::Bytes(bytes)) => Ok((name.clone(), bytes)),
            Ok(_) => Err(format!(
                "{name} = \"{text}\": must be a rate, such as 100Mbit"
            )),
            Err(error) => Err(format!("{name} = \"{text}\": {error}")),
        };
        self.interfaces.iter().map(rate).collect()
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
            assert_eq!(
                LimitKind::Net.read(text),
                Ok(Amount::Bytes(bytes)),
                "{text}"
            );
        }
        assert_eq!(
            LimitKind::Disk.read("80MB/s"),
            Ok(Amount::Bytes(80_000_000))
        );
        assert_eq!(LimitKind::Mem.read("128MiB"), Ok(Amount::Bytes(128 << 20)));
        assert_eq!(LimitKind::Net.read("auto"), Ok(Amount::Auto));
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
            assert!(LimitKind::Net.read(text).is_err(), "{text}");
        }
        assert_eq!(LimitKind::Mem.read("auto"), Ok(Amount::Auto));
    }

    #[test]
    fn a_share_of_the_processor_lies_above_0_and_up_to_1() {
        assert_eq!(LimitKind::Cpu.read("0.8"), Ok(Amount::Share(800)));
        assert_eq!(LimitKind::Cpu.read("1"), Ok(Amount::Share(1000)));
        assert_eq!(LimitKind::Cpu.read("8Mbit"), Ok(Amount::Bytes(1_000_000)));
        for text in ["0", "-0.5", "1.01", "80", "nan", "inf", "80%"] {
            let error = LimitKind::Cpu.read(text).unwrap_err();
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
