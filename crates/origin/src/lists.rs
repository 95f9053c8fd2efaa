//! Parses the lists of films that endpoints send. Pure: text in, paths out.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::address::{Address, is_path};
use crate::beside::{self, Beside};
use crate::version::Version;
use crate::via::is_id;

/// Maximum number of films of a source; further ones are left out with a warning.
pub(crate) const MOST_FILMS: usize = 100_000;
/// Maximum size of a document that lists films, in bytes.
pub(crate) const MOST_LIST: usize = 16 << 20;

/// Films per page of `/api/films` that are requested.
pub(crate) const PER_PAGE: usize = 200;

/// A film in the list of a Reelway server.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ListedFilm {
    title: String,
    file: String,
    size: u64,
    modified: String,
    state: String,
    /// Ids of the servers through which the film reaches that server.
    #[serde(default)]
    via: Vec<String>,
    /// Identifies this version of the film among all others, if it comes from another server.
    #[serde(default)]
    pub identity: Option<String>,
    /// The entity tag of its file.
    #[serde(default)]
    etag: String,
    /// Files of subtitles beside it. Kept raw, so that an invalid value does not spoil the rest of
    /// the list.
    #[serde(default)]
    subtitle_files: Option<Box<RawValue>>,
}

/// A version that another server reports; `None` if it is not a valid one.
pub(crate) fn known_version(version: &str) -> Option<String> {
    let is_sound = |c: char| c.is_ascii_alphanumeric() || "-.+".contains(c);
    ((1..=40).contains(&version.len()) && version.chars().all(is_sound)).then(|| version.to_owned())
}

/// A page of `/api/films`.
#[derive(Debug, Deserialize)]
pub(crate) struct Page {
    /// The server's id; servers before version 0.2 have none.
    #[serde(default)]
    pub node: String,
    #[serde(default)]
    pub version: String,
    pub total: usize,
    pub films: Vec<ListedFilm>,
}

impl ListedFilm {
    /// Ids of the servers through which the film reaches this one, the nearest first; `node` is the
    /// server that lists it.
    pub fn via(&self, node: &str) -> Vec<String> {
        let ids = [node]
            .into_iter()
            .chain(self.via.iter().map(String::as_str));
        ids.filter(|id| is_id(id)).map(str::to_owned).collect()
    }

    /// Path and version of its file at a sibling, if the film plays there and has this length.
    pub fn at_sibling(&self, len: u64) -> Option<(String, Version)> {
        let (path, _, _) = self.film()?;
        let version = Version {
            len,
            etag: Some(self.etag.clone()),
            modified: None,
            edition: None,
        };
        (self.size == len && version.strong().is_some_and(|tag| !tag.is_empty()))
            .then_some((path, version))
    }

    /// Files of subtitles beside it, or none if their list is longer than `room`. Subtracts the
    /// list's length from `room`.
    pub fn subtitles(&self, room: &mut usize) -> Vec<Beside> {
        let Some(list) = &self.subtitle_files else {
            return Vec::new();
        };
        match room.checked_sub(list.get().len()) {
            Some(left) => {
                *room = left;
                beside::listed(list)
            }
            None => Vec::new(),
        }
    }

    /// Its title at that server, if it plays there.
    pub fn playing(&self) -> Option<String> {
        self.film().map(|_| self.title.clone())
    }

    /// Whether that server is still indexing it.
    pub fn is_being_made(&self) -> bool {
        self.state == "indexing"
    }

    /// The path of its bytes below the server's address, its file name there, and a text that
    /// changes whenever the film does. `None` if it does not play there.
    pub fn film(&self) -> Option<(String, String, String)> {
        let path = format!("{}/file", self.title);
        let plays = self.state == "ready" && is_path(&path) && is_path(&self.file);
        plays.then(|| {
            (
                path,
                self.file.clone(),
                format!("{} {} {}", self.size, self.modified, self.etag),
            )
        })
    }
}

/// The entries of a document with one path or address per line; `#` begins a comment, as in M3U.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The links of a folder's page (nginx' autoindex, Apache's and others') that lead further down:
/// paths below the endpoint, folders with a slash at their end.
pub(crate) fn links(html: &str, endpoint: &Address, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lower = html.to_ascii_lowercase();
    let mut at = 0;
    while let Some(next) = lower[at..].find("href") {
        at += next + "href".len();
        let rest = html[at..].trim_start();
        let Some(rest) = rest.strip_prefix('=').map(str::trim_start) else {
            continue;
        };
        let Some(quote) = rest
            .chars()
            .next()
            .filter(|quote| matches!(quote, '"' | '\''))
        else {
            continue;
        };
        let Some(link) = rest[1..].split(quote).next() else {
            continue;
        };
        let link = link.replace("&amp;", "&");
        let link = link.split(['?', '#']).next().unwrap_or_default();
        let is_folder = link.ends_with('/');
        let link = link.trim_end_matches('/');
        let path = match link {
            "" => None,
            whole if Address::is_meant(whole) => endpoint.relative(whole),
            rooted if rooted.starts_with('/') => endpoint.relative(&endpoint.at_root(rooted)),
            below => endpoint.relative(below).map(|below| match folder {
                "" => below,
                folder => format!("{folder}/{below}"),
            }),
        };
        // Only links into this folder: not to its parent or neighbours.
        let inside = |path: &String| {
            folder.is_empty()
                || path
                    .strip_prefix(folder)
                    .is_some_and(|rest| rest.starts_with('/'))
        };
        if let Some(path) = path.filter(inside) {
            found.push(if is_folder { path + "/" } else { path });
        }
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folders_page_leads_down_only() {
        let endpoint = Address::parse("http://h/films/").unwrap();
        let html = r##"<html><body><h1>Index of /films/</h1><pre><a href="../">../</a>
            <a href="?C=M;O=A">Date</a> <A HREF='sub%20folder/'>x</a> <a href="a%26b.mp4">a&amp;b</a>
            <a href="/films/c.mp4">c</a> <a href="/other/d.mp4">d</a> <a href="http://elsewhere/e.mp4">e</a>
            <a href="a%26b.mp4">twice</a> <a href=unquoted.mp4> <a href="#top"> <a href"##;
        assert_eq!(
            links(html, &endpoint, ""),
            ["a&b.mp4", "c.mp4", "sub folder/"]
        );
        assert_eq!(
            links(
                r#"<a href="x.mp4"><a href="/films/c.mp4">"#,
                &endpoint,
                "sub"
            ),
            ["sub/x.mp4"]
        );
    }

    #[test]
    fn a_list_of_lines_may_be_a_playlist() {
        let text =
            "\u{feff}#EXTM3U\r\n#EXTINF:10,Bunny\r\nbunny.mp4\r\n\r\n  http://h/films/b.mp4 \n";
        assert_eq!(
            lines(text).collect::<Vec<_>>(),
            ["bunny.mp4", "http://h/films/b.mp4"]
        );
    }

    #[test]
    fn films_of_another_server_that_play_there_are_taken() {
        let page: Page = serde_json::from_str(
            r#"{"total": 2, "page": 1, "films": [
            {"title": "a/b", "file": "a/b.mp4", "size": 7, "modified": "2026-01-01T00:00:00Z", "state": "ready", "etag": "\"t\""},
            {"title": "c", "file": "c.mkv", "size": 7, "modified": "x", "state": "unplayable"},
            {"title": "../d", "file": "d.mp4", "size": 7, "modified": "x", "state": "ready"}]}"#,
        )
        .unwrap();
        let films: Vec<_> = page.films.iter().filter_map(ListedFilm::film).collect();
        assert_eq!(
            films,
            [(
                "a/b/file".into(),
                "a/b.mp4".into(),
                "7 2026-01-01T00:00:00Z \"t\"".into()
            )]
        );
    }

    #[test]
    fn files_of_subtitles_are_taken_as_far_as_there_is_room_and_a_wrong_list_spoils_no_other() {
        let film = r#"{"title": "a", "file": "a.mp4", "size": 7, "modified": "x", "state": "ready", "subtitle_files": LIST}"#;
        let list = r#"[{"file": "a.en.srt", "version": "1"}]"#;
        let films = [list, "7", list, list].map(|list| film.replace("LIST", list));
        let page = format!(r#"{{"total": 3, "films": [{}]}}"#, films.join(","));
        let page: Page = serde_json::from_str(&page).unwrap();
        let mut room = 2 * list.len() + 1;
        let taken: Vec<usize> = page
            .films
            .iter()
            .map(|film| film.subtitles(&mut room).len())
            .collect();
        assert_eq!(taken, [1, 0, 1, 0]);
        assert!(page.films.iter().all(|film| film.film().is_some()));
    }

    #[test]
    fn a_film_at_a_sibling_is_one_that_plays_there_with_this_length_and_a_strong_tag() {
        let listed = |text: &str| -> ListedFilm { serde_json::from_str(text).unwrap() };
        let film = r#"{"title": "a/b", "file": "a/b.mp4", "size": 7, "modified": "x", "state": "STATE", "etag": "TAG"}"#;
        let ready = film.replace("STATE", "ready");
        let (path, version) = listed(&ready.replace("TAG", "\\\"t\\\""))
            .at_sibling(7)
            .unwrap();
        assert_eq!(
            (path.as_str(), version.strong()),
            ("a/b/file", Some("\"t\""))
        );
        assert_eq!(
            listed(&ready.replace("TAG", "\\\"t\\\"")).at_sibling(8),
            None
        );
        assert_eq!(
            listed(&ready.replace("TAG", "W/\\\"t\\\"")).at_sibling(7),
            None
        );
        assert_eq!(listed(&ready.replace("TAG", "")).at_sibling(7), None);
        let indexing = listed(
            &film
                .replace("STATE", "indexing")
                .replace("TAG", "\\\"t\\\""),
        );
        assert!(indexing.is_being_made() && indexing.at_sibling(7).is_none());
    }

    proptest::proptest! {
        #[test]
        fn any_page_is_read_without_harm(html in "(<a href=[\"'][^>]{0,12}[\"']?>|href|.){0,20}") {
            let endpoint = Address::parse("http://h/films/").unwrap();
            for path in links(&html, &endpoint, "sub") {
                proptest::prop_assert!(path.starts_with("sub/"));
            }
        }
    }
}
