//! The films: real encoded picture and sound, since other servers parse what they send.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// Number of copies, which are different files to every cache.
const COPIES: usize = 4;

/// Encodes a film of 720p25 at 4 Mb/s (constant, no B-frames) with sound, and copies it.
pub fn make(folder: &Path, seconds: u32) -> anyhow::Result<Vec<PathBuf>> {
    let first = folder.join("film0.mp4");
    let mut command = Command::new("ffmpeg");
    command.args([
        "-v",
        "error",
        "-nostdin",
        "-y",
        "-f",
        "lavfi",
        "-i",
        "testsrc2=size=1280x720:rate=25,noise=alls=30:allf=t",
    ]);
    command.args([
        "-f",
        "lavfi",
        "-i",
        "sine=frequency=440:sample_rate=48000",
        "-t",
        &seconds.to_string(),
    ]);
    command.args([
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-bf",
        "0",
        "-g",
        "50",
        "-pix_fmt",
        "yuv420p",
    ]);
    command.args([
        "-b:v",
        "4M",
        "-minrate",
        "4M",
        "-maxrate",
        "4M",
        "-bufsize",
        "4M",
        "-x264-params",
        "nal-hrd=cbr:force-cfr=1",
    ]);
    command
        .args([
            "-c:a",
            "aac",
            "-b:a",
            "128k",
            "-ac",
            "2",
            "-movflags",
            "+faststart",
        ])
        .arg(&first);
    let status = command
        .stdin(Stdio::null())
        .status()
        .context("starting ffmpeg (apt-get install ffmpeg)")?;
    if !status.success() {
        bail!("ffmpeg could not make a film; see its message above");
    }
    let mut films = vec![first];
    for number in 1..COPIES {
        let path = folder.join(format!("film{number}.mp4"));
        std::fs::copy(&films[0], &path)?;
        films.push(path);
    }
    Ok(films)
}

/// Repackages the films as Matroska, which live555 serves.
pub fn as_matroska(films: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for film in films {
        let path = film.with_extension("mkv");
        if !path.exists() {
            let mut command = Command::new("ffmpeg");
            command
                .args(["-v", "error", "-nostdin", "-y", "-i"])
                .arg(film)
                .args(["-c", "copy"])
                .arg(&path);
            if !command.status().context("starting ffmpeg")?.success() {
                bail!("ffmpeg could not repackage {}", film.display());
            }
        }
        all.push(path);
    }
    Ok(all)
}
