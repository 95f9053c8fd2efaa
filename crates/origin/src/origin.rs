//! A source as the rooms around see it: a shelf for the catalogue, an opener for the store.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use reelway_catalogue::{Found, IndexingError, Shelf, is_film};
use reelway_media::{Index, IndexOptions, ReadIndexError, index_with};
use reelway_store::{BlockSource, Fill, Lane, Opener, ReadError, Store};
use reelway_supervise::lock;
use reelway_sys::FileIdentity;
use tokio::runtime::Handle;
use tracing::warn;

use crate::config::{SourceConfig, Wanted};
use crate::endpoint::Endpoint;
use crate::fault::{Fault, Meaning};
use crate::lists::{self, Page};
use crate::source::{Film, Pin, Source};
use crate::stats::OriginStats;
use crate::version::Version;
use crate::web::Web;

/// Most films of a source; more are left out with a warning.
const MOST_FILMS: usize = 100_000;
/// Most bytes of a document that lists films.
const MOST_LIST: usize = 16 << 20;
/// Most folders' pages of a web server that are looked at, and how deep.
const MOST_FOLDERS: usize = 10_000;
const DEEPEST: usize = 16;
/// Versions asked for at once while looking which films there are.
const PROBES: usize = 8;
/// What is fetched at least when a film's tables are read.
const TABLE_PIECE: u64 = 64 << 10;
/// Time between two looks while films could not be reached.
const SOON: Duration = Duration::from_secs(10);

type Listener = Box<dyn Fn() + Send + Sync>;

/// A source of films elsewhere.
pub struct Origin(Arc<Inner>);

struct Inner {
    source: Source,
    films: Mutex<HashMap<PathBuf, Known>>,
    runtime: Handle,
    lane: Lane,
    /// Told when a film was found to be another.
    on_changed: Mutex<Option<Listener>>,
}

/// A film as it was last seen.
#[derive(Clone)]
struct Known {
    film: Arc<Film>,
    /// As long as the list says this of it, it was not changed.
    hint: Option<String>,
}

/// A film in an endpoint's list.
struct Listed {
    /// Path below the endpoint.
    path: String,
    /// What its name is made of.
    file: String,
    hint: Option<String>,
    version: Option<Version>,
}

impl Origin {
    /// A source that the store reads from. Nothing is asked yet. An error, in words, where the
    /// configuration cannot be.
    pub fn new(
        config: SourceConfig,
        store: &Store,
        runtime: Handle,
    ) -> Result<Arc<Origin>, String> {
        let name = config
            .endpoints
            .first()
            .ok_or("a source without an address")?
            .shown()
            .to_owned();
        let source = Source::new(config)?;
        let lane = store.lane(&name, source.config.connections);
        let origin = Arc::new(Origin(Arc::new(Inner {
            source,
            films: Mutex::default(),
            runtime,
            lane,
            on_changed: Mutex::default(),
        })));
        store.mount(&name, origin.clone());
        Ok(origin)
    }

    /// How it is shown.
    pub fn shown(&self) -> &str {
        self.0.source.shown()
    }

    /// A name for its files.
    pub fn folder(&self) -> String {
        format!(
            "{:016x}",
            xxhash_rust::xxh3::xxh3_64(self.shown().as_bytes())
        )
    }

    /// Calls `listener` when a read finds that a film is another now.
    pub fn on_changed(&self, listener: impl Fn() + Send + Sync + 'static) {
        *lock(&self.0.on_changed) = Some(Box::new(listener));
    }

    /// What it has done.
    pub fn stats(&self) -> OriginStats {
        self.0.source.stats()
    }

    /// Waits for work that is done on the runtime; from any thread but the runtime's own.
    fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.0.runtime.spawn(async move {
            let _ = sender.send(work.await);
        });
        // Fails where the runtime was shut down.
        receiver.recv().ok()
    }
}

impl Shelf for Origin {
    fn look(&self) -> Result<Vec<Found>, String> {
        let inner = self.0.clone();
        let looked = self.wait(async move { inner.look().await });
        looked.unwrap_or_else(|| Err("the server is closing".into()))
    }

    fn index(&self, found: &Found) -> Result<(FileIdentity, Index), IndexingError> {
        let elsewhere = |reason: String| IndexingError::Elsewhere {
            path: found.path.clone(),
            reason,
        };
        let film = self.0.film(&found.path);
        let film = film.ok_or_else(|| elsewhere("it is not there any more".into()))?;
        let mut window: (Range<u64>, Vec<u8>) = (0..0, Vec::new());
        let read = |range: Range<u64>, bytes: &mut Vec<u8>| {
            // Tables are read in small steps; each would be a request of its own.
            if range.start < window.0.start || range.end > window.0.end {
                let end = range
                    .end
                    .max(range.start + TABLE_PIECE)
                    .min(film.identity.size);
                let (inner, wanted) = (self.0.clone(), film.clone());
                let piece = range.start..end;
                let fetched = self.wait(async move { inner.fetch(&wanted, piece).await });
                let fetched = fetched.unwrap_or_else(|| Err(Fault::Broken("closing".into())));
                window = (range.start..end, fetched.map_err(io::Error::other)?);
            }
            let from = (range.start - window.0.start) as usize;
            bytes.extend_from_slice(&window.1[from..from + (range.end - range.start) as usize]);
            Ok(())
        };
        match index_with(read, film.identity.size, IndexOptions::default()) {
            Ok(index) => Ok((film.identity, index)),
            Err(ReadIndexError::Film(error)) => Err(IndexingError::Container {
                path: found.path.clone(),
                error,
            }),
            Err(ReadIndexError::Io { source, .. }) => Err(elsewhere(source.to_string())),
        }
    }

    fn patience(&self, unfinished: bool) -> Duration {
        let refresh = self.0.source.config.refresh;
        match unfinished {
            true => refresh.min(SOON),
            false => refresh,
        }
    }
}

impl Opener for Origin {
    fn open(&self, path: &Path) -> io::Result<(Arc<dyn BlockSource>, Lane)> {
        let film = self.0.film(path).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                "the source no longer has this film",
            )
        })?;
        let opened = OpenFilm {
            film,
            inner: self.0.clone(),
        };
        Ok((Arc::new(opened), self.0.lane.clone()))
    }
}

/// A film that is read.
struct OpenFilm {
    film: Arc<Film>,
    inner: Arc<Inner>,
}

impl std::fmt::Debug for OpenFilm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenFilm({})", self.film.address.display())
    }
}

impl BlockSource for OpenFilm {
    fn path(&self) -> &Path {
        &self.film.address
    }

    fn identity(&self) -> FileIdentity {
        self.film.identity
    }

    fn is_lasting(&self) -> bool {
        self.film.lasting
    }

    fn read(self: Arc<Self>, mut fill: Fill) {
        let inner = self.inner.clone();
        let runtime = inner.runtime.clone();
        runtime.spawn(async move {
            let (range, deadline, len) = (fill.range(), fill.deadline(), fill.len());
            let into = &mut fill.buffer()[..len];
            let result = inner
                .source
                .read(&self.film, range.clone(), into, deadline)
                .await;
            fill.finish(result.map_err(|fault| inner.told(&self.film, range.start, fault)));
        });
    }
}

impl Inner {
    fn films(&self) -> MutexGuard<'_, HashMap<PathBuf, Known>> {
        lock(&self.films)
    }

    fn film(&self, path: &Path) -> Option<Arc<Film>> {
        self.films().get(path).map(|known| known.film.clone())
    }

    /// A fault as the store tells it.
    fn told(&self, film: &Film, offset: u64, fault: Fault) -> ReadError {
        let path = film.address.clone();
        match fault {
            Fault::Changed(_) => {
                if let Some(listener) = &*lock(&self.on_changed) {
                    listener();
                }
                ReadError::Changed { path }
            }
            fault => ReadError::Io {
                path,
                offset,
                error: Arc::new(io::Error::other(fault)),
            },
        }
    }

    async fn fetch(&self, film: &Film, range: Range<u64>) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        // Viewers' reads come first.
        let deadline = reelway_clock::now() + Duration::from_secs(10);
        self.source.read(film, range, &mut bytes, deadline).await?;
        Ok(bytes)
    }

    /// Looks which films there are, at the first endpoint that tells.
    async fn look(&self) -> Result<Vec<Found>, String> {
        let mut said = Vec::new();
        for endpoint in 0..self.source.endpoints.len() {
            match self.list(endpoint).await {
                Ok(listed) => return Ok(self.take_in(endpoint, listed).await),
                Err(why) => said.push(format!(
                    "{}: {why}",
                    self.source.endpoints[endpoint].shown()
                )),
            }
        }
        Err(format!(
            "the list of films cannot be fetched; {}",
            said.join("; ")
        ))
    }

    async fn list(&self, endpoint: usize) -> Result<Vec<Listed>, String> {
        let plain = |path: String| Listed {
            file: path.clone(),
            path,
            hint: None,
            version: None,
        };
        let films = |paths: Vec<String>| {
            paths
                .into_iter()
                .filter(|path| is_film(Path::new(path)))
                .map(plain)
                .collect()
        };
        let mut listed: Vec<Listed> =
            match (&self.source.config.films, &self.source.endpoints[endpoint]) {
                (Wanted::These(paths), _) => paths.iter().cloned().map(plain).collect(),
                (Wanted::Listed, Endpoint::S3(s3)) => {
                    let found = s3
                        .list(MOST_FILMS)
                        .await
                        .map_err(|fault| fault.to_string())?;
                    let found = found
                        .into_iter()
                        .filter(|(path, _)| is_film(Path::new(path)));
                    found
                        .map(|(path, version)| Listed {
                            version: Some(version),
                            ..plain(path)
                        })
                        .collect()
                }
                (Wanted::Document(path), Endpoint::S3(s3)) => {
                    let text = s3
                        .document(path, MOST_LIST)
                        .await
                        .map_err(|fault| fault.to_string())?;
                    lists::lines(&text)
                        .filter_map(|line| s3.address().relative(line))
                        .map(plain)
                        .collect()
                }
                (Wanted::Document(path), Endpoint::Web(web)) => {
                    let text = web
                        .document(path, "", "", MOST_LIST)
                        .await
                        .map_err(|fault| fault.to_string())?;
                    let text =
                        text.ok_or_else(|| format!("there is no list at '{path}' (status 404)"))?;
                    lists::lines(&text)
                        .filter_map(|line| web.address().relative(line))
                        .map(plain)
                        .collect()
                }
                (Wanted::Listed, Endpoint::Web(web)) => match told_by_reelway(web).await? {
                    Some(listed) => listed,
                    None => films(folders(web).await?),
                },
            };
        if listed.len() > MOST_FILMS {
            warn!(
                "{}: more than {MOST_FILMS} films: the rest is left out",
                self.source.shown()
            );
            listed.truncate(MOST_FILMS);
        }
        let mut seen = HashSet::new();
        listed.retain(|film| seen.insert(film.path.clone()));
        Ok(listed)
    }

    /// Finds out which version of each film is there, and remembers it.
    async fn take_in(&self, endpoint: usize, listed: Vec<Listed>) -> Vec<Found> {
        let taken = stream::iter(listed.into_iter().map(|listed| self.take(endpoint, listed)))
            .buffer_unordered(PROBES)
            .collect::<Vec<_>>()
            .await;
        let mut found: Vec<Found> = taken.into_iter().flatten().collect();
        found.sort_by(|a, b| a.file.cmp(&b.file));
        let present: HashSet<&PathBuf> = found.iter().map(|found| &found.path).collect();
        self.films().retain(|path, _| present.contains(path));
        found
    }

    /// A film of the list as it was found; `None` where it is gone meanwhile.
    async fn take(&self, endpoint: usize, listed: Listed) -> Option<Found> {
        let address = PathBuf::from(format!("{}/{}", self.source.shown(), listed.path));
        let file = match self.source.config.at.as_str() {
            "" => listed.file.clone(),
            at => format!("{at}/{}", listed.file),
        };
        let found = |identity, problem: Option<String>| Found {
            path: address.clone(),
            file: file.clone(),
            identity,
            problem,
        };
        let known = self.films().get(&address).cloned();
        let as_it_was = |known: &Known| Some(found(known.film.identity, None));
        if let Some(known) = &known
            && listed.hint.is_some()
            && known.hint == listed.hint
        {
            return as_it_was(known);
        }
        let version = match listed.version {
            Some(version) => Ok(version),
            None => self.source.probe(endpoint, &listed.path).await,
        };
        let judged = match version {
            Ok(version) => {
                self.judge(endpoint, &listed.path, &address, version, known.as_ref())
                    .await
            }
            Err(fault) => Err(fault),
        };
        match (judged, known) {
            (Ok(film), _) => {
                let identity = film.identity;
                let known = Known {
                    film,
                    hint: listed.hint,
                };
                self.films().insert(address.clone(), known);
                Some(found(identity, None))
            }
            (Err(Fault::Gone(_)), _) if self.source.config.films == Wanted::Listed => None,
            // It cannot be known now; reading will tell.
            (Err(fault), Some(known)) if fault.meaning() == Meaning::Passing => as_it_was(&known),
            (Err(fault), _) => {
                let nobody = Version {
                    len: 0,
                    etag: None,
                    modified: None,
                };
                let identity = nobody.identity(&address.to_string_lossy());
                Some(found(identity, Some(fault.to_string())))
            }
        }
    }

    /// The film of this version: the one that is known, or a new one.
    async fn judge(
        &self,
        endpoint: usize,
        path: &str,
        address: &Path,
        version: Version,
        known: Option<&Known>,
    ) -> Result<Arc<Film>, Fault> {
        if let Some(known) = known {
            let same = match known.film.pin(endpoint) {
                Pin::Is(pinned) => pinned == version,
                Pin::Unknown => self.source.compare(&known.film, endpoint, &version).await?,
                Pin::Other => false,
            };
            if same {
                return Ok(known.film.clone());
            }
        }
        let endpoints = self.source.endpoints.len();
        let film = Film::new(
            path.to_owned(),
            address.to_owned(),
            endpoints,
            endpoint,
            version,
        );
        self.source.look_at_spots(&film, endpoint).await?;
        Ok(Arc::new(film))
    }
}

/// The films of another Reelway server; `None` where the server is something else.
async fn told_by_reelway(web: &Web) -> Result<Option<Vec<Listed>>, String> {
    let mut listed = Vec::new();
    for page in 1.. {
        let query = format!("per_page={}&page={page}", lists::PER_PAGE);
        let text = match web
            .document("api/films", &query, "application/json", MOST_LIST)
            .await
        {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(None),
            // It may guard what it has not.
            Err(Fault::Forbidden(_) | Fault::Gone(_) | Fault::Wrong(_)) if page == 1 => {
                return Ok(None);
            }
            Err(fault) => return Err(fault.to_string()),
        };
        let Ok(told) = serde_json::from_str::<Page>(&text) else {
            return Ok(None);
        };
        let films = told.films.iter().filter_map(|film| film.film());
        listed.extend(films.map(|(path, file, hint)| Listed {
            path,
            file,
            hint: Some(hint),
            version: None,
        }));
        if told.films.is_empty() || page * lists::PER_PAGE >= told.total.min(MOST_FILMS) {
            break;
        }
    }
    Ok(Some(listed))
}

/// All paths that the pages of a web server's folders lead to.
async fn folders(web: &Web) -> Result<Vec<String>, String> {
    const HINT: &str = "name the films (`films` of the source) or a list of them (`list`)";
    let mut found = Vec::new();
    let mut waiting = vec![String::new()];
    let mut seen = 0;
    while let Some(folder) = waiting.pop() {
        seen += 1;
        if seen > MOST_FOLDERS {
            warn!(
                "{}: more than {MOST_FOLDERS} folders: the rest is left out",
                web.address().shown()
            );
            break;
        }
        // With a slash at its end a folder is itself.
        let html = match web
            .document(&format!("{folder}/"), "", "text/html", MOST_LIST)
            .await
        {
            Ok(Some(html)) => html,
            Ok(None) if folder.is_empty() => {
                return Err(format!("the origin lists no folder; {HINT}"));
            }
            Err(fault) if folder.is_empty() => {
                return Err(format!("{fault}; if the origin lists no folders, {HINT}"));
            }
            Ok(None) => continue,
            Err(fault) => return Err(fault.to_string()),
        };
        for link in lists::links(&html, web.address(), &folder) {
            match link.strip_suffix('/') {
                Some(below) if below.split('/').count() <= DEEPEST => {
                    waiting.push(below.to_owned())
                }
                Some(_) => {}
                None => found.push(link),
            }
        }
    }
    Ok(found)
}
