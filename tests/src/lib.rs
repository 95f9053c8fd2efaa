//! What the end-to-end tests share: films made to order ([`films`], [`boxes`]), what others' tools see in them
//! ([`probe`]), a server of our own under test ([`server`]), real players ([`players`]), small clients that see every
//! byte ([`http`], [`rtsp`]), one that acknowledges them before they come ([`optimist`]), newcomers at admission
//! ([`knock`]), a tier to be filled ([`tier`]), recordings that grow ([`recording`]), and the surroundings: two hosts
//! and a cable with a capture ([`network`], [`capture`]), a control group that counts memory ([`cgroup`]), a disk that
//! breaks ([`faulty`]), servers that films lie on ([`elsewhere`]), somebody between viewers and a server who harms what
//! passes ([`between`]), a kernel of its own ([`lab`]); the yardstick as a command ([`yardstick`]), certificates
//! ([`certificates`]), and ports that no other test has ([`ports`]).
//!
//! Nothing here shares code with the server's data path: a mistake in both would go unseen.
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
