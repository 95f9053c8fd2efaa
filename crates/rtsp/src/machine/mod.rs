//! The state machine: what happens comes in with its time, what is to be done comes out.
//!
//! One machine holds all connections and sessions of a server, because a session may outlive its
//! connection and be used from another. It does nothing itself: bytes to write, jobs to be done and
//! streams to let go are returned as [`Action`]s, in the order in which they are to be carried out. A
//! request that needs several jobs gets one after the other, so their order is decided here:
//!
//! | request | jobs |
//! |---|---|
//! | first SETUP | find the film, agree on a transport, ask whether the viewer may come in |
//! | first PLAY | ask whether the place is still there, make a stream that sends nothing yet, have it judged from where it begins |
//! | PLAY elsewhere | have it judged, and only then move the stream: a viewer who is refused goes on where they were |
//! | PLAY after PAUSE | ask where the stream stands, have it judged, and only then resume |
//!
//! | file | contents |
//! |---|---|
//! | `event.rs` | what comes in and what goes out |
//! | `handle.rs` | what all methods have in common |
//! | `state.rs` | all connections and sessions |
//! | `session.rs` | a session: its tracks, its phase, how long it may be silent |
//! | `step.rs` | what a request came to, and what waits for a job |
//! | `describe.rs` | OPTIONS, DESCRIBE, GET_PARAMETER, SET_PARAMETER |
//! | `setup.rs` | SETUP: transports, and newcomers |
//! | `play.rs` | PLAY and PAUSE |
//! | `leave.rs` | TEARDOWN and all the other ways in which sessions and connections end |
//! | `receive.rs` | what receivers report |

mod describe;
mod event;
mod handle;
mod leave;
mod play;
mod receive;
mod session;
mod setup;
mod state;
mod step;

pub use event::{Action, ConnId, Event, Reported, Said};
pub use state::{Machine, Settings};
