//! Whether another machine has the virtual address already. Two that have it get some of the viewers' packets each, and neither
//! knows.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::Duration;

use anyhow::bail;

use crate::setup::run;
use crate::steps::Step;

/// Looks whether another machine has said that it has an address, and the time before each.
const LOOKS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// Looks whether other machines have the addresses that these steps add.
///
/// # Errors
/// One has.
pub(crate) async fn check(steps: &[Step]) -> anyhow::Result<()> {
    let mut asked = Vec::new();
    for step in steps {
        let Step::Address { address, interface } = step else {
            continue;
        };
        // What was known of it may be years old.
        let _ = run(&words("flush", *address, interface), "");
        if ask(*address).is_ok() {
            asked.push((*address, interface.as_str()));
        }
    }
    if asked.is_empty() {
        return Ok(());
    }
    for _ in 0..LOOKS {
        tokio::time::sleep(PAUSE).await;
        for (address, interface) in &asked {
            let told = run(&words("show", *address, interface), "").unwrap_or_default();
            if let Some(machine) = hardware_address(&told) {
                bail!(
                    "{address} is taken: the machine with the hardware address {machine} answers for it on {interface}. If it \
                     is an edge, it lacks the settings of one (reelway director --on-edge)"
                );
            }
        }
    }
    Ok(())
}

fn words(what: &str, address: IpAddr, interface: &str) -> Vec<String> {
    let text = format!("ip -o neighbor {what} to {address} dev {interface}");
    text.split_whitespace().map(str::to_owned).collect()
}

/// Sends a packet to the address, so that the kernel asks who has it.
fn ask(address: IpAddr) -> std::io::Result<()> {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // The port is that of the discard protocol (RFC 863).
    UdpSocket::bind((any, 0))?.send_to(&[0], (address, 9))?;
    Ok(())
}

/// The hardware address of a neighbor that is there, from what `ip neighbor` says.
fn hardware_address(told: &str) -> Option<&str> {
    let mut words = told.split_whitespace();
    words.find(|word| *word == "lladdr")?;
    words.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbor_that_is_there_has_a_hardware_address() {
        let there = "10.1.0.100 lladdr 02:42:0a:01:00:01 REACHABLE\n";
        assert_eq!(hardware_address(there), Some("02:42:0a:01:00:01"));
        for told in ["", "10.1.0.100  INCOMPLETE\n", "10.1.0.100  FAILED\n"] {
            assert_eq!(hardware_address(told), None, "{told}");
        }
    }
}
