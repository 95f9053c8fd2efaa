//! Full details of one film.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri, request::Parts};
use reelway_catalogue::{
    Catalogue, CatalogueError, Entry, Film, State as FilmState, SubtitleSource, SubtitleTrack,
    Summary,
};
use reelway_clock::Real;
use reelway_media::{Chapter, Container, Nanos, SECOND};
use reelway_package::sliceable;
use reelway_store::Store;
use reelway_sys::extents::Layout;
use serde::Serialize;

use super::films::{FilmJson, VideoJson, video, viewers};
use super::reply::Reply;
use super::tracks::TrackJson;
use crate::answer::{self, Answer};
use crate::films::Films;
use crate::guard;
use crate::renditions::Rendition;
use crate::route;
use crate::status::Status;

#[derive(Serialize)]
struct FullFilm {
    #[serde(flatten)]
    film: FilmJson,
    container: Option<&'static str>,
    /// RFC 3339 in UTC.
    recorded_at: Option<String>,
    notes: Vec<String>,
    tracks: Vec<TrackJson>,
    chapters: Vec<ChapterJson>,
    layout: Option<LayoutJson>,
    subtitles: Vec<SubtitleJson>,
    renditions: Vec<RenditionJson>,
    urls: Urls,
}

/// A chapter; `start` is in seconds.
#[derive(Serialize)]
struct ChapterJson {
    start: f64,
    name: Option<String>,
}

impl ChapterJson {
    fn of(chapter: &Chapter) -> ChapterJson {
        ChapterJson {
            start: chapter.start as f64 / SECOND as f64,
            name: chapter.name.clone(),
        }
    }
}

/// Subtitles of the film; those inside it have no `file`.
#[derive(Serialize)]
struct SubtitleJson {
    number: u32,
    label: String,
    language: Option<String>,
    forced: bool,
    default: bool,
    sdh: bool,
    file: Option<String>,
    url: String,
}

impl SubtitleJson {
    fn of(subtitles: &SubtitleTrack, path: &str) -> SubtitleJson {
        let file = match &subtitles.source {
            SubtitleSource::Beside(file) => Some(file.file.clone()),
            SubtitleSource::Inside(_) => None,
        };
        let (number, named) = (subtitles.number, subtitles.named.clone());
        SubtitleJson {
            number,
            label: subtitles.label.clone(),
            language: named.language,
            forced: named.forced,
            default: named.default,
            sdh: named.sdh,
            file,
            url: format!("/{path}/subtitles/{number}.vtt"),
        }
    }
}

/// Another rendition of the film; `reason`: why players are not offered it.
#[derive(Serialize)]
struct RenditionJson {
    title: String,
    video: Option<VideoJson>,
    bitrate: Option<u64>,
    reason: Option<String>,
}

impl RenditionJson {
    fn of(rendition: &Rendition, catalogue: &dyn Catalogue) -> RenditionJson {
        let entry = catalogue.entry(&rendition.name);
        let summary = entry.as_ref().and_then(|entry| match &entry.state {
            FilmState::Ready(summary) => Some(&**summary),
            _ => None,
        });
        RenditionJson {
            title: rendition.name.clone(),
            video: summary.and_then(video),
            bitrate: summary.map(Summary::bitrate),
            reason: rendition.offered.as_ref().err().cloned(),
        }
    }
}

/// The physical layout of a film's file on its disk.
#[derive(Serialize)]
struct LayoutJson {
    pieces: u64,
    block: u32,
    blocks: u64,
    split: u64,
}

impl LayoutJson {
    /// Returns `None` for remote films, and on file systems that do not report it.
    fn of(film: &Film, block: u32) -> Option<LayoutJson> {
        let file = std::fs::File::open(&film.path).ok()?;
        let layout = Layout::of(&file, block.into()).ok()?;
        Some(LayoutJson {
            pieces: layout.pieces,
            block,
            blocks: layout.blocks,
            split: layout.split,
        })
    }
}

#[derive(Serialize)]
struct Urls {
    rtsp: String,
    hls: String,
    dash: String,
    file: String,
    /// HLS with slices of the film's transport stream as segments; `None`: not offered.
    hls_ts: Option<String>,
    /// RTSP address of the film as its transport stream; `None`: it is none, or cannot be sent as
    /// it is.
    transport_stream: Option<String>,
}

/// `GET /api/films/TITLE`.
pub(crate) async fn film(
    State(catalogue): State<Arc<dyn Catalogue>>,
    State(store): State<Store>,
    State(status): State<Arc<Status>>,
    State(films): State<Arc<Films>>,
    reply: Reply,
    parts: Parts,
) -> Answer {
    let unknown = |name: &str| {
        answer::api_error(
            StatusCode::NOT_FOUND,
            CatalogueError::Unknown(name.to_owned()),
        )
    };
    let path = parts
        .uri
        .path()
        .strip_prefix("/api/films/")
        .unwrap_or_default();
    let Some(name) = route::title(path) else {
        return unknown(path);
    };
    let Some(entry) = catalogue.entry(&name) else {
        return unknown(&name);
    };
    let urls = urls(status.node.addresses().rtsp, &parts, &name);
    let renditions = films.renditions(&entry).await;
    let make = move || {
        let viewers = viewers(&status.sessions);
        let viewers = viewers.get(&name).copied().unwrap_or(0);
        let film = FilmJson::of(&entry, viewers, &films, status.now());
        let whole = FullFilm::of(film, &entry, &*catalogue, store.block_bytes(), urls);
        let mut whole = whole.map_err(|error| {
            Box::new(answer::api_error(StatusCode::INTERNAL_SERVER_ERROR, error))
        })?;
        let renditions = renditions.iter();
        whole.renditions = renditions
            .map(|one| RenditionJson::of(one, &*catalogue))
            .collect();
        Ok(whole)
    };
    reply.json(make).await
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

impl FullFilm {
    /// Reads the index file, scans all samples for GOPs, and looks up the file's layout on its
    /// disk.
    fn of(
        film: FilmJson,
        entry: &Entry,
        catalogue: &dyn Catalogue,
        block: u32,
        mut urls: Urls,
    ) -> Result<FullFilm, Failed> {
        let (mut container, mut notes, mut tracks) = (None, Vec::new(), Vec::new());
        let mut recorded_at = None;
        let (mut layout, mut chapters, mut subtitles) = (None, Vec::new(), Vec::new());
        let path = route::encode(&entry.name);
        if matches!(entry.state, FilmState::Ready(_)) {
            let film = catalogue.film(&entry.name)?;
            (container, notes, tracks) = describe(&film)?;
            recorded_at = film.title.recorded_at.map(date);
            chapters = film.title.chapters.iter().map(ChapterJson::of).collect();
            layout = LayoutJson::of(&film, block);
            let multiplex = film.title.multiplex.as_ref();
            urls.hls_ts = sliceable(&film.title)
                .ok()
                .map(|_| format!("/{path}/ts/main.m3u8"));
            urls.transport_stream = multiplex.map(|_| format!("{}?as=ts", urls.rtsp));
            let all = SubtitleTrack::all(&entry.subtitles, &film.title);
            subtitles = all.iter().map(|one| SubtitleJson::of(one, &path)).collect();
        }
        Ok(FullFilm {
            film,
            container,
            recorded_at,
            notes,
            tracks,
            chapters,
            layout,
            subtitles,
            renditions: Vec::new(),
            urls,
        })
    }
}

/// Formats nanoseconds since 1970 as a date.
fn date(nanos: Nanos) -> String {
    Real::from_nanos(nanos.max(0) as u64).to_string()
}

type Described = (Option<&'static str>, Vec<String>, Vec<TrackJson>);

fn describe(film: &Film) -> Result<Described, Failed> {
    let container = match film.title.container {
        Container::Mp4 => "mp4",
        Container::FragmentedMp4 => "fragmented mp4",
        Container::Matroska => "matroska",
        Container::TransportStream => "transport stream",
        Container::ProgramStream => "program stream",
        Container::ElementaryStream => "elementary stream",
    };
    let tracks = film.title.tracks.iter().enumerate();
    let tracks = tracks
        .map(|(index, track)| TrackJson::of(track, index, &*film.samples))
        .collect::<Result<_, _>>()?;
    Ok((Some(container), film.title.notes.clone(), tracks))
}

/// Returns the addresses of a film; `rtsp` is the server's RTSP address.
fn urls(rtsp: String, request: &Parts, name: &str) -> Urls {
    let path = route::encode(name);
    // The host name that reached this server in this request can reach it again.
    let asked = guard::host(request).ok().flatten();
    let port = rtsp.parse::<Uri>().ok().and_then(|uri| uri.port_u16());
    let rtsp = match (asked, port) {
        (Some(host), Some(port)) => format!("rtsp://{}:{port}", host.host()),
        _ => rtsp,
    };
    Urls {
        rtsp: format!("{rtsp}/{path}"),
        hls: format!("/{path}/hls/main.m3u8"),
        dash: format!("/{path}/dash/main.mpd"),
        file: format!("/{path}/file"),
        hls_ts: None,
        transport_stream: None,
    }
}
