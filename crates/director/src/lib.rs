//! The director: several edges behind one virtual address, by the kernel's IPVS.
//!
//! Packets to the virtual address and Reelway's ports get a firewall mark, and one IPVS service takes all packets with it:
//! so a viewer's RTSP, HTTP and RTCP go to the same edge. The director adds the edges that are well to that service, takes
//! those out that are not, and leaves other programs' services alone. Each edge also has a service of its own, through which
//! it is checked by the way that viewers' packets take.
//!
//! Beside the virtual address, films may have addresses: edges send a viewer who begins to the one that belongs to their
//! film, and all of these addresses are one more service, whose scheduler chooses the edge by the address that is asked for.
//! Then each edge has UDP ports of its own, which lead to its own service: a report reaches the edge that sends, whatever the
//! scheduler does meanwhile.
//!
//! | file | what lives there |
//! |---|---|
//! | `board.rs` | what was found, for those who show it |
//! | `child.rs` | programs that run beside this one |
//! | `config.rs`, `config.toml` | the configuration file and its commented reference |
//! | `failover.rs` | a second director: keepalived, and connections told to each other |
//! | `forecast.rs` | what happens if an edge goes. Pure |
//! | `health.rs` | whether an edge is well, by what its checks say. Pure |
//! | `journal.rs` | how settings are put back, kept in a file |
//! | `marks.rs` | the firewall marks. Pure |
//! | `metrics.rs` | the metrics. Pure |
//! | `mtu.rs` | how large packets may be in a tunnel to an edge |
//! | `plan.rs` | what is to be changed in the kernel's table. Pure |
//! | `probe.rs` | checks of an edge: RTSP and HTTP |
//! | `report.rs` | what edges say of themselves |
//! | `sections.rs` | the sections of the configuration, and flags that have several values. Pure |
//! | `services.rs` | the services that are to be in the kernel's table, with their edges. Pure |
//! | `setup.rs` | what a machine needs beside the table: the address, the marks, kernel settings; set, and put back |
//! | `slow.rs` | edges that are much slower than others. Pure |
//! | `status.rs` | what the page shows. Pure |
//! | `steps.rs` | which of that is needed for which method, on directors and on edges. Pure |
//! | `taken.rs` | whether another machine has the virtual address |
//! | `vrrp.rs` | keepalived's configuration. Pure |
//! | `ways.rs` | which ways packets take between this machine and others |
//! | `web.rs` | the page, the API and the metrics, over HTTP |
//! | `weight.rs` | how much of the newcomers each edge gets. Pure |
//! | `run.rs` | the loop |
//! | `trial/` | a whole network of namespaces to look at all of it |
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
