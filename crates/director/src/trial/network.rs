//! The network of a trial: its namespaces, and how they are connected. Pure.
//!
//! ```text
//!   this machine ── router ── switch ── origin, director, edges
//!                     │
//!                  viewers
//! ```
//!
//! Its addresses are from the network that is reserved for tests (198.18.0.0/15, RFC 2544).

use std::fmt::Display;
use std::net::Ipv4Addr;

use reelway_ipvs::Method;

use crate::steps::Step;

/// Address of the origin, which has the films.
pub const ORIGIN: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// The director's own address.
pub const DIRECTOR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 3);
/// The virtual address.
pub const VIRTUAL: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 100);
/// First and last address of the viewers.
pub const VIEWERS: (Ipv4Addr, Ipv4Addr) =
    (Ipv4Addr::new(198, 18, 1, 11), Ipv4Addr::new(198, 18, 1, 20));
/// The namespace of the switch, whose interfaces have the names of the machines.
pub const SWITCH: &str = "switch";
/// The interface of this machine to the network.
const CABLE: &str = "reelway-try";

/// Returns an edge's address; edges are numbered from 1.
pub fn edge(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, 0, 10 + number)
}

/// Returns an edge's name.
pub fn edge_name(number: u8) -> String {
    format!("edge{number}")
}

/// Returns the namespace of a machine.
pub fn namespace(machine: impl Display) -> String {
    format!("reelway-try-{machine}")
}

/// Returns the machines on the switch and their addresses.
fn machines(edges: u8) -> Vec<(String, Ipv4Addr)> {
    let mut all = vec![
        ("router".to_owned(), Ipv4Addr::new(198, 18, 0, 1)),
        ("origin".to_owned(), ORIGIN),
        ("director".to_owned(), DIRECTOR),
    ];
    all.extend((1..=edges).map(|number| (edge_name(number), edge(number))));
    all
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns the steps that make the namespaces. Everything else is inside them and is removed with
/// them.
pub fn namespaces(edges: u8) -> Vec<Step> {
    let names = machines(edges).into_iter().map(|(name, _)| name);
    let names = names.chain([SWITCH.to_owned(), "viewers".to_owned()]);
    let made = |name: String| {
        let name = namespace(name);
        Step::Made {
            look: words("ip netns list"),
            make: words(&format!("ip netns add {name}")),
            remove: words(&format!("ip netns delete {name}")),
            expected: name,
        }
    };
    names.map(made).collect()
}

/// Returns the commands that connect them, in this order.
pub fn connections(edges: u8, method: Method) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut ip = |text: String| all.push(words(&format!("ip {text}")));
    let (switch, router, viewers) = (namespace(SWITCH), namespace("router"), namespace("viewers"));
    ip(format!("-n {switch} link add lan type bridge"));
    ip(format!("-n {switch} link set lan up"));
    for (name, address) in machines(edges) {
        let machine = namespace(&name);
        ip(format!(
            "-n {switch} link add {name} type veth peer name eth0 netns {machine}"
        ));
        ip(format!("-n {switch} link set {name} master lan up"));
        ip(format!("-n {machine} link set lo up"));
        ip(format!("-n {machine} link set eth0 up"));
        ip(format!("-n {machine} address add {address}/24 dev eth0"));
    }
    // The viewers and this machine are behind the router.
    ip(format!(
        "-n {router} link add viewers type veth peer name eth0 netns {viewers}"
    ));
    ip(format!(
        "-n {router} link add host type veth peer name {CABLE}"
    ));
    // This end is in the router's namespace, too, until it is moved to this one.
    ip(format!(
        "-n {router} link set {CABLE} netns {}",
        std::process::id()
    ));
    for (space, name, address) in [
        (&router, "viewers", "198.18.1.1/24"),
        (&router, "host", "198.18.2.1/30"),
    ] {
        ip(format!("-n {space} address add {address} dev {name}"));
        ip(format!("-n {space} link set {name} up"));
    }
    ip(format!("-n {viewers} link set lo up"));
    let (first, last) = VIEWERS;
    for address in u32::from(first)..=u32::from(last) {
        let address = Ipv4Addr::from(address);
        ip(format!("-n {viewers} address add {address}/24 dev eth0"));
    }
    ip(format!("-n {viewers} link set eth0 up"));
    ip(format!("-n {viewers} route add default via 198.18.1.1"));
    ip(format!("address add 198.18.2.2/30 dev {CABLE}"));
    ip(format!("link set {CABLE} up"));
    ip("route add 198.18.0.0/23 via 198.18.2.1".to_owned());
    for (name, _) in machines(edges).into_iter().skip(1) {
        let gateway = match (method, name.starts_with("edge")) {
            (Method::Nat, true) => DIRECTOR,
            _ => Ipv4Addr::new(198, 18, 0, 1),
        };
        ip(format!(
            "-n {} route add default via {gateway}",
            namespace(name)
        ));
    }
    let mut forwarding = words(&format!("ip netns exec {router} sh -c"));
    forwarding.push("echo 1 >/proc/sys/net/ipv4/ip_forward".to_owned());
    all.push(forwarding);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_is_on_the_switch_and_has_a_gateway() {
        for (method, gateway) in [(Method::Direct, "198.18.0.1"), (Method::Nat, "198.18.0.3")] {
            let all: Vec<String> = connections(3, method)
                .iter()
                .map(|words| words.join(" "))
                .collect();
            assert_eq!(namespaces(3).len(), 8);
            for name in ["edge1", "edge3"] {
                assert!(all.contains(&format!(
                    "ip -n reelway-try-switch link set {name} master lan up"
                )));
                let route = format!("ip -n reelway-try-{name} route add default via {gateway}");
                assert!(all.contains(&route), "{all:#?}");
            }
            assert!(
                all.contains(&"ip -n reelway-try-director route add default via 198.18.0.1".into())
            );
            assert!(!all.iter().any(|words| words.contains("edge4")));
        }
    }
}
