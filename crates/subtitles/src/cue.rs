//! What was read.

/// A cue: text that is shown for a while.
///
/// [`read`](crate::read) returns none that ends before it has begun. Times are milliseconds of the film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cue {
    /// When it appears, in milliseconds of the film.
    pub start: u64,
    /// When it disappears, in milliseconds of the film; later than `start`.
    pub end: u64,
    /// WebVTT cue settings, as `line:0 align:start`; mostly empty.
    pub settings: String,
    /// WebVTT cue text: escaped, of one or several lines, none of them empty.
    pub text: String,
}

/// The cues of a file, in the order of their beginnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subtitles {
    /// By [`Cue::start`]; those that begin together are in the order of the file.
    pub cues: Vec<Cue>,
    /// What was passed over or put right, each naming its line where it is about one.
    pub notes: Vec<String>,
}
