//! The result of a request, and requests that wait for a job.

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

/// Result of a request.
pub(super) enum Step<W, F> {
    Answer(Response),
    /// The response, and the session whose stream starts after it.
    AnswerAndGo(Response, String),
    Wait(Job<W, F>, Pending<W, F>),
}

/// A response other than 200.
pub(super) type Refused = Response;

/// The parts of a request that its response needs.
#[derive(Clone, Debug)]
pub(super) struct RequestHead {
    pub method: Method,
    pub url: String,
    pub cseq: Option<String>,
    pub timestamp: Option<String>,
    pub close: bool,
}

/// What the response to DESCRIBE needs besides the film.
#[derive(Clone, Debug)]
pub(super) struct Described {
    /// `rtsp://host:port` as the client addresses this server.
    pub origin: String,
    /// RTP profile of the description.
    pub profile: Profile,
    /// Query of the request.
    pub query: Option<String>,
}

/// A request that waits for a job.
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

/// The first SETUP of a session, whose film is being opened.
pub(super) struct FirstSetup {
    pub wish: SetupRequest,
    pub target: Target,
    pub user_agent: Option<String>,
}

/// Parameters of a SETUP besides the film.
pub(super) struct SetupRequest {
    pub url: String,
    pub origin: String,
    pub offers: Vec<Offer>,
    /// Why the other offers cannot be accepted.
    pub cannot: Vec<String>,
}

/// The first SETUP of a session, whose transport is agreed and whose viewer waits for admission.
pub(super) struct Agreement<W, F> {
    pub film: Arc<Film<F>>,
    pub track: SetUpTrack<W>,
    pub agreed: Agreed,
}

/// Parameters of a PLAY.
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

/// The next step once there is capacity.
pub(super) enum Judged {
    /// Starts a stream that was made for it and sends nothing yet.
    Begin(PlayInfo),
    Seek {
        start: Nanos,
    },
    Resume,
}

/// Whether the response must state the playback speed.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub scale: bool,
    pub speed: bool,
}

impl Pace {
    /// Adds headers that state normal speed.
    pub fn add_headers(self, mut answer: Response) -> Response {
        if self.scale {
            answer = answer.header("Scale", "1.0");
        }
        if self.speed {
            answer = answer.header("Speed", "1.0");
        }
        answer
    }
}

/// Refuses a viewer for lack of capacity; the film is not at fault.
pub(super) fn no_room(refusal: Refusal) -> Refused {
    match refusal.retry_after {
        Some(after) => Response::refuse(Status::NOT_ENOUGH_BANDWIDTH, refusal.reason)
            .header("Retry-After", after.as_secs().max(1).to_string()),
        None => Response::refuse(Status::FORBIDDEN, refusal.reason),
    }
}
