//! Films that consist of several consecutive files: those in a folder `NAME.parts`, and the VOBs of
//! a DVD title (`VTS_01_1.VOB`, `VTS_01_2.VOB`, …).

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3Default;

use crate::FileIdentity;

/// The suffix of a folder of parts.
const ENDING: &[u8] = b".parts";
/// The maximum number of files of a film: each is held open while the film plays.
const MOST: usize = 256;

/// Whether a folder of this name is a film in several files.
pub fn is_folder(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.len() > ENDING.len() && name.ends_with(ENDING)
}

/// A VOB of a title of a DVD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vob {
    /// The title: `VTS_01`.
    pub title: String,
    /// Its number within the title: 1 to 9. (0 is the menu and does not count.)
    pub number: u8,
    extension: String,
}

impl Vob {
    /// The VOB with this file name; `None` if the name is not that of a VOB.
    pub fn of(name: &OsStr) -> Option<Vob> {
        let name = name.to_str()?;
        let (stem, extension) = name.rsplit_once('.')?;
        let (title, number) = stem.split_at_checked(6)?;
        let digits = &title.as_bytes()[4..];
        let is_title = title.get(..4)?.eq_ignore_ascii_case("VTS_")
            && digits.iter().all(u8::is_ascii_digit)
            && extension.eq_ignore_ascii_case("vob");
        let number = match number.as_bytes() {
            [b'_', digit @ b'1'..=b'9'] => digit - b'0',
            _ => return None,
        };
        is_title.then(|| Vob {
            title: title.to_owned(),
            number,
            extension: extension.to_owned(),
        })
    }

    /// Whether this VOB, which lies at `path`, is one of several of its title.
    pub fn is_in_parts(&self, path: &Path) -> bool {
        let is_there = |number| path.with_file_name(self.sibling(number)).is_file();
        match self.number {
            1 => is_there(2),
            number => (1..number).all(is_there),
        }
    }

    /// The name of the VOB of this title with another number.
    pub fn sibling(&self, number: u8) -> String {
        format!("{}_{number}.{}", self.title, self.extension)
    }
}

/// Whether the film at `path` consists of several files, or is a folder for them.
pub fn are_at(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let is_one_of_several = |vob: Vob| vob.is_in_parts(path);
    (is_folder(name) && path.is_dir()) || Vob::of(name).is_some_and(is_one_of_several)
}

/// Returns the files of the film at `path`, in order: a single one for most films.
///
/// # Errors
/// The folder cannot be read, is empty, or has more than 256 files.
pub fn of(path: &Path) -> io::Result<Vec<PathBuf>> {
    let name = path.file_name().unwrap_or_default();
    if is_folder(name) && path.is_dir() {
        return of_folder(path);
    }
    let mut files = vec![path.to_owned()];
    if let Some(vob) = Vob::of(name).filter(|vob| vob.number == 1) {
        let others = (2..=9).map(|number| path.with_file_name(vob.sibling(number)));
        files.extend(others.take_while(|other| other.is_file()));
    }
    Ok(files)
}

fn of_folder(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // Hidden files are partial downloads and the like.
        if !entry.file_name().as_bytes().starts_with(b".") && entry.path().is_file() {
            files.push(entry.path());
        }
        if files.len() > MOST {
            let words = format!("it has more than {MOST} files");
            return Err(io::Error::other(words));
        }
    }
    if files.is_empty() {
        return Err(io::Error::other("it has no files"));
    }
    let name = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    files.sort_by(|a, b| natural(&name(a), &name(b)).then_with(|| a.cmp(b)));
    Ok(files)
}

/// Compares names as people sort them: case-insensitively, with "Part 2" before "Part 10".
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (
        a.chars().flat_map(char::to_lowercase).peekable(),
        b.chars().flat_map(char::to_lowercase).peekable(),
    );
    loop {
        match (left.peek().copied(), right.peek().copied()) {
            (None, None) => return a.cmp(b),
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let digits = |chars: &mut dyn Iterator<Item = char>| chars.collect::<String>();
                let x = digits(&mut std::iter::from_fn(|| {
                    left.next_if(char::is_ascii_digit)
                }));
                let y = digits(&mut std::iter::from_fn(|| {
                    right.next_if(char::is_ascii_digit)
                }));
                let (x, y) = (x.trim_start_matches('0'), y.trim_start_matches('0'));
                let order = x.len().cmp(&y.len()).then_with(|| x.cmp(y));
                if order.is_ne() {
                    return order;
                }
            }
            (Some(x), Some(y)) if x == y => {
                left.next();
                right.next();
            }
            (Some(x), Some(y)) => return x.cmp(&y),
        }
    }
}

/// The identity of the film that consists of these files.
fn identity_of(files: &[FileIdentity]) -> FileIdentity {
    let (Some(first), true) = (files.first(), files.len() != 1) else {
        return files.first().copied().unwrap_or(FileIdentity {
            device: 0,
            inode: 0,
            size: 0,
            mtime_ns: 0,
        });
    };
    let mut sum = Xxh3Default::new();
    for file in files {
        for number in [file.device, file.inode, file.size, file.mtime_ns as u64] {
            sum.update(&number.to_le_bytes());
        }
    }
    FileIdentity {
        device: first.device,
        inode: sum.digest(),
        size: files
            .iter()
            .fold(0, |all, file| all.saturating_add(file.size)),
        mtime_ns: files.iter().map(|file| file.mtime_ns).max().unwrap_or(0),
    }
}

/// Returns the identity of the film at `path`, whether it has one file or several.
///
/// # Errors
/// A file is missing, or is not a regular file.
pub fn identity(path: &Path) -> io::Result<FileIdentity> {
    let files = of(path)?.into_iter();
    let identities = files.map(|file| Ok(FileIdentity::from(&fs::metadata(file)?)));
    Ok(identity_of(&identities.collect::<io::Result<Vec<_>>>()?))
}

/// An open file of a film.
#[derive(Debug)]
pub struct Part {
    /// Its path.
    pub path: PathBuf,
    /// The open file.
    pub file: Arc<File>,
    /// Bytes of the film that precede it.
    pub start: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// A film as open files that follow each other: a single one for most films.
#[derive(Debug)]
pub struct Parts {
    parts: Vec<Part>,
    identity: FileIdentity,
}

impl Parts {
    /// Opens the film at `path`.
    ///
    /// # Errors
    /// A file cannot be opened, or is not a regular file.
    pub fn open(path: &Path) -> io::Result<Parts> {
        let mut parts = Vec::new();
        let mut identities = Vec::new();
        let mut start = 0;
        for path in of(path)? {
            let file = File::open(&path)?;
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                let words = "not a regular file";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
            }
            let len = metadata.len();
            identities.push(FileIdentity::from(&metadata));
            parts.push(Part {
                path,
                file: Arc::new(file),
                start,
                len,
            });
            start += len;
        }
        Ok(Parts {
            parts,
            identity: identity_of(&identities),
        })
    }

    /// The film's identity when it was opened.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Returns the film's current identity.
    ///
    /// # Errors
    /// The file's metadata cannot be read.
    pub fn identity_now(&self) -> io::Result<FileIdentity> {
        if let Some(file) = self.only() {
            return Ok(FileIdentity::from(&file.metadata()?));
        }
        let parts = self.parts.iter();
        let identities = parts.map(|part| Ok(FileIdentity::from(&part.file.metadata()?)));
        Ok(identity_of(&identities.collect::<io::Result<Vec<_>>>()?))
    }

    /// The film's files, in order.
    pub fn all(&self) -> &[Part] {
        &self.parts
    }

    /// The film's file, unless it has several.
    pub fn only(&self) -> Option<&File> {
        match self.parts.as_slice() {
            [only] => Some(&only.file),
            _ => None,
        }
    }

    /// The index of the file that holds this byte of the film; past the end, that of the last file.
    pub fn number_at(&self, offset: u64) -> usize {
        let after = self.parts.partition_point(|part| part.start <= offset);
        // Empty files hold no bytes.
        after.saturating_sub(1)
    }

    /// Reads bytes of the film.
    ///
    /// # Errors
    /// A file cannot be read, or the film ends too early.
    pub fn read_exact_at(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
        let mut number = self.number_at(offset);
        while !bytes.is_empty() {
            let part = self.parts.get(number).ok_or(io::ErrorKind::UnexpectedEof)?;
            let within = offset - part.start;
            // The last file is read to the full length, so that it reports the error.
            let len = match number + 1 == self.parts.len() {
                true => bytes.len(),
                false => bytes.len().min(part.len.saturating_sub(within) as usize),
            };
            let (own, rest) = bytes.split_at_mut(len);
            part.file.read_exact_at(own, within)?;
            (bytes, offset, number) = (rest, offset + len as u64, number + 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vob(name: &str) -> Option<(String, u8)> {
        Vob::of(OsStr::new(name)).map(|vob| (vob.title, vob.number))
    }

    #[test]
    fn vobs_of_titles_are_known_by_their_names() {
        assert_eq!(vob("VTS_01_1.VOB"), Some(("VTS_01".into(), 1)));
        assert_eq!(vob("vts_12_9.vob"), Some(("vts_12".into(), 9)));
        for other in [
            "VTS_01_0.VOB",
            "VIDEO_TS.VOB",
            "VTS_01_10.VOB",
            "VTS_1_1.VOB",
            "VTS_01_1.mpg",
            "VTS_aä_1.VOB",
            "VTS_01_1",
            "é.VOB",
        ] {
            assert_eq!(vob(other), None, "{other}");
        }
        let first = Vob::of(OsStr::new("vts_01_1.Vob")).unwrap();
        assert_eq!(first.sibling(2), "vts_01_2.Vob");
    }

    #[test]
    fn the_files_of_a_folder_follow_each_other_as_people_count() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("film.parts");
        fs::create_dir_all(folder.join("folder")).unwrap();
        for name in ["part 10.ts", "part 2.ts", "part 02a.ts", ".hidden.ts", "a"] {
            fs::write(folder.join(name), name).unwrap();
        }
        let files = of(&folder).unwrap();
        let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap()).collect();
        assert_eq!(names, ["a", "part 2.ts", "part 02a.ts", "part 10.ts"]);
        let empty = dir.path().join("empty.parts");
        fs::create_dir(&empty).unwrap();
        assert_eq!(of(&empty).unwrap_err().to_string(), "it has no files");
        assert!(!is_folder(OsStr::new(".parts")));
    }

    #[test]
    fn names_are_sorted_as_people_do() {
        let mut names = ["part 10", "Part 2", "part 2b", "alpha", "Beta", "part 02"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(
            names,
            ["alpha", "Beta", "Part 2", "part 02", "part 2b", "part 10"]
        );
    }

    #[test]
    fn the_vobs_of_a_title_follow_each_other_up_to_the_first_that_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        for number in [0, 1, 2, 4] {
            fs::write(dir.path().join(format!("VTS_01_{number}.VOB")), b"x").unwrap();
        }
        let first = dir.path().join("VTS_01_1.VOB");
        let second = dir.path().join("VTS_01_2.VOB");
        assert_eq!(of(&first).unwrap(), [first.clone(), second.clone()]);
        assert_eq!(of(&second).unwrap(), [second]);
        let menu = dir.path().join("VTS_01_0.VOB");
        assert_eq!(of(&menu).unwrap(), [menu]);
    }

    #[test]
    fn a_film_in_several_files_is_read_as_one_and_is_another_when_one_of_them_changes() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("film.parts");
        fs::create_dir(&folder).unwrap();
        for (name, bytes) in [("1", "abc"), ("2", ""), ("3", "defgh"), ("4", "i")] {
            fs::write(folder.join(name), bytes).unwrap();
        }
        let film = Parts::open(&folder).unwrap();
        assert_eq!(film.identity().size, 9);
        assert_eq!(film.identity(), identity(&folder).unwrap());
        assert!(film.only().is_none());
        for start in 0..9 {
            for end in start..=9 {
                let mut bytes = vec![0; end - start];
                film.read_exact_at(&mut bytes, start as u64).unwrap();
                assert_eq!(bytes, b"abcdefghi"[start..end]);
            }
        }
        assert!(film.read_exact_at(&mut [0; 10], 0).is_err());
        assert!(film.read_exact_at(&mut [0; 1], 9).is_err());
        assert_eq!(film.identity_now().unwrap(), film.identity());
        fs::write(folder.join("2"), "z").unwrap();
        assert_ne!(film.identity_now().unwrap(), film.identity());
        fs::write(folder.join("5"), "").unwrap();
        assert_ne!(identity(&folder).unwrap(), film.identity_now().unwrap());

        let alone = folder.join("1");
        let film = Parts::open(&alone).unwrap();
        let own = FileIdentity::from(&fs::metadata(&alone).unwrap());
        assert_eq!(film.identity(), own);
        assert!(film.only().is_some());
    }
}
