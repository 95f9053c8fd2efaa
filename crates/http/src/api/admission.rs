//! The bookings of the machine's capacity, and how a newcomer would be judged.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Query, State};
use axum::http::StatusCode;
use reelway_demand::Carriage;
use reelway_session::{Gate, NewSession, Protocol, Resource, Wants};
use serde::Serialize;

use super::reply::Reply;
use crate::answer::{self, Answer};
use crate::films::{Films, Show};
use crate::peer::Peer;
use crate::status::Status;

/// Default and maximum number of coming seconds that are shown.
const AHEAD: u64 = 600;
const FURTHEST: u64 = 4 * 3600;
/// Maximum number of points of a calendar: more than a chart has columns.
const POINTS: u64 = 300;

/// `GET /api/admission`.
#[derive(Serialize)]
struct Calendar {
    policy: String,
    /// Number of viewers, as admission counts them.
    viewers: usize,
    /// Seconds covered by each value of `booked`.
    step: u64,
    resources: Vec<Booked>,
    refused_total: u64,
    refused: Vec<Refused>,
    /// Whether there is a calibration to show.
    calibrated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    newcomer: Option<Newcomer>,
}

/// One resource.
#[derive(Serialize)]
struct Booked {
    name: &'static str,
    interface: Option<String>,
    /// `bit/s`, `byte/s`, or `byte`.
    unit: &'static str,
    /// What may be booked at the moment.
    limit: Option<u64>,
    /// The currently available share of the limit, 0 to 1 in thousandths.
    share: f64,
    /// The maximum booking in each step from now on.
    booked: Vec<u64>,
}

#[derive(Serialize)]
struct Refused {
    /// Seconds since the refusal.
    ago: u64,
    title: String,
    reason: String,
    retry_after: u64,
}

/// How a viewer who arrived now would be judged.
#[derive(Serialize)]
struct Newcomer {
    title: String,
    admitted: bool,
    /// Seconds that they would wait before their film begins.
    starts_in: Option<f64>,
    reason: Option<String>,
    /// Seconds after which they could return; `exact` if current bookings leave room by then.
    retry_after: Option<u64>,
    exact: Option<bool>,
}

/// Returns a resource's unit, and the number of units per byte.
fn unit(resource: Resource) -> (&'static str, u64) {
    match resource {
        Resource::Network(_) | Resource::Processor | Resource::Origin => ("bit/s", 8),
        Resource::Disk => ("byte/s", 1),
        Resource::Memory => ("byte", 1),
    }
}

impl Calendar {
    fn of(status: &Status, ahead: u64) -> Calendar {
        let step = ahead.div_ceil(POINTS).max(1);
        let gate = status.sessions.gate();
        let judge = gate.judge();
        let now = judge.second();
        let resources = judge.capacity().limits().iter().map(|(resource, _)| {
            let (unit, of_byte) = unit(*resource);
            let most = |from: u64| {
                let load = (from..from + step).map(|second| judge.load(*resource, second));
                load.max().unwrap_or(0) * of_byte
            };
            Booked {
                name: resource.name(),
                interface: gate.interface(*resource).map(str::to_owned),
                unit,
                limit: judge
                    .limit(*resource, 0)
                    .map(|limit| limit.saturating_mul(of_byte)),
                share: f64::from(judge.share(*resource)) / 1e3,
                booked: (now..now + ahead)
                    .step_by(step as usize)
                    .map(most)
                    .collect(),
            }
        });
        let refused = judge.refusals().map(|seen| Refused {
            ago: now.saturating_sub(seen.at),
            title: seen.title.clone(),
            reason: seen.refused.reason.to_string(),
            retry_after: seen.refused.retry_after.as_secs(),
        });
        Calendar {
            policy: judge.policy().to_string(),
            viewers: judge.viewers(),
            step,
            resources: resources.collect(),
            refused_total: judge.refused(),
            refused: refused.collect(),
            calibrated: status.node.calibrated().is_some(),
            newcomer: None,
        }
    }
}

/// Judges a viewer from `peer` who asks for a film; `goes_on`: the film may still grow.
fn newcomer(
    gate: &Gate,
    (show, goes_on): (&Show, bool),
    protocol: Protocol,
    peer: SocketAddr,
) -> Newcomer {
    let title = &show.film.name;
    let carriage = match protocol {
        Protocol::RtspUdp if peer.ip().to_canonical().is_ipv4() => Carriage::UdpV4,
        Protocol::RtspUdp => Carriage::UdpV6,
        Protocol::RtspTcp => Carriage::Tcp,
        _ => Carriage::Http,
    };
    let viewer = NewSession {
        protocol,
        peer,
        connection: 0,
        title: title.clone(),
        duration: Duration::from_nanos(show.package.duration().max(0) as u64),
        user_agent: None,
        query: None,
        wants: gate.demand(&show.film).map(|demand| {
            let wants = Wants {
                demand,
                tracks: match protocol {
                    // A file contains all tracks.
                    Protocol::File => (0..show.film.title.tracks.len()).collect(),
                    _ => Vec::new(),
                },
                carriage,
                is_remote: show.film.identity.is_remote(),
                goes_on: goes_on && matches!(protocol, Protocol::Hls | Protocol::Dash),
                eager: None,
            };
            gate.slowly_if_narrow(wants, title, peer.ip())
        }),
    };
    let judged = gate.what_if(&viewer, 0);
    let (starts_in, refused) = match judged {
        Ok(wait) => (Some(wait.as_secs_f64()), None),
        Err(refused) => (None, Some(refused)),
    };
    Newcomer {
        title: title.clone(),
        admitted: refused.is_none(),
        starts_in,
        reason: refused.as_ref().map(|refused| refused.reason.to_string()),
        retry_after: refused
            .as_ref()
            .map(|refused| refused.retry_after.as_secs()),
        exact: refused.as_ref().map(|refused| refused.is_exact),
    }
}

fn bad(words: String) -> Answer {
    answer::api_error(StatusCode::BAD_REQUEST, words)
}

/// `GET /api/admission`.
pub(crate) async fn admission(
    State(films): State<Arc<Films>>,
    State(status): State<Arc<Status>>,
    Extension(Peer(peer)): Extension<Peer>,
    Query(query): Query<HashMap<String, String>>,
    reply: Reply,
) -> Answer {
    let ahead = match query.get("ahead").map(|text| text.parse::<u64>()) {
        None => AHEAD,
        Some(Ok(ahead @ 1..=FURTHEST)) => ahead,
        Some(_) => return bad(format!("ahead: must be 1 to {FURTHEST} seconds")),
    };
    let protocol = match query.get("protocol").map(|name| name.parse()) {
        None => Protocol::RtspUdp,
        Some(Ok(protocol)) => protocol,
        Some(Err(words)) => return bad(format!("protocol: {words}")),
    };
    let show = match query.get("title") {
        Some(title) => match films.get(title).await {
            Ok(show) => Some(show),
            Err(error) => {
                return answer::api_error(StatusCode::NOT_FOUND, error.to_string());
            }
        },
        None => None,
    };
    let calendar = move || {
        let (gate, now) = (status.sessions.gate(), status.now());
        Ok(Calendar {
            newcomer: show.map(|show| {
                let film = (
                    &*show,
                    films
                        .recorded(&show)
                        .is_some_and(|recorded| recorded.goes_on(now)),
                );
                newcomer(gate, film, protocol, peer)
            }),
            ..Calendar::of(&status, ahead)
        })
    };
    reply.json(calendar).await
}

fn nothing_calibrated() -> Answer {
    let words = "there is no calibration; run reelway serve FILMS --calibrate";
    answer::api_error(StatusCode::NOT_FOUND, words)
}

/// `GET /api/calibration`.
pub(crate) async fn calibration(State(status): State<Arc<Status>>) -> Answer {
    match status.node.calibrated() {
        Some(found) => answer::with(StatusCode::OK, "application/json", found.report),
        None => nothing_calibrated(),
    }
}

/// `GET /api/calibration.svg`.
pub(crate) async fn calibration_chart(State(status): State<Arc<Status>>) -> Answer {
    match status.node.calibrated() {
        Some(found) => answer::with(StatusCode::OK, "image/svg+xml", found.chart),
        None => nothing_calibrated(),
    }
}
