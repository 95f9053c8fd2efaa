//! What can go wrong.

use std::io;

use crate::wire::WireError;

/// The kernel's table could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum IpvsError {
    /// The kernel has no IPVS.
    #[error("this kernel has no IPVS: load its module (modprobe ip_vs)")]
    Missing,
    /// Only the administrator may.
    #[error("the kernel's virtual servers may be changed by root only (CAP_NET_ADMIN)")]
    Forbidden,
    /// The scheduler is a module of its own.
    #[error("the kernel has no scheduler '{0}': load its module (modprobe ip_vs_{0})")]
    NoScheduler(&'static str),
    /// The kernel refused.
    #[error("{what}: {error}")]
    Refused {
        /// What was asked for.
        what: String,
        /// Its answer.
        error: io::Error,
    },
    /// The socket failed.
    #[error("netlink: {0}")]
    Netlink(String),
    /// An answer is not understood.
    #[error(transparent)]
    Wire(#[from] WireError),
}
