//! Films ready to be served: indexed, packaged, opened. Made on first request, kept while in use.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use reelway_catalogue::{
    CatalogueError, Entry, Film, First, Growing, Placement, State, SubtitleFile, SubtitleTrack,
};
use reelway_clock::{Monotonic, Real};
use reelway_library::{Library, OpenError, OpenFilm};
use reelway_media::{Container, Kind, SECOND};
use reelway_package::{NoSlices, Options, Package, PackageError, Recording, SlicedStream};
use reelway_store::Source;
use reelway_supervise as supervise;
use reelway_sys::FileIdentity;
use tokio::sync::{OnceCell, Semaphore};

use crate::blocking::blocking;
use crate::conditional::Validators;

/// Maximum memory for packaged films in bytes; each counts as [`LEAST`] or more.
const KEPT: usize = 24 << 20;
/// Minimum memory counted per film: a two-hour film has 45 KiB of tables, and its files are open.
const LEAST: usize = 64 << 10;
/// A recording has ended when its file has not grown for this many target segment lengths.
const REST: u32 = 3;
/// A file changed more recently than this may soon grow.
const YOUNG: Duration = Duration::from_secs(60);
/// Why the file of a partly indexed film is not served.
pub(crate) const BEGUN: &str =
    "it is still being indexed; its file is served when all of it has been read";
/// Number of films made ready at the same time: each reads its whole index.
const MAKING: usize = 4;

/// A film ready to be served.
#[derive(Debug)]
pub(crate) struct Show {
    /// The film, as the catalogue describes it.
    pub film: Arc<Film>,
    /// The film's segmentation.
    pub package: Arc<Package>,
    /// Set if the film is served as the transport stream that its file is, with these segments.
    /// `film` and `source` then refer to its packets.
    pub stream: Option<SlicedStream>,
    /// The same film in that form, made on first request.
    as_stream: OnceCell<Arc<Show>>,
    /// The open file, which is the one that was indexed.
    pub file: Arc<Source>,
    /// The source of its samples: the file, or a view of it.
    pub source: Arc<Source>,
    /// Identifies this version of the file and its segmentation, in entity tags.
    pub version: String,
    /// The same for the film as it was first indexed, in segment addresses: a growing recording
    /// keeps its segments and adds more; another film in its place has different ones.
    pub edition: String,
}

/// Why a film cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShowError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("film '{0}': {1}")]
    Package(String, PackageError),
    #[error("film '{0}' is not offered over HLS as a transport stream: {1}; use hls/main.m3u8")]
    NoSlices(String, NoSlices),
}

impl Show {
    fn new(opened: &OpenFilm, options: Options) -> Result<Show, ShowError> {
        let (film, file) = (opened.film().clone(), opened.file().clone());
        let package = Package::new(film.title.clone(), &*film.samples, options)
            .map_err(|error| ShowError::Package(film.name.clone(), error))?;
        Ok(Show {
            version: version(&film.identity, options),
            edition: version(&film.edition(), options),
            film,
            package: Arc::new(package),
            stream: None,
            as_stream: OnceCell::new(),
            file,
            source: opened.source().clone(),
        })
    }

    /// Returns the same film as the transport stream that its file is. Reads its index.
    fn sliced(&self, library: &Library) -> Result<Show, ShowError> {
        let no_slices = |why| ShowError::NoSlices(self.film.name.clone(), why);
        let stream = SlicedStream::new(&self.package, &*self.film.samples).map_err(no_slices)?;
        let film = self.film.as_transport_stream();
        let film = film.ok_or_else(|| no_slices(NoSlices::NotAsItIs))?;
        let opened = library.open_film_blocking(Arc::new(film))?;
        Ok(Show {
            film: opened.film().clone(),
            package: self.package.clone(),
            stream: Some(stream),
            as_stream: OnceCell::new(),
            file: opened.file().clone(),
            source: opened.source().clone(),
            version: self.version.clone(),
            edition: self.edition.clone(),
        })
    }

    /// Whether a part stays the same for as long as its edition lasts: in a file that may grow,
    /// only a `settled` part does.
    pub fn stays(&self, settled: bool) -> bool {
        settled || self.film.growth.mark.is_none()
    }

    /// Returns the approximate memory it takes, in bytes.
    fn memory(&self) -> usize {
        // If index files cannot be written, the film's index is in memory as well.
        let tables = self.package.memory().max(LEAST) + self.film.memory();
        let stream = self.as_stream.get().and_then(|show| show.stream.as_ref());
        tables + stream.map_or(0, SlicedStream::memory)
    }

    /// Returns the film's length in seconds.
    pub fn seconds(&self) -> f64 {
        self.package.duration() as f64 / SECOND as f64
    }

    /// Returns the media type of its file.
    pub fn media_type(&self) -> &'static str {
        let title = &self.film.title;
        let has_picture = title.tracks.iter().any(|track| track.kind == Kind::Video);
        match (title.container, has_picture) {
            (Container::Mp4 | Container::FragmentedMp4, true) => "video/mp4",
            (Container::Mp4 | Container::FragmentedMp4, false) => "audio/mp4",
            (Container::Matroska, true) => "video/matroska",
            (Container::Matroska, false) => "audio/matroska",
            // Also for audio alone (RFC 3551 and the registry of media types have no other).
            (Container::TransportStream, _) => "video/mp2t",
            (Container::ProgramStream, _) => "video/mpeg",
            (Container::ElementaryStream, _) => "application/octet-stream",
        }
    }

    /// Returns the bytes of the file that are not media, mostly tables.
    pub fn overhead(&self) -> u64 {
        let media: u64 = self.film.title.tracks.iter().map(|track| track.bytes).sum();
        self.file.len().saturating_sub(media)
    }

    /// Returns the validators of a part of the film; `part` distinguishes parts.
    pub fn validators(&self, part: &str) -> Validators {
        Validators {
            etag: format!("\"{}{part}\"", self.version),
            modified: self.modified(),
        }
    }

    fn modified(&self) -> SystemTime {
        Real::from_nanos(self.film.identity.mtime_ns.max(0) as u64).system_time()
    }
}

/// The growth of a recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded {
    first: First,
    growing: Growing,
    rest: Duration,
}

impl Recorded {
    /// Whether it is still being recorded.
    pub fn goes_on(&self, now: Monotonic) -> bool {
        self.growing.still(now, self.rest)
    }

    /// Returns the recording if it is still being recorded.
    pub fn at(&self, now: Monotonic, real: Real) -> Option<Recording> {
        self.goes_on(now).then_some(Recording {
            began: self.first.began,
            now: real,
        })
    }
}

/// Returns 64 bits (FNV-1a) of everything that determines a film's segments, in hexadecimal. The
/// leading number is incremented when packaging changes.
fn version(identity: &FileIdentity, options: Options) -> String {
    hash(identity, options.target as u64)
}

fn hash(identity: &FileIdentity, target: u64) -> String {
    const FORMAT: u64 = 2;
    let FileIdentity {
        device,
        inode,
        size,
        mtime_ns,
    } = *identity;
    let words = [FORMAT, device, inode, size, mtime_ns as u64, target];
    let hash = words
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
    format!("{hash:016x}")
}

/// A cache slot for a film: filled once, however many requests arrive at once.
struct Slot {
    identity: FileIdentity,
    show: OnceCell<Arc<Show>>,
    used: AtomicU64,
}

/// All films ready to be served.
pub(crate) struct Films {
    library: Library,
    options: Options,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    uses: AtomicU64,
    making: Arc<Semaphore>,
}

impl Films {
    pub fn new(library: Library, options: Options) -> Films {
        Films {
            library,
            options,
            slots: Mutex::default(),
            uses: AtomicU64::new(0),
            making: Arc::new(Semaphore::new(MAKING)),
        }
    }

    /// Returns the placement, which decides which server a film's viewers are sent to.
    pub fn placement(&self) -> &Arc<dyn Placement> {
        self.library.placement()
    }

    /// Returns the entity tag of a film's file.
    pub fn etag(&self, identity: &FileIdentity) -> String {
        format!("\"{}\"", version(identity, self.options))
    }

    /// Returns the catalogue entry of this name, whether the film plays or not.
    pub fn entry(&self, name: &str) -> Option<Arc<Entry>> {
        self.library.catalogue().entry(name)
    }

    /// Returns the subtitles of a film. Files beside it may come and go while it stays.
    pub fn subtitles(&self, show: &Show) -> Vec<SubtitleTrack> {
        let entry = self.entry(&show.film.name);
        let beside = entry.map_or_else(Vec::new, |entry| entry.subtitles.clone());
        SubtitleTrack::all(&beside, &show.film.title)
    }

    /// Returns the text of a subtitle file beside a film on another server; an error says why it
    /// cannot be fetched now.
    pub async fn fetch(&self, show: &Show, file: &SubtitleFile) -> Result<Arc<str>, String> {
        self.library.catalogue().subtitles(&show.film, file).await
    }

    /// Returns the servers through which a film comes here, nearest first.
    pub fn via(&self, name: &str) -> Vec<String> {
        let entry = self.entry(name);
        entry.map_or_else(Vec::new, |entry| entry.via.clone())
    }

    /// Releases the blocks of a file that is no longer a film.
    pub fn forget_blocks(&self, identity: FileIdentity) {
        self.library.store().forget(identity);
    }

    /// Releases a film that was deleted or replaced, so that its disk space is freed.
    pub fn forget(&self, name: &str, identity: &FileIdentity) {
        let mut slots = supervise::whole(self.slots.lock());
        if slots
            .get(name)
            .is_some_and(|slot| slot.identity == *identity)
        {
            slots.remove(name);
        }
    }

    /// Returns a film's growth, if it is a recording that has been seen to grow.
    pub fn recorded(&self, show: &Show) -> Option<Recorded> {
        let entry = self.entry(&show.film.name)?;
        Some(Recorded {
            first: entry.first?,
            growing: entry.growing?,
            rest: self.rest(),
        })
    }

    /// Returns what other servers are sent about a film that may grow, with its file and its index.
    pub fn recording_header(&self, show: &Show, now: Monotonic, real: Real) -> Option<String> {
        let film = &show.film;
        film.growth.mark?;
        let entry = self.entry(&film.name);
        let entry = entry.as_deref();
        // The bytes do not depend on the segmentation.
        let edition = hash(&film.edition(), 0);
        let mut header = format!("edition={edition}, size={}", film.identity.size);
        if let Some(first) = entry.and_then(|entry| entry.first) {
            header += &format!(", began={}", first.began.nanos() / 1_000_000);
        }
        let grows = entry.is_some_and(|entry| self.grows(entry, now));
        let age = i128::from(real.nanos()) - i128::from(film.identity.mtime_ns);
        if grows {
            header += ", grows";
        }
        if grows || age < YOUNG.as_nanos() as i128 {
            header += ", soon";
        }
        Some(header)
    }

    /// Whether a film may soon become longer: it is being recorded, or not fully indexed.
    pub fn grows(&self, entry: &Entry, now: Monotonic) -> bool {
        (entry.growing).is_some_and(|growing| growing.still(now, self.rest()))
    }

    /// Checks that all of the film's file is indexed, as neither the file nor its index is served
    /// in part.
    ///
    /// # Errors
    /// Only its beginning is indexed.
    pub fn check_whole(&self, show: &Show) -> Result<(), ShowError> {
        let name = &show.film.name;
        match self.entry(name) {
            Some(entry) if entry.is_begun() => {
                let (name, reason) = (name.clone(), BEGUN.to_owned());
                Err(OpenError::from(CatalogueError::NotReady { name, reason }).into())
            }
            _ => Ok(()),
        }
    }

    /// Returns the time without growth after which a recording has ended.
    fn rest(&self) -> Duration {
        let length = u64::try_from(self.options.target).unwrap_or(0);
        Duration::from_nanos(length) * REST
    }

    /// Returns the film of this name.
    pub async fn get(&self, name: &str) -> Result<Arc<Show>, ShowError> {
        let catalogue = self.library.catalogue();
        let unknown = || CatalogueError::Unknown(name.to_owned());
        let entry = catalogue.entry(name).ok_or_else(unknown);
        let entry = entry.map_err(OpenError::from)?;
        if !matches!(entry.state, State::Ready(_)) {
            // Returns the reason.
            catalogue.film(name).map_err(OpenError::from)?;
        }
        let slot = self.slot(name, entry.identity);
        let loaded = slot
            .show
            .get_or_try_init(|| async {
                // Never closed, so this cannot fail.
                let turn = self.making.clone().acquire_owned().await;
                let library = self.library.clone();
                let (name, options) = (name.to_owned(), self.options);
                let kept = slot.clone();
                // Reads the film's index file, and scans all its samples.
                blocking(move || {
                    let _turn = turn;
                    let opened = library.open_blocking(&name)?;
                    let show = Show::new(&opened, options).map(Arc::new)?;
                    // Kept for the next request even if the client has gone.
                    let _ = kept.show.set(show.clone());
                    Ok::<_, ShowError>(show)
                })
                .await
            })
            .await?;
        Ok(loaded.clone())
    }

    /// Returns the same film as the transport stream that its file is.
    ///
    /// # Errors
    /// It is not a transport stream, or is not offered as one.
    pub async fn as_stream(&self, show: &Arc<Show>) -> Result<Arc<Show>, ShowError> {
        let made = show.as_stream.get_or_try_init(|| async {
            // Never closed, so this cannot fail.
            let turn = self.making.clone().acquire_owned().await;
            let (library, film) = (self.library.clone(), show.clone());
            blocking(move || {
                let _turn = turn;
                let stream = film.sliced(&library).map(Arc::new)?;
                let _ = film.as_stream.set(stream.clone());
                Ok(stream)
            })
            .await
        });
        made.await.cloned()
    }

    fn slot(&self, name: &str, identity: FileIdentity) -> Arc<Slot> {
        let now = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut slots = supervise::whole(self.slots.lock());
        if let Some(slot) = slots.get(name).filter(|slot| slot.identity == identity) {
            slot.used.store(now, Ordering::Relaxed);
            return slot.clone();
        }
        let memory = |slot: &Arc<Slot>| slot.show.get().map_or(LEAST, |show| show.memory());
        let mut held = LEAST + slots.values().map(memory).sum::<usize>();
        while held > KEPT && !slots.is_empty() {
            let oldest = slots
                .iter()
                .min_by_key(|(_, slot)| slot.used.load(Ordering::Relaxed));
            let oldest = oldest.map(|(name, _)| name.clone());
            let gone = oldest.and_then(|oldest| slots.remove(&oldest));
            held -= gone.as_ref().map_or(0, memory);
        }
        let slot = Arc::new(Slot {
            identity,
            show: OnceCell::new(),
            used: AtomicU64::new(now),
        });
        slots.insert(name.to_owned(), slot.clone());
        slot
    }
}
