//! Films that take long to index can be played as far as they were read.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use reelway_catalogue::{Catalogue, Directory, DirectoryConfig, Entry, Film, State};
use reelway_media::Samples;
use reelway_tests::films::{film, library, temp_dir};
use reelway_tests::server::Options;
use reelway_tests::wait;

#[test]
fn what_is_begun_plays_as_a_recording_and_is_not_served_as_a_file() {
    let films = library(&["transport"]);
    let folder = temp_dir("beginning-panics");
    let points = folder.path().join("points");
    // Reading the whole film fails, so that only its beginning is indexed.
    std::fs::write(&points, "library.index 1\n").expect("a file");
    let server = Options::new(&films)
        .set("index.beginning", "\"97KiB\"")
        .env("REELWAY_INJECT", points.display())
        .start();
    server.wait_indexed();
    if !server.log().contains("panics are injected") {
        println!("the server was built without debug assertions: it injects no panics");
        return;
    }
    let film = server.get("/api/films/transport").json();
    assert_eq!(
        (&film["state"], &film["growing"]),
        (&"ready".into(), &true.into()),
        "{film}"
    );
    assert!(film["protocols"]["hls"].is_null(), "{film}");
    let why = film["protocols"]["file"].as_str().expect("a reason");
    assert!(why.contains("still being indexed"), "{why}");
    let main = server.get("/transport/hls/main.m3u8").text();
    let picture = main
        .lines()
        .rfind(|line| line.contains(".m3u8"))
        .expect("a playlist");
    let playlist = server.get(&format!("/transport/hls/{picture}")).text();
    assert!(
        playlist.contains("#EXT-X-PLAYLIST-TYPE:EVENT"),
        "{playlist}"
    );
    for part in ["file", "index"] {
        let answer = server.get(&format!("/transport/{part}"));
        assert_eq!(answer.status, 503, "{part}: {}", answer.text());
        assert_eq!(answer.headers["retry-after"], "5", "{part}");
        assert!(
            answer.text().contains("still being indexed"),
            "{}",
            answer.text()
        );
    }
}

/// The state of a film that a listener sees at a change.
struct Seen {
    entry: Arc<Entry>,
    film: Arc<Film>,
}

#[test]
fn the_beginning_of_a_film_that_is_read_whole_plays_first_and_all_of_it_then() {
    let films = temp_dir("beginning-films");
    let state = temp_dir("beginning");
    let config = DirectoryConfig {
        films: vec![films.path().to_owned()],
        index: Some(state.path().to_owned()),
        beginning: 100_000,
        ..DirectoryConfig::default()
    };
    let seen = see(config.clone(), &["transport", "program", "progressive"]);
    for name in ["transport", "program"] {
        let size = film(name).path.metadata().expect("the film").len();
        let of: Vec<&Seen> = seen.iter().filter(|seen| seen.film.name == name).collect();
        let [begun, whole] = of[..] else {
            panic!("{name}: {} states", of.len());
        };
        assert_eq!(
            (begun.entry.identity.size, whole.entry.identity.size),
            (100_000, size)
        );
        assert!(begun.entry.growing.expect("growing").is_behind, "{name}");
        assert!(begun.entry.is_begun() && !whole.entry.is_begun(), "{name}");
        assert!(!whole.entry.growing.expect("grown").is_behind, "{name}");
        assert_eq!(begun.film.edition(), whole.film.edition(), "{name}");
        assert!(begun.film.growth.mark.is_some(), "{name}: grows");
        let (few, all) = (&begun.film.title, &whole.film.title);
        assert!(
            few.duration > 0 && few.duration < all.duration * 2 / 3,
            "{name}: {}",
            few.duration
        );
        for (number, (some, every)) in few.tracks.iter().zip(&all.tracks).enumerate() {
            // The last samples of the beginning end later in the whole film, so their positions
            // differ there.
            let same = some.samples * 3 / 4;
            let read = |samples: &dyn Samples| {
                let mut read = Vec::new();
                samples.read(number, 0..same, &mut read).expect("samples");
                read
            };
            let (begun, whole) = (read(&*begun.film.samples), read(&*whole.film.samples));
            assert!(begun == whole && same > 0, "{name}: other samples");
            assert_eq!(some.codec, every.codec, "{name}");
        }
    }
    let plain = seen.iter().filter(|seen| seen.film.name == "progressive");
    assert_eq!(plain.count(), 1, "a film with tables is indexed at once");
    // The indexes are kept.
    let again = Directory::open(config);
    for entry in again.list() {
        assert!(
            matches!(entry.state, State::Ready(_)) && entry.growing.is_none(),
            "{entry:?}"
        );
    }
}

/// Adds these films, and returns each ready film at each of its changes until all of them are
/// whole.
fn see(config: DirectoryConfig, names: &[&str]) -> Vec<Seen> {
    let folder = config.films[0].clone();
    let directory = Arc::new(Directory::open(config));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (done, is_done) = mpsc::channel();
    let (library, into) = (Arc::downgrade(&directory), Arc::clone(&seen));
    let count = names.len();
    directory.on_change(move |change| {
        let Some(library) = library.upgrade() else {
            return;
        };
        for name in &change.changed {
            let entry = library.entry(name).expect("an entry");
            if matches!(entry.state, State::Ready(_)) {
                let film = library.film(name).expect("the film");
                into.lock().expect("seen").push(Seen { entry, film });
            }
        }
        let is_whole = |entry: &Arc<Entry>| {
            let grows = entry.growing.is_some_and(|growing| growing.is_behind);
            matches!(entry.state, State::Ready(_)) && !grows
        };
        if library
            .list()
            .iter()
            .filter(|entry| is_whole(entry))
            .count()
            == count
        {
            let _ = done.send(());
        }
    });
    for name in names {
        let path = film(name).path;
        let link = folder.join(path.file_name().expect("a name"));
        std::os::unix::fs::symlink(path, link).expect("a link");
    }
    is_done
        .recv_timeout(Duration::from_secs(60))
        .expect("all films");
    // Its thread ends with it. Until the thread has reported its last change, it also holds the
    // library.
    let mut shared = Some(directory);
    let alone = wait::until(Duration::from_secs(60), || {
        Arc::try_unwrap(shared.take()?)
            .map_err(|both| shared = Some(both))
            .ok()
    });
    drop(alone.expect("the only one"));
    std::mem::take(&mut seen.lock().expect("seen"))
}
