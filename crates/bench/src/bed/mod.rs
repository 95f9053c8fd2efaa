//! The test bed: tools for experiments with a server.
//!
//! | file | content |
//! |---|---|
//! | `children.rs` | programs started for an experiment, and ended with it in any case |
//! | `net.rs` | two network namespaces joined by a cable, one for the server, one for viewers |
//! | `packages.rs` | installation of the programs that are compared with Reelway |
//! | `limits.rs` | limits on a server's memory and disk rate |
//! | `machine.rs` | CPU time and memory of the machine and of single processes |
//! | `cores.rs` | which core the server uses, and which the viewers |
//! | `standstill.rs` | how long a core ran no program at all |

pub mod children;
pub mod cores;
pub mod limits;
pub mod machine;
pub mod net;
pub mod packages;
pub mod standstill;

pub use children::{Child, Folder};
pub use net::Net;
pub use standstill::Standstill;
