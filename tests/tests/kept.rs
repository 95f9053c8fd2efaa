//! What a library knows about films is kept while nothing is known to be wrong with it, even if
//! films are missing for a while or other libraries have films of the same name.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime};

use reelway_catalogue::{Directory, DirectoryConfig, Several};
use reelway_tests::films::{film, temp_dir};
use reelway_tests::wait;

const LIMIT: Duration = Duration::from_secs(30);

fn config(films: &Path, state: &Path) -> DirectoryConfig {
    DirectoryConfig {
        films: vec![films.to_owned()],
        index: Some(state.to_owned()),
        ..DirectoryConfig::default()
    }
}

/// Opens a library, and closes it when it has looked at all of its films.
fn look(config: &DirectoryConfig) {
    let library = Directory::open(config.clone());
    let settled = wait::until(LIMIT, || library.is_settled().then_some(()));
    settled.expect("it is known of every film whether it plays");
}

/// Returns the index files in a folder.
fn indexes(state: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(state).expect("the folder");
    let paths = files.map(|file| file.expect("a file").path());
    let is_index = |path: &PathBuf| path.extension().is_some_and(|of| of == "rwx");
    paths.filter(is_index).collect()
}

#[test]
fn the_index_of_a_film_that_is_not_there_for_now_stays_for_three_months() {
    let (films, state) = (temp_dir("kept-films"), temp_dir("kept"));
    let (config, path) = (
        config(films.path(), state.path()),
        films.path().join("a.mp4"),
    );
    fs::copy(film("progressive").path, &path).expect("a copy");
    look(&config);
    let [index] = &indexes(state.path())[..] else {
        panic!("one index");
    };
    let age = |days: u64| {
        let now = Duration::from_nanos(reelway_clock::real().nanos());
        let then = SystemTime::UNIX_EPOCH + now - Duration::from_secs(days * 86_400);
        let file = fs::File::open(index).expect("the index");
        file.set_modified(then).expect("its time");
    };
    // An index that is used counts as new, however old it is.
    age(400);
    look(&config);
    // As if the disk were not mounted.
    let away = films.path().with_extension("away");
    fs::rename(&path, &away).expect("moved");
    look(&config);
    assert!(index.exists(), "it was of use a moment ago");
    age(89);
    look(&config);
    assert!(index.exists(), "it was of use 89 days ago");
    age(91);
    look(&config);
    assert!(!index.exists(), "it was of use 91 days ago");
    fs::remove_file(away).expect("the film");
}

#[test]
fn that_a_film_was_replaced_is_told_of_the_library_that_has_it_first() {
    let folders = [temp_dir("kept-first"), temp_dir("kept-second")];
    let states = [temp_dir("kept-first-state"), temp_dir("kept-second-state")];
    let path = |library: usize| folders[library].path().join("a.mp4");
    for library in 0..2 {
        fs::copy(film("progressive").path, path(library)).expect("a copy");
    }
    let library = |number: usize| {
        let config = config(folders[number].path(), states[number].path());
        Arc::new(Directory::open(config))
    };
    let both = Several(vec![library(0), library(1)]);
    let settled = wait::until(LIMIT, || both.is_settled().then_some(()));
    settled.expect("it is known of every film whether it plays");
    let (tell, told) = mpsc::channel();
    both.on_change(move |change| drop(tell.send(change.clone())));
    for (number, is_told) in [(1, false), (0, true)] {
        let anew = folders[number].path().join("anew");
        fs::copy(film("seeks").path, &anew).expect("a copy");
        fs::rename(&anew, path(number)).expect("another film in its place");
        let change = told.recv_timeout(LIMIT).expect("a change");
        assert_eq!(change.replaced.contains(&"a".to_owned()), is_told);
        assert!(change.changed.contains(&"a".to_owned()));
        // The film is indexed.
        let change = told.recv_timeout(LIMIT).expect("a change");
        assert!(change.replaced.is_empty());
    }
}
