//! What a request came to, and what waits for a job.

use std::sync::Arc;

use reelway_media::Nanos;
use reelway_rtp::sdp::Profile;

use crate::film::Film;
use crate::header::range::NptRange;
use crate::header::transport::{Agreed, Offer};
use crate::machine::session::SetUpTrack;
use crate::message::Method;
use crate::response::{Response, Status};
use crate::seam::{Job, PlayInfo, PlayOrder, Refusal};
use crate::target::Target;

/// What a method came to.
pub(super) enum Step<W, F> {
    Answer(Response),
    /// The answer, and the session whose stream flows after it.
    AnswerAndGo(Response, String),
    Wait(Job<W, F>, Pending<W, F>),
}

/// An answer that is not 200.
pub(super) type Refused = Response;

/// What of a request its answer needs.
#[derive(Clone, Debug)]
pub(super) struct RequestHead {
    pub method: Method,
    pub url: String,
    pub cseq: Option<String>,
    pub timestamp: Option<String>,
    pub close: bool,
}

/// What the answer to DESCRIBE needs beside the film.
#[derive(Clone, Debug)]
pub(super) struct Described {
    /// `rtsp://host:port` as the client calls this server.
    pub origin: String,
    /// How the film is described as being sent.
    pub profile: Profile,
    /// What the viewer asked with.
    pub query: Option<String>,
}

/// What waits for a job.
pub(super) enum Pending<W, F> {
    Describe(Described),
    Setup(Box<FirstSetup>),
    Admission(Box<Agreement<W, F>>),
    Locate(PlayRequest),
    Claim(Playing, Box<PlayOrder<W, F>>),
    Make(Playing),
    Judge(Playing, Judged),
    Move(Playing),
    Pause { session: String },
}

/// A session's first SETUP, whose film is being fetched.
pub(super) struct FirstSetup {
    pub wish: SetupRequest,
    pub target: Target,
    pub user_agent: Option<String>,
}

/// What a SETUP asks for besides the film.
pub(super) struct SetupRequest {
    pub url: String,
    pub origin: String,
    pub offers: Vec<Offer>,
    /// Why the other offers cannot be had.
    pub cannot: Vec<String>,
}

/// A session's first SETUP that is agreed upon, and whose viewer waits to be let in.
pub(super) struct Agreement<W, F> {
    pub film: Arc<Film<F>>,
    pub track: SetUpTrack<W>,
    pub agreed: Agreed,
}

/// What a PLAY asks for.
pub(super) struct PlayRequest {
    pub session: String,
    pub range: NptRange,
    pub pace: Pace,
}

/// A PLAY whose range is known.
pub(super) struct Playing {
    pub session: String,
    pub end: Nanos,
    pub pace: Pace,
}

/// What is done once there is room.
pub(super) enum Judged {
    /// Let a stream go that was made for it and sends nothing yet.
    Begin(PlayInfo),
    Seek {
        start: Nanos,
    },
    Resume,
}

/// Whether the answer has to say at which pace the film plays.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub scale: bool,
    pub speed: bool,
}

impl Pace {
    /// Says the film's own pace.
    pub fn say(self, mut answer: Response) -> Response {
        if self.scale {
            answer = answer.header("Scale", "1.0");
        }
        if self.speed {
            answer = answer.header("Speed", "1.0");
        }
        answer
    }
}

/// There is no room for a viewer: the film is not at fault.
pub(super) fn no_room(refusal: Refusal) -> Refused {
    match refusal.retry_after {
        Some(after) => Response::refuse(Status::NOT_ENOUGH_BANDWIDTH, refusal.reason)
            .header("Retry-After", after.as_secs().max(1).to_string()),
        None => Response::refuse(Status::FORBIDDEN, refusal.reason),
    }
}
