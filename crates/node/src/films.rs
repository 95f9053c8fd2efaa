//! The libraries: local film directories and single films, and remote films.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reelway_catalogue::{CountConfig, Directory, DirectoryConfig, IndexMemory, Several};
use reelway_origin::{Group, GroupConfig, Origin, SourceConfig};
use reelway_rtp::PayloadOptions;
use reelway_store::Store;

use crate::config::Config;
use crate::elsewhere::Elsewhere;
use crate::sources::places;

/// All configured films.
pub(crate) struct Films {
    here: Vec<PathBuf>,
    elsewhere: Vec<SourceConfig>,
    siblings: Option<GroupConfig>,
}

/// The opened libraries.
pub(crate) struct Opened {
    /// All films as one library.
    pub library: Arc<Several>,
    /// The servers of remote films.
    pub elsewhere: Elsewhere,
}

impl Films {
    /// Collects the films of a configuration.
    ///
    /// # Errors
    /// The address of a remote source is invalid or that of another one, or no local film can be
    /// read.
    pub fn of(config: &Config) -> anyhow::Result<Films> {
        let (here, mut elsewhere) = places(&config.films)?;
        for source in &config.source {
            elsewhere.push(source.config()?);
        }
        require_films(&here)?;
        require_different(&elsewhere)?;
        let siblings = config.siblings.config()?;
        Ok(Films {
            here,
            elsewhere,
            siblings,
        })
    }

    /// Opens all libraries as one, for the server with this id. Index files are in the state
    /// directory.
    ///
    /// # Errors
    /// A remote source cannot be used as configured.
    pub fn open(
        self,
        config: &Config,
        (store, state, id): (&Store, &Path, &str),
        indexes: &IndexMemory,
    ) -> anyhow::Result<Opened> {
        let usual = DirectoryConfig::default();
        let segment = Duration::from_secs(config.http.segment.into());
        let reindex_interval = usual.reindex_interval.min(segment);
        let mut libraries = vec![Arc::new(Directory::open(DirectoryConfig {
            films: self.here,
            reindex_interval,
            index: Some(state.join("index")),
            memory: indexes.clone(),
            block_bytes: config.pool.block.as_u64() as u32,
            beginning: config.index.beginning.as_u64(),
            frame_rate: (config.index.frame_rate.0, config.index.frame_rate.1),
            count: count(config, store),
            ..usual
        }))];
        let redirects = self
            .siblings
            .as_ref()
            .is_some_and(|siblings| siblings.redirects);
        let group = self.siblings.map(|mut siblings| {
            siblings.own_id = id.to_owned();
            Group::new(&siblings).map_err(anyhow::Error::msg)
        });
        let group = group.transpose()?;
        let mut origins = Vec::new();
        for mut source in self.elsewhere {
            source.own_id = id.to_owned();
            source.reindex_interval = reindex_interval;
            let origin = origin(source, group.clone(), store, state)?;
            // The index files of each origin have a folder of their own.
            let index = state.join("index").join(origin.folder());
            let library = Directory::of(origin.clone(), Some(index), indexes.clone());
            origin.on_changed(library.waker());
            libraries.push(Arc::new(library));
            origins.push(origin);
        }
        Ok(Opened {
            library: Arc::new(Several(libraries)),
            elsewhere: Elsewhere {
                origins,
                group,
                redirects,
            },
        })
    }
}

/// Returns how films' packets are counted; `None` if they are not.
fn count(config: &Config, store: &Store) -> Option<CountConfig> {
    let (after, store) = (config.index.packets_after, store.clone());
    (after > 0).then(|| CountConfig {
        payload: PayloadOptions::for_mtu(config.rtp.mtu.into()),
        after: Duration::from_secs(after.into()),
        given: Arc::new(move || {
            let stats = store.stats();
            stats.hits + stats.misses
        }),
    })
}

/// Checks that at least one of the local films can be read, so that a mistyped directory is
/// reported at once and not by an empty page. If only some are missing (a disk that is not mounted
/// yet), the library warns of them and looks for them again.
fn require_films(films: &[PathBuf]) -> anyhow::Result<()> {
    let mut problems = films
        .iter()
        .map_while(|film| std::fs::metadata(film).err().map(|error| (film, error)));
    // Lazy: stops at the first that can be read.
    match problems.next() {
        Some((film, error)) if problems.count() + 1 == films.len() => {
            anyhow::bail!("{}: {error}", film.display())
        }
        _ => Ok(()),
    }
}

/// Checks that no two sources have the same address, apart from user and query: it names their
/// films, which could not be distinguished.
fn require_different(sources: &[SourceConfig]) -> anyhow::Result<()> {
    let mut known = BTreeSet::new();
    for source in sources {
        let Some(first) = source.endpoints.first() else {
            continue;
        };
        let address = first.shown();
        anyhow::ensure!(
            known.insert(address),
            "{address}: two sources have this address: list the films of both in one [[source]], or name more specific addresses"
        );
    }
    Ok(())
}

fn origin(
    source: SourceConfig,
    group: Option<Arc<Group>>,
    store: &Store,
    state: &Path,
) -> anyhow::Result<Arc<Origin>> {
    let runtime = tokio::runtime::Handle::current();
    let listings = state.join("listings");
    Origin::new(source, group, store, runtime, Some(&listings)).map_err(anyhow::Error::msg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(films: &[&str]) -> Option<String> {
        let films = films.iter().map(PathBuf::from).collect();
        let config = Config {
            films,
            ..Config::default()
        };
        Films::of(&config).err().map(|error| error.to_string())
    }

    #[test]
    fn two_sources_of_one_address_are_refused() {
        let different = ["http://a.example/films/", "http://a.example/films/new/"];
        assert_eq!(error_of(&different), None);
        for same in [
            "http://ann:secret@a.example/films/",
            "http://a.example/films",
        ] {
            let error = error_of(&[different[0], different[1], same]).expect(same);
            assert!(error.starts_with("http://a.example/films: two"), "{error}");
        }
    }
}
