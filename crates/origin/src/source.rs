//! A source: its endpoints, the versions pinned at each, and reads that use all of them.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use reelway_catalogue::MOST_SUBTITLE_BYTES;
use reelway_clock::Monotonic;
use reelway_supervise as supervise;
use reelway_sys::FileIdentity;
use tracing::{debug, info, warn};
use xxhash_rust::xxh3::Xxh3;

use crate::config::SourceConfig;
use crate::endpoint::{Endpoint, Probed};
use crate::fault::Fault;
use crate::retry::{Attempts, Health};
use crate::siblings::{AtSiblings, Group, Siblings};
use crate::stats::OriginStats;
use crate::turns::Turns;
use crate::version::Version;
use crate::via;

/// The films of two endpoints are compared by this many spots of this many bytes, spread evenly.
const SPOTS: u64 = 8;
const SPOT: u64 = 4096;

/// Timeout for fetching the text of subtitles, including all attempts.
const TEXT_TIME: Duration = Duration::from_secs(20);

/// The network side of a source.
#[derive(Debug)]
pub(crate) struct Source {
    pub config: SourceConfig,
    pub endpoints: Vec<Endpoint>,
    /// The siblings, which are asked before the endpoints.
    pub siblings: Option<Siblings>,
    health: Mutex<Health>,
    turns: Turns,
    pub counters: Counters,
}

/// The counters of a source.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub requests: AtomicU64,
    pub bytes: AtomicU64,
    faults: AtomicU64,
}

/// A film of a source, in one version.
#[derive(Debug)]
pub(crate) struct Film {
    /// Path below the endpoints, decoded.
    pub path: String,
    /// The name by which the store opens it and messages show it: the address at the first endpoint.
    pub address: PathBuf,
    pub identity: FileIdentity,
    /// Whether its identity distinguishes it from other versions even after a restart.
    pub lasting: bool,
    /// Its version at each endpoint.
    pins: Mutex<Vec<Pin>>,
    /// Digest of its spots, if there are several endpoints.
    spots: OnceLock<u128>,
    /// What is known of it at siblings.
    pub at_siblings: AtSiblings,
}

/// What is known of a film's version at an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    /// Not looked at yet.
    Unknown,
    /// The film, in this version.
    Is(Version),
    /// Another film.
    Other,
}

impl Film {
    /// Creates the film in the version that was found at an endpoint.
    pub fn new(
        path: String,
        address: PathBuf,
        endpoints: usize,
        endpoint: usize,
        version: Version,
    ) -> Film {
        let identity = version.identity(&address.to_string_lossy());
        let lasting = version.is_lasting();
        let mut pins = vec![Pin::Unknown; endpoints];
        pins[endpoint] = Pin::Is(version);
        Film {
            path,
            address,
            identity,
            lasting,
            at_siblings: AtSiblings::new(&identity, lasting),
            pins: Mutex::new(pins),
            spots: OnceLock::new(),
        }
    }

    fn pins(&self) -> MutexGuard<'_, Vec<Pin>> {
        // Each pin is set in one step.
        supervise::whole(self.pins.lock())
    }

    /// The film as it was before it grew, when it had this identity.
    pub fn before(&self, identity: FileIdentity) -> Film {
        let as_it_was = |pin: &Pin| match pin {
            Pin::Is(version) => Pin::Is(Version {
                len: identity.size,
                ..version.clone()
            }),
            other => other.clone(),
        };
        Film {
            path: self.path.clone(),
            address: self.address.clone(),
            identity,
            lasting: self.lasting,
            at_siblings: AtSiblings::new(&identity, self.lasting),
            pins: Mutex::new(self.pins().iter().map(as_it_was).collect()),
            spots: OnceLock::new(),
        }
    }

    /// Whether it is a recording at another Reelway, which may grow.
    pub fn is_recording(&self) -> bool {
        self.identity.of_recording().is_some()
    }

    /// Digest of its spots, if it is known.
    pub fn spots(&self) -> Option<u128> {
        self.spots.get().copied()
    }

    /// The same film, with the digest of its spots, if it is known.
    pub fn with_spots(self, spots: Option<u128>) -> Film {
        Film {
            spots: spots.map_or_else(OnceLock::new, OnceLock::from),
            ..self
        }
    }

    /// What is known of an endpoint's version.
    pub fn pin(&self, endpoint: usize) -> Pin {
        self.pins()[endpoint].clone()
    }

    fn set_pin(&self, endpoint: usize, pin: Pin) {
        self.pins()[endpoint] = pin;
    }
}

impl Source {
    /// Creates clients for all endpoints, without asking them anything yet.
    pub fn new(config: SourceConfig, group: Option<Arc<Group>>) -> Result<Source, String> {
        let endpoints = config.endpoints.iter().map(|address| {
            Endpoint::new(address, &config).map_err(|error| format!("{}: {error}", address.shown()))
        });
        let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
        Ok(Source {
            siblings: group.map(|group| Siblings::new(group, config.connections)),
            health: Mutex::new(Health::new(endpoints.len())),
            turns: Turns::new(config.connections),
            endpoints,
            config,
            counters: Counters::default(),
        })
    }

    /// The name by which the store opens the film with this path.
    pub fn address_of(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("{}/{path}", self.shown()))
    }

    /// The address by which the source is shown.
    pub fn shown(&self) -> &str {
        self.endpoints.first().map_or("", Endpoint::shown)
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        // Only figures for choosing an endpoint; if they mislead, another one is tried.
        supervise::whole(self.health.lock())
    }

    fn well(&self, endpoint: usize) {
        if self.health().good(endpoint) {
            info!("{}: answers again", self.endpoints[endpoint].shown());
        }
    }

    fn ill(&self, endpoint: usize, path: &str, fault: &Fault) {
        self.counters.faults.fetch_add(1, Ordering::Relaxed);
        let now = reelway_clock::now();
        let chance = getrandom::u64().unwrap_or(now.nanos());
        let shown = self.endpoints[endpoint].shown();
        if self
            .health()
            .bad(endpoint, fault, &self.config.patience, now, chance)
        {
            warn!("{shown}: {path}: {fault}; retrying, also at the source's mirrors");
        } else {
            debug!("{shown}: {path}: {fault}");
        }
    }

    /// Fills `into` with the film's bytes `range`: from a sibling, the rest from the endpoints.
    pub async fn read(
        &self,
        film: &Film,
        range: Range<u64>,
        into: &mut [u8],
        deadline: Monotonic,
    ) -> Result<(), Fault> {
        let came = match &self.siblings {
            Some(siblings) => siblings.read(&film.at_siblings, range.start, into).await,
            None => 0,
        };
        let rest = range.start + came as u64..range.end;
        let rest = self.read_from_endpoints(film, rest, &mut into[came..], deadline);
        rest.await
    }

    /// Fills `into` with the film's bytes `range` from any endpoints, all of one version, in as
    /// many pieces and attempts as patience allows.
    pub async fn read_from_endpoints(
        &self,
        film: &Film,
        range: Range<u64>,
        into: &mut [u8],
        deadline: Monotonic,
    ) -> Result<(), Fault> {
        let mut at = 0;
        let mut attempts =
            Attempts::new(&self.health(), self.config.patience, reelway_clock::now());
        let mut worst: Option<Fault> = None;
        while at < into.len() {
            let next = attempts.next(&self.health(), reelway_clock::now());
            let Some(next) = next else {
                return Err(worst.unwrap_or(Fault::Stalled(self.config.patience.whole)));
            };
            if !next.after.is_zero() {
                tokio::time::sleep(next.after).await;
            }
            let left = || attempts.left(reelway_clock::now());
            let Ok(turn) = tokio::time::timeout(left(), self.turns.take(deadline)).await else {
                return Err(worst.unwrap_or(Fault::Stalled(self.config.patience.whole)));
            };
            let mut have = 0;
            let rest = range.start + at as u64..range.end;
            let limit = left();
            let began = reelway_clock::now();
            let attempt = self.attempt(film, next.endpoint, rest, &mut into[at..], &mut have);
            let result = tokio::time::timeout(limit, attempt)
                .await
                .unwrap_or(Err(Fault::Stalled(limit)));
            drop(turn);
            at += have;
            self.counters
                .bytes
                .fetch_add(have as u64, Ordering::Relaxed);
            match result {
                Ok(()) => {
                    self.well(next.endpoint);
                    if let Some(siblings) = &self.siblings {
                        siblings.origin_took(have, reelway_clock::now().since(began));
                    }
                    if have > 0 {
                        attempts.refund();
                    }
                }
                // Not the mirror's fault: the film may still be readable where it was found.
                Err(fault @ Fault::Unlike) => {
                    attempts.note(next.endpoint, &fault, reelway_clock::now());
                    worst.get_or_insert(fault);
                }
                Err(fault) => {
                    self.ill(next.endpoint, &film.path, &fault);
                    attempts.note(next.endpoint, &fault, reelway_clock::now());
                    // A changed film is the most accurate reason, whatever other endpoints report.
                    if !matches!(worst, Some(Fault::Changed(_))) {
                        worst = Some(fault);
                    }
                }
            }
        }
        Ok(())
    }

    async fn attempt(
        &self,
        film: &Film,
        endpoint: usize,
        range: Range<u64>,
        into: &mut [u8],
        have: &mut usize,
    ) -> Result<(), Fault> {
        let version = match film.pin(endpoint) {
            Pin::Is(version) => version,
            Pin::Other => return Err(Fault::Unlike),
            Pin::Unknown => {
                let Probed { version, .. } = self.probe(endpoint, &film.path).await?;
                if !self.compare(film, endpoint, &version).await? {
                    return Err(Fault::Unlike);
                }
                version
            }
        };
        self.part(endpoint, &film.path, &version, range, into, have)
            .await
    }

    /// Returns the version of a film at an endpoint, unless the film comes from this server.
    pub async fn probe(&self, endpoint: usize, path: &str) -> Result<Probed, Fault> {
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let probed = self.endpoints[endpoint].probe(path).await?;
        let via = via::allowed(probed.via, &self.config.own_id)?;
        Ok(Probed { via, ..probed })
    }

    async fn part(
        &self,
        endpoint: usize,
        path: &str,
        version: &Version,
        range: Range<u64>,
        into: &mut [u8],
        have: &mut usize,
    ) -> Result<(), Fault> {
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        self.endpoints[endpoint]
            .part(path, version, range, into, have)
            .await
    }

    /// Whether an endpoint's version is this film, and pins that. Length and strong tag must be
    /// equal, or else the bytes at the spots. If the film's spots are unknown, the endpoint is not
    /// used now, and compared again the next time.
    pub async fn compare(
        &self,
        film: &Film,
        endpoint: usize,
        version: &Version,
    ) -> Result<bool, Fault> {
        let same_tag = film.pins().iter().any(|pin| match pin {
            Pin::Is(other) => {
                other.len == version.len
                    && version.strong().is_some()
                    && other.strong() == version.strong()
            }
            _ => false,
        });
        let may_be = version.len == film.identity.size;
        let same = same_tag
            || match film.spots.get() {
                Some(spots) if may_be => self.spots(endpoint, &film.path, version).await? == *spots,
                None if may_be => return Ok(false),
                _ => false,
            };
        if !same {
            warn!(
                "{}: {} differs in length or content from the film at {}, and is not used for it",
                self.endpoints[endpoint].shown(),
                film.path,
                self.shown()
            );
        }
        film.set_pin(
            endpoint,
            if same {
                Pin::Is(version.clone())
            } else {
                Pin::Other
            },
        );
        Ok(same)
    }

    /// Whether everything is known that is needed to compare other endpoints' films with this one.
    pub fn is_comparable(&self, film: &Film) -> bool {
        self.endpoints.len() < 2 || film.spots.get().is_some()
    }

    /// Reads the film's spots, if other endpoints may have to be compared with it.
    pub async fn look_at_spots(&self, film: &Film, endpoint: usize) -> Result<(), Fault> {
        if !self.is_comparable(film)
            && let Pin::Is(version) = film.pin(endpoint)
        {
            let digest = self.spots(endpoint, &film.path, &version).await?;
            let _ = film.spots.set(digest);
        }
        Ok(())
    }

    async fn spots(&self, endpoint: usize, path: &str, version: &Version) -> Result<u128, Fault> {
        let mut hash = Xxh3::new();
        let step = version.len.saturating_sub(SPOT) / (SPOTS - 1);
        let starts = (0..SPOTS).map(|spot| spot * step);
        let mut bytes = [0; SPOT as usize];
        for start in starts {
            let range = start..(start + SPOT).min(version.len);
            let wanted = (range.end - range.start) as usize;
            let mut at = 0;
            // A server may send less than it is asked for, but at least one byte.
            while at < wanted {
                let (mut have, rest) = (0, range.start + at as u64..range.end);
                self.part(
                    endpoint,
                    path,
                    version,
                    rest,
                    &mut bytes[at..wanted],
                    &mut have,
                )
                .await?;
                at += have.max(1);
            }
            hash.update(&bytes[..wanted]);
        }
        Ok(hash.digest128())
    }

    /// The text of the film's subtitle file `number` in this version, from the first endpoint that
    /// has it.
    pub async fn subtitles(
        &self,
        film: &Film,
        number: u32,
        version: &str,
    ) -> Result<String, Fault> {
        let asked = tokio::time::timeout(TEXT_TIME, async {
            let title = film.path.strip_suffix("/file").unwrap_or_default();
            let path = format!("{title}/subtitles/{number}.vtt");
            let query = format!("v={version}");
            let _turn = self.turns.take(reelway_clock::now() + TEXT_TIME).await;
            let mut last = Fault::Gone(404);
            for (number, endpoint) in self.endpoints.iter().enumerate() {
                // The text's version is part of the request, so the film need not be compared.
                let (Endpoint::Web(web), Pin::Is(_) | Pin::Unknown) = (endpoint, film.pin(number))
                else {
                    continue;
                };
                self.counters.requests.fetch_add(1, Ordering::Relaxed);
                let came = web.document(&path, &query, "text/vtt", MOST_SUBTITLE_BYTES);
                match came.await {
                    Ok(Some(text)) => {
                        let bytes = text.len() as u64;
                        self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
                        return Ok(text);
                    }
                    Ok(None) => last = Fault::Gone(404),
                    Err(fault) => last = fault,
                }
            }
            Err(last)
        });
        asked.await.unwrap_or(Err(Fault::Stalled(TEXT_TIME)))
    }

    /// Whether any endpoint is free of faults since its last answer.
    pub fn is_up(&self) -> bool {
        self.health().is_up()
    }

    /// The counters since the start.
    pub fn stats(&self) -> OriginStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OriginStats {
            requests: read(&self.counters.requests),
            bytes: read(&self.counters.bytes),
            faults: read(&self.counters.faults),
        }
    }
}
