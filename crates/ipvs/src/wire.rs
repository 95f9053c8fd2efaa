//! Services and destinations as netlink attributes. Numbers and layouts are those of
//! `include/uapi/linux/ip_vs.h`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::attributes::{Reader, Writer};
use crate::model::{
    Counters, Destination, Method, Persistence, Protocol, Service, ServiceState, State, SyncRole,
    Target, Tunnel, unspecified,
};

/// The generic netlink commands in use.
pub(crate) mod command {
    pub const NEW_SERVICE: u8 = 1;
    pub const SET_SERVICE: u8 = 2;
    pub const DEL_SERVICE: u8 = 3;
    pub const GET_SERVICE: u8 = 4;
    pub const NEW_DEST: u8 = 5;
    pub const SET_DEST: u8 = 6;
    pub const DEL_DEST: u8 = 7;
    pub const GET_DEST: u8 = 8;
    pub const NEW_DAEMON: u8 = 9;
    pub const DEL_DAEMON: u8 = 10;
    pub const GET_INFO: u8 = 15;
}

/// Top-level attributes of a command.
pub(crate) const SERVICE: u16 = 1;
pub(crate) const DEST: u16 = 2;
pub(crate) const DAEMON: u16 = 3;

mod svc {
    pub const AF: u16 = 1;
    pub const PROTOCOL: u16 = 2;
    pub const ADDR: u16 = 3;
    pub const PORT: u16 = 4;
    pub const FWMARK: u16 = 5;
    pub const SCHED_NAME: u16 = 6;
    pub const FLAGS: u16 = 7;
    pub const TIMEOUT: u16 = 8;
    pub const NETMASK: u16 = 9;
    pub const STATS64: u16 = 12;
}

mod dest {
    pub const ADDR: u16 = 1;
    pub const PORT: u16 = 2;
    pub const FWD_METHOD: u16 = 3;
    pub const WEIGHT: u16 = 4;
    pub const U_THRESH: u16 = 5;
    pub const L_THRESH: u16 = 6;
    pub const ACTIVE_CONNS: u16 = 7;
    pub const INACT_CONNS: u16 = 8;
    pub const PERSIST_CONNS: u16 = 9;
    pub const ADDR_FAMILY: u16 = 11;
    pub const STATS64: u16 = 12;
    pub const TUN_TYPE: u16 = 13;
    pub const TUN_PORT: u16 = 14;
}

mod daemon {
    pub const STATE: u16 = 1;
    pub const MCAST_IFN: u16 = 2;
    pub const SYNC_ID: u16 = 3;
}

/// Address families.
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// Protocols.
const TCP: u16 = 6;
const UDP: u16 = 17;
/// Flags of services.
const PERSISTENT: u32 = 1;
const SCHEDULERS: u32 = 3;
/// Forwarding methods, and the mask of their bits.
const METHODS: u32 = 7;
const MASQUERADE: u32 = 0;
const LOCAL: u32 = 1;
const TUNNEL: u32 = 2;
const ROUTE: u32 = 3;
const TUNNEL_IPIP: u8 = 0;
const TUNNEL_GUE: u8 = 1;

/// An answer of the kernel that could not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel's answer lacks {0}")]
pub struct WireError(&'static str);

fn family(v6: bool) -> u16 {
    if v6 { AF_INET6 } else { AF_INET }
}

/// Returns an address in the kernel's 16-byte form.
fn address_bytes(address: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match address {
        IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes = address.octets(),
    }
    bytes
}

fn address_of(bytes: &[u8], v6: bool) -> Option<IpAddr> {
    match v6 {
        true => Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?).into()),
        false => Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?).into()),
    }
}

/// Returns the attributes that identify a service.
pub(crate) fn target(target: &Target) -> Writer {
    let writer = Writer::default().u16(svc::AF, family(target.is_v6()));
    match target {
        Target::Mark { mark, .. } => writer.u32(svc::FWMARK, *mark),
        Target::Address(protocol, address) => writer
            .u16(
                svc::PROTOCOL,
                match protocol {
                    Protocol::Tcp => TCP,
                    Protocol::Udp => UDP,
                },
            )
            .bytes(svc::ADDR, &address_bytes(address.ip()))
            .be16(svc::PORT, address.port()),
    }
}

/// Returns all attributes of a service.
pub(crate) fn service(service: &Service) -> Writer {
    let persistent = if service.persistence.is_some() {
        PERSISTENT
    } else {
        0
    };
    let flags = persistent | u32::from(service.scheduler_flags & 7) << SCHEDULERS;
    // The flags, and a mask that marks all of them as valid.
    let flags = [flags.to_ne_bytes(), u32::MAX.to_ne_bytes()].concat();
    let v6 = service.target.is_v6();
    let (timeout, prefix) = match service.persistence {
        Some(Persistence { timeout, prefix }) => (timeout, prefix),
        None => (0, if v6 { 128 } else { 32 }),
    };
    target(&service.target)
        .text(svc::SCHED_NAME, service.scheduler.name())
        .bytes(svc::FLAGS, &flags)
        .u32(svc::TIMEOUT, timeout)
        .bytes(svc::NETMASK, &netmask(prefix, v6))
}

/// Returns the netmask: for IPv4 a mask in network byte order, for IPv6 the number of bits.
fn netmask(prefix: u8, v6: bool) -> [u8; 4] {
    match v6 {
        true => u32::from(prefix).to_ne_bytes(),
        false => {
            let bits = u32::from(prefix.min(32));
            u32::MAX.checked_shl(32 - bits).unwrap_or(0).to_be_bytes()
        }
    }
}

fn prefix(mask: &[u8], v6: bool) -> Option<u8> {
    let mask = *mask.first_chunk::<4>()?;
    Some(match v6 {
        true => u32::from_ne_bytes(mask).min(128) as u8,
        false => u32::from_be_bytes(mask).count_ones() as u8,
    })
}

/// Returns the attributes that identify a destination.
pub(crate) fn destination_name(address: SocketAddr) -> Writer {
    Writer::default()
        .u16(dest::ADDR_FAMILY, family(address.is_ipv6()))
        .bytes(dest::ADDR, &address_bytes(address.ip()))
        .be16(dest::PORT, address.port())
}

/// Returns all attributes of a destination.
pub(crate) fn destination(destination: &Destination) -> Writer {
    let method = match destination.method {
        Method::Nat => MASQUERADE,
        Method::Tunnel(_) => TUNNEL,
        Method::Direct => ROUTE,
    };
    let writer = destination_name(destination.address)
        .u32(dest::FWD_METHOD, method)
        .u32(dest::WEIGHT, destination.weight)
        .u32(dest::U_THRESH, 0)
        .u32(dest::L_THRESH, 0);
    match destination.method {
        Method::Tunnel(Tunnel::Ipip) => writer.u8(dest::TUN_TYPE, TUNNEL_IPIP),
        Method::Tunnel(Tunnel::Gue { port }) => writer
            .u8(dest::TUN_TYPE, TUNNEL_GUE)
            .be16(dest::TUN_PORT, port),
        Method::Nat | Method::Direct => writer,
    }
}

/// Returns the attributes that identify one of the two synchronisation daemons.
pub(crate) fn sync_name(role: SyncRole) -> Writer {
    let state = match role {
        SyncRole::Send => 1,
        SyncRole::Receive => 2,
    };
    Writer::default().u32(daemon::STATE, state)
}

/// Returns the attributes of such a daemon on this interface, in the group of directors with this
/// number.
pub(crate) fn sync(role: SyncRole, interface: &str, group: u8) -> Writer {
    sync_name(role)
        .text(daemon::MCAST_IFN, interface)
        .u32(daemon::SYNC_ID, group.into())
}

/// Reads a service from the value of attribute [`SERVICE`].
pub(crate) fn read_service(bytes: &[u8]) -> Result<ServiceState, WireError> {
    let reader = Reader::new(bytes);
    let v6 = reader.u16(svc::AF).ok_or(WireError("a family"))? == AF_INET6;
    let target = match reader.u32(svc::FWMARK) {
        Some(mark) if mark > 0 => Target::Mark { mark, v6 },
        _ => {
            let protocol = match reader.u16(svc::PROTOCOL) {
                Some(TCP) => Protocol::Tcp,
                Some(UDP) => Protocol::Udp,
                _ => return Err(WireError("a protocol that is known")),
            };
            let address = reader.bytes(svc::ADDR).and_then(|at| address_of(at, v6));
            let address = address.ok_or(WireError("an address"))?;
            let port = reader.be16(svc::PORT).ok_or(WireError("a port"))?;
            Target::Address(protocol, SocketAddr::new(address, port))
        }
    };
    let flags = reader.u32(svc::FLAGS).unwrap_or(0);
    let persistence = (flags & PERSISTENT != 0).then(|| Persistence {
        timeout: reader.u32(svc::TIMEOUT).unwrap_or(0),
        prefix: (reader.bytes(svc::NETMASK))
            .and_then(|mask| prefix(mask, v6))
            .unwrap_or(if v6 { 128 } else { 32 }),
    });
    Ok(ServiceState {
        target,
        scheduler: reader
            .text(svc::SCHED_NAME)
            .ok_or(WireError("a scheduler"))?,
        persistence,
        scheduler_flags: (flags >> SCHEDULERS) as u8 & 7,
        counters: read_counters(reader.nested(svc::STATS64)),
    })
}

/// Reads a destination from the value of attribute [`DEST`]; `v6` says that its service is IPv6.
pub(crate) fn read_destination(bytes: &[u8], v6: bool) -> Result<State, WireError> {
    let reader = Reader::new(bytes);
    let v6 = reader
        .u16(dest::ADDR_FAMILY)
        .map_or(v6, |family| family == AF_INET6);
    let address = reader.bytes(dest::ADDR).and_then(|at| address_of(at, v6));
    let address = address.ok_or(WireError("an address"))?;
    let port = reader.be16(dest::PORT).ok_or(WireError("a port"))?;
    let forwarding = reader.u32(dest::FWD_METHOD).unwrap_or(METHODS) & METHODS;
    let method = match forwarding {
        MASQUERADE => Some(Method::Nat),
        ROUTE => Some(Method::Direct),
        TUNNEL => match reader.u8(dest::TUN_TYPE).unwrap_or(TUNNEL_IPIP) {
            TUNNEL_IPIP => Some(Method::Tunnel(Tunnel::Ipip)),
            TUNNEL_GUE => Some(Method::Tunnel(Tunnel::Gue {
                port: reader.be16(dest::TUN_PORT).unwrap_or(0),
            })),
            _ => None,
        },
        _ => None,
    };
    let count = |number| reader.u32(number).unwrap_or(0);
    Ok(State {
        address: SocketAddr::new(address, port),
        method,
        is_local: forwarding == LOCAL,
        weight: count(dest::WEIGHT),
        active: count(dest::ACTIVE_CONNS),
        inactive: count(dest::INACT_CONNS),
        persistent: count(dest::PERSIST_CONNS),
        counters: read_counters(reader.nested(dest::STATS64)),
    })
}

fn read_counters(reader: Option<Reader<'_>>) -> Counters {
    let count = |number| reader.and_then(|reader| reader.u64(number)).unwrap_or(0);
    Counters {
        connections: count(1),
        packets_in: count(2),
        packets_out: count(3),
        bytes_in: count(4),
        bytes_out: count(5),
    }
}

/// Returns the attributes that select a service whose destinations are to be listed. Even for a
/// service by mark, the kernel requires an address.
pub(crate) fn service_for_list(of: &Target) -> Writer {
    match of {
        Target::Address(..) => target(of),
        Target::Mark { v6, .. } => target(of)
            .u16(svc::PROTOCOL, 0)
            .bytes(svc::ADDR, &address_bytes(unspecified(*v6)))
            .be16(svc::PORT, 0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::Scheduler;

    fn any_address() -> impl Strategy<Value = SocketAddr> {
        (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port))
    }

    fn any_target() -> impl Strategy<Value = Target> {
        prop_oneof![
            (any::<bool>(), any_address()).prop_map(|(tcp, address)| {
                let protocol = if tcp { Protocol::Tcp } else { Protocol::Udp };
                Target::Address(protocol, address)
            }),
            (1u32.., any::<bool>()).prop_map(|(mark, v6)| Target::Mark { mark, v6 }),
        ]
    }

    fn any_service() -> impl Strategy<Value = Service> {
        let scheduler = proptest::sample::select(Scheduler::ALL);
        let persistence = proptest::option::of((any::<u32>(), 0u8..=128));
        (any_target(), scheduler, persistence, 0u8..8).prop_map(
            |(target, scheduler, persistence, scheduler_flags)| Service {
                target,
                scheduler,
                persistence: persistence.map(|(timeout, prefix)| Persistence {
                    timeout,
                    prefix: if target.is_v6() {
                        prefix
                    } else {
                        prefix.min(32)
                    },
                }),
                scheduler_flags,
            },
        )
    }

    fn any_destination() -> impl Strategy<Value = Destination> {
        let method = prop_oneof![
            Just(Method::Nat),
            Just(Method::Direct),
            Just(Method::Tunnel(Tunnel::Ipip)),
            any::<u16>().prop_map(|port| Method::Tunnel(Tunnel::Gue { port })),
        ];
        (any_address(), method, any::<u32>()).prop_map(|(address, method, weight)| Destination {
            address,
            method,
            weight,
        })
    }

    proptest! {
        #[test]
        fn a_service_is_read_as_it_was_written(wanted in any_service()) {
            let bytes = service(&wanted).into_bytes();
            let read = read_service(&bytes).expect("our own");
            prop_assert!(read.is(&wanted), "{read:?}");
        }

        #[test]
        fn a_destination_is_read_as_it_was_written(wanted in any_destination()) {
            let bytes = destination(&wanted).into_bytes();
            let read = read_destination(&bytes, false).expect("our own");
            prop_assert!(read.is(&wanted), "{read:?}");
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (read_service(&bytes), read_destination(&bytes, true));
        }
    }

    #[test]
    fn a_mask_is_in_network_order_and_a_prefix_a_number() {
        assert_eq!(netmask(24, false), [255, 255, 255, 0]);
        assert_eq!(netmask(0, false), [0; 4]);
        assert_eq!(netmask(64, true), 64u32.to_ne_bytes());
    }
}
