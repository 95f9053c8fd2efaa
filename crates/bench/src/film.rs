//! Films for experiments, made by the yardstick.

use std::path::{Path, PathBuf};

use anyhow::Context;

pub use reelway_yardstick::film::{Recipe, SOUND, make, make_varying};

/// Makes `count` films, `film00.mp4` and so on, in a new folder `films`: the same recipe, but
/// different bytes.
///
/// # Errors
/// The folder cannot be written.
pub fn make_many(films: &Path, count: usize, recipe: &Recipe) -> anyhow::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(films).with_context(|| films.display().to_string())?;
    let one = |number: usize| {
        let path = films.join(format!("film{number:02}.mp4"));
        let recipe = Recipe {
            seed: recipe.seed + number as u64,
            ..*recipe
        };
        make(&path, &recipe).with_context(|| path.display().to_string())?;
        Ok(path)
    };
    (0..count).map(one).collect()
}
