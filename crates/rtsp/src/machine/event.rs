//! Input and output of the machine.

use std::net::SocketAddr;
use std::time::Duration;

use reelway_media::Nanos;
use reelway_time::Monotonic;

use crate::message::Request;
use crate::parser::Malformed;
use crate::seam::{EndReason, Job, Outcome, Reception, State};

/// A connection's number, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// An input of the machine.
pub enum Event<W, F> {
    /// A client connected.
    Connected {
        /// The connection's number.
        conn: ConnId,
        /// Address of the client.
        peer: SocketAddr,
        /// Address of the server that it connected to.
        local: SocketAddr,
        /// Its write side.
        writer: W,
    },
    /// A request arrived. Comes only after the previous one was answered.
    Request {
        /// Number of the connection.
        conn: ConnId,
        /// The request.
        request: Request,
    },
    /// Something arrived that is not a valid message.
    Malformed {
        /// Number of the connection.
        conn: ConnId,
        /// Reason.
        bad: Malformed,
    },
    /// An interleaved frame arrived.
    Frame {
        /// Number of the connection.
        conn: ConnId,
        /// Number of the channel.
        channel: u8,
        /// Content of the frame.
        data: Vec<u8>,
    },
    /// A job is finished.
    Done {
        /// Number of the connection.
        conn: ConnId,
        /// Its result.
        outcome: Outcome<F>,
    },
    /// A connection is closed. A job under way for it is abandoned.
    Disconnected {
        /// Number of the connection.
        conn: ConnId,
    },
    /// RTCP arrived from a viewer.
    Feedback {
        /// The session it belongs to, by its address or by the SSRC it reports on.
        session: String,
        /// What it reports.
        feedback: Feedback,
    },
    /// A stream has reached its end and sent BYE.
    Finished {
        /// Name of the session.
        session: String,
        /// When it ended. It may have been moved since.
        at: Monotonic,
    },
    /// A stream cannot continue.
    Failed {
        /// Name of the session.
        session: String,
        /// Reason in words.
        reason: String,
    },
    /// A session was ended from outside: by an operator, or because the server stops.
    Ended {
        /// Name of the session.
        session: String,
        /// Explanation for the viewer, if they should get one.
        words: Option<String>,
    },
    /// Time passes; about once per second.
    Tick {
        /// Everything that receivers sent before this time has been read, or is being read now.
        heard_until: Monotonic,
    },
}

/// What a viewer reports over RTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// A sign of life.
    Alive,
    /// Reception of a track, with its index among the session's tracks.
    Report(usize, Reported),
    /// BYE, for all tracks.
    Bye,
}

/// Reception of a track, as reported by its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Packets lost since the beginning; negative if there are duplicates.
    pub lost: i32,
    /// Interarrival jitter.
    pub jitter: Duration,
}

/// An action that the server carries out.
pub enum Action<W, F> {
    /// Queue a complete response.
    Send {
        /// Write side of the connection.
        writer: W,
        /// The bytes of the response.
        bytes: Vec<u8>,
    },
    /// Carry out a job and report its outcome with [`Event::Done`].
    Do {
        /// Number of the connection.
        conn: ConnId,
        /// The job.
        job: Job<W, F>,
    },
    /// Book what a session is sent from now on. It is not judged again: this happened before its
    /// stream was moved, and the stream may begin a group earlier than requested.
    Book {
        /// Name of the session.
        session: String,
        /// Presentation time at which it really begins.
        from: Nanos,
        /// Presentation time at which it ends.
        to: Nanos,
    },
    /// Start a stream as it was last booked, now that the response is queued.
    Go {
        /// Name of the session.
        session: String,
    },
    /// Free the booking of a stream that is no longer playing.
    Rest {
        /// Name of the session.
        session: String,
    },
    /// Pass interleaved RTCP to a stream.
    Rtcp {
        /// Name of the session.
        session: String,
        /// A compound packet.
        data: Vec<u8>,
    },
    /// End a stream with RTCP BYE, with a reason unless the viewer asked for it. Nothing of it is
    /// sent afterwards.
    Stop {
        /// Name of the session.
        session: String,
        /// Reason in words.
        why: Option<String>,
    },
    /// PLAY failed: the session is again among the first to be evicted when others need room
    /// ([`Job::Claim`]).
    Unclaim {
        /// Name of the session.
        session: String,
    },
    /// Show what a viewer is doing.
    Show {
        /// Name of the session.
        session: String,
        /// The new state.
        state: State,
    },
    /// Show the reception of a track.
    Receives {
        /// Name of the session.
        session: String,
        /// Reported reception.
        reception: Reception,
    },
    /// Remove a session from the register.
    Leave {
        /// Name of the session.
        session: String,
        /// Reason.
        reason: EndReason,
    },
    /// Close a connection once everything queued has been written.
    Close {
        /// Number of the connection.
        conn: ConnId,
    },
}
