//! Which settings directors and edges need, by the forwarding method. Pure.

use std::net::IpAddr;

use reelway_ipvs::{Method, Tunnel};

use crate::config::Config;

/// The director's table of firewall rules.
const RULES: &str = "reelway_director";
/// The edges' tunnel device where packets come in UDP.
const GUE_DEVICE: &str = "reelway-gue";

/// A setting of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An address of an interface, without a network of its own.
    Address {
        /// The address.
        address: IpAddr,
        /// The interface.
        interface: String,
    },
    /// A kernel setting.
    Setting {
        /// Its name, as `sysctl` has it.
        key: String,
        /// Its value.
        value: &'static str,
    },
    /// A table of firewall rules of family `inet`; it is replaced as a whole.
    Rules {
        /// Its name.
        table: &'static str,
        /// What stands in it.
        rules: String,
    },
    /// What a command makes where it is missing.
    Made {
        /// Looks for it.
        look: Vec<String>,
        /// Is in the output of that where it is there.
        says: String,
        /// Makes it.
        make: Vec<String>,
        /// Removes it; empty: it stays.
        remove: Vec<String>,
    },
}

fn setting(key: &str, value: &'static str) -> Step {
    Step::Setting {
        key: key.to_owned(),
        value,
    }
}

fn made(look: &str, says: &str, make: &str, remove: &str) -> Step {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    Step::Made {
        look: words(look),
        says: says.to_owned(),
        make: words(make),
        remove: words(remove),
    }
}

/// What a director needs whose virtual address is to be on this interface.
pub fn for_director(config: &Config, address: IpAddr, interface: &str) -> Vec<Step> {
    let mut steps = vec![
        // Who goes on with an edge that was removed would only be silent.
        setting("net.ipv4.vs.expire_nodest_conn", "1"),
        // Who is held at an edge that takes no more viewers goes elsewhere.
        setting("net.ipv4.vs.expire_quiescent_template", "1"),
    ];
    let is_v6 = address.is_ipv6();
    if config.method == Method::Nat {
        steps.push(setting("net.ipv4.vs.conntrack", "1"));
        steps.push(match is_v6 {
            true => setting("net.ipv6.conf.all.forwarding", "1"),
            false => setting("net.ipv4.ip_forward", "1"),
        });
    }
    if !is_v6 && config.method != Method::Direct {
        // Edges on the same network must not be told of shorter ways.
        steps.push(setting("net.ipv4.conf.all.send_redirects", "0"));
    }
    steps.push(Step::Rules {
        table: RULES,
        rules: rules(config, address),
    });
    // Where several directors share the address, it is keepalived's.
    if !config.failover.is_on() {
        steps.push(Step::Address {
            address,
            interface: interface.to_owned(),
        });
    }
    steps
}

/// The rules: marks for packets to the virtual address; where edges' packets come back through here, RTP gets the virtual
/// address even if its viewer never sent a packet that IPVS could know it by.
fn rules(config: &Config, address: IpAddr) -> String {
    let family = if address.is_ipv6() { "ip6" } else { "ip" };
    let (ports, mark) = (config.ports, config.mark);
    let marks = |hook: &str, kind: &str| {
        format!(
            "chain {hook} {{ type {kind} hook {hook} priority mangle; \
             {family} daddr {address} tcp dport {{ {}, {} }} meta mark set {mark:#x}; \
             {family} daddr {address} udp dport {{ {}, {} }} meta mark set {mark:#x}; }}\n",
            ports.rtsp, ports.http, ports.rtp, ports.rtcp
        )
    };
    // Of viewers elsewhere, and on this machine.
    let mut rules = marks("prerouting", "filter") + &marks("output", "route");
    if config.method.answers_come_back() {
        let edges: Vec<String> = (config.edge.iter())
            .map(|edge| edge.address.to_string())
            .collect();
        rules += &format!(
            "chain postrouting {{ type nat hook postrouting priority srcnat; \
             {family} saddr {{ {} }} udp sport {{ {}, {} }} snat to {address}; }}\n",
            edges.join(", "),
            ports.rtp,
            ports.rtcp
        );
    }
    rules
}

/// What an edge needs behind a director with this virtual address.
pub fn for_edge(method: Method, address: IpAddr) -> Vec<Step> {
    let is_v6 = address.is_ipv6();
    let mut steps = Vec::new();
    if method == Method::Nat {
        // It never sees the virtual address. That the director is its gateway is the network's business.
        return steps;
    }
    if !is_v6 {
        // The address is the director's: this machine has it, but must not say so.
        steps.push(setting("net.ipv4.conf.all.arp_ignore", "1"));
        steps.push(setting("net.ipv4.conf.all.arp_announce", "2"));
    }
    if let Method::Tunnel(tunnel) = method {
        let device = match (tunnel, is_v6) {
            (Tunnel::Ipip, false) => "tunl0",
            (Tunnel::Ipip, true) => "ip6tnl0",
            (Tunnel::Gue { .. }, _) => GUE_DEVICE,
        };
        let show = format!("ip link show dev {device}");
        match tunnel {
            // The module's own device takes packets from everywhere.
            Tunnel::Ipip => {
                let module = if is_v6 { "ip6_tunnel" } else { "ipip" };
                steps.push(made(&show, device, &format!("modprobe {module}"), ""));
            }
            Tunnel::Gue { port } => {
                let (ip, kind) = if is_v6 {
                    ("ip -6", "ip6tnl")
                } else {
                    ("ip", "ipip")
                };
                steps.push(made(
                    &format!("{ip} fou show"),
                    &format!("port {port} "),
                    &format!("{ip} fou add port {port} gue"),
                    &format!("{ip} fou del port {port}"),
                ));
                steps.push(made(
                    &show,
                    device,
                    &format!("ip link add {device} type {kind} external"),
                    &format!("ip link del {device}"),
                ));
            }
        }
        steps.push(made(
            &format!("ip link show up dev {device}"),
            device,
            &format!("ip link set {device} up"),
            &format!("ip link set {device} down"),
        ));
        if !is_v6 {
            // What comes out of the tunnel has viewers' addresses, the way to whom leads elsewhere.
            steps.push(setting("net.ipv4.conf.all.rp_filter", "0"));
            steps.push(setting(&format!("net.ipv4.conf.{device}.rp_filter"), "0"));
        }
    }
    steps.push(Step::Address {
        address,
        interface: "lo".to_owned(),
    });
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(method: Method) -> Config {
        Config {
            address: Some([10, 0, 0, 100].into()),
            method,
            edge: vec![crate::config::parse_edge("10.0.0.2").unwrap()],
            ..Config::default()
        }
    }

    fn key(step: &Step) -> Option<&str> {
        match step {
            Step::Setting { key, .. } => Some(key),
            _ => None,
        }
    }

    fn keys(steps: &[Step]) -> Vec<&str> {
        steps.iter().filter_map(key).collect()
    }

    #[test]
    fn only_nat_forwards_and_translates() {
        let address = [10, 0, 0, 100].into();
        for method in [Method::Direct, Method::Tunnel(Tunnel::Ipip), Method::Nat] {
            let steps = for_director(&config(method), address, "eth0");
            let is_nat = method == Method::Nat;
            assert_eq!(keys(&steps).contains(&"net.ipv4.ip_forward"), is_nat);
            let rules = steps.iter().find_map(|step| match step {
                Step::Rules { rules, .. } => Some(rules),
                _ => None,
            });
            assert_eq!(rules.unwrap().contains("snat to 10.0.0.100"), is_nat);
        }
    }

    #[test]
    fn an_edge_has_the_address_and_keeps_quiet_about_it_unless_packets_are_rewritten() {
        let address: IpAddr = [10, 0, 0, 100].into();
        assert_eq!(for_edge(Method::Nat, address), []);
        let direct = for_edge(Method::Direct, address);
        assert_eq!(
            keys(&direct),
            [
                "net.ipv4.conf.all.arp_ignore",
                "net.ipv4.conf.all.arp_announce"
            ]
        );
        assert!(
            matches!(direct.last(), Some(Step::Address { interface, .. }) if interface == "lo")
        );
        let gue = for_edge(Method::Tunnel(Tunnel::Gue { port: 6080 }), address);
        assert!(keys(&gue).contains(&"net.ipv4.conf.reelway-gue.rp_filter"));
        let six = for_edge(Method::Direct, "fd00::100".parse().unwrap());
        assert_eq!(six.len(), 1);
    }
}
