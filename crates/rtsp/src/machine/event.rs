//! What the machine takes and gives.

use std::net::SocketAddr;
use std::time::Duration;

use reelway_media::Nanos;
use reelway_time::Monotonic;

use crate::message::Request;
use crate::parser::Malformed;
use crate::seam::{EndReason, Job, Outcome, Reception, State};

/// A connection's number, never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// What happens.
pub enum Event<W, F> {
    /// Somebody connected.
    Connected {
        /// The connection's number.
        conn: ConnId,
        /// From where.
        peer: SocketAddr,
        /// To which address of ours.
        local: SocketAddr,
        /// Its write side.
        writer: W,
    },
    /// A request came in. Not before the last one was answered.
    Request {
        /// On which connection.
        conn: ConnId,
        /// What is asked.
        request: Request,
    },
    /// Something came in that cannot be understood.
    Malformed {
        /// On which connection.
        conn: ConnId,
        /// Why not.
        bad: Malformed,
    },
    /// An interleaved frame came in.
    Frame {
        /// On which connection.
        conn: ConnId,
        /// On which channel.
        channel: u8,
        /// What it carries.
        data: Vec<u8>,
    },
    /// A job is done.
    Done {
        /// For which connection.
        conn: ConnId,
        /// What became of it.
        outcome: Outcome<F>,
    },
    /// A connection is closed. A job that was under way for it is given up.
    Disconnected {
        /// Which.
        conn: ConnId,
    },
    /// A viewer was heard by RTCP.
    Heard {
        /// Whose it is, by its address or by the SSRC it reports on.
        session: String,
        /// What was said.
        said: Said,
    },
    /// A stream has come to its end and said BYE.
    Finished {
        /// Whose.
        session: String,
        /// When. It may have been moved since.
        at: Monotonic,
    },
    /// A stream cannot go on.
    Failed {
        /// Whose.
        session: String,
        /// In words.
        reason: String,
    },
    /// Somebody else ended a session: an operator, the server's end.
    Ended {
        /// Which.
        session: String,
        /// In words for the viewer, if they are to know.
        words: Option<String>,
    },
    /// Time passes; about once a second.
    Tick {
        /// Everything that receivers sent before this time has been read, or is being read now.
        heard_until: Monotonic,
    },
}

/// What a viewer says over RTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// That they are there.
    Alive,
    /// How a track arrives: its place among the session's tracks.
    Report(usize, Reported),
    /// BYE, for all tracks.
    Bye,
}

/// How a track arrives, as its receiver says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Packets lost since it began; negative with duplicates.
    pub lost: i32,
    /// Interarrival jitter.
    pub jitter: Duration,
}

/// What is to be done.
pub enum Action<W, F> {
    /// Queue these bytes, a whole answer.
    Send {
        /// On which connection.
        writer: W,
        /// What.
        bytes: Vec<u8>,
    },
    /// Carry out a job and report its outcome by [`Event::Done`].
    Do {
        /// For which connection.
        conn: ConnId,
        /// What.
        job: Job<W, F>,
    },
    /// Book what a session is sent from now on. It is not judged again: there was room for it before its stream was
    /// moved, and the stream may begin a group earlier than was wished.
    Book {
        /// Whose.
        session: String,
        /// Presentation time at which it really begins.
        from: Nanos,
        /// Where it ends.
        to: Nanos,
    },
    /// Let a stream flow as it was booked last, now that the answer is queued.
    Go {
        /// Whose.
        session: String,
    },
    /// A stream flows no more: free what is booked for it.
    Rest {
        /// Whose.
        session: String,
    },
    /// Pass RTCP that came interleaved to a stream.
    Rtcp {
        /// Whose.
        session: String,
        /// A compound packet.
        data: Vec<u8>,
    },
    /// End a stream with an RTCP BYE, and say why if the viewer did not ask for it. Nothing of it is sent afterwards.
    Stop {
        /// Whose.
        session: String,
        /// In words.
        why: Option<String>,
    },
    /// PLAY came to nothing: the session is again among the first to go when others need room ([`Job::Claim`]).
    Unclaim {
        /// Which.
        session: String,
    },
    /// Show what a viewer does.
    Show {
        /// Whose session.
        session: String,
        /// What.
        state: State,
    },
    /// Show how a track arrives.
    Receives {
        /// Whose session.
        session: String,
        /// How.
        reception: Reception,
    },
    /// Take a session off the register.
    Leave {
        /// Which.
        session: String,
        /// Why.
        reason: EndReason,
    },
    /// Close a connection when what is queued has been written.
    Close {
        /// Which.
        conn: ConnId,
    },
}
