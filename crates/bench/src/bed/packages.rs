//! Debian packages of the programs that are compared with Reelway.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// Installs the packages that are missing.
pub fn install(packages: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("apt-get")
        .args(["install", "-y", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("starting apt-get")?;
    ensure!(
        status.success(),
        "apt-get could not install {}",
        packages.join(" ")
    );
    Ok(())
}
