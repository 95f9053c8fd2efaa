//! A node on a simulated clock: the server's own lane of streams, block pool, admission desk, RTSP
//! machine and HTTP viewers, with a disk, a kernel, players and faults generated from a seed. A run
//! of a minute takes some milliseconds and is reproducible, so that whatever a seed finds can be
//! examined again.
//!
//! Pure: no clock, no thread, no lock, no socket. Everything happens in one thread, in the order of
//! the events' times, and events of the same time in the order in which they were scheduled.
//!
//! # Real parts and models
//!
//! | part | here |
//! |---|---|
//! | block pool: requests, reads, eviction, pins, waiting for room | real: `reelway_pool::Pool`, whose memory consists of page numbers; it becomes full when a fault takes its unused blocks |
//! | cache policy | real: one of `reelway_cache`, chosen by the seed |
//! | admission: verdicts, bookings, pauses, seeks | real: `reelway_admission::Desk`, whose reservations are confirmed, released or forgotten |
//! | what a film needs of network, disk and memory | real: `reelway_demand::Demand`, with samples generated from the seed |
//! | streams: beginnings, requests for groups, pacing, leaving out frames | real: `reelway_playout::Lane` |
//! | waiting for groups | real: `reelway_playout::Groups` |
//! | packets of a group | real: `reelway_rtp::Payload`, with bytes that are generated where it reads them |
//! | RTSP: requests, sessions, responses | real: `reelway_rtsp`, parser and machine; a third of the viewers do not use it: their streams are played directly |
//! | HTTP viewers: identification, pace, windows, pinned memory | real: `reelway_viewing`; in every second seed, half of the viewers |
//! | copies of frequently sent blocks that connections are given by reference | bookkeeping real: `reelway_viewing::Copies`, in half of the seeds with HTTP; memory, and sockets that keep it until it is read, are models |
//! | segments | real: `reelway_package::Package`, sizes and parts; the bytes are not read |
//! | films | one video and one audio track with generated sample sizes, divided into groups by the rules of the index, without bytes |
//! | films in files, one in every fourth seed | written here as transport, program and elementary streams, Matroska and fragmented MP4; indexed by the real `reelway_media::Indexer` |
//! | blocks of views | made by the real `reelway_media::Filling` from blocks of the file that the pool has read; the threads of `store` are a model |
//! | receivers of films in files | written here according to the RFCs of the payload formats |
//! | disk | a model: one block after another at a constant rate |
//! | TCP connections of viewers: what is written, kept and released when they do not read | the lane's part is real; the contents of a connection and the speed of reading are a model |
//! | limited link: pacing, what leaves ahead of its time, what is left to HTTP viewers | real, in every second seed: `reelway_playout::Link` and `Others`; the link's queue, and what TCP puts into it, are a model |
//! | lost packets | in two seeds of three viewers miss one packet in 50 or 400, and also ask for packets that were never sent; retransmission is real |
//! | kernel | a model: takes every packet at once, except during faults |
//! | processing time | a model: none |
//!
//! There are no sockets, no origins, no tier and no purges. The node's limits are those of its disk
//! and its pool, with headroom: 70 % of the disk's rate and 80 % of the pool can be booked. In two
//! seeds of three, viewers who seek or resume are judged again (`admission.ask_again`); in the
//! others, more than the limit may be booked, which then explains delays.
//!
//! # Rules
//!
//! [`Rule`] lists the rules. No viewer may wait for blocks without a cause; these are causes:
//!
//! * An injected fault that can delay viewers. It counts until the disk has caught up and no viewer
//!   plays later than booked: behind a group that came late, or by a timetable that was moved,
//!   until they seek or pause.
//! * Short notice ([`Counters::short_notice`]): the next group is requested when the current one
//!   begins, so after a group of one picture only that picture's time is left. The reads in
//!   progress and the group's own reads can take longer.
//! * Newcomers ([`Counters::behind_newcomers`]): their groups are due 200 ms after the request, and
//!   so go ahead of groups that are requested shortly before they are due.
//!
//! Viewers are sent their film from their beginning to its end, and a playing viewer is always sent
//! something. Frames may be left out and timetables moved only for one of these causes, and as many
//! frames are missing as are counted as left out.
//!
//! For a film in a file the content is known sample by sample. The index, each block of a view,
//! what a receiver makes of the packets of each group that was read, and the bytes of each window
//! over HTTP are compared with it. A block of a view takes as many reads as the blocks of the file
//! from which it is made, so it needs that much notice.
//!
//! What a viewer pins is compared with the curve by which memory is booked, at their position in
//! the film. A viewer who begins shortly before an audio group holds that group and requests the
//! next one before the curve does. So a viewer may have as many blocks as are held within the next
//! quarter second ([`Counters::early`]). Bookings themselves are means of whole seconds;
//! [`Counters::beyond_mean`] counts how often more is pinned at a moment.
//!
//! | file | content |
//! |---|---|
//! | `run.rs` | a run from its seed to its end |
//! | `config.rs` | configuration, rules and outcomes of runs |
//! | `node.rs` | the node: pool, desk and disk |
//! | `events.rs`, `order.rs` | scheduled events, in the order of their time |
//! | `coming.rs` | viewers arrive and are judged, seek, pause, resume and leave |
//! | `watching.rs` | groups are requested, read, planned and handed over |
//! | `sending.rs` | the lane's turns, and the kernel that takes its packets |
//! | `following.rs` | checks that viewers are sent the whole film, from their beginning to its end |
//! | `client.rs`, `asking.rs` | RTSP clients, and their actions |
//! | `rtsp.rs` | the actions of the server's RTSP machine |
//! | `fetcher.rs`, `fetching.rs`, `answering.rs` | HTTP viewers, their actions, and what they are sent |
//! | `copies.rs`, `giving.rs` | copies of frequently sent blocks, and the connections that are given them |
//! | `flows.rs`, `leaving.rs` | windows in transit over a limited link, and when they have left |
//! | `viewer.rs` | a viewer, without the lane's part of the stream |
//! | `stream.rs` | the types that the lane holds |
//! | `film.rs` | films |
//! | `files/` | films in files, and their known content |
//! | `reading.rs` | requests to the pool, and reads |
//! | `filling.rs` | making blocks of views |
//! | `held.rs`, `receiver.rs` | bytes that were read, and what receivers make of packets with them |
//! | `packets.rs` | the contents of a group's packets |
//! | `losing.rs` | loss and retransmission of packets |
//! | `connection.rs`, `writing.rs` | TCP connections of viewers, and writes to them |
//! | `disk.rs`, `kernel.rs`, `wire.rs` | the disk, the kernel, and the network behind it |
//! | `faults.rs` | faults, and how long they explain delays |
//! | `checks.rs` | checks during the run |
//! | `world.rs` | the types of the pool's memory, films and answers |
//! | `trace.rs` | the trace of a run: a hash, and lines of text |
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
