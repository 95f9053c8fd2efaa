//! Routes between this machine and others. If a forwarding method cannot work with these routes,
//! the director reports this before viewers notice.

use std::net::IpAddr;

use anyhow::{Context, bail};
use reelway_ipvs::Method;
use tracing::{info, warn};

use crate::config::Config;
use crate::setup::run;

/// Returns the interface of the virtual address.
pub(crate) fn interface(config: &Config) -> anyhow::Result<String> {
    match config.interface.as_str() {
        "" => interface_to_edges(config),
        name => Ok(name.to_owned()),
    }
}

/// Returns the interface through which this machine reaches its first edge.
fn interface_to_edges(config: &Config) -> anyhow::Result<String> {
    let edge = config.edge.first().context("no edges")?.address;
    let words = ["ip", "-o", "route", "get", &edge.to_string()].map(str::to_owned);
    let way = run(&words, "").map_err(anyhow::Error::msg);
    let way = way.with_context(|| format!("the way to edge {edge}"))?;
    let mut words = way.split_whitespace().skip_while(|word| *word != "dev");
    let name = words.nth(1).map(str::to_owned);
    name.with_context(|| format!("no interface leads to edge {edge}; set `interface`"))
}

/// Checks that the forwarding method can reach each edge.
///
/// # Errors
/// Direct routing is configured, and an edge is behind a gateway.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    if config.method != Method::Direct {
        return Ok(());
    }
    for edge in &config.edge {
        let edge = edge.address;
        let words = ["ip", "-o", "route", "get", &edge.to_string()].map(str::to_owned);
        // If there is no route or no `ip` program, the checks of the edge report it.
        let route = run(&words, "").unwrap_or_default();
        if let Some(gateway) = gateway(&route) {
            bail!(
                "edge {edge} is behind the gateway {gateway}: direct routing needs edges on a network of this machine. A tunnel \
                 (--method ipip or gue:PORT) reaches others, unless there is a NAT on the way"
            );
        }
    }
    Ok(())
}

/// Logs which gateway the edge's packets to viewers take: with NAT it must be the director.
/// `virtual_address` is of the edges' family.
pub fn say_way_back(config: &Config, virtual_address: IpAddr) {
    if config.method != Method::Nat {
        return;
    }
    let family = if virtual_address.is_ipv6() {
        "-6"
    } else {
        "-4"
    };
    let words = ["ip", family, "-o", "route", "show", "default"].map(str::to_owned);
    let is = match run(&words, "") {
        Ok(routes) => gateway(&routes),
        Err(error) => {
            warn!("this machine's gateway is unknown: {error}");
            return;
        }
    };
    match (is, config.failover.gateway) {
        (None, _) => warn!(
            "this machine has no gateway: with NAT the director must be it, or viewers get nothing"
        ),
        (Some(is), Some(wanted)) if is != wanted => warn!(
            "this machine's gateway is {is}: with NAT it must be that of the directors, {wanted}, or viewers get nothing"
        ),
        (Some(is), _) => {
            info!("this machine's gateway is {is}: with NAT that must be the director");
        }
    }
}

/// Returns the gateway in the output of `ip route`.
fn gateway(route: &str) -> Option<IpAddr> {
    let mut words = route.split_whitespace();
    words.find(|word| *word == "via")?;
    let word = words.next()?;
    // A gateway of the other family is preceded by the family's name.
    let word = match word {
        "inet" | "inet6" => words.next()?,
        word => word,
    };
    word.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_is_what_follows_via() {
        let near = "10.1.0.11 dev eth0 src 10.1.0.3 uid 0 \\    cache ";
        assert_eq!(gateway(near), None);
        let far = "10.9.0.11 via 10.1.0.1 dev eth0 src 10.1.0.3 uid 0 \\    cache ";
        assert_eq!(gateway(far), Some("10.1.0.1".parse().unwrap()));
        let default = "default via fd00:1::1 dev eth0 metric 1024 pref medium";
        assert_eq!(gateway(default), Some("fd00:1::1".parse().unwrap()));
        let other = "default via inet6 fe80::1 dev eth0";
        assert_eq!(gateway(other), Some("fe80::1".parse().unwrap()));
        assert_eq!(gateway("default via"), None);
    }
}
