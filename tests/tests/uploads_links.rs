//! Uploads and symbolic links: films behind links are served, and nothing is written, replaced or
//! deleted through a link, however the film directory changes meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use reelway_tests::films;
use reelway_tests::http::{self, Response};
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

fn film(name: &str) -> Vec<u8> {
    fs::read(films::film(name).path).expect("a film")
}

fn server(films: &Path) -> Server {
    let server = Options::new(films)
        .set("http.uploads", true)
        .set("http.ahead", 3600)
        .start();
    server.wait_indexed();
    server
}

fn token(server: &Server) -> String {
    format!("Bearer {}", server.token())
}

fn ask(server: &Server, method: &str, path: &str, body: &[u8]) -> Response {
    let token = token(server);
    let headers = [("Authorization", token.as_str())];
    http::send(server.http, method, path, &headers, body)
        .unwrap_or_else(|error| panic!("{method} {path}: {error:#}"))
}

/// Everything below a directory: contents and times, by path.
fn everything(dir: &Path) -> BTreeMap<String, (SystemTime, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let changed = fs::symlink_metadata(&path).and_then(|file| file.modified());
        let changed = changed.expect("a time");
        if path.is_dir() {
            all.insert(path.display().to_string(), (changed, Vec::new()));
            all.extend(everything(&path));
        } else {
            let bytes = fs::read(&path).expect("a file");
            all.insert(path.display().to_string(), (changed, bytes));
        }
    }
    all
}

/// A directory outside the film directories, with a film, a file that looks like an abandoned
/// draft, and a folder.
fn outside() -> tempfile::TempDir {
    let dir = films::library(&["tiny_sound"]);
    fs::create_dir(dir.path().join("deeper")).expect("a folder");
    fs::write(dir.path().join(".reelway-draft-0123456789abcdef"), "x").expect("a file");
    dir
}

#[test]
fn films_behind_links_are_served_and_never_written_or_deleted() {
    let (inside, outside) = (films::library(&["video_only"]), outside());
    symlink(outside.path(), inside.path().join("link")).expect("a link");
    let single = outside.path().join("tiny_sound.mp4");
    symlink(&single, inside.path().join("single.mp4")).expect("a link");
    let before = everything(outside.path());
    let server = server(inside.path());
    let (body, there) = (film("faststart"), film("tiny_sound"));
    assert!(server.get("/link/tiny_sound/file").body == there);
    assert!(server.get("/single/file").body == there);

    for (method, path) in [
        ("PUT", "/link/tiny_sound/file"),
        ("PUT", "/link/new/file"),
        ("PUT", "/link/deeper/new/file"),
        ("PUT", "/link/made/new/file"),
        ("DELETE", "/link/tiny_sound/file"),
    ] {
        let refused = ask(&server, method, path, &body);
        assert_eq!(refused.status, 403, "{method} {path}: {}", refused.text());
        assert!(
            refused.text().contains("symbolic link"),
            "{}",
            refused.text()
        );
    }
    // If a film is a link, the link is replaced and deleted, not its target.
    let replaced = ask(&server, "PUT", "/single/file", &body);
    assert_eq!(replaced.status, 200, "{}", replaced.text());
    assert!(server.get("/single/file").body == body);
    fs::remove_file(inside.path().join("single.mp4")).expect("the new film");
    symlink(&single, inside.path().join("again.mp4")).expect("a link");
    let listed = wait::until(Duration::from_secs(20), || {
        (server.get("/again/file").status == 200).then_some(())
    });
    listed.expect("the link is noticed");
    let deleted = ask(&server, "DELETE", "/again/file", &[]);
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert!(fs::symlink_metadata(inside.path().join("again.mp4")).is_err());

    assert!(server.get("/link/tiny_sound/file").body == there);
    assert!(
        everything(outside.path()) == before,
        "something changed outside"
    );

    // If the operator configures the directory behind the link, it is a film directory like any
    // other.
    drop(server);
    let server = Options::new(inside.path())
        .films(inside.path().join("link"))
        .set("http.uploads", true)
        .start();
    server.wait_indexed();
    let deleted = ask(&server, "DELETE", "/link/tiny_sound/file", &[]);
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert!(!single.exists());
}

#[test]
fn a_folder_that_is_replaced_during_an_upload_gets_no_film_and_the_link_neither() {
    let (inside, outside) = (films::library(&["tiny_sound"]), outside());
    fs::create_dir(inside.path().join("sub")).expect("a folder");
    let before = everything(outside.path());
    let server = server(inside.path());
    let body = film("faststart");
    let token = token(&server);
    let headers = [("Authorization", token.as_str())];
    let path = "/sub/film/file";
    let mut sending =
        http::begin(server.http, "PUT", path, &headers, body.len() as u64).expect("a connection");
    sending.write_all(&body[..100_000]).expect("a part");
    let (sub, aside) = (inside.path().join("sub"), inside.path().join("aside"));
    let begun = wait::until(Duration::from_secs(10), || {
        let mut drafts = fs::read_dir(&sub).expect("a folder");
        drafts.next().is_some().then_some(())
    });
    begun.expect("a draft");
    fs::rename(&sub, &aside).expect("moved");
    symlink(outside.path(), &sub).expect("a link");
    sending.write_all(&body[100_000..]).expect("the rest");
    let answer = http::read(&mut BufReader::new(sending), false).expect("an answer");
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert!(
        everything(outside.path()) == before,
        "something changed outside"
    );
    let left = everything(&aside);
    assert!(left.is_empty(), "{:?}", left.keys());
}

/// What a name in the film directory is while films in it are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    Folder,
    Link,
    /// One and the other, as fast as possible.
    Swapped,
}

#[test]
fn nothing_outside_changes_while_a_folder_is_swapped_for_a_link_again_and_again() {
    const WORKERS: usize = 4;
    const ROUNDS: usize = 16;
    let (inside, outside) = (films::library(&["video_only"]), outside());
    let sub = inside.path().join("sub");
    fs::create_dir(&sub).expect("a folder");
    // Films with the same names on both sides: any upload or deletion in the wrong place shows.
    for worker in 0..WORKERS {
        let there = outside.path().join(format!("film{worker}.mp4"));
        fs::copy(films::film("tiny_sound").path, there).expect("a film");
    }
    let server = server(inside.path());
    let before = everything(outside.path());
    let body = film("tiny_sound");
    // Hidden, so that it is not a folder of films.
    let aside = inside.path().join(".aside");
    symlink(outside.path(), &aside).expect("a link");
    let swap = || {
        let flags = RenameFlags::RENAME_EXCHANGE;
        renameat2(AT_FDCWD, &sub, AT_FDCWD, &aside, flags)
    };
    if let Err(error) = swap().and_then(|()| swap()) {
        reelway_skip::skipped!("the file system of the tests does not exchange names: {error}");
        return;
    }
    let mut swaps = 0;
    let mut swap = || {
        swap().expect("swapped");
        swaps += 1;
    };
    let mut statuses = BTreeMap::new();
    for round in 0..ROUNDS {
        let scene = [Scene::Swapped, Scene::Folder, Scene::Swapped, Scene::Link][round % 4];
        if scene == Scene::Link {
            swap();
        }
        let asked: Vec<(&str, u16)> = std::thread::scope(|scope| {
            let worker = |number: usize| {
                let (server, body) = (&server, &body);
                move || {
                    let path = format!("/sub/film{number}/file");
                    ["PUT", "DELETE"]
                        .map(|method| (method, ask(server, method, &path, body).status))
                }
            };
            let workers: Vec<_> = (0..WORKERS)
                .map(|number| scope.spawn(worker(number)))
                .collect();
            // Ends with the folder in place.
            while scene == Scene::Swapped && !workers.iter().all(|worker| worker.is_finished()) {
                swap();
                swap();
            }
            let answers = workers.into_iter().map(|worker| worker.join());
            answers
                .flat_map(|answers| answers.expect("a worker"))
                .collect()
        });
        if scene == Scene::Link {
            swap();
        }
        for (method, status) in asked {
            match (scene, method) {
                (Scene::Swapped, _) => *statuses.entry((method, status)).or_insert(0) += 1,
                (Scene::Folder, "PUT") => assert!(status < 300, "{method}: {status}"),
                (Scene::Link, "PUT") => assert_eq!(status, 403, "{method}"),
                // The catalogue may still list the other side, or nothing: then the film is a
                // different one (409) or unknown (404).
                (Scene::Folder, _) => {
                    assert!(matches!(status, 200 | 404 | 409), "{method}: {status}");
                }
                (Scene::Link, _) => assert!(status >= 400, "{method}: {status}"),
            }
        }
    }
    println!("{swaps} swaps; answers meanwhile: {statuses:?}");
    assert!(
        everything(outside.path()) == before,
        "something changed outside: {:?} -> {:?}",
        before.keys(),
        everything(outside.path()).keys()
    );
}
