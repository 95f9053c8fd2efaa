//! What the end-to-end tests share: films made to order ([`films`], [`boxes`]), what other tools
//! find in them ([`probe`]), a Reelway server under test ([`server`]), real players ([`players`]),
//! small clients that see every byte ([`http`], [`rtsp`]), one that acknowledges bytes before they
//! arrive ([`optimist`]), newcomers at admission ([`knock`]), filling a tier ([`tier`]) and growing
//! recordings ([`recording`]). For the surroundings: two hosts connected by a cable with a capture
//! ([`network`], [`capture`]), a control group with memory accounting ([`cgroup`]), a faulty disk
//! ([`faulty`]), servers for remote films ([`elsewhere`]), a proxy that alters packets
//! ([`between`]) and a separate kernel ([`lab`]). Furthermore the yardstick as a command
//! ([`yardstick`]), certificates ([`certificates`]) and ports that no other test has ([`ports`]).
//!
//! Nothing here shares code with the server's data path: a mistake in both would go unnoticed.
#![forbid(unsafe_code)]

pub mod between;
pub mod boxes;
pub mod capture;
pub mod certificates;
pub mod cgroup;
pub mod elsewhere;
pub mod faulty;
pub mod films;
pub mod http;
pub mod knock;
pub mod lab;
pub mod network;
pub mod optimist;
pub mod players;
pub mod ports;
pub mod probe;
pub mod recording;
pub mod rtsp;
pub mod server;
pub mod tier;
pub mod wait;
pub mod yardstick;
