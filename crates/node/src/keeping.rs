//! Films that this server keeps on its tier: what is lacking of them is fetched, block by block, after what viewers need, and
//! stays there. Which films these are survives a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_library::Library;
use reelway_session::{Gate, Resource};
use reelway_supervise as supervise;
use tokio::sync::Notify;
use tracing::warn;

/// Titles that can be kept.
const MOST: usize = 10_000;
/// From one look at what is lacking to the next.
const LOOK: Duration = Duration::from_secs(30);
/// When a block is wanted: after those of all who watch.
const DUE: Duration = Duration::from_secs(60);
/// Of what nobody has booked of the way to the origin, the part that is taken.
const PART: u64 = 2;

/// The titles that are kept.
pub(crate) struct Keeping {
    path: PathBuf,
    titles: Mutex<BTreeSet<String>>,
    /// Bytes that the tier lacks of those that have been looked at.
    lacks: Mutex<BTreeMap<String, u64>>,
    changed: Notify,
}

impl Keeping {
    /// Those of the time before a restart.
    pub fn of(state: &Path) -> Keeping {
        let path = state.join("kept.json");
        let titles = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| {
                warn!("{}: {error}; no film is kept", path.display());
                BTreeSet::new()
            }),
            Err(_) => BTreeSet::new(),
        };
        Keeping {
            path,
            titles: Mutex::new(titles),
            lacks: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// All of them.
    pub fn titles(&self) -> Vec<String> {
        supervise::lock(&self.titles).iter().cloned().collect()
    }

    /// All of them, with the bytes that the tier lacks of them; `None` where that is not known yet.
    pub fn lacking(&self) -> Vec<(String, Option<u64>)> {
        let titles = self.titles();
        let lacks = supervise::lock(&self.lacks);
        let lacking = titles.into_iter().map(|title| {
            let lacks = lacks.get(&title).copied();
            (title, lacks)
        });
        lacking.collect()
    }

    fn lacks(&self, title: &str, bytes: u64) {
        supervise::lock(&self.lacks).insert(title.to_owned(), bytes);
    }

    /// From now on a title is kept, or is not.
    ///
    /// # Errors
    /// There are too many, or it cannot be remembered.
    pub fn set(&self, title: &str, is_kept: bool) -> Result<(), String> {
        let mut titles = supervise::lock(&self.titles);
        let mut new = titles.clone();
        let is_other = match is_kept {
            true => new.insert(title.to_owned()),
            false => new.remove(title),
        };
        if !is_other {
            return Ok(());
        }
        if new.len() > MOST {
            return Err(format!("{MOST} films are kept already"));
        }
        write(&self.path, &new).map_err(|error| format!("{}: {error}", self.path.display()))?;
        *titles = new;
        drop(titles);
        self.changed.notify_one();
        Ok(())
    }
}

/// Writes the whole file or leaves the one of before.
fn write(path: &Path, titles: &BTreeSet<String>) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let new = path.with_extension("new");
    let mut file = fs::File::create(&new)?;
    file.write_all(&serde_json::to_vec(titles)?)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

/// Brings films to the tier as long as the server runs.
pub(crate) async fn keep(keeping: Arc<Keeping>, library: Library, gate: Gate) {
    let mut said = BTreeSet::new();
    loop {
        supervise::inject("keeping");
        let titles = keeping.titles();
        let catalogue = library.catalogue();
        let entries = titles.iter().filter_map(|title| catalogue.entry(title));
        let files: Vec<_> = entries.map(|entry| entry.identity).collect();
        library.store().keep(&files);
        said.retain(|title| titles.contains(title));
        supervise::lock(&keeping.lacks).retain(|title, _| titles.contains(title));
        for title in titles {
            match bring(&title, &keeping, &library, &gate).await {
                Ok(()) => drop(said.remove(&title)),
                Err(why) if said.insert(title.clone()) => {
                    warn!(film = title, "cannot be kept: {why}")
                }
                Err(_) => {}
            }
        }
        let _ = tokio::time::timeout(LOOK, keeping.changed.notified()).await;
    }
}

/// Fetches what the tier lacks of a film.
async fn bring(
    title: &str,
    keeping: &Keeping,
    library: &Library,
    gate: &Gate,
) -> Result<(), String> {
    let film = library
        .open(title)
        .await
        .map_err(|error| error.to_string())?;
    let (store, source) = (library.store(), film.source());
    let Some(lacks) = store.lacks(source) else {
        return Err("it lies on a disk of this machine, or there is no tier for it".to_owned());
    };
    let block_bytes = u64::from(store.block_bytes());
    let mut lacking = (lacks.len() as u64 * block_bytes).min(source.len());
    keeping.lacks(title, lacking);
    for block in lacks {
        wait_for_turn(gate, block_bytes).await;
        let deadline = reelway_clock::now() + DUE;
        match store.bring(source, block, deadline).await {
            Ok(true) => {
                lacking = lacking.saturating_sub(block_bytes);
                keeping.lacks(title, lacking);
            }
            Ok(false) => {
                return Err(
                    "the tier has no room for all of it, or may write no more today".to_owned(),
                );
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Waits as long as others need the way to the origin, and then as long as so many bytes take on half of what they leave.
async fn wait_for_turn(gate: &Gate, bytes: u64) {
    let limits = gate.config().admission.capacity.limits();
    if !limits.iter().any(|(of, _)| *of == Resource::Origin) {
        return;
    }
    loop {
        let rest = gate.unbooked(Resource::Origin) / PART;
        let time = Duration::from_secs_f64(bytes as f64 / rest.max(1) as f64);
        if time <= LOOK {
            return tokio::time::sleep(time).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_survives_a_restart_and_a_damaged_list_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let keeping = Keeping::of(dir.path());
        keeping.set("b", true).unwrap();
        keeping.set("a/\"ü\n", true).unwrap();
        keeping.set("b", false).unwrap();
        assert_eq!(Keeping::of(dir.path()).titles(), ["a/\"ü\n"]);
        fs::write(dir.path().join("kept.json"), "[\"a\"").unwrap();
        assert!(Keeping::of(dir.path()).titles().is_empty());
    }
}
