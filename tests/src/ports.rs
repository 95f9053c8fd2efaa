//! Ports for what a test starts. No other test, in this process or another, has them as long as the
//! value exists. A port that is only found free, and released until a program binds it, may be
//! taken by then.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

use crate::films::target_dir;

/// The number of ports per value.
const PORTS: u16 = 8;

/// Eight consecutive ports, the first of which is even.
#[derive(Debug)]
pub struct Ports {
    /// The first port.
    pub first: u16,
    _lock: File,
}

impl Ports {
    /// Takes ports that are free at an address of this machine. Without an address, they are only
    /// reserved among tests: for a separate machine or namespace.
    pub fn take(address: Option<IpAddr>) -> Ports {
        let dir = target_dir().join("test-tmp/ports");
        fs::create_dir_all(&dir).expect("a directory for port locks");
        // Below the ports that Linux gives to clients (from 32768), above the well-known ones.
        for first in (20000..32000).step_by(usize::from(PORTS)) {
            let lock = File::create(dir.join(first.to_string())).expect("a port lock");
            if lock.try_lock().is_err() {
                continue;
            }
            let is_free = |address: IpAddr, port: u16| {
                TcpListener::bind((address, port)).is_ok()
                    && UdpSocket::bind((address, port)).is_ok()
            };
            let are_free = |address| (first..first + PORTS).all(|port| is_free(address, port));
            if address.is_none_or(are_free) {
                return Ports { first, _lock: lock };
            }
        }
        panic!("no free ports between 20000 and 32000");
    }

    /// Takes ports that are free at 127.0.0.1.
    pub fn local() -> Ports {
        Ports::take(Some(Ipv4Addr::LOCALHOST.into()))
    }

    /// The address of the first port at 127.0.0.1.
    pub fn at(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.first))
    }
}
