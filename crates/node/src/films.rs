//! The libraries: film directories and single films here, and films elsewhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reelway_catalogue::{Directory, DirectoryConfig, IndexMemory, Several};
use reelway_origin::{Origin, SourceConfig};
use reelway_store::Store;

use crate::config::Config;
use crate::sources::places;

/// Everything that is configured to be served.
pub(crate) struct Films {
    here: Vec<PathBuf>,
    elsewhere: Vec<SourceConfig>,
}

impl Films {
    /// As the configuration says.
    ///
    /// # Errors
    /// A place elsewhere is not one, or nothing of what is here can be read.
    pub fn of(config: &Config) -> anyhow::Result<Films> {
        let (here, mut elsewhere) = places(&config.films)?;
        for source in &config.source {
            elsewhere.push(source.config()?);
        }
        require_films(&here)?;
        Ok(Films { here, elsewhere })
    }

    /// The libraries of all of them as one, of the server with this id; index files are in the state directory.
    ///
    /// # Errors
    /// A place elsewhere cannot be used as it is configured.
    pub fn open(
        self,
        config: &Config,
        (store, state, id): (&Store, &Path, &str),
        indexes: &IndexMemory,
    ) -> anyhow::Result<Arc<Several>> {
        let mut libraries = vec![Arc::new(Directory::open(DirectoryConfig {
            films: self.here,
            index: Some(state.join("index")),
            memory: indexes.clone(),
            block_bytes: config.pool.block.as_u64() as u32,
            ..DirectoryConfig::default()
        }))];
        for mut source in self.elsewhere {
            source.own_id = id.to_owned();
            libraries.push(library_elsewhere(source, store, state, indexes)?);
        }
        Ok(Arc::new(Several(libraries)))
    }
}

/// A mistyped directory should be reported at once, not by an empty page. One of several may be missing
/// (a disk that is not mounted yet): it is warned of, and looked for again.
fn require_films(films: &[PathBuf]) -> anyhow::Result<()> {
    let mut problems = films
        .iter()
        .map_while(|film| std::fs::metadata(film).err().map(|error| (film, error)));
    // Stops at the first that can be read.
    match problems.next() {
        Some((film, error)) if problems.count() + 1 == films.len() => {
            anyhow::bail!("{}: {error}", film.display())
        }
        _ => Ok(()),
    }
}

/// The library of a source elsewhere; its index files have a folder of their own.
fn library_elsewhere(
    source: SourceConfig,
    store: &Store,
    state: &Path,
    indexes: &IndexMemory,
) -> anyhow::Result<Arc<Directory>> {
    let runtime = tokio::runtime::Handle::current();
    let listings = state.join("listings");
    let origin =
        Origin::new(source, store, runtime, Some(&listings)).map_err(anyhow::Error::msg)?;
    let index = state.join("index").join(origin.folder());
    let library = Arc::new(Directory::of(origin.clone(), Some(index), indexes.clone()));
    origin.on_changed(library.waker());
    Ok(library)
}
