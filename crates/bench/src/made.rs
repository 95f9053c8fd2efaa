//! Films made with ffmpeg.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// Runs ffmpeg with these arguments.
pub fn ffmpeg(arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("ffmpeg");
    command
        .args(["-v", "error", "-nostdin", "-y"])
        .args(arguments);
    let output = command.output().context("starting ffmpeg")?;
    if !output.status.success() {
        bail!("ffmpeg: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Returns a path as an argument.
pub fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}

/// Makes a film of H.264 and AAC with this picture size, duration and bit rate of the picture.
pub fn film(to: &Path, size: &str, seconds: u32, rate: &str) -> anyhow::Result<()> {
    let picture = format!("testsrc2=size={size}:rate=25:duration={seconds},noise=alls=30:allf=t");
    let sound = format!("sine=duration={seconds}:sample_rate=48000");
    ffmpeg(&[
        "-f",
        "lavfi",
        "-i",
        &picture,
        "-f",
        "lavfi",
        "-i",
        &sound,
        "-pix_fmt",
        "yuv420p",
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-g",
        "50",
        "-b:v",
        rate,
        "-maxrate",
        rate,
        "-bufsize",
        rate,
        "-c:a",
        "aac",
        "-b:a",
        "128k",
        text(to)?,
    ])
}

/// Copies the streams of a film to another file, with these arguments before and after the input.
pub fn remux(from: &Path, before: &[&str], behind: &[&str], to: &Path) -> anyhow::Result<()> {
    let mut arguments = before.to_vec();
    arguments.extend(["-i", text(from)?, "-map", "0", "-c", "copy"]);
    arguments.extend(behind);
    arguments.push(text(to)?);
    ffmpeg(&arguments)
}
