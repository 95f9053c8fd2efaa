//! A source as other crates see it: a shelf for the catalogue, an opener for the store.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reelway_catalogue::{
    FoundFilm, IndexingError, Progress, Shelf, Soon, SubtitleFile, SubtitlePlace,
};
use reelway_clock::Monotonic;
use reelway_media::{Index, IndexOptions, Indexer, ReadIndexError, Scratch, index_growing};
use reelway_store::{BlockSource, Fill, Lane, Opener, ReadError, Store};
use reelway_supervise::lock;
use reelway_sys::FileIdentity;
use tokio::runtime::Handle;
use tracing::warn;

use crate::beside::Beside;
use crate::config::SourceConfig;
use crate::fault::Fault;
use crate::listing::{Listed, ListingFile};
use crate::lists::known_version;
use crate::made::Made;
use crate::recording::RecordingStatus;
use crate::rounds::Rounds;
use crate::siblings::Group;
use crate::source::{Film, Source};
use crate::stats::OriginStats;
use crate::texts::{Key, Texts};

/// Minimum number of bytes per request while a film's tables are read.
const TABLE_PIECE: u64 = 64 << 10;
/// Maximum number of subtitle samples to fetch from an MP4: each is a request, unless the server
/// sends the index.
const SUBTITLES: u32 = 200;
/// Time between two looks while films cannot be reached.
const SOON: Duration = Duration::from_secs(10);

type Listener = Box<dyn Fn() + Send + Sync>;

/// A source of films on other servers.
pub struct Origin(Arc<Inner>);

pub(crate) struct Inner {
    pub source: Source,
    pub films: Mutex<HashMap<PathBuf, Known>>,
    /// When the list is fetched, and when recordings are checked.
    rounds: Mutex<Rounds>,
    /// Texts of the subtitle files beside the films.
    texts: Mutex<Texts>,
    /// The saved list of films.
    listing: Mutex<ListingFile>,
    /// Whether an endpoint has listed its films since the start.
    pub has_listed: AtomicBool,
    /// The version of Reelway that listed its films.
    version: Mutex<Option<String>>,
    /// When an endpoint answered last, in seconds since 1970.
    answered: AtomicU64,
    /// Whether it was logged that the films are an earlier list, or are no longer listed.
    pub reported_stale: AtomicBool,
    runtime: Handle,
    lane: Lane,
    /// Called when a film was found to have changed.
    on_changed: Mutex<Option<Listener>>,
}

/// A film as it was last seen.
#[derive(Clone)]
pub(crate) struct Known {
    pub film: Arc<Film>,
    /// The path from which its name is made.
    pub file: String,
    /// As long as the list has the same hint, the film has not changed.
    pub hint: Option<String>,
    /// Ids of the servers through which it comes.
    pub via: Vec<String>,
    /// Subtitle files beside it.
    pub subtitles: Vec<Beside>,
    /// Its state as a recording.
    pub status: RecordingStatus,
}

impl Origin {
    /// Creates a source from which the store reads, after the siblings of `group` if there are any.
    /// Asks nothing yet: the films are those of the last list, which is saved in the directory
    /// `listings`. The error says what is wrong with the configuration.
    pub fn new(
        config: SourceConfig,
        group: Option<Arc<Group>>,
        store: &Store,
        runtime: Handle,
        listings: Option<&Path>,
    ) -> Result<Arc<Origin>, String> {
        let name = config
            .endpoints
            .first()
            .ok_or("a source without an address")?
            .shown()
            .to_owned();
        let rounds = Rounds::new(config.reindex_interval);
        let source = Source::new(config, group)?;
        // As many reads may wait for siblings as for the origin.
        let ways = if source.siblings.is_some() { 2 } else { 1 };
        let lane = store.lane(&name, source.config.connections * ways);
        let file = listings.map(|directory| directory.join(format!("{}.json", folder(&name))));
        let mut listing = ListingFile::new(file, &name);
        let films = recall(&source, &mut listing);
        let answered = listing.answered().unwrap_or_else(reelway_clock::real);
        let origin = Arc::new(Origin(Arc::new(Inner {
            source,
            films: Mutex::new(films),
            rounds: Mutex::new(rounds),
            texts: Mutex::default(),
            listing: Mutex::new(listing),
            has_listed: AtomicBool::new(false),
            version: Mutex::default(),
            answered: AtomicU64::new(answered.seconds()),
            reported_stale: AtomicBool::new(false),
            runtime,
            lane,
            on_changed: Mutex::default(),
        })));
        store.mount(&name, origin.clone());
        Ok(origin)
    }

    /// The address by which it is shown.
    pub fn shown(&self) -> &str {
        self.0.source.shown()
    }

    /// A file name for its data.
    pub fn folder(&self) -> String {
        folder(self.shown())
    }

    /// Calls `listener` when a read finds that a film has changed.
    pub fn on_changed(&self, listener: impl Fn() + Send + Sync + 'static) {
        *lock(&self.0.on_changed) = Some(Box::new(listener));
    }

    /// Whether any of its endpoints is up.
    pub fn is_up(&self) -> bool {
        self.0.source.is_up()
    }

    /// The version of Reelway that listed its films last; `None` if another program did, or none.
    pub fn version(&self) -> Option<String> {
        lock(&self.0.version).clone()
    }

    /// Its counters.
    pub fn stats(&self) -> OriginStats {
        self.0.source.stats()
    }

    /// Waits for work on the runtime. Must not be called from the runtime's own threads.
    fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.0.runtime.spawn(async move {
            let _ = sender.send(work.await);
        });
        // Fails if the runtime was shut down.
        receiver.recv().ok()
    }
}

/// A file name for the data of the source with this shown address.
fn folder(shown: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(shown.as_bytes()))
}

/// The films of the last list.
fn recall(source: &Source, listing: &mut ListingFile) -> HashMap<PathBuf, Known> {
    let endpoints = source.endpoints.len();
    let listed = listing.read().into_iter();
    let listed = listed.filter(|listed| listed.endpoint < endpoints);
    listed
        .map(|listed| {
            let address = source.address_of(&listed.path);
            let spots = listed.spots.as_deref();
            let spots = spots.and_then(|digest| u128::from_str_radix(digest, 16).ok());
            let film = Film::new(
                listed.path,
                address.clone(),
                endpoints,
                listed.endpoint,
                listed.version,
            )
            .with_spots(spots);
            let known = Known {
                film: Arc::new(film),
                file: listed.file,
                hint: listed.hint,
                via: listed.via,
                subtitles: listed.subtitles,
                status: RecordingStatus::default(),
            };
            (address, known)
        })
        .collect()
}

impl Shelf for Origin {
    fn look(&self) -> Result<Vec<FoundFilm>, String> {
        let inner = self.0.clone();
        let looked = self.wait(async move { inner.look().await });
        looked.unwrap_or_else(|| Err("the server is closing".into()))
    }

    fn index(
        &self,
        found: &FoundFilm,
        _may_grow: bool,
        scratch: Scratch,
        progress: &Progress,
    ) -> Result<(FileIdentity, Index), IndexingError> {
        let elsewhere = |reason: String| IndexingError::Elsewhere {
            path: found.path.clone(),
            reason,
        };
        let known = self.0.films().get(&found.path).cloned();
        let Known { film, via, .. } =
            known.ok_or_else(|| elsewhere("it is not there any more".into()))?;
        // Another Reelway may already have the index.
        let (inner, wanted, theirs) = (self.0.clone(), film.clone(), scratch.clone());
        let asked = self.wait(async move {
            let is_reelway = !via.is_empty();
            inner.source.index(&wanted, is_reelway, theirs).await
        });
        let made = asked.unwrap_or_else(|| Err("the server is closing".into()));
        if let Some(Made { index, of }) = made.map_err(elsewhere)? {
            let identity = match of {
                Some((endpoint, version)) => self.0.has_grown(&film, endpoint, version),
                None => film.identity,
            };
            return Ok((identity, index));
        }
        let mut window: (Range<u64>, Vec<u8>) = (0..0, Vec::new());
        let read = |range: Range<u64>, bytes: &mut Vec<u8>| {
            // Tables are read in small steps, each of which would be a request.
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
            progress.report(range.end, film.identity.size);
            Ok(())
        };
        let options = IndexOptions {
            max_texts: SUBTITLES,
            ..IndexOptions::default()
        };
        let indexer = Indexer::with_scratch(film.identity.size, options, scratch);
        match index_growing(indexer, false, read) {
            Ok((index, _)) => Ok((film.identity, index)),
            Err(ReadIndexError::Film(error)) => Err(IndexingError::Container {
                path: found.path.clone(),
                error,
            }),
            Err(ReadIndexError::Io { source, .. }) => Err(elsewhere(source.to_string())),
        }
    }

    fn subtitles<'a>(
        &'a self,
        film: &'a Path,
        file: &'a SubtitleFile,
    ) -> Soon<'a, Result<Arc<str>, String>> {
        let (inner, film, file) = (self.0.clone(), film.to_owned(), file.clone());
        // Others may wait for the same text, even if this viewer leaves.
        let fetched = self
            .0
            .runtime
            .spawn(async move { inner.subtitles(&film, &file).await });
        Box::pin(async { fetched.await.map_err(|error| error.to_string())? })
    }

    fn reindex_interval(&self) -> Duration {
        self.0.source.config.reindex_interval
    }

    fn patience(&self, unfinished: bool) -> Duration {
        let refresh = self.0.source.config.refresh;
        self.0.patience(match unfinished {
            true => refresh.min(SOON),
            false => refresh,
        })
    }
}

impl Opener for Origin {
    fn open(
        &self,
        path: &Path,
        known: Option<FileIdentity>,
    ) -> io::Result<(Arc<dyn BlockSource>, Lane)> {
        let film = self.0.film(path).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                "the source no longer has this film",
            )
        })?;
        let film = match known {
            Some(before)
                if before != film.identity && before.may_have_grown_into(&film.identity) =>
            {
                Arc::new(film.before(before))
            }
            _ => film,
        };
        let opened = OpenFilm {
            film,
            inner: self.0.clone(),
        };
        Ok((Arc::new(opened), self.0.lane.clone()))
    }
}

/// A film that is open for reading.
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
            fill.finish(result.map_err(|fault| inner.read_error(&self.film, range.start, fault)));
        });
    }
}

impl Inner {
    /// Saves the films that are listed now.
    pub fn keep_listed(&self, films: Vec<Listed>) {
        lock(&self.listing).write(films, reelway_clock::real());
    }

    /// Notes the version of the Reelway that lists the films; `None` if it is another program.
    pub fn note_version(&self, said: Option<&str>) {
        *lock(&self.version) = said.and_then(known_version);
    }

    /// Notes that an endpoint has answered.
    pub fn has_answered(&self) {
        let now = reelway_clock::real().seconds();
        self.answered.store(now, Ordering::Relaxed);
        self.reported_stale.store(false, Ordering::Relaxed);
    }

    /// For how many seconds no endpoint has answered, if that is at least `stale`.
    pub fn silent(&self) -> Option<u64> {
        let now = reelway_clock::real().seconds();
        let silent = now.saturating_sub(self.answered.load(Ordering::Relaxed));
        (silent >= self.source.config.stale.as_secs()).then_some(silent)
    }

    pub fn films(&self) -> MutexGuard<'_, HashMap<PathBuf, Known>> {
        lock(&self.films)
    }

    fn film(&self, path: &Path) -> Option<Arc<Film>> {
        self.films().get(path).map(|known| known.film.clone())
    }

    /// Calls `act` with the rounds and the current time.
    pub fn at_rounds<T>(&self, act: impl FnOnce(&mut Rounds, Monotonic) -> T) -> T {
        let now = reelway_clock::now();
        act(&mut lock(&self.rounds), now)
    }

    /// Makes the next look fetch the list, and notifies the listener.
    fn look_again(&self) {
        self.at_rounds(|rounds, _| rounds.is_due());
        if let Some(listener) = &*lock(&self.on_changed) {
            listener();
        }
    }

    /// Drops texts of subtitles that are no longer beside a film.
    pub fn forget_texts(&self) {
        let films = self.films();
        let is_listed = |(film, version): &Key| {
            let known = films.get(film);
            let beside = known.map_or(&[][..], |known| &known.subtitles);
            beside.iter().any(|file| file.version == *version)
        };
        lock(&self.texts).retain(is_listed);
    }

    /// The text of a subtitle file beside a film: fetched once, and then kept.
    async fn subtitles(&self, film: &Path, file: &SubtitleFile) -> Result<Arc<str>, String> {
        let SubtitlePlace::Elsewhere(number) = file.place else {
            return Err("it is on this machine".to_owned());
        };
        let key = (film.to_owned(), file.version.clone());
        let cell = lock(&self.texts).cell(&key);
        let fetch = async || {
            if let Some(why) = lock(&self.texts).failed(&key, reelway_clock::now()) {
                return Err(why);
            }
            let known = self.film(film);
            let known = known.ok_or("the source no longer has this film")?;
            let fetched = self.source.subtitles(&known, number, &file.version).await;
            let now = reelway_clock::now();
            let text = fetched.map_err(|fault| {
                let why = match fault {
                    Fault::Gone(status) => {
                        self.look_again();
                        format!("the origin has this version no longer (status {status})")
                    }
                    fault => fault.to_string(),
                };
                warn!("{}: subtitles {}: {why}", film.display(), file.file);
                lock(&self.texts).fail(&key, why.clone(), now);
                why
            })?;
            lock(&self.texts).keep(&key, text.len());
            Ok(Arc::from(text))
        };
        cell.get_or_try_init(fetch).await.cloned()
    }

    /// Converts a fault for the store.
    fn read_error(&self, film: &Film, offset: u64, fault: Fault) -> ReadError {
        let path = film.address.clone();
        match fault {
            Fault::Changed(_) => {
                self.look_again();
                ReadError::Changed { path }
            }
            fault => ReadError::Io {
                path,
                offset,
                error: Arc::new(io::Error::other(fault)),
            },
        }
    }

    /// Reads a film's tables, not from siblings: one that has them would have sent the index.
    async fn fetch(&self, film: &Film, range: Range<u64>) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        // Viewers' reads come first.
        let deadline = reelway_clock::now() + Duration::from_secs(10);
        let read = (self.source).read_from_endpoints(film, range, &mut bytes, deadline);
        read.await?;
        Ok(bytes)
    }
}
