//! Kills the writer of a film file at each of its system calls: the film is then in its old or its
//! new state, and nothing else is left after the next start.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use reelway_store::{Draft, remove_abandoned_drafts};
use reelway_sys::folder::Folder;

const BLOCK: u32 = 65_536;
const DIRECTORY: &str = "REELWAY_TEST_DRAFT_IN";
/// The system calls of a draft that change anything.
const CALLS: [&str; 6] = [
    "fallocate",
    "pwrite64",
    "ftruncate",
    "fsync",
    "renameat2",
    "renameat",
];

fn bytes() -> Vec<u8> {
    (0..200_001)
        .map(|at: usize| (at * 7 + at / 251) as u8)
        .collect()
}

/// Writes a file as the server does.
fn make(directory: &Path) {
    let target = directory.join("film.mp4");
    let bytes = bytes();
    let mut draft = Draft::create(&target, bytes.len() as u64, BLOCK).unwrap();
    bytes
        .chunks(10_007)
        .for_each(|piece| draft.write(piece).unwrap());
    draft.complete().unwrap();
    let replaces = target.exists();
    draft.publish(replaces).unwrap();
}

/// Runs the writer and kills it when it begins its `nth` call of this name. Returns whether it was
/// killed.
fn killed(directory: &Path, call: &str, nth: usize) -> bool {
    let status = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null"])
        .args(["-e", &format!("trace={call}")])
        .args(["-e", &format!("inject={call}:signal=KILL:when={nth}")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", THE_TEST, "--test-threads=1"])
        .env(DIRECTORY, directory)
        .output()
        .unwrap_or_else(|error| panic!("strace: {error}"));
    let killed = status.status.signal() == Some(9) || status.status.code() == Some(128 + 9);
    assert!(
        killed || status.status.success(),
        "{call} {nth}: {status:?}"
    );
    killed
}

const THE_TEST: &str = "a_film_is_whole_or_absent_wherever_its_maker_is_killed";

#[test]
fn a_film_is_whole_or_absent_wherever_its_maker_is_killed() {
    // This program under strace, as the writer.
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return make(Path::new(&directory));
    }
    let (old, new) = (b"the old film".to_vec(), bytes());
    let mut times = Vec::new();
    for replaces in [false, true] {
        for call in CALLS {
            for nth in 1.. {
                let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
                let film = dir.path().join("film.mp4");
                if replaces {
                    fs::write(&film, &old).unwrap();
                }
                if !killed(dir.path(), call, nth) {
                    times.push((call, nth - 1));
                    break;
                }
                let there = fs::read(&film).ok();
                let before = replaces.then_some(&old);
                assert!(
                    there.as_ref() == before || there.as_ref() == Some(&new),
                    "{call} {nth}: {:?} bytes",
                    there.map(|bytes| bytes.len())
                );
                let folder = Folder::open(dir.path()).unwrap();
                remove_abandoned_drafts(&folder).unwrap();
                folder.sync().unwrap();
                let names: Vec<_> = fs::read_dir(dir.path())
                    .unwrap()
                    .map(|entry| entry.unwrap().file_name())
                    .collect();
                let wanted = usize::from(there.is_some());
                assert_eq!(names.len(), wanted, "{call} {nth}: {names:?}");
            }
        }
    }
    // It was killed at every call: for four blocks, synchronising the file and its directory, and
    // the renaming.
    let count = |call: &str, at: usize| {
        times[at * CALLS.len()..]
            .iter()
            .find(|(name, _)| *name == call)
            .unwrap()
            .1
    };
    for at in [0, 1] {
        assert!(count("pwrite64", at) >= 4, "{times:?}");
        assert!(count("fsync", at) >= 2, "{times:?}");
        assert_eq!(
            count("renameat2", at) + count("renameat", at),
            1,
            "{times:?}"
        );
    }
}
