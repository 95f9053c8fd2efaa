//! The list of films, with search and paging.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Query, State, rejection::QueryRejection};
use axum::http::StatusCode;
use reelway_catalogue::{Catalogue, Entry, State as FilmState, SubtitleFile, Summary};
use reelway_clock::{Monotonic, Real};
use reelway_media::Kind;
use reelway_session::Sessions;
use reelway_sys::parts::natural;
use serde::{Deserialize, Serialize};

use super::json::seconds;
use super::reply::Reply;
use crate::answer::{self, Answer};
use crate::films::{BEGUN, Films};
use crate::status::Status;

/// Maximum and default number of films per page.
const MOST: usize = 200;
const USUAL: usize = 50;

#[derive(Debug, Deserialize)]
pub(crate) struct FilmQuery {
    #[serde(default)]
    q: String,
    /// Only the film with this number (32 hexadecimal digits); applies to films on other servers.
    identity: Option<String>,
    #[serde(default)]
    sort: Sort,
    #[serde(default)]
    renditions: Shown,
    page: Option<usize>,
    per_page: Option<usize>,
}

/// Whether renditions are listed as films of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shown {
    #[default]
    Yes,
    No,
}

/// Sort key and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum Sort {
    #[default]
    #[serde(rename = "name")]
    Name,
    #[serde(rename = "-name")]
    NameDown,
    #[serde(rename = "modified")]
    Modified,
    #[serde(rename = "-modified")]
    ModifiedDown,
    #[serde(rename = "duration")]
    Duration,
    #[serde(rename = "-duration")]
    DurationDown,
    #[serde(rename = "size")]
    Size,
    #[serde(rename = "-size")]
    SizeDown,
    #[serde(rename = "bitrate")]
    BitRate,
    #[serde(rename = "-bitrate")]
    BitRateDown,
}

#[derive(Serialize)]
struct List {
    node: String,
    /// Servers use it to tell versions of Reelway apart.
    version: &'static str,
    total: usize,
    page: usize,
    per_page: usize,
    films: Vec<FilmJson>,
}

/// A film as the list shows it.
#[derive(Serialize)]
pub(super) struct FilmJson {
    title: String,
    file: String,
    size: u64,
    modified: String,
    state: &'static str,
    reason: Option<String>,
    /// The fraction of its file that has been read to index it.
    indexed: Option<f64>,
    growing: bool,
    duration: Option<f64>,
    bitrate: Option<u64>,
    video: Option<VideoJson>,
    audio: Vec<AudioJson>,
    protocols: ProtocolsJson,
    viewers: usize,
    rendition_of: Option<String>,
    via: Vec<String>,
    identity: Option<String>,
    etag: String,
    subtitle_files: Vec<SubtitleFileJson>,
}

/// A subtitle file beside a film, as edges need it; its number is its position in the list.
/// Properties that its name does not specify are left out.
#[derive(Serialize)]
struct SubtitleFileJson {
    file: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    forced: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    default: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    sdh: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl SubtitleFileJson {
    fn of(file: &SubtitleFile) -> SubtitleFileJson {
        let named = file.named.clone();
        SubtitleFileJson {
            file: file.file.clone(),
            version: file.version.clone(),
            language: named.language,
            forced: named.forced,
            default: named.default,
            sdh: named.sdh,
            name: named.label,
        }
    }
}

#[derive(Serialize)]
pub(super) struct VideoJson {
    codec: String,
    name: String,
    width: u16,
    height: u16,
    frame_rate: f64,
}

#[derive(Serialize)]
struct AudioJson {
    codec: String,
    name: String,
    channels: u16,
    channel_configuration: Option<u8>,
    rate: u32,
    language: Option<String>,
}

/// For each protocol `null`, or why the film does not play over it.
#[derive(Serialize)]
struct ProtocolsJson {
    rtsp: Option<String>,
    hls: Option<String>,
    dash: Option<String>,
    file: Option<String>,
}

impl FilmJson {
    pub fn of(entry: &Entry, viewers: usize, films: &Films, now: Monotonic) -> FilmJson {
        let (summary, reason) = match &entry.state {
            FilmState::Ready(summary) => (Some(&**summary), None),
            FilmState::Indexing => (None, None),
            FilmState::NotReady { reason } | FilmState::Unplayable { reason } => {
                (None, Some(reason.clone()))
            }
        };
        let why_not = || {
            reason
                .clone()
                .unwrap_or_else(|| "the film is being examined".into())
        };
        FilmJson {
            title: entry.name.clone(),
            file: entry.file.clone(),
            size: entry.identity.size,
            modified: instant(entry.identity.mtime_ns),
            state: entry.state.name(),
            reason: reason.clone(),
            indexed: indexed(entry),
            growing: films.grows(entry, now),
            duration: summary.map(|summary| seconds(summary.duration)),
            bitrate: summary.map(Summary::bitrate),
            video: summary.and_then(video),
            audio: summary.map(audio).unwrap_or_default(),
            protocols: match summary {
                Some(summary) => ProtocolsJson {
                    rtsp: summary.protocols.rtsp.clone(),
                    hls: summary.protocols.hls.clone(),
                    dash: summary.protocols.dash.clone(),
                    file: entry.is_begun().then(|| BEGUN.to_owned()),
                },
                None => ProtocolsJson {
                    rtsp: Some(why_not()),
                    hls: Some(why_not()),
                    dash: Some(why_not()),
                    file: Some(why_not()),
                },
            },
            viewers,
            rendition_of: entry.set.rendition_of.clone(),
            via: entry.via.clone(),
            identity: number(entry),
            etag: films.etag(&entry.identity),
            subtitle_files: entry.subtitles.iter().map(SubtitleFileJson::of).collect(),
        }
    }
}

/// Returns the number of a film on another server, as its siblings request it.
fn number(entry: &Entry) -> Option<String> {
    let number = entry.identity.number()?;
    Some(format!("{number:032x}"))
}

pub(super) fn video(summary: &Summary) -> Option<VideoJson> {
    let track = summary.video()?;
    let (width, height) = track.size?;
    let frame_rate = (track.frame_rate.unwrap_or(0.0) * 1e3).round() / 1e3;
    Some(VideoJson {
        codec: track.codec.clone(),
        name: track.name.clone(),
        width,
        height,
        frame_rate,
    })
}

fn audio(summary: &Summary) -> Vec<AudioJson> {
    let tracks = summary
        .tracks
        .iter()
        .filter(|track| track.kind == Kind::Audio);
    tracks
        .filter_map(|track| {
            let (channels, rate) = track.sound?;
            let (codec, name) = (track.codec.clone(), track.name.clone());
            Some(AudioJson {
                codec,
                name,
                channels,
                channel_configuration: track.channel_configuration,
                rate,
                language: track.language.clone(),
            })
        })
        .collect()
}

/// Returns the fraction of a film's file that has been read, while the film or the part beyond its
/// beginning is being indexed.
fn indexed(entry: &Entry) -> Option<f64> {
    let is_being = matches!(entry.state, FilmState::Indexing) || entry.is_begun();
    let share = entry.progress.share().filter(|_| is_being)?;
    Some((share * 1e3).round() / 1e3)
}

/// Formats nanoseconds since 1970 as RFC 3339 in UTC, in whole seconds.
fn instant(nanos: i64) -> String {
    let whole = nanos.max(0) as u64 / 1_000_000_000 * 1_000_000_000;
    Real::from_nanos(whole).to_string()
}

fn bit_rate(entry: &Entry) -> u64 {
    match &entry.state {
        FilmState::Ready(summary) => summary.bitrate(),
        _ => 0,
    }
}

fn duration(entry: &Entry) -> i64 {
    match &entry.state {
        FilmState::Ready(summary) => summary.duration,
        _ => 0,
    }
}

impl Sort {
    fn compare(self, a: &Entry, b: &Entry) -> Ordering {
        let by_name = || natural(&a.name, &b.name);
        match self {
            Sort::Name => by_name(),
            Sort::NameDown => by_name().reverse(),
            Sort::Modified => a
                .identity
                .mtime_ns
                .cmp(&b.identity.mtime_ns)
                .then_with(by_name),
            Sort::ModifiedDown => b
                .identity
                .mtime_ns
                .cmp(&a.identity.mtime_ns)
                .then_with(by_name),
            Sort::Duration => duration(a).cmp(&duration(b)).then_with(by_name),
            Sort::DurationDown => duration(b).cmp(&duration(a)).then_with(by_name),
            Sort::Size => a.identity.size.cmp(&b.identity.size).then_with(by_name),
            Sort::SizeDown => b.identity.size.cmp(&a.identity.size).then_with(by_name),
            Sort::BitRate => bit_rate(a).cmp(&bit_rate(b)).then_with(by_name),
            Sort::BitRateDown => bit_rate(b).cmp(&bit_rate(a)).then_with(by_name),
        }
    }
}

/// `GET /api/films`.
pub(crate) async fn films(
    State(catalogue): State<Arc<dyn Catalogue>>,
    State(status): State<Arc<Status>>,
    State(films): State<Arc<Films>>,
    wish: Result<Query<FilmQuery>, QueryRejection>,
    reply: Reply,
) -> Answer {
    let Query(wish) = match wish {
        Ok(wish) => wish,
        Err(error) => return answer::api_error(StatusCode::BAD_REQUEST, error.body_text()),
    };
    reply
        .json(move || Ok(List::of(&*catalogue, &films, &status, &wish)))
        .await
}

impl List {
    fn of(catalogue: &dyn Catalogue, films: &Films, status: &Status, wish: &FilmQuery) -> List {
        let words: Vec<String> = wish.q.split_whitespace().map(str::to_lowercase).collect();
        let mut found: Vec<Arc<Entry>> = catalogue.list();
        if wish.identity.is_some() {
            found.retain(|entry| number(entry) == wish.identity);
        }
        if wish.renditions == Shown::No {
            found.retain(|entry| entry.set.rendition_of.is_none());
        }
        found.retain(|entry| {
            let text = format!("{} {}", entry.name, entry.file).to_lowercase();
            words.iter().all(|word| text.contains(word))
        });
        found.sort_by(|a, b| wish.sort.compare(a, b));
        let per_page = wish.per_page.unwrap_or(USUAL).clamp(1, MOST);
        let page = wish.page.unwrap_or(1).max(1);
        let viewers = viewers(&status.sessions);
        let shown = found
            .iter()
            .skip((page - 1).saturating_mul(per_page))
            .take(per_page);
        let of = |name: &str| viewers.get(name).copied().unwrap_or(0);
        let now = status.now();
        let films = shown
            .map(|entry| FilmJson::of(entry, of(&entry.name), films, now))
            .collect();
        List {
            node: status.node.id(),
            version: env!("CARGO_PKG_VERSION"),
            total: found.len(),
            page,
            per_page,
            films,
        }
    }
}

/// Returns the number of viewers of each film.
pub(super) fn viewers(sessions: &Sessions) -> HashMap<String, usize> {
    let mut viewers = HashMap::new();
    for session in sessions.in_order() {
        *viewers.entry(session.title().to_owned()).or_default() += 1;
    }
    viewers
}
