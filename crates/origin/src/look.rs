//! Finds out which films a source has, and in which versions, from its endpoints.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{StreamExt, stream};
use reelway_catalogue::{FoundFilm, is_film};
use reelway_sys::FileIdentity;
use tracing::warn;

use crate::beside::{self, Beside};
use crate::config::Wanted;
use crate::endpoint::{Endpoint, Probed};
use crate::fault::{Fault, Meaning};
use crate::folders;
use crate::listing::Listed;
use crate::lists::{self, MOST_FILMS, MOST_LIST, Page};
use crate::origin::{Inner, Known};
use crate::recording::RecordingStatus;
use crate::source::{Film, Pin};

use crate::version::Version;
use crate::via;
use crate::web::Web;

/// Maximum total size of the lists of subtitle files beside a source's films, in bytes; the lists
/// of further films are left out.
const MOST_BESIDE: usize = 32 << 20;
/// Films that are probed at once during a look.
pub(crate) const PROBES: usize = 8;

/// A film in an endpoint's list.
pub(crate) struct Entry {
    /// Path below the endpoint.
    pub path: String,
    /// The path from which its name is made.
    pub file: String,
    pub hint: Option<String>,
    /// Ids of the servers through which it comes, according to the list.
    pub via: Vec<String>,
    /// Subtitle files beside it, according to the list.
    pub subtitles: Vec<Beside>,
    pub version: Option<Version>,
}

impl Inner {
    /// Finds the films, using the first endpoint that answers. If none does, and none has since the
    /// start, the result is the previous list; if none has for too long, the result is empty.
    ///
    /// Between two fetches of the list, it only asks how far recordings have grown.
    pub async fn look(&self) -> Result<Vec<FoundFilm>, String> {
        if let Some(found) = self.follow().await {
            return Ok(found);
        }
        let looked = self.look_at_all().await;
        let found = looked.as_deref().unwrap_or_default();
        self.at_rounds(|rounds, now| rounds.has_listed(now, found));
        looked
    }

    async fn look_at_all(&self) -> Result<Vec<FoundFilm>, String> {
        if let Some(siblings) = &self.source.siblings {
            siblings.meet().await;
        }
        let (mut problems, mut unanswered) = (Vec::new(), None);
        for endpoint in 0..self.source.endpoints.len() {
            match self.list(endpoint).await {
                Ok(listed) => {
                    let (found, has_answered) = self.take_in(endpoint, listed).await;
                    self.has_listed.store(true, Ordering::Relaxed);
                    if has_answered {
                        self.has_answered();
                        self.keep(endpoint);
                        return Ok(found);
                    }
                    // The configuration names the films; the next endpoint may know their versions.
                    unanswered = Some(found);
                }
                Err(why) => problems.push(format!(
                    "{}: {why}",
                    self.source.endpoints[endpoint].shown()
                )),
            }
        }
        if let Some(found) = unanswered {
            return Ok(if self.is_stale() { Vec::new() } else { found });
        }
        let problem = format!(
            "the list of films cannot be fetched; {}",
            problems.join("; ")
        );
        let known = self.known();
        if self.is_stale() {
            return Ok(Vec::new());
        }
        if known.is_empty() || self.has_listed.load(Ordering::Relaxed) {
            return Err(problem);
        }
        if !self.reported_stale.swap(true, Ordering::Relaxed) {
            let films = match known.len() {
                1 => "1 film".to_owned(),
                count => format!("{count} films"),
            };
            warn!("{problem}; serving {films} that it listed before");
        }
        Ok(known)
    }

    /// Whether the known films must not be listed because no endpoint has answered for too long.
    /// Logs this once.
    fn is_stale(&self) -> bool {
        let Some(silent) = self.silent().filter(|_| !self.films().is_empty()) else {
            return false;
        };
        if !self.reported_stale.swap(true, Ordering::Relaxed) {
            warn!(
                "{}: no answer for {silent} s; its films are not listed until it answers (`stale`)",
                self.source.shown()
            );
        }
        true
    }

    /// All known films, as they were found.
    pub fn known(&self) -> Vec<FoundFilm> {
        let mut found: Vec<FoundFilm> = self
            .films()
            .values()
            .map(|known| {
                let film = &known.film;
                let listed_as = (known.file.as_str(), &known.via[..], &known.subtitles[..]);
                let version = (film.identity, known.status);
                self.found(&film.address, listed_as, version, None)
            })
            .collect();
        found.sort_by(|a, b| a.file.cmp(&b.file));
        found
    }

    /// Saves the known films, in the versions of this endpoint.
    fn keep(&self, endpoint: usize) {
        let mut listed: Vec<Listed> = self
            .films()
            .values()
            .filter_map(|known| {
                let Pin::Is(version) = known.film.pin(endpoint) else {
                    return None;
                };
                Some(Listed {
                    path: known.film.path.clone(),
                    file: known.file.clone(),
                    hint: known.hint.clone(),
                    via: known.via.clone(),
                    subtitles: known.subtitles.clone(),
                    version,
                    endpoint,
                    spots: known.film.spots().map(|digest| format!("{digest:032x}")),
                })
            })
            .collect();
        listed.sort_by(|a, b| a.path.cmp(&b.path));
        self.keep_listed(listed);
    }

    fn found(
        &self,
        address: &Path,
        (file, via, subtitles): (&str, &[String], &[Beside]),
        (identity, status): (FileIdentity, RecordingStatus),
        problem: Option<String>,
    ) -> FoundFilm {
        FoundFilm {
            path: address.to_owned(),
            file: match self.source.config.at.as_str() {
                "" => file.to_owned(),
                at => format!("{at}/{file}"),
            },
            identity,
            via: via.to_vec(),
            subtitles: beside::files(subtitles),
            report: identity.of_recording().map(|_| status.report),
            problem,
            closed: None,
        }
    }

    async fn list(&self, endpoint: usize) -> Result<Vec<Entry>, String> {
        let plain = |path: String| Entry {
            file: path.clone(),
            path,
            hint: None,
            via: Vec::new(),
            subtitles: Vec::new(),
            version: None,
        };
        let films = |paths: Vec<String>| {
            paths
                .into_iter()
                .filter(|path| is_film(Path::new(path)))
                .map(plain)
                .collect()
        };
        let mut listed: Vec<Entry> =
            match (&self.source.config.films, &self.source.endpoints[endpoint]) {
                (Wanted::These(paths), _) => paths.iter().cloned().map(plain).collect(),
                (Wanted::Listed, Endpoint::S3(s3)) => {
                    let found = s3
                        .list(|path| is_film(Path::new(path)), MOST_FILMS)
                        .await
                        .map_err(|fault| fault.to_string())?;
                    found
                        .into_iter()
                        .map(|(path, version)| Entry {
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
                (Wanted::Listed, Endpoint::Web(web)) => {
                    let listing = listed_by_reelway(web, &self.source.config.own_id).await?;
                    self.note_version(listing.as_ref().map(|(_, version)| version.as_str()));
                    match listing {
                        Some((listed, _)) => listed,
                        None => {
                            let (found, left_out) = folders::films(web).await?;
                            let new = self.at_rounds(|rounds, _| rounds.leave_out(left_out));
                            for (folder, fault) in new {
                                let source = self.source.shown();
                                warn!("{source}/{folder}/: {fault}; its films are left out");
                            }
                            films(found)
                        }
                    }
                }
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

    /// Finds out the version of each film, and remembers it. Returns the films, and whether the
    /// endpoint has answered.
    async fn take_in(&self, endpoint: usize, listed: Vec<Entry>) -> (Vec<FoundFilm>, bool) {
        let has_answered = match self.source.config.films {
            Wanted::These(_) => AtomicBool::new(false),
            Wanted::Listed | Wanted::Document(_) => AtomicBool::new(true),
        };
        // Keeps the texts of the previous look: viewers use its films until the new ones are taken
        // over.
        self.forget_texts();
        let take = |listed| self.take(endpoint, listed, &has_answered);
        let taken = stream::iter(listed.into_iter().map(take))
            .buffer_unordered(PROBES)
            .collect::<Vec<_>>()
            .await;
        let mut found: Vec<FoundFilm> = taken.into_iter().flatten().collect();
        found.sort_by(|a, b| a.file.cmp(&b.file));
        let present: HashSet<&PathBuf> = found.iter().map(|found| &found.path).collect();
        self.films().retain(|path, _| present.contains(path));
        (found, has_answered.into_inner())
    }

    /// A film of the list as it was found; `None` if it is gone by now.
    pub async fn take(
        &self,
        endpoint: usize,
        listed: Entry,
        has_answered: &AtomicBool,
    ) -> Option<FoundFilm> {
        let address = self.source.address_of(&listed.path);
        let found = |via: &[String], version, problem| {
            let listed_as = (listed.file.as_str(), via, &listed.subtitles[..]);
            self.found(&address, listed_as, version, problem)
        };
        let known = self.films().get(&address).cloned();
        // The list may have other servers on the way, and other subtitles, than before.
        let as_it_was = |known: &Known| {
            let via = match listed.via.is_empty() {
                true => known.via.clone(),
                false => listed.via.clone(),
            };
            let found = found(&via, (known.film.identity, known.status), None);
            let known = Known {
                via,
                subtitles: listed.subtitles.clone(),
                ..known.clone()
            };
            self.films().insert(address.clone(), known);
            Some(found)
        };
        if let Some(known) = &known
            && listed.hint.is_some()
            && known.hint == listed.hint
            && self.source.is_comparable(&known.film)
        {
            return as_it_was(known);
        }
        let probed = match listed.version {
            Some(version) => Ok(Probed {
                version,
                via: Vec::new(),
                status: RecordingStatus::default(),
            }),
            None => self.source.probe(endpoint, &listed.path).await,
        };
        // A film that is gone or refused is an answer, too.
        if !matches!(&probed, Err(fault) if fault.meaning() == Meaning::Passing) {
            has_answered.store(true, Ordering::Relaxed);
        }
        let judged = match probed {
            Ok(Probed {
                version,
                via,
                status,
            }) => self
                .judge(endpoint, &listed.path, &address, version, known.as_ref())
                .await
                .map(|film| (film, via, status)),
            Err(fault) => Err(fault),
        };
        match (judged, known) {
            (Ok((film, listed_as, status)), _) => {
                let identity = film.identity;
                // The list has the way of films whose answers lack it: those of servers that do not
                // send `Via`.
                let via = if listed.via.is_empty() {
                    listed_as
                } else {
                    listed.via.clone()
                };
                let found = found(&via, (identity, status), None);
                let known = Known {
                    status,
                    film,
                    file: listed.file.clone(),
                    hint: listed.hint.clone(),
                    via,
                    subtitles: listed.subtitles.clone(),
                };
                self.films().insert(address.clone(), known);
                Some(found)
            }
            (Err(Fault::Gone(_)), _) if self.source.config.films == Wanted::Listed => None,
            // It cannot be known now; the next read shows it.
            (Err(fault), Some(known)) if fault.meaning() == Meaning::Passing => as_it_was(&known),
            (Err(fault), _) => {
                let nobody = Version {
                    len: 0,
                    etag: None,
                    modified: None,
                    edition: None,
                };
                let identity = nobody.identity(&address.to_string_lossy());
                let version = (identity, RecordingStatus::default());
                Some(found(&listed.via, version, Some(fault.to_string())))
            }
        }
    }

    /// The film in this version: the known one, or a new one.
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
                // It may have been listed by a version that did not save the spots.
                self.source.look_at_spots(&known.film, endpoint).await?;
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

/// The films of another Reelway server, and its version; `None` if the server is something else.
async fn listed_by_reelway(
    web: &Web,
    own_id: &str,
) -> Result<Option<(Vec<Entry>, String)>, String> {
    let (mut listed, mut version) = (Vec::new(), String::new());
    let mut room = MOST_BESIDE;
    for page in 1.. {
        let query = format!("per_page={}&page={page}", lists::PER_PAGE);
        let text = match web
            .document("api/films", &query, "application/json", MOST_LIST)
            .await
        {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(None),
            // A server that is no Reelway may refuse paths that it does not have.
            Err(Fault::Forbidden(_) | Fault::Gone(_) | Fault::Wrong(_)) if page == 1 => {
                return Ok(None);
            }
            Err(fault) => return Err(fault.to_string()),
        };
        let Ok(answer) = serde_json::from_str::<Page>(&text) else {
            return Ok(None);
        };
        if !own_id.is_empty() && answer.node == own_id {
            return Err("that is this server itself".to_owned());
        }
        version = answer.version;
        let films = answer.films.iter().filter_map(|film| {
            let via = via::allowed(film.via(&answer.node), own_id).ok()?;
            Some((film.film()?, via, film.subtitles(&mut room)))
        });
        listed.extend(films.map(|((path, file, hint), via, subtitles)| Entry {
            path,
            file,
            hint: Some(hint),
            via,
            subtitles,
            version: None,
        }));
        // The number of films that a server reports does not bound what it sends.
        let has_sent = (page * lists::PER_PAGE).max(listed.len());
        if answer.films.is_empty() || has_sent >= answer.total || has_sent > MOST_FILMS {
            break;
        }
    }
    Ok(Some((listed, version)))
}
