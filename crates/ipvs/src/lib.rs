//! IPVS, the kernel's virtual servers (`include/uapi/linux/ip_vs.h`), read and changed over generic
//! netlink.
//!
//! A *service* is what clients connect to: an address, a protocol and a port, or all packets with a
//! firewall mark. Its *destinations* are the servers that do the work. The kernel's table belongs
//! to a network namespace and is shared with other programs (ipvsadm, keepalived), so this crate
//! changes only the services that its callers name.
//!
//! | file | content |
//! |---|---|
//! | `model.rs` | services and destinations |
//! | `attributes.rs` | netlink attributes: written, and read with bounds checks |
//! | `wire.rs` | services and destinations as netlink attributes |
//! | `table.rs` | the netlink socket to the kernel's table |
//! | `error.rs` | errors |
#![forbid(unsafe_code)]

mod attributes;
mod error;
mod model;
mod table;
mod wire;

pub use error::IpvsError;
pub use model::{
    Counters, Destination, Method, Persistence, Protocol, Scheduler, Service, ServiceState, State,
    SyncRole, Target, Tunnel,
};
pub use table::Table;
pub use wire::WireError;
