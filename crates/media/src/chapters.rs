//! Chapters of a film.

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// Chapters beyond this are not kept.
pub(crate) const MAX_CHAPTERS: usize = 1000;
/// Longest name that is kept, in characters.
const MAX_NAME: usize = 200;

/// A chapter. It ends where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chapter {
    /// Where it begins on the film's timeline.
    pub start: Nanos,
    /// What it is called, if it has a name.
    pub name: Option<String>,
}

impl Chapter {
    /// With a name that is one line without control characters.
    pub(crate) fn new(start: Nanos, name: &str) -> Chapter {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let name: String = name.trim().chars().map(plain).take(MAX_NAME).collect();
        Chapter {
            start,
            name: Some(name).filter(|name| !name.is_empty()),
        }
    }

    /// Whether it may be one of a film of this length.
    pub(crate) fn is_sound(&self, duration: Nanos) -> bool {
        let name = self.name.as_deref().unwrap_or("-");
        let is_plain = !name.is_empty() && !name.contains(char::is_control);
        (0..duration.max(1)).contains(&self.start) && is_plain && name.chars().count() <= MAX_NAME
    }
}

/// Chapters in their order, on the timeline of a film that begins at `zero` of theirs and has this length. Those that begin
/// behind its end are left out. One without a name at the beginning says nothing.
pub(crate) fn arranged(chapters: Vec<Chapter>, zero: Nanos, duration: Nanos) -> Vec<Chapter> {
    let moved = chapters.into_iter().map(|chapter| Chapter {
        start: chapter.start.saturating_sub(zero).max(0),
        ..chapter
    });
    let mut all: Vec<Chapter> = moved.filter(|chapter| chapter.start < duration).collect();
    all.sort_by_key(|chapter| chapter.start);
    all.dedup_by_key(|chapter| chapter.start);
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
    }
}
