//! Formats of subtitle files.

/// The format of a subtitle file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// SubRip, `.srt`; it has no specification.
    SubRip,
    /// WebVTT, `.vtt`: <https://www.w3.org/TR/webvtt1/>.
    WebVtt,
    /// (Advanced) SubStation Alpha, `.ass` and `.ssa`.
    Ass,
}

impl Format {
    /// Returns the format for a file extension, in any case: srt, vtt, ass, ssa.
    pub fn of_extension(extension: &str) -> Option<Format> {
        Some(match extension.to_ascii_lowercase().as_str() {
            "srt" => Format::SubRip,
            "vtt" => Format::WebVtt,
            "ass" | "ssa" => Format::Ass,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_known_in_any_case() {
        assert_eq!(Format::of_extension("SRT"), Some(Format::SubRip));
        assert_eq!(Format::of_extension("vtt"), Some(Format::WebVtt));
        assert_eq!(Format::of_extension("Ass"), Some(Format::Ass));
        assert_eq!(Format::of_extension("ssa"), Some(Format::Ass));
        assert_eq!(Format::of_extension("sub"), None);
        assert_eq!(Format::of_extension(""), None);
    }
}
