//! The servers compared: how each is installed, started on the films, and what its addresses are.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Serialize;

use super::films;
use crate::bed::children::{is_installed, output};
use crate::bed::{Child, Net, packages};

const PORT: u16 = 8554;
/// The factory of gst-rtsp-server that a file would be given.
const GST_SCRIPT: &str = include_str!("gst_server.py");
/// What is installed when asked for.
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

/// A server to be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Peer {
    /// Ourselves.
    Reelway,
    /// GStreamer's library in the smallest program that serves files.
    GstRtspServer,
    /// VLC's video on demand.
    Vlc,
    /// live555MediaServer, given as a program.
    Live555(PathBuf),
    /// MediaMTX, given as a program: films are published to it as live streams, as it serves no files
    /// over RTSP.
    MediaMtx(PathBuf),
}

/// A server that runs.
#[derive(Debug)]
pub struct Served {
    /// The server itself.
    pub server: Child,
    /// Films.
    pub urls: Vec<String>,
    /// Programs that feed it, on the viewers' side.
    _feeders: Vec<Child>,
}

/// The system's Python, which has the system's bindings of GStreamer.
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
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Peer::Reelway => "Reelway",
            Peer::GstRtspServer => "gst-rtsp-server",
            Peer::Vlc => "VLC",
            Peer::Live555(_) => "live555",
            Peer::MediaMtx(_) => "MediaMTX (live fan-out)",
        }
    }

    /// Its version, where it tells.
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

    /// Why it cannot be measured here.
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

    /// Starts it on the films.
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
                // What it carries is to be found, not what it books.
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
                // It refuses to run as root.
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
                // An address of its own (--rtsp-host) makes its description name paths that it does not have.
                command.args(["--rtsp-port", &PORT.to_string()]);
                (command, named(""))
            }
            Peer::Live555(program) => {
                films::as_matroska(films)?;
                let mut command = net.server_command(std::fs::canonicalize(program)?);
                // It serves the folder it is started in, on port 554 where it may.
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
