//! Sets: a folder `NAME.set` contains one film in several renditions, for adaptive bit rates. The
//! largest file is the film `NAME`. The others are films of their own, `NAME.set/…`, and players of
//! `NAME` may switch to them during playback.

use std::collections::HashMap;

use crate::naming::names;

/// The ending of a set's folder name.
const ENDING: &str = ".set";
/// Maximum number of renditions of a film that are offered to players. No ladder has more, and each
/// is opened together with the film.
const MOST: usize = 16;

/// A film's name and set membership.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Named {
    /// The film's title in addresses.
    pub name: String,
    /// How the film belongs to a set.
    pub set: Set,
}

/// How a film belongs to a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// The names of its other renditions, the largest first. Empty: there are none, or the film is
    /// itself a rendition.
    pub renditions: Vec<String>,
    /// The film of which this one is a rendition.
    pub rendition_of: Option<String>,
}

/// Returns a unique name for each film. `films` contains their paths below their film directories
/// and their sizes in bytes.
pub(crate) fn arrange(films: &[(&str, u64)]) -> Vec<Named> {
    let mut sets: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, (file, _)) in films.iter().enumerate() {
        if let Some(folder) = set_of(file) {
            sets.entry(folder).or_default().push(place);
        }
    }
    let mut files: Vec<String> = films.iter().map(|(file, _)| (*file).to_owned()).collect();
    for (folder, places) in &mut sets {
        // Of two films of the same size, the one whose name comes first is chosen.
        places.sort_by_key(|place| (std::cmp::Reverse(films[*place].1), films[*place].0));
        files[places[0]] = (*folder).to_owned();
    }
    let names = names(&files).into_iter();
    let mut named: Vec<Named> = names
        .map(|name| Named {
            name,
            set: Set::default(),
        })
        .collect();
    for places in sets.into_values() {
        let best = named[places[0]].name.clone();
        for place in &places[1..] {
            named[*place].set.rendition_of = Some(best.clone());
        }
        let others = places[1..].iter().take(MOST - 1);
        named[places[0]].set.renditions = others.map(|place| named[*place].name.clone()).collect();
    }
    named
}

/// Returns the folder of the set in which a film lies.
fn set_of(file: &str) -> Option<&str> {
    let (folder, _) = file.rsplit_once('/')?;
    let name = folder.rsplit('/').next()?;
    (name.len() > ENDING.len() && name.ends_with(ENDING)).then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(name: &str) -> Named {
        Named {
            name: name.into(),
            set: Set::default(),
        }
    }

    fn best(name: &str, renditions: &[&str]) -> Named {
        let renditions = renditions.iter().map(|name| (*name).to_owned()).collect();
        Named {
            name: name.into(),
            set: Set {
                renditions,
                rendition_of: None,
            },
        }
    }

    fn rendition(name: &str, of: &str) -> Named {
        Named {
            name: name.into(),
            set: Set {
                renditions: Vec::new(),
                rendition_of: Some(of.into()),
            },
        }
    }

    #[test]
    fn the_largest_film_of_a_set_has_its_name_and_the_others_are_its_renditions() {
        let films = [
            ("a.mp4", 9),
            ("b/c.set/low.mp4", 1),
            ("b/c.set/high.mkv", 3),
            ("b/c.set/middle.mp4", 2),
        ];
        let named = [
            alone("a"),
            rendition("b/c.set/low", "b/c"),
            best("b/c", &["b/c.set/middle", "b/c.set/low"]),
            rendition("b/c.set/middle", "b/c"),
        ];
        assert_eq!(arrange(&films), named);
    }

    #[test]
    fn a_set_that_would_share_its_name_with_a_film_keeps_its_ending() {
        let films = [("a.mp4", 1), ("a.set/1.mp4", 1), ("a.set/2.mp4", 1)];
        let named = [
            alone("a.mp4"),
            best("a.set", &["a.set/2"]),
            rendition("a.set/2", "a.set"),
        ];
        assert_eq!(arrange(&films), named);
    }

    #[test]
    fn only_films_that_lie_in_the_folder_itself_are_renditions() {
        let films = [
            ("a.set/1.mp4", 1),
            ("a.set/extras/2.mp4", 1),
            (".set/3.mp4", 1),
            (".set/4.mp4", 1),
            ("set/5.mp4", 1),
        ];
        let names = ["a", "a.set/extras/2", ".set/3", ".set/4", "set/5"];
        assert_eq!(arrange(&films), names.map(alone));
    }

    #[test]
    fn so_many_renditions_are_offered_and_no_more() {
        let files: Vec<String> = (0..20)
            .map(|number| format!("a.set/{number}.mp4"))
            .collect();
        let films: Vec<(&str, u64)> = files.iter().map(|file| (file.as_str(), 1)).collect();
        let named = arrange(&films);
        assert_eq!(named[0].set.renditions.len(), MOST - 1);
        let of = named.iter().filter(|film| film.set.rendition_of.is_some());
        assert_eq!(of.count(), 19);
    }
}
