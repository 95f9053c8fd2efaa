//! A node on a simulated clock: the server's own lane of streams, block pool, desk of admission, RTSP machine and viewers
//! over HTTP, with a disk, a kernel, players and faults that a seed makes up. A run of a minute takes some milliseconds, and
//! is the same each time, so that whatever a seed finds can be looked at again.
//!
//! Pure: no clock, no thread, no lock, no socket. Everything happens in one thread, in the order
//! of the events' times, and events of the same time in the order in which they were arranged.
//!
//! # What is real and what is a model
//!
//! | part | here |
//! |---|---|
//! | block pool: requests, reads, eviction, pins | real: `reelway_pool::Pool`, whose memory is numbers of pages |
//! | cache policy | real: one of `reelway_cache`, by the seed |
//! | admission: verdicts, bookings, pauses, seeks | real: `reelway_admission::Desk`, whose reservations are confirmed, released or forgotten |
//! | what a film needs of network, disk and memory | real: `reelway_demand::Demand`, over samples that the seed makes up |
//! | streams: beginnings, asking for groups, pacing, what is left out | real: `reelway_playout::Lane` |
//! | who waits for which group | real: `reelway_playout::Groups` |
//! | packets of a group | real: `reelway_rtp::Payload`, of bytes that are made up where it looks at them |
//! | RTSP: requests, sessions, answers | real: `reelway_rtsp`, parser and machine; a third of the viewers say nothing, and are played to |
//! | viewers over HTTP: who they are, pace, windows, what may be pinned | real: `reelway_viewing`; in every second seed, half of the viewers |
//! | copies of blocks that are sent often, which connections are given as they are | their books are real: `reelway_viewing::Copies`, in half of the seeds with HTTP; a model of memory, and of sockets that have it until it is read |
//! | segments | real: `reelway_package::Package`, sizes and parts, of which nobody looks at the bytes |
//! | films | a picture and a sound of made-up sizes, cut to groups by the rules of the index, without bytes |
//! | films in files, in every fourth seed one | written here as transport, program and elementary streams, Matroska and fragmented MP4; indexed by the real `reelway_media::Indexer` |
//! | blocks of views | made by the real `reelway_media::Filling`, of blocks of the file that the pool has read; a model of the threads of `store` |
//! | receivers of films in files | written here by the RFCs of the payload formats |
//! | disk | a model: one block after the other at a constant rate |
//! | connections of viewers over TCP: what is written, kept and let go of when they do not read | real: the lane's; a model of what a connection holds and how fast it is read beside it |
//! | limited link: pacing, what leaves ahead of its time, what it leaves to viewers over HTTP | real, in every second seed: `reelway_playout::Link` and `Others`; a model of the link's queue, and of what TCP puts in it, beside it |
//! | lost packets | viewers miss one in 50 or 400 in two seeds of three, and ask for what was never sent, too; what is sent again is real |
//! | kernel | a model: takes every packet at once, but for its faults |
//! | time of processing | a model: none |
//!
//! There are no sockets, no origins, no tier and no purges. The node's limits are those of its disk and its pool, with
//! headroom: 70 % of the disk's rate and 80 % of the pool are given out. In two seeds of three, viewers who seek or resume
//! are judged again (`admission.ask_again`); in the others more than the limit may be booked, which then explains delays.
//!
//! # What must hold
//!
//! [`Rule`] has the list. Nobody may wait for blocks without a cause; these are causes:
//!
//! * An injected fault that can delay somebody, until the disk has caught up and no viewer plays later than is booked for
//!   them: none waits for a group that came late, and no timetable was moved on, until they seek or pause.
//! * Short notice ([`Counters::short_notice`]): the next group is asked for when the one at hand begins, so after a group of
//!   one picture only that picture's time is left. Reads that are under way and the group's own take longer than that.
//! * Newcomers ([`Counters::behind_newcomers`]): their groups are due 200 ms after they are asked for, which puts them ahead
//!   of groups that are asked for little earlier than they are due.
//!
//! Viewers are sent their film from where they begin to its end, and who plays is sent something. Frames may be left out, and
//! timetables moved on, for one of these causes only, and as many frames are missing as are counted as left out.
//!
//! Of a film in a file it is known what was put in, sample by sample. With that is compared what the index has, each block of a
//! view, what a receiver makes of the packets of each group that was read, and the bytes of each window over HTTP. A block of a
//! view takes as many reads as the file's blocks that it is made of, so that much notice is needed for it.
//!
//! What a viewer pins is compared with the curve from which memory is booked, at their place in the film. A viewer who begins
//! shortly before a sound's group has that group at hand, and asks for the next one, before the curve has it. So a viewer may
//! have as many blocks as are held within the next quarter second ([`Counters::early`]). Bookings themselves are means of whole
//! seconds; [`Counters::beyond_mean`] says how often more is pinned at a moment.
//!
//! | file | what lives there |
//! |---|---|
//! | `run.rs` | a run from its seed to its end |
//! | `config.rs` | what is run, what must hold, what comes of it |
//! | `node.rs` | the node: pool, desk and disk |
//! | `events.rs`, `order.rs` | what is to happen, in the order of its time |
//! | `coming.rs` | viewers come and are judged, seek, pause, resume and leave |
//! | `watching.rs` | groups are asked for, read, planned and given |
//! | `sending.rs` | the lane's turns, and the kernel that takes its packets |
//! | `following.rs` | whether what viewers are sent is the film, from where they began to its end |
//! | `client.rs`, `asking.rs` | clients over RTSP, and what they do |
//! | `rtsp.rs` | what the actions of the server's RTSP machine are here |
//! | `fetcher.rs`, `fetching.rs`, `answering.rs` | viewers over HTTP, what they do, and what they are sent |
//! | `copies.rs`, `giving.rs` | copies of blocks that are sent often, and the connections that are given them |
//! | `flows.rs`, `leaving.rs` | windows on their way over a limited link, and when they have left |
//! | `viewer.rs` | a viewer, beside what the lane has of their stream |
//! | `stream.rs` | what the lane holds here |
//! | `film.rs` | films |
//! | `files/` | films in files, and what was put into them |
//! | `reading.rs` | requests to the pool, and reads |
//! | `filling.rs` | blocks of views are made |
//! | `held.rs`, `receiver.rs` | bytes that were read, and what receivers make of packets of them |
//! | `packets.rs` | what a group's packets carry |
//! | `losing.rs` | packets are lost, and sent again |
//! | `connection.rs`, `writing.rs` | connections of viewers over TCP, and what is written to them |
//! | `disk.rs`, `kernel.rs`, `wire.rs` | the disk, the kernel, and the network behind it |
//! | `faults.rs` | faults, and how long they explain a delay |
//! | `checks.rs` | what is looked at all the time |
//! | `world.rs` | what the pool's memory, films and answers are here |
//! | `trace.rs` | what happens, hashed and in words |
#![forbid(unsafe_code)]

mod answering;
mod asking;
mod checks;
mod client;
mod coming;
mod config;
mod connection;
mod copies;
mod disk;
mod events;
mod faults;
mod fetcher;
mod fetching;
mod files;
mod filling;
mod film;
mod flows;
mod following;
mod giving;
mod held;
mod kernel;
mod leaving;
mod losing;
mod node;
mod order;
mod packets;
mod reading;
mod receiver;
mod rtsp;
mod run;
mod sending;
mod stream;
mod trace;
mod viewer;
mod watching;
mod wire;
mod world;
mod writing;

pub use config::{Config, Counters, Outcome, Rule, Violation, Wrong};
pub use run::run;
