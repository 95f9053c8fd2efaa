//! The kernel's virtual servers: IPVS (`include/uapi/linux/ip_vs.h`), read and changed over generic netlink.
//!
//! A *service* is what clients connect to: an address, a protocol and a port, or all packets with a firewall mark. Its
//! *destinations* are the servers that do the work. The kernel's table belongs to a network namespace and is shared with
//! other programs (ipvsadm, keepalived): nothing here changes a service that it was not told to.
//!
//! | file | what lives there |
//! |---|---|
//! | `model.rs` | services and destinations |
//! | `attributes.rs` | netlink's attributes: written, and read with bounds |
//! | `wire.rs` | services and destinations as attributes |
//! | `table.rs` | the kernel's table: the socket |
//! | `error.rs` | what can go wrong |
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
