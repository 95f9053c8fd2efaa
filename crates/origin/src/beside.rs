//! Subtitle files beside the films of another Reelway, as it lists them. Pure.

use reelway_catalogue::{MOST_SUBTITLE_FILES, SubtitleFile, SubtitlePlace};
use reelway_subtitles::{Format, Named};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Maximum size of the list of one film's files, in bytes; a longer one counts as empty.
const LONGEST: usize = 64 << 10;
/// Maximum length of a file name, in bytes; no usual file system has longer ones.
const LONGEST_NAME: usize = 255;
/// Maximum length of a version and of a language tag, in bytes.
const LONGEST_WORD: usize = 64;

/// A subtitle file beside a film.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Beside {
    /// The number by which it is requested there. It is not part of the list: it is the file's
    /// position in it.
    #[serde(default)]
    number: u32,
    file: String,
    /// Changes with the file and its contents.
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    forced: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    default: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    sdh: bool,
    /// Further words of its name, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

/// Parses a list of files. Invalid entries are left out, and do not change the numbers of the
/// others.
pub(crate) fn listed(list: &RawValue) -> Vec<Beside> {
    if list.get().len() > LONGEST {
        return Vec::new();
    }
    let all: Vec<&RawValue> = serde_json::from_str(list.get()).unwrap_or_default();
    let numbered = all.into_iter().take(MOST_SUBTITLE_FILES).zip(1..);
    numbered
        .filter_map(|(one, number)| {
            let one: Beside = serde_json::from_str(one.get()).ok()?;
            let beside = Beside { number, ..one };
            beside.is_sound().then_some(beside)
        })
        .collect()
}

impl Beside {
    fn is_sound(&self) -> bool {
        let is_name = |name: &str| {
            (1..=LONGEST_NAME).contains(&name.len()) && !name.chars().any(char::is_control)
        };
        let is_word = |word: &str, others: &str| {
            let is_sound = |c: char| c.is_ascii_alphanumeric() || others.contains(c);
            (1..=LONGEST_WORD).contains(&word.len()) && word.chars().all(is_sound)
        };
        is_name(&self.file)
            && !self.file.contains('/')
            && is_word(&self.version, "")
            && self.language.as_deref().is_none_or(|tag| is_word(tag, "-"))
            && self.name.as_deref().is_none_or(is_name)
    }

    /// The file as the catalogue describes it.
    fn file(&self) -> SubtitleFile {
        SubtitleFile {
            file: self.file.clone(),
            named: Named {
                format: Format::WebVtt,
                language: self.language.clone(),
                forced: self.forced,
                default: self.default,
                sdh: self.sdh,
                label: self.name.clone(),
            },
            version: self.version.clone(),
            place: SubtitlePlace::Elsewhere(self.number),
        }
    }
}

/// All of them, as the catalogue describes them.
pub(crate) fn files(beside: &[Beside]) -> Vec<SubtitleFile> {
    beside.iter().map(Beside::file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: &str) -> Vec<Beside> {
        listed(serde_json::from_str(list).unwrap())
    }

    #[test]
    fn what_a_server_says_of_its_files_is_taken() {
        let list = r#"[{"file": "film.en.srt", "version": "1a", "language": "en", "new": [1]},
            {"file": "film.de.forced.Schilder.ass", "version": "2b", "language": "de", "forced": true, "name": "Schilder"}]"#;
        let taken = of(list);
        let again = serde_json::to_string(&taken).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Beside>>(&again).unwrap(), taken);
        let files = files(&taken);
        let [english, german] = files.as_slice() else {
            panic!("{files:?}")
        };
        assert_eq!(english.place, SubtitlePlace::Elsewhere(1));
        assert_eq!(german.place, SubtitlePlace::Elsewhere(2));
        let named = &german.named;
        assert_eq!(named.language.as_deref(), Some("de"));
        assert_eq!(named.label.as_deref(), Some("Schilder"));
        assert!(named.forced && !named.default && !named.sdh && !english.named.forced);
    }

    #[test]
    fn what_cannot_be_a_file_is_left_out_and_the_others_keep_their_numbers() {
        let bad = [
            "7",
            "null",
            "{}",
            r#"{"file": "a.srt"}"#,
            r#"{"file": 1, "version": "1"}"#,
            r#"{"file": "", "version": "1"}"#,
            r#"{"file": "../a.srt", "version": "1"}"#,
            r#"{"file": "a\n.srt", "version": "1"}"#,
            r#"{"file": "a.srt", "version": ""}"#,
            r#"{"file": "a.srt", "version": "1&x=2"}"#,
            r#"{"file": "a.srt", "version": "1", "language": "en\""}"#,
            r#"{"file": "a.srt", "version": "1", "name": "a\u0007"}"#,
            r#"{"file": "a.srt", "version": "1", "forced": "yes"}"#,
        ];
        let long = "x".repeat(LONGEST_NAME + 1);
        let long = format!(r#"{{"file": "{long}", "version": "1"}}"#);
        for bad in bad.into_iter().chain([long.as_str()]) {
            // A number in the list is ignored: the file's position counts.
            let good = r#"{"file": "a.srt", "version": "1", "number": 1}"#;
            let taken = of(&format!("[{bad}, {good}, {good}]"));
            let numbers: Vec<u32> = taken.iter().map(|beside| beside.number).collect();
            assert_eq!(numbers, [2, 3], "{bad}");
        }
    }

    #[test]
    fn what_is_no_list_or_a_huge_one_harms_nothing() {
        for list in ["null", "7", "\"x\"", "{}", "{\"file\": []}", "[]"] {
            assert_eq!(of(list), [], "{list}");
        }
        let one = r#"{"file": "a.srt", "version": "1"}"#;
        let many = |count: usize| format!("[{}]", vec![one; count].join(","));
        assert_eq!(of(&many(100)).len(), MOST_SUBTITLE_FILES);
        assert_eq!(of(&many(LONGEST)), []);
        assert_eq!(of(&format!("[{}]", "[".repeat(100) + &"]".repeat(100))), []);
    }

    proptest::proptest! {
        #[test]
        fn any_list_is_read_without_harm(list in "\\[(\\{\"file\":\"[^\"\\\\]{0,9}\",\"version\":\"?.{0,3}\"?\\},?){0,40}\\]") {
            if let Ok(list) = serde_json::from_str::<&RawValue>(&list) {
                proptest::prop_assert!(listed(list).len() <= MOST_SUBTITLE_FILES);
            }
        }
    }
}
