//! The state machine: events with their times come in, actions come out.
//!
//! One machine holds all connections and sessions of a server, because a session may outlive its
//! connection and be used from another. It has no side effects: bytes to write, jobs to run and
//! streams to start are returned as [`Action`]s, in the order in which they must be carried out.
//! The jobs of a request run one after the other, so their order is decided here:
//!
//! | request | jobs |
//! |---|---|
//! | first SETUP | find the film, agree on a transport, ask for admission |
//! | first PLAY | claim the place, make a stream that sends nothing, judge it from its beginning |
//! | PLAY elsewhere | judge before moving the stream: refused viewers continue where they were |
//! | PLAY after PAUSE | ask for the stream's position, judge it, then resume |
//!
//! | file | contents |
//! |---|---|
//! | `event.rs` | events and actions |
//! | `handle.rs` | code common to all methods |
//! | `state.rs` | all connections and sessions |
//! | `session.rs` | a session: its tracks, its phase, its timeouts |
//! | `step.rs` | result of a request, and requests that wait for a job |
//! | `describe.rs` | OPTIONS, DESCRIBE, GET_PARAMETER, SET_PARAMETER |
//! | `setup.rs` | SETUP: transports, and admission of newcomers |
//! | `play.rs` | PLAY and PAUSE |
//! | `leave.rs` | TEARDOWN and all other ways in which sessions and connections end |
//! | `receive.rs` | reports of receivers |

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

pub use event::{Action, ConnId, Event, Feedback, Reported};
pub use state::{Machine, Settings};
