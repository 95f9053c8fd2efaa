//! An edge: a machine that serves films of other servers and caches them on a disk of its own.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use bytesize::ByteSize;
use reelway_origin::Address;
use reelway_sys::files;

use crate::config::Config;

/// Maximum size of the tier if none is given.
const MOST: u64 = 64 << 30;

/// Turns a configuration into that of an edge of these origins, with a tier of this size. If the
/// configuration has no tier, every block that is fetched is kept. If no size is given either, the
/// tier gets half of the disk's free space, at most 64 GiB.
///
/// # Errors
/// There is no origin, an origin is not an address, or the state directory is unknown.
pub fn configure(
    config: &mut Config,
    origins: Vec<PathBuf>,
    tier: Option<ByteSize>,
) -> anyhow::Result<()> {
    for origin in &origins {
        ensure!(
            origin.to_str().is_some_and(Address::is_meant),
            "'{}' is not the address of an origin (http://…, https://… or s3://…); for films on this machine use \
             `reelway serve`",
            origin.display()
        );
    }
    if !origins.is_empty() {
        config.films = origins;
    }
    ensure!(
        !config.films.is_empty() || !config.source.is_empty(),
        "no origins: name one (reelway edge http://films.example/), or set `[[source]]` in the configuration"
    );
    let is_configured = config.tier.size.as_u64() > 0;
    if !is_configured {
        config.tier.admit = 1;
    }
    config.tier.size = match tier {
        Some(size) => size,
        None if is_configured => config.tier.size,
        None => {
            let dir = match config.tier.dir.as_os_str().is_empty() {
                true => config.state_directory()?.join("tier"),
                false => config.tier.dir.clone(),
            };
            ByteSize(MOST.min(room_for(&dir) / 2))
        }
    };
    config.check()
}

/// Returns how many bytes a tier in this directory could use: the free space, and its own files.
fn room_for(dir: &Path) -> u64 {
    // The directory, or its nearest existing ancestor.
    let there = dir.ancestors().find(|part| part.is_dir());
    let free = there.and_then(|part| files::room(part).ok()).unwrap_or(0);
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let taken = entries.filter_map(|entry| files::allocated(&entry.metadata().ok()?));
    free + taken.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge_of(origins: &[&str], config: &mut Config) -> anyhow::Result<()> {
        configure(config, origins.iter().map(PathBuf::from).collect(), None)
    }

    #[test]
    fn an_edge_has_a_tier_unless_it_is_configured_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config {
            state: dir.path().to_owned(),
            ..Config::default()
        };
        edge_of(&["http://films.example/"], &mut config).unwrap();
        let free = files::room(dir.path()).unwrap();
        let size = config.tier.size.as_u64();
        assert!(
            size <= MOST && size <= free / 2 + (1 << 30),
            "{size} of {free}"
        );
        assert!(size > 0 && config.tier.admit == 1);

        let mut own = Config::default();
        (own.tier.size, own.tier.admit) = (ByteSize::gib(3), 5);
        edge_of(&["s3://films"], &mut own).unwrap();
        assert_eq!((own.tier.size, own.tier.admit), (ByteSize::gib(3), 5));

        let mut none = Config::default();
        configure(&mut none, vec!["s3://films".into()], Some(ByteSize(0))).unwrap();
        assert_eq!(none.tier.size, ByteSize(0));
    }

    #[test]
    fn what_a_tier_has_already_does_not_make_it_smaller_at_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let tier = dir.path().join("tier");
        std::fs::create_dir(&tier).unwrap();
        let before = room_for(&tier);
        let file = std::fs::File::create(tier.join("blocks")).unwrap();
        files::reserve(&file, 64 << 20).unwrap();
        let after = room_for(&tier);
        // Other processes may write meanwhile.
        assert!(
            after + (32 << 20) > before,
            "{before} before, {after} after"
        );
    }

    #[test]
    fn a_path_is_no_origin_and_none_is_an_error() {
        let words = |result: anyhow::Result<()>| result.unwrap_err().to_string();
        let path = words(edge_of(&["/srv/films"], &mut Config::default()));
        assert!(
            path.contains("'/srv/films'") && path.contains("reelway serve"),
            "{path}"
        );
        let none = words(edge_of(&[], &mut Config::default()));
        assert!(none.contains("[[source]]"), "{none}");
    }
}
