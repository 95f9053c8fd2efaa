//! What manifests say of a film that its package does not know.

use reelway_time::Real;

use crate::package::Package;

/// What manifests say that a package does not know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Links<'a> {
    /// Query of playlists' addresses, such as `s=TOKEN`, already percent-encoded.
    pub playlists: Option<&'a str>,
    /// Query of segments' addresses.
    pub segments: Option<&'a str>,
    /// Address of the content steering manifest; `None`: there is none.
    pub steering: Option<&'a str>,
    /// Where this film lies, as `http://host:port/TITLE`, already percent-encoded: at this server, and at others where a
    /// player goes on if this one fails. Empty: only here, wherever that is.
    pub servers: &'a [String],
    /// Subtitles that players may show.
    pub subtitles: &'a [Subtitles<'a>],
    /// Other renditions of the film, aligned with it, that players may change to while they play.
    pub renditions: &'a [Rendition<'a>],
    /// The film is a recording that is still being made; `None`: there will be no more of it.
    pub recording: Option<Recording>,
}

/// Another rendition of a film: only its picture is offered.
#[derive(Clone, Copy, Debug)]
pub struct Rendition<'a> {
    /// The rendition cut into segments, at the same times as the film.
    pub package: &'a Package,
    /// Where it lies, relative to the film's playlists: `../../TITLE`, already percent-encoded.
    pub path: &'a str,
    /// Query of its segments' addresses.
    pub segments: Option<&'a str>,
}

/// A recording that is still being made: players ask for its manifest again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recording {
    /// When its first picture was recorded. This must not change from one manifest to the next.
    pub began: Real,
    /// When the manifest is made.
    pub now: Real,
}

/// Subtitles that players may show: a WebVTT file of the whole film, at `TITLE/subtitles/NUMBER.vtt`.
#[derive(Clone, Copy, Debug)]
pub struct Subtitles<'a> {
    /// By which addresses name them.
    pub number: u32,
    /// What people call them; no others of the film have this name.
    pub label: &'a str,
    /// BCP 47 tag.
    pub language: Option<&'a str>,
    /// Shown where no subtitles are asked for: what is spoken in another language than the film's.
    pub forced: bool,
    /// Shown unless others are asked for, or none.
    pub default: bool,
    /// For people who do not hear well: sounds are described.
    pub sdh: bool,
}
