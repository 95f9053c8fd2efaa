//! Writes WebVTT.

use std::fmt::Write;

use crate::cue::Subtitles;

impl Subtitles {
    /// Returns the whole file as WebVTT. `X-TIMESTAMP-MAP=MPEGTS:0,LOCAL:00:00:00.000` (RFC 8216,
    /// section 3.5) follows the first line, so that HLS players know that times are the film's.
    pub fn to_web_vtt(&self) -> String {
        let mut file = String::from("WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:0,LOCAL:00:00:00.000\n");
        for cue in &self.cues {
            file.push('\n');
            push_time(&mut file, cue.start);
            file.push_str(" --> ");
            push_time(&mut file, cue.end);
            if !cue.settings.is_empty() {
                file.push(' ');
                file.push_str(&cue.settings);
            }
            file.push('\n');
            file.push_str(&cue.text);
            file.push('\n');
        }
        file
    }
}

/// Writes a time given in milliseconds.
fn push_time(file: &mut String, time: u64) {
    let (hours, minutes) = (time / 3_600_000, time / 60_000 % 60);
    let (seconds, milliseconds) = (time / 1000 % 60, time % 1000);
    // Writing to a string never fails.
    let _ = write!(
        file,
        "{hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cue::Cue;

    #[test]
    fn a_file_is_written() {
        let (start, end) = (1_500, 360_061_001);
        let (settings, text) = ("line:0".to_owned(), "<i>One</i>\ntwo".to_owned());
        let cue = Cue {
            start,
            end,
            settings,
            text,
        };
        let plain = Cue {
            start,
            end,
            settings: String::new(),
            text: "&amp;".to_owned(),
        };
        let subtitles = Subtitles {
            cues: vec![cue, plain],
            notes: Vec::new(),
        };
        let expected = "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:0,LOCAL:00:00:00.000\n\n\
            00:00:01.500 --> 100:01:01.001 line:0\n<i>One</i>\ntwo\n\n\
            00:00:01.500 --> 100:01:01.001\n&amp;\n";
        assert_eq!(subtitles.to_web_vtt(), expected);
    }
}
