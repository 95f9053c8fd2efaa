//! The servers compared: installation, start with the films, and addresses.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Serialize;

use super::films;
use crate::bed::children::{is_installed, output};
use crate::bed::{Child, Net, packages};

const PORT: u16 = 8554;
/// The program around gst-rtsp-server, with the media factory that suits files.
const GST_SCRIPT: &str = include_str!("gst_server.py");
/// Debian packages that `--install` installs.
const PACKAGES: &[&str] = &[
    "ffmpeg",
    "gir1.2-gst-rtsp-server-1.0",
    "gstreamer1.0-plugins-bad",
    "gstreamer1.0-plugins-base",
    "gstreamer1.0-plugins-good",
    "python3-gi",
    "vlc-bin",
    "vlc-plugin-base",
];

/// A server to measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Peer {
    /// This server.
    Reelway,
    /// GStreamer's library in a minimal program that serves files.
    GstRtspServer,
    /// VLC's video on demand.
    Vlc,
    /// live555MediaServer, with the path of the program.
    Live555(PathBuf),
    /// MediaMTX, with the path of the program. Films are published to it as live streams, since it
    /// serves no files over RTSP.
    MediaMtx(PathBuf),
}

/// A running server.
#[derive(Debug)]
pub struct Served {
    /// The server itself.
    pub server: Child,
    /// Addresses of the films.
    pub urls: Vec<String>,
    /// Programs on the viewers' side that publish films to it.
    _feeders: Vec<Child>,
}

/// Returns the system's Python, for which GStreamer's bindings are installed.
fn python() -> String {
    let system = "/usr/bin/python3";
    if Path::new(system).exists() {
        system.to_owned()
    } else {
        "python3".to_owned()
    }
}

/// Installs the Debian packages that the comparison needs.
pub fn install() -> anyhow::Result<()> {
    packages::install(PACKAGES)
}

impl Peer {
    /// Returns its name.
    pub fn name(&self) -> &'static str {
        match self {
            Peer::Reelway => "Reelway",
            Peer::GstRtspServer => "gst-rtsp-server",
            Peer::Vlc => "VLC",
            Peer::Live555(_) => "live555",
            Peer::MediaMtx(_) => "MediaMTX (live fan-out)",
        }
    }

    /// Returns its version, or an empty string if it is not known.
    pub fn version(&self) -> String {
        let first_line = |text: String| text.lines().next().unwrap_or_default().trim().to_owned();
        let said = match self {
            Peer::Reelway => return env!("CARGO_PKG_VERSION").to_owned(),
            Peer::GstRtspServer => output(
                "dpkg-query",
                &["-W", "-f", "${Version}", "gir1.2-gst-rtsp-server-1.0"],
            ),
            Peer::Vlc => output("dpkg-query", &["-W", "-f", "${Version}", "vlc-bin"]),
            Peer::Live555(_) => return "as given".to_owned(),
            Peer::MediaMtx(program) => output(&program.to_string_lossy(), &["--version"]),
        };
        said.map(first_line).unwrap_or_default()
    }

    /// Returns why it cannot be measured here; `None` if it can.
    pub fn missing(&self, net: &Net) -> Option<&'static str> {
        if *self == Peer::Vlc && !net.has_namespaces() {
            return Some(
                "listens on all addresses of the machine, which is for namespaces only (they need root)",
            );
        }
        let is_there = match self {
            Peer::Reelway => true,
            Peer::GstRtspServer => {
                let script = "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer";
                output(&python(), &["-c", script]).is_ok()
            }
            Peer::Vlc => is_installed("vlc"),
            Peer::Live555(program) | Peer::MediaMtx(program) => program.is_file(),
        };
        (!is_there).then_some(
            "not installed (--install installs Debian's packages; others are given by flag)",
        )
    }

    /// Starts it with the films.
    pub fn start(&self, net: &Net, films: &[PathBuf], folder: &Path) -> anyhow::Result<Served> {
        let address = format!("{}:{PORT}", net.server());
        let named = |ending: &str| -> Vec<String> {
            (0..films.len())
                .map(|number| format!("rtsp://{address}/film{number}{ending}"))
                .collect()
        };
        let mut feeders = Vec::new();
        let (mut command, urls) = match self {
            Peer::Reelway => {
                let state = folder.join("state");
                let mut command = net.server_command(std::env::current_exe()?);
                command.arg("serve").args(films).arg("--state").arg(state);
                command.args([
                    "--rtsp",
                    &address,
                    "--http",
                    &format!("{}:8080", net.server()),
                ]);
                command.args(["--rtp-ports", "0,0", "--log", "warn"]);
                // The trial searches for the load that it can carry, not for what it would book.
                command.args(["--capacity", "mem=none"]);
                (command, named(""))
            }
            Peer::GstRtspServer => {
                let script = folder.join("gst_server.py");
                std::fs::write(&script, GST_SCRIPT)?;
                let mut command = net.server_command(python());
                command
                    .arg(script)
                    .args([net.server().to_string(), PORT.to_string()])
                    .args(films);
                (command, named(""))
            }
            Peer::Vlc => {
                let vlm = folder.join("films.vlm");
                let entry = |(number, film): (usize, &PathBuf)| {
                    format!(
                        "new film{number} vod enabled\nsetup film{number} input {}\n",
                        film.display()
                    )
                };
                std::fs::write(
                    &vlm,
                    films.iter().enumerate().map(entry).collect::<String>(),
                )?;
                // VLC refuses to run as root.
                let mut command = net.server_command("setpriv");
                command.args([
                    "--reuid=65534",
                    "--regid=65534",
                    "--clear-groups",
                    "env",
                    "HOME=/tmp",
                    "vlc",
                    "-I",
                    "dummy",
                    "--quiet",
                ]);
                command.args(["--vlm-conf", &vlm.display().to_string()]);
                // With an address (--rtsp-host), its description names paths that do not exist.
                command.args(["--rtsp-port", &PORT.to_string()]);
                (command, named(""))
            }
            Peer::Live555(program) => {
                films::as_matroska(films)?;
                let mut command = net.server_command(std::fs::canonicalize(program)?);
                // It serves its working directory, on port 554 if permitted.
                command.current_dir(folder);
                let urls = named(".mkv")
                    .iter()
                    .map(|url| url.replace(":8554", ""))
                    .collect();
                (command, urls)
            }
            Peer::MediaMtx(program) => {
                let settings = folder.join("mediamtx.yml");
                std::fs::write(
                    &settings,
                    format!(
                        "logLevel: error\nrtspAddress: {address}\nrtmp: no\nhls: no\nwebrtc: no\nsrt: no\npaths:\n  all_others:\n"
                    ),
                )?;
                let mut command = net.server_command(std::fs::canonicalize(program)?);
                command.arg(settings);
                (command, named(""))
            }
        };
        command.stderr(Stdio::null());
        let server = Child::start_quiet(&mut command)?;
        if let Peer::MediaMtx(_) = self {
            std::thread::sleep(std::time::Duration::from_secs(1));
            for (film, url) in films.iter().zip(&urls) {
                let mut command = net.viewer_command("ffmpeg");
                command
                    .args(["-v", "error", "-nostdin", "-re", "-stream_loop", "-1", "-i"])
                    .arg(film);
                command.args(["-c", "copy", "-f", "rtsp", "-rtsp_transport", "tcp", url]);
                feeders.push(Child::start_quiet(&mut command)?);
            }
        }
        Ok(Served {
            server,
            urls,
            _feeders: feeders,
        })
    }
}
