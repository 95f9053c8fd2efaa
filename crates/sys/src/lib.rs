//! Every `unsafe` line of Reelway.
//!
//! What lives here: what the kernel offers and std does not. Each module shows a safe interface, so
//! that every other crate is `forbid(unsafe_code)`:
//!
//! - [`region`]: one mapped region of memory, cut into pages that are owned like boxes
//! - [`reads`]: files read into such pages through a ring (io_uring)
//! - [`udp`]: UDP sockets, and a whole turn's packets in one call, with segmentation by the kernel (GSO)
//! - [`uring`]: whether rings (io_uring) can be had, and why not
//! - [`extents`]: where on its disk a file lies (FIEMAP)
//! - [`marks`]: what packets are marked with, for the queues on their way
//! - [`files`]: room reserved in advance, direct writes
//! - [`folder`]: directories held open, and what is done in them without following links
//! - [`once`]: memory in which every byte is written once
//! - [`splice`]: such bytes given to a socket without a copy
//! - [`ktls`]: connections whose records the kernel encrypts (kernel TLS)
//! - [`tcp`]: gathering writes that never block, rates of connections
//! - [`wake`]: sleeping to an absolute time, with another thread able to end it
//! - [`time`]: the kernel's clocks, CPU time
//! - [`tsc`]: the processor's time stamp counter, and the clocks it is compared with
//! - [`alloc`]: an allocator that counts, for tests
//! - [`limits`]: descriptors, locked memory, priority and processor of a thread
//! - [`children`]: programs that this one starts, and their end
//! - [`parts`]: films in several files that follow each other
//! - [`path`]: packets that are never cut into fragments
//! - [`pipes`]: what becomes of a program whose output nobody reads any more
//! - [`netlink`]: by which interface packets leave, and through which queue
//!
//! Depends on no other room.

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

/// The result of a call that returns -1 on error.
pub(crate) fn check(result: i64) -> std::io::Result<i64> {
    if result < 0 {
        Err(std::io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
