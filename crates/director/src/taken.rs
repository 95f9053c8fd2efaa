//! Whether another machine already has the virtual address. If two machines have it, each gets some
//! of the viewers' packets, and neither notices.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::Duration;

use anyhow::bail;

use crate::setup::run;
use crate::steps::Step;

/// How often the neighbour table is read, and the pause before each time.
const LOOKS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// Checks that no other machine has the addresses that these steps add.
///
/// # Errors
/// A machine has one of them.
pub(crate) async fn check(steps: &[Step]) -> anyhow::Result<()> {
    let mut asked = Vec::new();
    for step in steps {
        let Step::Address { address, interface } = step else {
            continue;
        };
        // An entry of the neighbour table may be years old.
        let _ = run(&flush(*address, interface), "");
        if ask(*address).is_ok() {
            asked.push((*address, interface.as_str()));
        }
    }
    if asked.is_empty() {
        return Ok(());
    }
    for _ in 0..LOOKS {
        tokio::time::sleep(PAUSE).await;
        let known =
            run(&["ip", "-o", "neighbor", "show"].map(str::to_owned), "").unwrap_or_default();
        for (address, interface) in &asked {
            if let Some(machine) = hardware_address(&known, *address, interface) {
                bail!(
                    "{address} is taken: the machine with the hardware address {machine} answers for it on {interface}. If it \
                     is an edge, it lacks the settings of one (reelway director --on-edge)"
                );
            }
        }
    }
    Ok(())
}

fn flush(address: IpAddr, interface: &str) -> Vec<String> {
    let text = format!("ip neighbor flush to {address} dev {interface}");
    text.split_whitespace().map(str::to_owned).collect()
}

/// Sends a packet to the address, so that the kernel resolves it.
fn ask(address: IpAddr) -> std::io::Result<()> {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // The port of the discard protocol (RFC 863).
    UdpSocket::bind((any, 0))?.send_to(&[0], (address, 9))?;
    Ok(())
}

/// Returns the hardware address of the neighbour with this address, from the output of `ip
/// neighbor`.
fn hardware_address<'a>(known: &'a str, address: IpAddr, interface: &str) -> Option<&'a str> {
    let of = format!("{address} dev {interface} lladdr ");
    let line = known.lines().find_map(|line| line.strip_prefix(&of))?;
    line.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbor_that_is_there_has_a_hardware_address() {
        let known = "10.1.0.10 dev eth0 lladdr 02:42:0a:01:00:0a STALE\n10.1.0.101 dev eth0 FAILED\n\
            10.1.0.100 dev eth0 lladdr 02:42:0a:01:00:01 REACHABLE\nfd00::1 dev eth0 lladdr 02:42:0a:01:00:02 router DELAY\n";
        let machine =
            |address: &str, interface| hardware_address(known, address.parse().unwrap(), interface);
        assert_eq!(machine("10.1.0.100", "eth0"), Some("02:42:0a:01:00:01"));
        assert_eq!(machine("fd00::1", "eth0"), Some("02:42:0a:01:00:02"));
        assert_eq!(machine("10.1.0.100", "eth1"), None);
        assert_eq!(machine("10.1.0.101", "eth0"), None);
        assert_eq!(machine("10.1.0.1", "eth0"), None);
    }
}
