//! The test bed: what experiments need around a server that is measured.
//!
//! | file | what lives there |
//! |---|---|
//! | `children.rs` | programs started for an experiment, and ended whatever happens to it |
//! | `net.rs` | two network namespaces with a cable between, one for the server, one for viewers |
//! | `packages.rs` | installing the programs that are measured beside ours |
//! | `limits.rs` | how much memory a server may have, and what its disk gives |
//! | `machine.rs` | what the whole machine and single processes spend |
//! | `cores.rs` | which core is the server's, which are the viewers' |
//! | `standstill.rs` | for how long a core did nothing for anybody |

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
