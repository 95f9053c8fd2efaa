//! Chapters of a film.

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// The maximum number of chapters kept per film.
pub(crate) const MAX_CHAPTERS: usize = 1000;
/// The maximum length of a name that is kept, in characters.
const MAX_NAME: usize = 200;

/// A chapter. It lasts until the next one begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chapter {
    /// The start on the film's timeline.
    pub start: Nanos,
    /// The name, if it has one.
    pub name: Option<String>,
}

impl Chapter {
    /// Creates a chapter whose name is one line of plain text, cut at the first NUL.
    pub(crate) fn new(start: Nanos, name: &str) -> Chapter {
        let name = name.split('\0').next().unwrap_or_default();
        let plain = |c: char| if is_plain(c) { c } else { ' ' };
        let name: String = name.chars().map(plain).take(MAX_NAME).collect();
        Chapter {
            start,
            name: Some(name.trim().to_owned()).filter(|name| !name.is_empty()),
        }
    }

    /// Returns whether the chapter is valid in a film of this duration.
    pub(crate) fn is_sound(&self, duration: Nanos) -> bool {
        let name = self.name.as_deref().unwrap_or("-");
        let is_name = !name.is_empty() && name.chars().all(is_plain);
        (0..duration.max(1)).contains(&self.start) && is_name && name.chars().count() <= MAX_NAME
    }
}

/// Returns whether a name may contain this character.
fn is_plain(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Sorts chapters and moves them to the timeline of a film that begins at `zero` on theirs. Omits
/// those that begin after the film's end or end before its beginning, and a lone unnamed chapter at
/// the beginning, which carries no information.
pub(crate) fn arranged(mut all: Vec<Chapter>, zero: Nanos, duration: Nanos) -> Vec<Chapter> {
    all.sort_by_key(|chapter| chapter.start);
    all.dedup_by_key(|chapter| chapter.start);
    let before = all.iter().filter(|chapter| chapter.start <= zero).count();
    all.drain(..before.saturating_sub(1));
    for chapter in &mut all {
        chapter.start = chapter.start.saturating_sub(zero).max(0);
    }
    all.retain(|chapter| chapter.start < duration);
    all.truncate(MAX_CHAPTERS);
    match &all[..] {
        [only] if only.start == 0 && only.name.is_none() => Vec::new(),
        _ => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chapters_are_put_in_order_on_the_films_timeline() {
        let chapters = [
            (50, "gone"),
            (900, "c"),
            (100, "a"),
            (500, " b\n2 "),
            (500, "again"),
            (2000, "late"),
        ];
        let chapters = chapters
            .map(|(start, name)| Chapter::new(start, name))
            .to_vec();
        let all = arranged(chapters, 200, 1000);
        let told: Vec<(Nanos, &str)> = all
            .iter()
            .map(|chapter| (chapter.start, chapter.name.as_deref().unwrap_or("")))
            .collect();
        assert_eq!(told, [(0, "a"), (300, "b 2"), (700, "c")]);
        assert!(all.iter().all(|chapter| chapter.is_sound(1000)));
        assert!(arranged(vec![Chapter::new(0, " ")], 0, 10).is_empty());
        assert!(!Chapter::new(10, "x").is_sound(10));
        let name = |text| Chapter::new(0, text).name;
        assert_eq!(name("Intro\0 x"), Some("Intro".to_owned()));
        assert_eq!(name("\0"), None);
        assert_eq!(name("\u{feff}a\u{2028}b"), Some("a b".to_owned()));
    }
}
