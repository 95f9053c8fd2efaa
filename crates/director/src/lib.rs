//! The director: several edges behind one virtual address, by the kernel's IPVS.
//!
//! Packets to the virtual address and Reelway's ports get a firewall mark, and one IPVS service takes all packets with it:
//! so a viewer's RTSP, HTTP and RTCP go to the same edge. The director adds the edges that are well to that service, takes
//! those out that are not, and leaves everything else in the kernel's table alone.
//!
//! | file | what lives there |
//! |---|---|
//! | `config.rs`, `config.toml` | the configuration file and its commented reference |
//! | `failover.rs` | a second director: keepalived, and connections told to each other |
//! | `health.rs` | whether an edge is well, by what its checks say. Pure |
//! | `journal.rs` | how settings are put back, kept in a file |
//! | `plan.rs` | what is to be changed in the kernel's table. Pure |
//! | `probe.rs` | checks of an edge: RTSP and HTTP |
//! | `setup.rs` | what a machine needs beside the table: the address, the marks, kernel settings; set, and put back |
//! | `steps.rs` | which of that is needed for which method, on directors and on edges. Pure |
//! | `vrrp.rs` | keepalived's configuration. Pure |
//! | `weight.rs` | how much of the newcomers each edge gets. Pure |
//! | `run.rs` | the loop |
#![forbid(unsafe_code)]

mod config;
mod failover;
mod health;
mod journal;
mod plan;
mod probe;
mod run;
mod setup;
mod steps;
mod vrrp;
mod weight;

pub use config::{
    Config, EdgeConfig, FailoverConfig, HealthConfig, Ports, REFERENCE, parse_edge, parse_failover,
    parse_method,
};
pub use journal::directory;
pub use run::{Order, keepalived, run, steps};
pub use setup::{Setup, SetupError};
pub use steps::{Step, for_director, for_edge};
