//! The members of a class of viewers.

use std::net::IpAddr;

/// The members of a class: viewers from one of these networks, and viewers of one of these titles.
/// If both are empty, all viewers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Networks, each with its prefix length.
    pub networks: Vec<(IpAddr, u8)>,
    /// Prefixes of titles.
    pub titles: Vec<String>,
}

impl Members {
    pub(crate) fn has(&self, address: IpAddr, title: &str) -> bool {
        if self.networks.is_empty() && self.titles.is_empty() {
            return true;
        }
        self.titles.iter().any(|begin| title.starts_with(begin))
            || self
                .networks
                .iter()
                .any(|(network, bits)| is_within(address, *network, *bits))
    }
}

fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let top = |number: u128, width: u32| {
        number
            .checked_shr(width.saturating_sub(bits.into()))
            .unwrap_or(0)
    };
    match (address.to_canonical(), network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            top(a.to_bits().into(), 32) == top(b.to_bits().into(), 32)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => top(a.to_bits(), 128) == top(b.to_bits(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_its_addresses_in_either_dress() {
        let of = |address: &str, network: &str, bits| {
            is_within(address.parse().unwrap(), network.parse().unwrap(), bits)
        };
        assert!(of("10.1.2.3", "10.1.0.0", 16));
        assert!(of("::ffff:10.1.2.3", "10.1.0.0", 16));
        assert!(!of("10.2.0.1", "10.1.0.0", 16));
        assert!(of("192.0.2.1", "0.0.0.0", 0));
        assert!(of("2001:db8::1", "2001:db8::", 32));
        assert!(!of("2001:db9::1", "2001:db8::", 32));
        assert!(of("10.1.2.3", "10.1.2.3", 32) && !of("10.1.2.4", "10.1.2.3", 32));
    }
}
