//! The settings that directors and edges need for each forwarding method. Pure.

use std::net::IpAddr;

use reelway_film_addresses::FilmAddresses;
use reelway_ipvs::{Method, Tunnel};

use crate::config::Config;
use crate::marks;
use crate::sections::EdgeConfig;

/// The director's table of firewall rules.
const RULES: &str = "reelway_director";
/// The edges' tunnel device for packets in UDP.
const GUE_DEVICE: &str = "reelway-gue";

/// A setting of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An address of an interface, with the prefix of a single host.
    Address {
        /// The address.
        address: IpAddr,
        /// The interface.
        interface: String,
    },
    /// A kernel setting.
    Setting {
        /// Its name, as `sysctl` writes it; with slashes if a component may contain dots.
        key: String,
        /// Its value.
        value: &'static str,
    },
    /// A table of firewall rules of family `inet`, which is replaced as a whole.
    Rules {
        /// Its name.
        table: &'static str,
        /// The contents of the table.
        rules: String,
    },
    /// An object that a command makes if it is missing.
    Made {
        /// Command that looks for it.
        look: Vec<String>,
        /// Text in the output of `look` if it exists.
        expected: String,
        /// Command that makes it.
        make: Vec<String>,
        /// Command that removes it; empty: it stays.
        remove: Vec<String>,
    },
}

fn setting(key: &str, value: &'static str) -> Step {
    Step::Setting {
        key: key.to_owned(),
        value,
    }
}

fn made(look: &str, expected: &str, make: &str, remove: &str) -> Step {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    Step::Made {
        look: words(look),
        expected: expected.to_owned(),
        make: words(make),
        remove: words(remove),
    }
}

/// Returns the settings of a director whose virtual address is to be on this interface.
pub fn for_director(config: &Config, address: IpAddr, interface: &str) -> Vec<Step> {
    let mut steps = vec![
        // Otherwise viewers of an edge that was removed would get no answer.
        setting("net.ipv4.vs.expire_nodest_conn", "1"),
        // Viewers whom persistence keeps at an edge that takes no more viewers move to another.
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
        // Edges on the same network must not learn shorter routes that bypass this machine. Either
        // setting alone would enable redirects.
        steps.push(setting("net.ipv4.conf.all.send_redirects", "0"));
        let of_interface = format!("net/ipv4/conf/{interface}/send_redirects");
        steps.push(setting(&of_interface, "0"));
    }
    if !is_v6 && config.method != Method::Nat && config.health.through {
        // Edges answer checks from the virtual address, which is also an address of this machine.
        let of_interface = format!("net/ipv4/conf/{interface}/accept_local");
        steps.push(setting(&of_interface, "1"));
    }
    steps.push(marks_and_translations(config, address));
    // If several directors share the addresses, keepalived manages them.
    if !config.failover.is_on() {
        steps.extend(all_addresses(address, config.films.addresses, interface));
    }
    steps
}

/// Returns steps for the virtual address and those of films on an interface.
fn all_addresses(
    address: IpAddr,
    films: Option<FilmAddresses>,
    interface: &str,
) -> impl Iterator<Item = Step> {
    let films = films.into_iter().flat_map(|films| films.iter());
    let step = |address| Step::Address {
        address,
        interface: interface.to_owned(),
    };
    [address].into_iter().chain(films).map(step)
}

/// Returns the firewall rules of a director, which depend on its edges.
pub(crate) fn marks_and_translations(config: &Config, address: IpAddr) -> Step {
    Step::Rules {
        table: RULES,
        rules: rules(config, address),
    }
}

/// Returns the rules that mark packets to the virtual address and those of films. If edges' packets
/// return through the director, a source NAT also gives RTP the virtual address, even if the viewer
/// never sent a packet from which IPVS could know the connection.
fn rules(config: &Config, address: IpAddr) -> String {
    let marks = marking(config, address);
    let mut rules = String::new();
    // One chain is for viewers elsewhere, the other for viewers on this machine, whose checks
    // already have the mark of their edge.
    let is_marked = format!(
        "meta mark and {:#x} == {:#x} return; ",
        marks::MOST,
        config.mark
    );
    for (hook, kind, first) in [
        ("prerouting", "filter", ""),
        ("output", "route", &is_marked),
    ] {
        rules +=
            &format!("chain {hook} {{ type {kind} hook {hook} priority mangle; {first}{marks}}}\n");
    }
    if config.method.answers_come_back() {
        let family = family(address);
        let translations = config.edge.iter().map(|edge| {
            let [rtp, rtcp] = config.ports.media(edge);
            let edge = edge.address;
            format!("{family} saddr {edge} udp sport {{ {rtp}, {rtcp} }} snat to {address}; ")
        });
        rules += &format!(
            "chain postrouting {{ type nat hook postrouting priority srcnat; {}}}\n",
            translations.collect::<String>()
        );
    }
    rules
}

/// Returns the rules that mark packets.
fn marking(config: &Config, address: IpAddr) -> String {
    let family = family(address);
    let (ports, mark) = (config.ports, config.mark);
    let rule = |to: &str, transport: &str, [one, other]: [u16; 2], mark: u32| {
        format!(
            "{family} daddr {to} {transport} dport {{ {one}, {other} }} meta mark set {mark:#x}; "
        )
    };
    let requests = [ports.rtsp, ports.http];
    let mut marks = rule(&address.to_string(), "tcp", requests, mark);
    let mut all = address.to_string();
    if let Some(films) = config.films.addresses {
        marks += &rule(&films.to_string(), "tcp", requests, marks::films(mark));
        all = format!("{{ {address}, {films} }}");
    }
    let (own, shared): (Vec<&EdgeConfig>, Vec<&EdgeConfig>) =
        config.edge.iter().partition(|edge| edge.rtp.is_some());
    if !shared.is_empty() {
        marks += &rule(&all, "udp", [ports.rtp, ports.rtcp], mark);
    }
    for edge in own {
        let [rtp, rtcp] = config.ports.media(edge);
        marks += &rule(&all, "udp", [rtp, rtcp], marks::edge(mark, 0, edge.rtp));
    }
    marks
}

/// Returns nftables' name of an address family.
fn family(address: IpAddr) -> &'static str {
    if address.is_ipv6() { "ip6" } else { "ip" }
}

/// Returns the settings of an edge behind a director with this virtual address and these addresses
/// of films.
pub fn for_edge(method: Method, address: IpAddr, films: Option<FilmAddresses>) -> Vec<Step> {
    let is_v6 = address.is_ipv6();
    let mut steps = Vec::new();
    if method == Method::Nat {
        // With NAT, an edge never sees the virtual address. The network has to make the director
        // its gateway.
        return steps;
    }
    if !is_v6 {
        // The edge has the address, too, but must not answer ARP requests for it: it is the
        // director's.
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
            // The module's default device accepts packets from any source.
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
            // Packets from the tunnel have viewers' source addresses, to which routes lead through
            // other devices.
            steps.push(setting("net.ipv4.conf.all.rp_filter", "0"));
            steps.push(setting(&format!("net.ipv4.conf.{device}.rp_filter"), "0"));
        }
    }
    steps.extend(all_addresses(address, films, "lo"));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::parse_edge;

    fn config(method: Method) -> Config {
        Config {
            address: Some([10, 0, 0, 100].into()),
            method,
            edge: vec![parse_edge("10.0.0.2").unwrap()],
            ..Config::default()
        }
    }

    fn key(step: &Step) -> Option<&str> {
        match step {
            Step::Setting { key, .. } => Some(key),
            _ => None,
        }
    }

    fn rules_of(steps: &[Step]) -> String {
        let rules = steps.iter().find_map(|step| match step {
            Step::Rules { rules, .. } => Some(rules.clone()),
            _ => None,
        });
        rules.expect("rules")
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
            let redirects = "net/ipv4/conf/eth0/send_redirects";
            assert_eq!(keys(&steps).contains(&redirects), method != Method::Direct);
            let local = "net/ipv4/conf/eth0/accept_local";
            assert_eq!(keys(&steps).contains(&local), !is_nat);
            assert_eq!(rules_of(&steps).contains("snat to 10.0.0.100"), is_nat);
        }
    }

    #[test]
    fn packets_are_marked_by_whom_they_are_for() {
        let address: IpAddr = [10, 0, 0, 100].into();
        let mut config = config(Method::Nat);
        let shared = rules_of(&for_director(&config, address, "eth0"));
        assert_eq!(
            shared.matches("meta mark set 0x5ee1;").count(),
            4,
            "{shared}"
        );
        config.edge = ["10.0.0.2,8000", "10.0.0.3,8002"]
            .map(|edge| parse_edge(edge).unwrap())
            .to_vec();
        config.films.addresses = "10.0.0.128/26".parse().ok();
        let own = rules_of(&for_director(&config, address, "eth0"));
        for rule in [
            "ip daddr 10.0.0.100 tcp dport { 8554, 8080 } meta mark set 0x5ee1;",
            "ip daddr 10.0.0.128/26 tcp dport { 8554, 8080 } meta mark set 0x15ee1;",
            "ip daddr { 10.0.0.100, 10.0.0.128/26 } udp dport { 8002, 8003 } meta mark set 0x1f425ee1;",
            "ip saddr 10.0.0.3 udp sport { 8002, 8003 } snat to 10.0.0.100;",
        ] {
            assert!(own.contains(rule), "{rule} in {own}");
        }
        assert_eq!(own.matches("meta mark set 0x5ee1;").count(), 2, "{own}");
    }

    #[test]
    fn an_edge_has_the_address_and_keeps_quiet_about_it_unless_packets_are_rewritten() {
        let address: IpAddr = [10, 0, 0, 100].into();
        assert_eq!(for_edge(Method::Nat, address, None), []);
        let direct = for_edge(Method::Direct, address, None);
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
        let gue = for_edge(Method::Tunnel(Tunnel::Gue { port: 6080 }), address, None);
        assert!(keys(&gue).contains(&"net.ipv4.conf.reelway-gue.rp_filter"));
        let six = for_edge(Method::Direct, "fd00::100".parse().unwrap(), None);
        assert_eq!(six.len(), 1);
        let films = "10.0.0.128/26".parse().ok();
        let with_films = for_edge(Method::Direct, address, films);
        assert_eq!(with_films.len(), direct.len() + 64);
    }
}
