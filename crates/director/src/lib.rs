//! The director: several edges behind one virtual address, with the kernel's IPVS.
//!
//! Packets to the virtual address and Reelway's ports get a firewall mark, and one IPVS service
//! takes all packets with this mark, so a viewer's RTSP, HTTP and RTCP go to the same edge. The
//! director adds healthy edges to that service, removes the others, and leaves other programs'
//! services alone. Each edge also has a service of its own, through which it is checked by the path
//! that viewers' packets take.
//!
//! In addition to the virtual address, films may have addresses: edges send a viewer who begins to
//! the address of their film. All of these addresses form one more service, whose scheduler chooses
//! the edge by the destination address. Each edge then has UDP ports of its own, which lead to its
//! own service, so an RTCP report reaches the edge that sends, whatever the scheduler does
//! meanwhile.
//!
//! | file | content |
//! |---|---|
//! | `board.rs` | what was found, shared with the code that shows it |
//! | `child.rs` | child processes |
//! | `config.rs`, `config.toml` | the configuration file and its commented reference |
//! | `failover.rs` | several directors: keepalived, and connection synchronisation |
//! | `forecast.rs` | what happens if an edge fails. Pure |
//! | `health.rs` | whether an edge is healthy according to its checks. Pure |
//! | `journal.rs` | the undo journal of settings |
//! | `marks.rs` | the firewall marks. Pure |
//! | `metrics.rs` | the metrics. Pure |
//! | `mtu.rs` | how large packets may be in a tunnel to an edge |
//! | `plan.rs` | the changes to be made in the kernel's table. Pure |
//! | `probe.rs` | checks of an edge: RTSP and HTTP |
//! | `report.rs` | what edges report about themselves |
//! | `sections.rs` | the sections of the configuration, and flags with several values. Pure |
//! | `services.rs` | the desired services of the kernel's table, with their edges. Pure |
//! | `setup.rs` | address, firewall marks and kernel settings: made, and put back |
//! | `slow.rs` | edges that are much slower than others. Pure |
//! | `status.rs` | what the page shows. Pure |
//! | `steps.rs` | which settings each forwarding method needs, on directors and on edges. Pure |
//! | `taken.rs` | whether another machine already has the virtual address |
//! | `vrrp.rs` | keepalived's configuration. Pure |
//! | `ways.rs` | routes between this machine and others |
//! | `web.rs` | the page, the API and the metrics, over HTTP |
//! | `weight.rs` | each edge's share of new viewers. Pure |
//! | `run.rs` | the main loop |
//! | `trial/` | a complete network of namespaces for trying all of it |
#![forbid(unsafe_code)]

mod board;
mod child;
mod config;
mod failover;
mod forecast;
mod health;
mod journal;
mod marks;
mod metrics;
mod mtu;
mod plan;
mod probe;
mod report;
mod run;
mod sections;
mod services;
mod setup;
mod slow;
mod status;
mod steps;
mod taken;
pub mod trial;
mod vrrp;
mod ways;
mod web;
mod weight;

pub use config::{Config, REFERENCE};
pub use journal::directory;
pub use run::{Order, keepalived, run, steps};
pub use sections::{
    EdgeConfig, FailoverConfig, FilmsConfig, HealthConfig, Page, Ports, parse_edge, parse_failover,
    parse_method,
};
pub use setup::{Setup, SetupError};
pub use steps::{Step, for_director, for_edge};
pub use ways::say_way_back;
