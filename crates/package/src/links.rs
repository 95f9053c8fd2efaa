//! Properties of a film that manifests state and its package does not know.

use reelway_time::Real;

use crate::package::Package;

/// Properties that manifests state and a package does not know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Links<'a> {
    /// Query of playlists' addresses, such as `s=TOKEN`, already percent-encoded.
    pub playlists: Option<&'a str>,
    /// Query of segments' addresses.
    pub segments: Option<&'a str>,
    /// Address of the content steering manifest. `None`: there is none.
    pub steering: Option<&'a str>,
    /// Addresses of this film, `http://host:port/TITLE`, already percent-encoded: on this server,
    /// and on others that players use if this one fails. Empty: only here, under any address.
    pub servers: &'a [String],
    /// Subtitles that players may show.
    pub subtitles: &'a [Subtitles<'a>],
    /// Other renditions of the film, aligned with it, to which players may switch during playback.
    pub renditions: &'a [Rendition<'a>],
    /// The state of a recording in progress. `None`: the film is complete.
    pub recording: Option<Recording>,
}

/// Another rendition of a film; only its picture is offered.
#[derive(Clone, Copy, Debug)]
pub struct Rendition<'a> {
    /// The rendition cut into segments, at the same times as the film.
    pub package: &'a Package,
    /// Its path, relative to the film's playlists: `../../TITLE`, already percent-encoded.
    pub path: &'a str,
    /// Query of its segments' addresses.
    pub segments: Option<&'a str>,
}

/// A recording in progress: players request its manifest repeatedly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recording {
    /// When its first picture was recorded. Must not change from one manifest to the next.
    pub began: Real,
    /// When the manifest is made.
    pub now: Real,
}

/// Subtitles that players may show: a WebVTT file of the whole film, at `TITLE/subtitles/NUMBER.vtt`.
#[derive(Clone, Copy, Debug)]
pub struct Subtitles<'a> {
    /// The number in addresses.
    pub number: u32,
    /// The name for users, unique within the film.
    pub label: &'a str,
    /// BCP 47 tag.
    pub language: Option<&'a str>,
    /// Shown even if no subtitles are selected: they cover what is spoken in a language other than
    /// the film's.
    pub forced: bool,
    /// Shown unless other subtitles, or none, are selected.
    pub default: bool,
    /// For viewers who are deaf or hard of hearing: sounds are described.
    pub sdh: bool,
}
