//! The configuration of keepalived, which holds the virtual address if several directors share it,
//! by VRRP version 3 (RFC 5798). Pure.

use std::net::IpAddr;
use std::path::Path;

use reelway_ipvs::Method;
use serde::Serialize;

use crate::config::Config;

/// Seconds between two advertisements. A director that misses three in a row is considered dead.
const INTERVAL: f64 = 0.25;
/// Name of the VRRP instance, whose addresses move together.
const INSTANCE: &str = "reelway";

/// The state of this director's claim to the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// This director has the addresses.
    Active,
    /// Another director has the addresses.
    Standby,
    /// Its interface is down.
    Fault,
}

/// Returns keepalived's configuration. Keepalived writes state changes to the FIFO `states`.
pub(crate) fn configuration(
    config: &Config,
    address: IpAddr,
    interface: &str,
    states: &Path,
) -> String {
    let gateway = config.failover.gateway;
    let gateway = gateway.filter(|_| config.method == Method::Nat);
    let line = |address: IpAddr| {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        format!("        {address}/{bits} dev {interface}\n")
    };
    let addresses: String = [address].into_iter().chain(gateway).map(line).collect();
    // An advertisement has no room for the addresses of films.
    let films = match config.films.addresses {
        Some(films) => {
            let lines: String = films.iter().map(line).collect();
            format!("    virtual_ipaddress_excluded {{\n{lines}    }}\n")
        }
        None => String::new(),
    };
    // No director takes the addresses from another that is healthy: each move interrupts viewers
    // for a moment.
    format!(
        "global_defs {{\n    vrrp_version 3\n    max_auto_priority 10\n    vrrp_notify_fifo {}\n}}\n\
         vrrp_instance {INSTANCE} {{\n    state BACKUP\n    nopreempt\n    interface {interface}\n    \
         virtual_router_id {}\n    priority {}\n    advert_int {INTERVAL}\n    \
         virtual_ipaddress {{\n{addresses}    }}\n{films}}}\n",
        states.display(),
        config.failover.router,
        config.failover.priority,
    )
}

/// Parses the state from a line of the FIFO.
pub(crate) fn state(line: &str) -> Option<State> {
    let mut words = line.split_whitespace();
    let is_ours = words.next() == Some("INSTANCE")
        && words.next().map(|name| name.trim_matches('"')) == Some(INSTANCE);
    match words.next().filter(|_| is_ours)? {
        "MASTER" => Some(State::Active),
        "BACKUP" => Some(State::Standby),
        "FAULT" => Some(State::Fault),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::parse_failover;

    #[test]
    fn the_gateway_moves_with_the_address_where_the_edges_need_one() {
        let address = IpAddr::from([192, 0, 2, 100]);
        let mut config = Config {
            failover: parse_failover("51=150").unwrap(),
            ..Config::default()
        };
        config.failover.gateway = Some([192, 0, 2, 1].into());
        let text = |config: &Config| configuration(config, address, "eth0", Path::new("/run/fifo"));
        let direct = text(&config);
        assert!(direct.contains("virtual_router_id 51\n    priority 150\n"));
        assert!(direct.contains("{\n        192.0.2.100/32 dev eth0\n    }"));
        config.method = Method::Nat;
        let nat = text(&config);
        assert!(nat.contains("        192.0.2.100/32 dev eth0\n        192.0.2.1/32 dev eth0\n"));
    }

    #[test]
    fn addresses_of_films_move_as_well() {
        let mut config = Config::default();
        config.films.addresses = "192.0.2.128/31".parse().ok();
        let address = IpAddr::from([192, 0, 2, 100]);
        let text = configuration(&config, address, "eth0", Path::new("/run/fifo"));
        let films = "    virtual_ipaddress_excluded {\n        192.0.2.128/32 dev eth0\n        192.0.2.129/32 dev eth0\n    }\n}\n";
        assert!(text.ends_with(films), "{text}");
    }

    #[test]
    fn keepalived_says_who_has_the_address() {
        assert_eq!(
            state("INSTANCE \"reelway\" MASTER 100"),
            Some(State::Active)
        );
        assert_eq!(
            state("INSTANCE \"reelway\" BACKUP 100"),
            Some(State::Standby)
        );
        assert_eq!(state("INSTANCE \"reelway\" FAULT 100"), Some(State::Fault));
        for other in [
            "INSTANCE \"reelway\" STOP 100",
            "INSTANCE \"else\" MASTER 1",
            "",
        ] {
            assert_eq!(state(other), None, "{other}");
        }
    }
}
