//! The servers by name.

use std::process::Command;

use serde::Serialize;

use crate::bed::children::{is_installed, output};

/// A server to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ServerKind {
    /// Reelway.
    Reelway,
    /// Reelway with `http.zero_copy`, from memory only.
    ReelwayZeroCopy,
    /// nginx with `sendfile`, from the page cache.
    NginxSendfile,
    /// nginx without `sendfile`, its default: it reads and writes.
    NginxCopying,
    /// nginx with `directio`, which bypasses the page cache as Reelway does; from disk only.
    NginxDirect,
    /// Varnish, from memory only.
    Varnish,
    /// Squid, from memory only.
    Squid,
    /// Bodies alone: `write` from memory of the process.
    Write,
    /// Bodies alone: `read` from the page cache, then `write`.
    Read,
    /// Bodies alone: `sendfile` from the page cache.
    Sendfile,
    /// Bodies alone: `splice` from the page cache.
    Splice,
}

impl ServerKind {
    pub const ALL: [ServerKind; 8] = [
        ServerKind::Reelway,
        ServerKind::ReelwayZeroCopy,
        ServerKind::NginxSendfile,
        ServerKind::NginxCopying,
        ServerKind::NginxDirect,
        ServerKind::Varnish,
        ServerKind::Squid,
        ServerKind::Write,
    ];

    /// Ways to send a body, by servers that do nothing else.
    pub const BODIES: [ServerKind; 4] = [
        ServerKind::Write,
        ServerKind::Read,
        ServerKind::Sendfile,
        ServerKind::Splice,
    ];

    /// Returns its way of sending a body, if it is a server that does nothing else.
    pub fn way(self) -> Option<&'static str> {
        match self {
            ServerKind::Write => Some("write"),
            ServerKind::Read => Some("read"),
            ServerKind::Sendfile => Some("sendfile"),
            ServerKind::Splice => Some("splice"),
            _ => None,
        }
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            ServerKind::Reelway => "Reelway",
            ServerKind::ReelwayZeroCopy => "Reelway, zero copy",
            ServerKind::NginxSendfile => "nginx, sendfile",
            ServerKind::NginxCopying => "nginx, without",
            ServerKind::NginxDirect => "nginx, directio",
            ServerKind::Varnish => "Varnish",
            ServerKind::Squid => "Squid",
            ServerKind::Write => "write, of pinned memory",
            ServerKind::Read => "read and write, of the page cache",
            ServerKind::Sendfile => "sendfile, of the page cache",
            ServerKind::Splice => "splice, of the page cache",
        }
    }

    fn package(self) -> Option<&'static str> {
        match self {
            ServerKind::NginxSendfile | ServerKind::NginxCopying | ServerKind::NginxDirect => {
                Some("nginx")
            }
            ServerKind::Varnish => Some("varnish"),
            ServerKind::Squid => Some("squid"),
            _ => None,
        }
    }

    /// Whether it can be started; caches need nginx as their origin.
    pub fn is_installed(self) -> bool {
        match self {
            ServerKind::NginxSendfile | ServerKind::NginxCopying | ServerKind::NginxDirect => {
                is_installed("nginx")
            }
            ServerKind::Varnish => is_installed("varnishd") && is_installed("nginx"),
            ServerKind::Squid => is_installed("squid") && is_installed("nginx"),
            _ => true,
        }
    }

    /// Whether it can be measured from disk: it serves files itself, and not from memory only.
    pub fn reads_from_disk(self) -> bool {
        let from_memory_only = [
            ServerKind::ReelwayZeroCopy,
            ServerKind::Varnish,
            ServerKind::Squid,
        ];
        !from_memory_only.contains(&self) && self.way().is_none()
    }

    /// Whether it keeps requested bytes in memory.
    pub fn keeps_in_memory(self) -> bool {
        self != ServerKind::NginxDirect
    }

    /// Returns its version, of peers that of the Debian package.
    pub fn version(self) -> String {
        match self.package() {
            None if self.way().is_some() => String::new(),
            None => env!("CARGO_PKG_VERSION").to_owned(),
            Some(package) => output("dpkg-query", &["-W", "-f", "${Version}", package])
                .unwrap_or_default()
                .trim()
                .to_owned(),
        }
    }
}

/// Returns a command that runs on these cores.
pub fn on(cores: &str, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", cores, program]);
    command
}
