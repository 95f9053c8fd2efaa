//! The `unsafe` code of Reelway, except the FFI lines of `clock-preload` and `store-c`, and the
//! prefetch instruction of `hint`.
//!
//! The crate wraps kernel features that std does not offer. Each module has a safe interface, so
//! that all crates but these are `forbid(unsafe_code)`:
//!
//! - [`region`]: a mapped memory region, divided into pages that are owned like boxes
//! - [`reads`]: file reads into such pages through a ring (io_uring)
//! - [`udp`]: UDP sockets; all packets of a turn in one call, with segmentation by the kernel (GSO)
//! - [`uring`]: whether rings (io_uring) are available, and if not, why
//! - [`extents`]: where a file lies on its disk (FIEMAP)
//! - [`marks`]: marks on packets for the queues along their path
//! - [`files`]: preallocation, direct writes
//! - [`folder`]: directories that are held open, and operations in them that follow no links
//! - [`once`]: memory in which every byte is written only once
//! - [`splice`]: handing such bytes to a socket without a copy
//! - [`ktls`]: connections whose records the kernel encrypts (kernel TLS)
//! - [`tcp`]: gathering writes that never block, rate limits of connections
//! - [`wake`]: sleeping until an absolute time, interruptible by another thread
//! - [`time`]: the kernel's clocks, CPU time
//! - [`tsc`]: the processor's time stamp counter, and the clocks that it is compared with
//! - [`alloc`]: a counting allocator, for tests
//! - [`limits`]: descriptors, locked memory, priority and processor of a thread
//! - [`children`]: child processes and their termination
//! - [`parts`]: films that consist of several consecutive files
//! - [`path`]: packets that are never fragmented
//! - [`pipes`]: what happens to a program when nobody reads its output any more
//! - [`netlink`]: the interface and queue through which packets leave
//!
//! Depends on no other crate of the workspace.

pub mod alloc;
pub mod children;
mod direct;
pub mod extents;
pub mod files;
pub mod folder;
mod identity;
pub mod ktls;
pub mod limits;
mod mark;
pub mod marks;
pub mod netlink;
pub mod once;
mod options;
pub mod parts;
pub mod path;
pub mod pipes;
pub mod reads;
pub mod region;
pub mod splice;
pub mod tcp;
pub mod time;
pub mod tsc;
pub mod udp;
pub mod uring;
pub mod wake;

pub use direct::open_direct;
pub use identity::{FileIdentity, device_numbers};
pub use mark::Mark;

/// Turns the result of a call that returns -1 on error into a `Result`.
pub(crate) fn check(result: i64) -> std::io::Result<i64> {
    if result < 0 {
        Err(std::io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
