//! `Chapters` (RFC 9559 section 5.1.7).

use super::ebml::{Element, children};
use crate::chapters::{Chapter, MAX_CHAPTERS};

const EDITION: u32 = 0x45b9;
const EDITION_HIDDEN: u32 = 0x45bd;
const EDITION_DEFAULT: u32 = 0x45db;
const EDITION_ORDERED: u32 = 0x45dd;
const ATOM: u32 = 0xb6;
const START: u32 = 0x91;
const HIDDEN: u32 = 0x98;
const ENABLED: u32 = 0x4598;
const DISPLAY: u32 = 0x80;
const STRING: u32 = 0x85;

/// Returns the chapters of the edition that is shown by default: the first default one, or the
/// first. Nested chapters are left out, and so are ordered editions, which rearrange the film.
pub fn parse(body: &[u8]) -> Vec<Chapter> {
    let is = |edition: &Element<'_>, id: u32| {
        let flag = edition.children().first(id);
        flag.is_some_and(|flag| flag.unsigned() != 0)
    };
    let editions = || {
        let all = children(body).filter(|child| child.id == EDITION);
        all.filter(|edition| !is(edition, EDITION_HIDDEN) && !is(edition, EDITION_ORDERED))
    };
    let default = editions().find(|edition| is(edition, EDITION_DEFAULT));
    let Some(edition) = default.or_else(|| editions().next()) else {
        return Vec::new();
    };
    let atoms = edition.children().filter(|child| child.id == ATOM);
    atoms
        .filter_map(|atom| chapter(&atom))
        .take(MAX_CHAPTERS)
        .collect()
}

fn chapter(atom: &Element<'_>) -> Option<Chapter> {
    let number = |id| atom.children().first(id).map(|child| child.unsigned());
    if number(HIDDEN).unwrap_or(0) != 0 || number(ENABLED) == Some(0) {
        return None;
    }
    let start = i64::try_from(number(START).unwrap_or(0)).ok()?;
    let display = atom.children().first(DISPLAY);
    let name = display.and_then(|display| display.children().first(STRING)?.text());
    Some(Chapter::new(start, &name.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reelway_mux::ebml::element;

    fn atom(start: u64, name: &str, more: &[u8]) -> Vec<u8> {
        let display = element(DISPLAY, &element(STRING, name.as_bytes()));
        let start = element(START, &start.to_be_bytes());
        element(ATOM, &[&start[..], &display, more].concat())
    }

    #[test]
    fn the_default_edition_is_taken_without_what_is_hidden() {
        let other = element(EDITION, &atom(1, "other", &[]));
        let nested = atom(6, "nested", &[]);
        let hidden = element(HIDDEN, &[1]);
        let shown = [
            element(EDITION_DEFAULT, &[1]),
            atom(0, "Anfang", &nested),
            atom(5, "hidden", &hidden),
            atom(7, "", &[]),
        ]
        .concat();
        let all = [other.clone(), element(EDITION, &shown)].concat();
        assert_eq!(
            parse(&all),
            [Chapter::new(0, "Anfang"), Chapter::new(7, "")]
        );
        assert_eq!(parse(&other), [Chapter::new(1, "other")]);
        let ordered = [element(EDITION_ORDERED, &[1]), atom(1, "x", &[])].concat();
        assert!(parse(&element(EDITION, &ordered)).is_empty());
        assert!(parse(&all[..all.len() - 1]).len() <= 1);
    }
}
