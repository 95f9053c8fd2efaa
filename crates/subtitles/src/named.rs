//! Interprets file names.

use crate::format::Format;
use crate::languages;

/// Properties stated by the name of a subtitle file beside a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Determined by the extension.
    pub format: Format,
    /// BCP 47 tag. `None`: the name does not contain one.
    pub language: Option<String>,
    /// Contains only what is said in a language other than the film's.
    pub forced: bool,
    /// To be shown unless the viewer chooses otherwise.
    pub default: bool,
    /// For viewers who are deaf or hard of hearing: sdh, hi, cc.
    pub sdh: bool,
    /// Other words of the name, for display.
    pub label: Option<String>,
}

/// Interprets the file name `name` (with extension) of subtitles for the film `film` (without
/// extension). `None`: they do not belong together.
///
/// Examples: `film.srt`, `film.en.srt`, `film.pt-BR.forced.vtt`, `film.eng.sdh.srt`,
/// `film.de.Kommentar.srt`. Words may be in any order and case. `hi` is Hindi, unless there is
/// another language; then it means [`Named::sdh`]. A file `film.second.srt` belongs to both `film`
/// and `film.second`; if both exist, it is meant for the longer name.
pub fn named(film: &str, name: &str) -> Option<Named> {
    let (stem, extension) = name.rsplit_once('.')?;
    let format = Format::of_extension(extension)?;
    let words = stem.strip_prefix(film)?;
    if film.is_empty() || !(words.is_empty() || words.starts_with('.')) {
        return None;
    }
    let words: Vec<&str> = words
        .split('.')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect();
    let mut named = Named {
        format,
        language: None,
        forced: false,
        default: false,
        sdh: false,
        label: None,
    };
    let is_hi = |word: &str| word.eq_ignore_ascii_case("hi");
    let other_language = words
        .iter()
        .any(|word| !is_hi(word) && Word::of(word).is_some_and(|word| word.language.is_some()));
    let mut label: Vec<&str> = Vec::new();
    for word in words {
        if is_hi(word) && (other_language || named.language.is_some()) {
            named.sdh = true;
            continue;
        }
        match Word::of(word) {
            // A second language counts as an ordinary word.
            Some(found) if found.language.is_none() || named.language.is_none() => {
                named.language = named.language.take().or(found.language);
                named.forced |= found.forced;
                named.default |= found.default;
                named.sdh |= found.sdh;
            }
            _ => label.push(word),
        }
    }
    // An undetermined language counts as none.
    named.language = named.language.filter(|language| language != "und");
    named.label = (!label.is_empty()).then(|| label.join(" "));
    Some(named)
}

/// What a word between two dots means.
#[derive(Default)]
struct Word {
    language: Option<String>,
    forced: bool,
    default: bool,
    sdh: bool,
}

impl Word {
    /// A language tag, flags, or both, such as `en-forced`. `None`: the word is part of the label.
    fn of(word: &str) -> Option<Word> {
        let mut parts = word
            .split(['-', '_'])
            .map(str::to_ascii_lowercase)
            .peekable();
        let mut found = Word::default();
        if let Some(first) = parts.peek()
            && let Some(tag) = tag(first)
        {
            found.language = Some(tag.to_owned());
            parts.next();
        }
        for part in parts {
            if found.flag(&part) {
                continue;
            }
            let language = found.language.as_mut()?;
            language.push('-');
            language.push_str(&subtag(&part)?);
        }
        Some(found)
    }

    /// Sets the flag that the word names. Returns whether it names one.
    fn flag(&mut self, word: &str) -> bool {
        match word {
            "forced" | "foreign" => self.forced = true,
            "default" => self.default = true,
            // No region has the code HI, and subtitles for that of CC, the Cocos Islands, are rare.
            "sdh" | "hi" | "cc" => self.sdh = true,
            _ => return false,
        }
        true
    }
}

fn tag(word: &str) -> Option<&'static str> {
    match word {
        "und" => Some("und"),
        _ => languages::shortest(word),
    }
}

/// Converts a script or region in lower case to the form that BCP 47 recommends.
fn subtag(part: &str) -> Option<String> {
    let letters = part.bytes().all(|byte| byte.is_ascii_lowercase());
    let digits = part.bytes().all(|byte| byte.is_ascii_digit());
    match part.len() {
        2 if letters => Some(part.to_ascii_uppercase()),
        3 if digits => Some(part.to_owned()),
        4 if letters => Some(part[..1].to_ascii_uppercase() + &part[1..]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns language, flags by their first letters, and label.
    fn of(name: &str) -> (Option<String>, String, Option<String>) {
        let named = named("film", name).expect("it belongs to the film");
        let flags = [('f', named.forced), ('d', named.default), ('s', named.sdh)];
        let flags = flags.iter().filter(|(_, on)| *on).map(|(flag, _)| *flag);
        (named.language, flags.collect(), named.label)
    }

    #[test]
    fn languages_flags_and_labels() {
        for (name, language, flags, label) in [
            ("film.srt", "", "", ""),
            ("film.en.srt", "en", "", ""),
            ("film.EN.srt", "en", "", ""),
            ("film.pt-BR.forced.vtt", "pt-BR", "f", ""),
            ("film.pt_br.srt", "pt-BR", "", ""),
            ("film.por-BR.srt", "pt-BR", "", ""),
            ("film.eng.sdh.srt", "en", "s", ""),
            ("film.ger.srt", "de", "", ""),
            ("film.deu.srt", "de", "", ""),
            ("film.de.Kommentar.srt", "de", "", "Kommentar"),
            ("film.Kommentar.Regie.de.srt", "de", "", "Kommentar Regie"),
            ("film.default.en.ass", "en", "d", ""),
            ("film.en.cc.default.ass", "en", "ds", ""),
            ("film.en-forced.srt", "en", "f", ""),
            ("film.en-hi.srt", "en", "s", ""),
            ("film.en-US-sdh.srt", "en-US", "s", ""),
            ("film.zh-hans.srt", "zh-Hans", "", ""),
            ("film.ZH-HANT-tw.srt", "zh-Hant-TW", "", ""),
            ("film.es-419.srt", "es-419", "", ""),
            ("film.fil.srt", "fil", "", ""),
            ("film.hi.srt", "hi", "", ""),
            ("film.en.hi.srt", "en", "s", ""),
            ("film.hi.en.srt", "en", "s", ""),
            ("film.hi.sdh.srt", "hi", "s", ""),
            ("film.hi.hi.srt", "hi", "s", ""),
            ("film.und.srt", "", "", ""),
            ("film.en.fr.srt", "en", "", "fr"),
            ("film.en-english.srt", "", "", "en-english"),
            ("film..en..srt", "en", "", ""),
            ("film.Ärger.srt", "", "", "Ärger"),
        ] {
            let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let expected = (some(language), flags.to_owned(), some(label));
            assert_eq!(of(name), expected, "{name}");
        }
    }

    #[test]
    fn other_files_do_not_belong_to_the_film() {
        for name in [
            "film",
            "film.mp4",
            "film2.srt",
            "film 2.srt",
            "other.srt",
            ".srt",
            "srt",
            "",
            "Film.srt",
        ] {
            assert_eq!(named("film", name), None, "{name}");
        }
        assert_eq!(named("", ".srt"), None);
        assert_eq!(named("a.b", "a.srt"), None);
        assert!(named("a.b", "a.b.en.srt").is_some());
    }
}
