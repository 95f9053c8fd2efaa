//! Override tags such as `{\an8\i1}`, of ASS, which also occur in SubRip.

use crate::markup::{Look, Markup};

/// Applies the tags inside one pair of braces. Returns whether a drawing follows, if the tags say
/// so.
pub fn apply(tags: &str, markup: &mut Markup) -> Option<bool> {
    let mut drawing = None;
    // Text before the first backslash is a comment.
    for tag in tags.split('\\').skip(1) {
        let tag = tag.trim();
        let name = tag.trim_end_matches(|char: char| char.is_ascii_digit());
        let number: Option<u32> = tag[name.len()..].parse().ok();
        match (name, number) {
            ("i", number) => markup.set(Look::Italic, number.is_some_and(|number| number > 0)),
            ("u", number) => markup.set(Look::Underlined, number.is_some_and(|number| number > 0)),
            // 1, or a weight; 400 is normal.
            ("b", number) => {
                let bold = number.is_some_and(|number| number == 1 || number > 400);
                markup.set(Look::Bold, bold);
            }
            ("an", Some(place)) => markup.place(of_keypad(place)),
            // SSA's alignment: 1 to 3 at the bottom, 5 to 7 at the top.
            ("a", Some(place @ 5..=7)) => markup.place(of_keypad(place + 2)),
            ("p", Some(scale)) => drawing = Some(scale > 0),
            // Resets to the line's style or to another.
            (name, _) if name.starts_with('r') && !name.starts_with("rnd") => markup.plain(),
            _ => {}
        }
    }
    drawing
}

/// Returns the cue settings of a position in keypad order, whose upper row is at the top. Other
/// positions are left to players.
pub fn of_keypad(place: u32) -> &'static str {
    match place {
        7 => "line:0 align:start",
        8 => "line:0",
        9 => "line:0 align:end",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(tags: &str) -> String {
        let mut markup = Markup::default();
        apply(tags, &mut markup);
        markup.finish().0
    }

    #[test]
    fn places_above_are_kept() {
        assert_eq!(settings(r"\an7"), "line:0 align:start");
        assert_eq!(settings(r"\fs20\an8"), "line:0");
        assert_eq!(settings(r"\an9\an8"), "line:0 align:end");
        assert_eq!(settings(r"\a6"), "line:0");
        assert_eq!(settings(r"\an2"), "");
        assert_eq!(settings(r"\an"), "");
        assert_eq!(settings("an8"), "");
    }

    #[test]
    fn drawings_begin_and_end() {
        let drawing = |tags| apply(tags, &mut Markup::default());
        assert_eq!(drawing(r"\p1"), Some(true));
        assert_eq!(drawing(r"\p0"), Some(false));
        assert_eq!(drawing(r"\pos(1,2)\pbo3"), None);
    }
}
