//! The measured programs: found beside this one, or built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The library and the programs that the experiment runs.
pub struct Tools {
    /// The preload library.
    pub library: PathBuf,
    /// The program that measures other libraries.
    pub peers: PathBuf,
    /// The C program that measures the preload library.
    pub cost: PathBuf,
}

impl Tools {
    /// Finds the library and the programs in the build's directory, building what is missing, and
    /// compiles the C program into `folder`.
    ///
    /// # Errors
    /// There is no compiler, or something cannot be built.
    pub fn find(folder: &Path) -> anyhow::Result<Tools> {
        let library = match std::env::var_os("REELWAY_CLOCK_PRELOAD") {
            Some(path) => PathBuf::from(path),
            None => built(
                "preload",
                "libreelway_clock_preload.so",
                &["--package", "reelway-clock-preload"],
            )?,
        };
        let peers = built(
            "release",
            "clock-peers",
            &["--package", "reelway-bench", "--bin", "clock-peers"],
        )?;
        let (source, cost) = (folder.join("cost.c"), folder.join("cost"));
        std::fs::write(&source, include_str!("cost.c"))?;
        let status = Command::new("cc")
            .args(["-O2", "-o"])
            .arg(&cost)
            .arg(&source)
            .arg("-ldl")
            .status()
            .context("no C compiler (apt-get install build-essential)")?;
        if !status.success() {
            bail!("cc cannot compile the program that is measured");
        }
        Ok(Tools {
            library,
            peers,
            cost,
        })
    }
}

/// Returns a file of the build with `profile`, rebuilt if the sources are present.
fn built(profile: &str, name: &str, what: &[&str]) -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe()?;
    // target/PROFILE/reelway, or target/PROFILE/deps/…
    let target = here
        .ancestors()
        .find(|dir| dir.ends_with("target") || dir.join("CACHEDIR.TAG").is_file())
        .context("this program does not lie in a build's directory")?;
    let line = format!("cargo build --profile {profile} {}", what.join(" "));
    if Path::new("crates/clock-preload").is_dir() {
        let status = Command::new("cargo")
            .args(["build", "--quiet", "--profile", profile, "--target-dir"])
            .arg(target)
            .args(what)
            .status()
            .with_context(|| format!("cargo is missing; build it with: {line}"))?;
        if !status.success() {
            bail!("cannot be built: {line}");
        }
    }
    let path = target.join(profile).join(name);
    if !path.is_file() {
        bail!("{} is missing: {line}", path.display());
    }
    Ok(path)
}
