//! Errors.

use std::io;

use crate::wire::WireError;

/// The kernel's table could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum IpvsError {
    /// The kernel has no IPVS.
    #[error("this kernel has no IPVS: load its module (modprobe ip_vs)")]
    Missing,
    /// The caller is not root (it lacks `CAP_NET_ADMIN`).
    #[error("the kernel's virtual servers may be changed by root only (CAP_NET_ADMIN)")]
    Forbidden,
    /// The kernel module of the scheduler is not loaded.
    #[error("the kernel has no scheduler '{0}': load its module (modprobe ip_vs_{0})")]
    NoScheduler(&'static str),
    /// The kernel refused the command.
    #[error("{what}: {error}")]
    Refused {
        /// The object of the command.
        what: String,
        /// The kernel's answer.
        error: io::Error,
    },
    /// The socket failed.
    #[error("netlink: {0}")]
    Netlink(String),
    /// The kernel's answer could not be parsed.
    #[error(transparent)]
    Wire(#[from] WireError),
}
