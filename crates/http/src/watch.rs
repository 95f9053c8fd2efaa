//! What players fetch: playlists, manifests, segments, files.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, StatusCode, header, request::Parts};
use reelway_catalogue::CatalogueError;
use reelway_media::{Kind, Nanos};
use reelway_package::{Links, media_playlist, mpd, multivariant_playlist};
use reelway_session::Protocol;
use reelway_store::ReadError;

use crate::answer::{self, Answer};
use crate::app::App;
use crate::body::{Flow, MediaError, Producer};
use crate::connection::{Carried, Speed};
use crate::desk::{Asker, Text};
use crate::films::{Show, ShowError};
use crate::media::{Media, bodiless};
use crate::metrics::Route;
use crate::pieces::Windows;
use crate::route::{Target, flag, query};
use crate::viewer::{FILE, Piece, Sending, Viewer};
use crate::viewers::{Caller, Denied, TOKEN_LENGTH};

const HLS: &str = "application/vnd.apple.mpegurl";
const DASH: &str = "application/dash+xml";
/// What a player may ask with from a foreign page, and what it may see of the answer.
const ALLOWED: &str = "Range, If-Range, If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, \
                       Cache-Control, Content-Type, X-Requested-With";
const EXPOSED: &str = "Accept-Ranges, Content-Encoding, Content-Length, Content-Range, Date, ETag, Last-Modified, Retry-After";

/// The route a target is counted under.
pub(crate) fn route_of(target: Target) -> Route {
    match target {
        Target::Multivariant | Target::Playlist(_) | Target::Mpd => Route::Playlist,
        Target::Init(_) | Target::Segment(..) => Route::Segment,
        Target::File => Route::File,
    }
}

/// Answers a request for something of a film.
pub(crate) async fn answer(
    app: &Arc<App>,
    title: &str,
    target: Target,
    request: &Parts,
    caller: Caller,
) -> Answer {
    let mut answer = match request.method {
        Method::OPTIONS => preflight(),
        Method::GET | Method::HEAD => match film(app, title, target, request, caller).await {
            Ok(answer) => answer,
            Err(answer) => *answer,
        },
        _ => {
            let mut answer = answer::error(
                StatusCode::METHOD_NOT_ALLOWED,
                "films only allow GET and HEAD",
            );
            answer::set(&mut answer, header::ALLOW, "GET, HEAD, OPTIONS");
            answer
        }
    };
    // Players on pages of others may read films; there is nothing in an answer that depends on who asks
    // but the token in his address.
    answer::set(&mut answer, header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    answer::set(&mut answer, header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    answer::set(
        &mut answer,
        header::HeaderName::from_static("cross-origin-resource-policy"),
        "cross-origin",
    );
    answer::set(
        &mut answer,
        header::HeaderName::from_static("timing-allow-origin"),
        "*",
    );
    answer
}

fn preflight() -> Answer {
    let mut answer = answer::empty(StatusCode::NO_CONTENT);
    answer::set(
        &mut answer,
        header::ACCESS_CONTROL_ALLOW_METHODS,
        "GET, HEAD, OPTIONS",
    );
    answer::set(&mut answer, header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED);
    answer::set(&mut answer, header::ACCESS_CONTROL_MAX_AGE, "86400");
    answer
}

type Answered = Result<Answer, Box<Answer>>;

async fn film(
    app: &Arc<App>,
    title: &str,
    target: Target,
    request: &Parts,
    caller: Caller,
) -> Answered {
    let show = app
        .films
        .get(title)
        .await
        .map_err(|error| Box::new(no_film(&error)))?;
    let head = request.method == Method::HEAD;
    match target {
        Target::Multivariant | Target::Playlist(_) | Target::Mpd => {
            if let Target::Playlist(id) = target
                && show.package.track(id).is_none()
            {
                return Err(not_here(format!("film '{title}' has no track {id}")));
            }
            let protocol = if target == Target::Mpd {
                Protocol::Dash
            } else {
                Protocol::Hls
            };
            let token = if head {
                // Nobody begins to watch by asking for a length, which is the same for every token.
                caller
                    .token
                    .clone()
                    .unwrap_or_else(|| "-".repeat(TOKEN_LENGTH))
            } else {
                let viewer = app
                    .viewers
                    .begin(protocol, &show, &caller)
                    .map_err(denied)?;
                wait_for_turn(&viewer).await;
                viewer.answered();
                viewer.token.clone()
            };
            Ok(playlist(app, show, target, &Asker::of(request), token).await)
        }
        Target::Init(id) => {
            check_version(&show, request)?;
            let track = show
                .package
                .track(id)
                .ok_or_else(|| not_here(format!("film '{title}' has no track {id}")))?;
            let media = Media {
                validators: show.validators(&format!("-{id}-init")),
                media_type: segment_type(track.kind),
                len: track.init().len() as u64,
            };
            let (answer, range) = media.judge(request)?;
            let init = track.init().slice(range.start as usize..range.end as usize);
            if !head && !flag(request, "poster") {
                let viewer = app
                    .viewers
                    .resume(Protocol::Hls, &show, &caller)
                    .map_err(denied)?;
                viewer.answered();
            }
            Ok(cache(answer, request, &caller).map(|_| Body::from(init)))
        }
        Target::Segment(id, number) => segment(app, show, (id, number), request, caller).await,
        Target::File => file(app, show, request, caller).await,
    }
}

async fn playlist(
    app: &App,
    show: Arc<Show>,
    target: Target,
    asker: &Asker,
    token: String,
) -> Answer {
    let in_segments = app.config.tokens_in_segments;
    // Those of long films are long, and are made and compressed for each viewer.
    let make = move || Ok(playlist_text(&show, target, &token, in_segments));
    let mut answer = app.playlists.answer(asker, make).await;
    // Each viewer has his own.
    answer::set(&mut answer, header::CACHE_CONTROL, "no-store");
    answer
}

fn playlist_text(show: &Show, target: Target, token: &str, token_in_segments: bool) -> Text {
    let playlists = format!("s={token}");
    // The version makes sure that nobody gets segments of a film that took this one's place.
    let segments = match token_in_segments {
        true => format!("v={}&s={token}", show.version),
        false => format!("v={}", show.version),
    };
    let links = Links {
        playlists: Some(&playlists),
        segments: Some(&segments),
    };
    let (media_type, text) = match target {
        Target::Mpd => (DASH, mpd(&show.package, links)),
        Target::Playlist(id) => {
            let text = show
                .package
                .track(id)
                .map(|track| media_playlist(track, links));
            (HLS, text.unwrap_or_default())
        }
        _ => (HLS, multivariant_playlist(&show.package, links)),
    };
    reelway_clock::reactor::worked_on(text.len());
    Text { media_type, text }
}

async fn segment(
    app: &Arc<App>,
    show: Arc<Show>,
    (id, number): (u32, u32),
    request: &Parts,
    caller: Caller,
) -> Answered {
    check_version(&show, request)?;
    let title = &show.film.name;
    let place = show
        .package
        .tracks()
        .iter()
        .position(|track| track.id == id);
    let place = place.ok_or_else(|| not_here(format!("film '{title}' has no track {id}")))?;
    let track = &show.package.tracks()[place];
    let (Some(len), Some(start), Some(duration)) = (
        track.segment_len(number),
        track.start(number),
        track.duration(number),
    ) else {
        let last = track.numbers().end().to_owned();
        return Err(not_here(format!(
            "track {id} of film '{title}' has segments 1 to {last}, no {number}"
        )));
    };
    let media = Media {
        validators: show.validators(&format!("-{id}-{number}")),
        media_type: segment_type(track.kind),
        len,
    };
    let (answer, range) = media.judge(request)?;
    let answer = cache(answer, request, &caller);
    if request.method == Method::HEAD {
        return Ok(bodiless(answer, range));
    }
    let flow = if flag(request, "poster") {
        Flow::Poster {
            _turn: app
                .posters
                .clone()
                .try_acquire_owned()
                .map_err(|_| too_many_posters())?,
        }
    } else {
        let viewer = app
            .viewers
            .resume(Protocol::Hls, &show, &caller)
            .map_err(denied)?;
        // The picture tells where a viewer is; without one, the sound.
        let tracks = show.package.tracks();
        let main = tracks.iter().find(|track| track.kind == Kind::Video);
        let main = main.unwrap_or(&tracks[0]);
        let kind = |id| {
            tracks
                .iter()
                .find(|track| track.id == id)
                .map(|track| track.kind)
        };
        // One watches a picture and hears a sound at a time: what there is to choose from is one flow.
        let alike = tracks.iter().find(|track| Some(track.kind) == kind(id));
        let flow = alike.map_or(id, |track| track.id);
        let main = flow == main.id;
        let time = start..start + duration;
        let piece = Piece {
            flow,
            at: number.into(),
            next: u64::from(number) + 1,
            time,
            main,
            extra: 0.0,
        };
        let sending = asks(app, &viewer, piece)?;
        let seconds_per_byte =
            Duration::from_nanos(duration.max(0) as u64).as_secs_f64() / len.max(1) as f64;
        let speed = speed_of(request);
        speed.carries(Carried::Media);
        Flow::of(sending, seconds_per_byte, main, app.pace, speed)
    };
    let slices = track
        .slices(number, range.clone())
        .ok_or_else(|| not_here(String::new()))?;
    let windows = Windows::of_segment(show.clone(), place, slices);
    send(app, show, flow, answer, range, windows).await
}

async fn file(app: &Arc<App>, show: Arc<Show>, request: &Parts, caller: Caller) -> Answered {
    let len = show.source.len();
    let media = Media {
        validators: show.validators(""),
        media_type: if show.has_picture() {
            "video/mp4"
        } else {
            "audio/mp4"
        },
        len,
    };
    let (mut answer, range) = media.judge(request)?;
    // The file under this address may become another: what is kept is to be asked for again.
    answer::set(&mut answer, header::CACHE_CONTROL, "no-cache");
    if request.method == Method::HEAD || range.is_empty() {
        return Ok(bodiless(answer, range));
    }
    let caller = Caller {
        token: None,
        ..caller
    };
    let viewer = app
        .viewers
        .resume(Protocol::File, &show, &caller)
        .map_err(denied)?;
    wait_for_turn(&viewer).await;
    let seconds_per_byte = show.seconds() / len.max(1) as f64;
    let at = |byte: u64| (byte as f64 * seconds_per_byte * 1e9) as Nanos;
    // The tables at a file's beginning or end are no film: they go freely on top.
    let extra = show.overhead() as f64 * seconds_per_byte;
    let time = at(range.start)..at(range.end);
    let piece = Piece {
        flow: FILE,
        at: range.start,
        next: range.end,
        time,
        main: true,
        extra,
    };
    let sending = asks(app, &viewer, piece)?;
    let windows = Windows::of_file(range.clone());
    let speed = speed_of(request);
    let share = app.downloads.share(caller.peer.ip());
    speed.carries(match &share {
        Some(share) => Carried::File {
            dscp: app.downloads.dscp(),
            is_held: !share.is_all(),
        },
        None => Carried::Media,
    });
    let flow = Flow::of(sending, seconds_per_byte, true, app.pace, speed).beyond(share);
    send(app, show, flow, answer, range, windows).await
}

/// A viewer asks for a piece. He may be refused if he let his place go before he asked for the first one.
fn asks(app: &App, viewer: &Arc<Viewer>, piece: Piece) -> Result<Sending, Box<Answer>> {
    let sending = viewer.asks(piece, app.pace);
    app.sessions.say_farewell();
    sending.map_err(|refusal| denied(Denied::Refused(refusal)))
}

/// One who is let in a little later than he came waits for his answer, at the beginning and never after.
async fn wait_for_turn(viewer: &Viewer) {
    let wait = viewer.session.starts_in();
    if !wait.is_zero() && viewer.is_new() {
        tokio::time::sleep(wait).await;
    }
}

/// The speed of the connection that a request came over.
fn speed_of(request: &Parts) -> Speed {
    request
        .extensions
        .get::<Speed>()
        .cloned()
        .unwrap_or_default()
}

/// Starts a body of media.
async fn send(
    app: &App,
    show: Arc<Show>,
    flow: Flow,
    answer: Answer,
    range: Range<u64>,
    windows: Windows,
) -> Answered {
    if let Flow::Viewer { sending, .. } = &flow {
        sending.viewer.answered();
    }
    let producer = Producer::new(
        app.store.clone(),
        app.budget.clone(),
        show.clone(),
        flow,
        windows,
    );
    let title = &show.film.name;
    match producer.start(range.end - range.start).await {
        Ok(body) => Ok(answer.map(|_| Body::new(body))),
        Err(error) => {
            let (status, words) = match &error {
                MediaError::Ended => (
                    StatusCode::GONE,
                    "this viewer's session was ended".to_owned(),
                ),
                MediaError::Read(ReadError::Changed { .. }) => (
                    StatusCode::GONE,
                    format!("film '{title}' was replaced while it was watched; open it again"),
                ),
                error => (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!("film '{title}' cannot be read: {error}"),
                ),
            };
            Err(Box::new(answer::error(status, words)))
        }
    }
}

/// An address with a version never has other bytes. With a token in it, it is one viewer's own.
fn cache(mut answer: Answer, request: &Parts, caller: &Caller) -> Answer {
    let rule = match (query(request, "v"), &caller.token) {
        (None, _) => "no-cache",
        (Some(_), Some(_)) => "private, max-age=3600, immutable",
        (Some(_), None) => "public, max-age=86400, immutable",
    };
    answer::set(&mut answer, header::CACHE_CONTROL, rule);
    answer
}

fn segment_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Video => "video/mp4",
        Kind::Audio => "audio/mp4",
    }
}

/// Segments of a version that is no more are gone, not exchanged for others.
fn check_version(show: &Show, request: &Parts) -> Result<(), Box<Answer>> {
    match query(request, "v") {
        Some(version) if version != show.version => {
            let words = format!(
                "film '{}' was replaced since its playlist was fetched; open it again",
                show.film.name
            );
            Err(Box::new(answer::error(StatusCode::GONE, words)))
        }
        _ => Ok(()),
    }
}

fn too_many_posters() -> Box<Answer> {
    let words = "too many posters are being made; try again later";
    let mut answer = answer::error(StatusCode::SERVICE_UNAVAILABLE, words);
    answer::retry_after(&mut answer, Duration::from_secs(1));
    Box::new(answer)
}

fn not_here(words: String) -> Box<Answer> {
    Box::new(answer::error(StatusCode::NOT_FOUND, words))
}

fn denied(denied: Denied) -> Box<Answer> {
    Box::new(match denied {
        Denied::Refused(refusal) => {
            let status = match refusal.retry_after {
                Some(_) => StatusCode::SERVICE_UNAVAILABLE,
                None => StatusCode::FORBIDDEN,
            };
            let mut answer = answer::error(status, refusal.reason);
            if let Some(after) = refusal.retry_after {
                answer::retry_after(&mut answer, after);
            }
            answer
        }
        Denied::Forbidden(words) => answer::error(StatusCode::FORBIDDEN, words),
        Denied::Gone(words) => answer::error(StatusCode::GONE, words),
    })
}

fn no_film(error: &ShowError) -> Answer {
    let (status, later) = match error {
        ShowError::Catalogue(CatalogueError::Unknown(_)) => (StatusCode::NOT_FOUND, None),
        ShowError::Catalogue(CatalogueError::NotReady { .. }) | ShowError::Replaced(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            Some(Duration::from_secs(5)),
        ),
        ShowError::Catalogue(CatalogueError::Unplayable { .. }) | ShowError::Package(..) => {
            (StatusCode::UNPROCESSABLE_ENTITY, None)
        }
        ShowError::Open(..) => (StatusCode::INTERNAL_SERVER_ERROR, None),
    };
    let mut answer = answer::error(status, error);
    if let Some(later) = later {
        answer::retry_after(&mut answer, later);
    }
    answer
}
