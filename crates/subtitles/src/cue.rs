//! Cues, the result of reading a file.

/// A cue: text that is shown for some time.
///
/// [`read`](crate::read) returns only cues that end after they begin. Times are milliseconds of the
/// film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cue {
    /// When it appears, in milliseconds of the film.
    pub start: u64,
    /// When it disappears, in milliseconds of the film; later than `start`.
    pub end: u64,
    /// WebVTT cue settings, for example `line:0 align:start`; usually empty.
    pub settings: String,
    /// WebVTT cue text: escaped, one or more lines, none of them empty.
    pub text: String,
}

/// The cues of a file, ordered by their beginnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subtitles {
    /// Ordered by [`Cue::start`]; cues that begin together are in the order of the file.
    pub cues: Vec<Cue>,
    /// What was skipped or corrected. A note about a line names it.
    pub notes: Vec<String>,
}
