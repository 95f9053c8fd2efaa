//! Addresses of films. A TITLE may contain slashes, so addresses are parsed from the end.
//!
//! `TITLE/hls/main.m3u8`, `TITLE/hls/steering.json`, `TITLE/hls/ID.m3u8`, `TITLE/dash/main.mpd`,
//! `TITLE/seg/ID/init.mp4`, `TITLE/seg/ID/N.m4s`, `TITLE/hls/subtitles-N.m3u8`,
//! `TITLE/subtitles/N.vtt`, `TITLE/file`, `TITLE/index`; as a transport stream:
//! `TITLE/ts/main.m3u8`, `TITLE/ts/segments.m3u8`, `TITLE/ts/tables-N.ts`, `TITLE/ts/N.ts`.

use axum::http::request::Parts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The requested part of a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// HLS multivariant playlist.
    Multivariant,
    /// HLS content steering manifest.
    Steering,
    /// HLS playlist of the track with this track_ID.
    Playlist(u32),
    /// DASH manifest.
    Mpd,
    /// Initialisation segment of a track.
    Init(u32),
    /// Segment of a track by number.
    Segment(u32, u32),
    /// HLS playlist of subtitles by number.
    SubtitlePlaylist(u32),
    /// Subtitles as WebVTT by number.
    Subtitles(u32),
    /// The film file.
    File,
    /// Its index, for edges.
    Index,
    /// HLS multivariant playlist of the film's transport stream.
    StreamMultivariant,
    /// Playlist of that stream's segments.
    StreamPlaylist,
    /// PAT and PMT of that stream by number.
    StreamTables(u32),
    /// Segment of that stream by number.
    StreamSegment(u32),
}

/// Prefix of the names of a transport stream's tables.
const TABLES: &str = "tables-";
/// Prefix of the names of subtitle playlists.
const SUBTITLES: &str = "subtitles-";

/// Returns the TITLE and target of a request's path; `None` if it does not name a film.
pub(crate) fn film(path: &str) -> Option<(String, Target)> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let (target, title) = match parts.as_slice() {
        [title @ .., "hls", "main.m3u8"] => (Target::Multivariant, title),
        [title @ .., "hls", "steering.json"] => (Target::Steering, title),
        [title @ .., "dash", "main.mpd"] => (Target::Mpd, title),
        [title @ .., "hls", playlist] if playlist.starts_with(SUBTITLES) => {
            let rest = playlist.strip_prefix(SUBTITLES)?;
            let number = number(rest.strip_suffix(".m3u8")?)?;
            (Target::SubtitlePlaylist(number), title)
        }
        [title @ .., "subtitles", file] if file.ends_with(".vtt") => (
            Target::Subtitles(number(file.strip_suffix(".vtt")?)?),
            title,
        ),
        [title @ .., "hls", playlist] if playlist.ends_with(".m3u8") => (
            Target::Playlist(number(playlist.strip_suffix(".m3u8")?)?),
            title,
        ),
        [title @ .., "seg", track, "init.mp4"] => (Target::Init(number(track)?), title),
        [title @ .., "seg", track, segment] if segment.ends_with(".m4s") => (
            Target::Segment(number(track)?, number(segment.strip_suffix(".m4s")?)?),
            title,
        ),
        [title @ .., "ts", "main.m3u8"] => (Target::StreamMultivariant, title),
        [title @ .., "ts", "segments.m3u8"] => (Target::StreamPlaylist, title),
        [title @ .., "ts", file] if file.ends_with(".ts") => {
            let name = file.strip_suffix(".ts")?;
            let target = match name.strip_prefix(TABLES) {
                Some(tables) => Target::StreamTables(number(tables)?),
                None => Target::StreamSegment(number(name)?),
            };
            (target, title)
        }
        [title @ .., "file"] => (Target::File, title),
        [title @ .., "index"] => (Target::Index, title),
        _ => return None,
    };
    if title.is_empty() {
        return None;
    }
    Some((decode(title.iter().copied())?, target))
}

/// Returns the TITLE at the end of an address, such as `/api/films/TITLE`.
pub(crate) fn title(path: &str) -> Option<String> {
    decode(path.split('/'))
}

fn decode<'a>(parts: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut title = String::new();
    for (place, part) in parts.enumerate() {
        if place > 0 {
            title.push('/');
        }
        title.push_str(&percent_decode_str(part).decode_utf8().ok()?);
    }
    Some(title)
}

/// Accepts only one notation of a number, so that each segment has one address.
fn number(text: &str) -> Option<u32> {
    let plain = !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// Returns a value of the request's query. Values set by this server need no decoding: they are
/// letters and digits.
pub(crate) fn query<'a>(request: &'a Parts, name: &str) -> Option<&'a str> {
    let pairs = request
        .uri
        .query()?
        .split('&')
        .filter_map(|pair| pair.split_once('='));
    pairs
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| value)
        .next()
}

/// Decodes a percent-encoded query value.
pub(crate) fn decoded(value: &str) -> String {
    percent_decode_str(value).decode_utf8_lossy().into_owned()
}

/// Whether the query contains this word, with or without a value.
pub(crate) fn flag(request: &Parts, name: &str) -> bool {
    let words = request.uri.query().unwrap_or_default().split('&');
    words
        .map(|word| word.split('=').next().unwrap_or_default())
        .any(|word| word == name)
}

/// Unreserved characters (RFC 3986 2.3) are not encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Encodes a TITLE for an address: each part percent-encoded, slashes kept.
pub(crate) fn encode(title: &str) -> String {
    let parts: Vec<String> = title
        .split('/')
        .map(|part| utf8_percent_encode(part, ENCODED).to_string())
        .collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Option<(String, Target)> {
        film(path)
    }

    #[test]
    fn an_address_is_read_from_its_end() {
        assert_eq!(
            read("/a/hls/main.m3u8"),
            Some(("a".into(), Target::Multivariant))
        );
        assert_eq!(
            read("/a/b%20c/hls/2.m3u8"),
            Some(("a/b c".into(), Target::Playlist(2)))
        );
        assert_eq!(
            read("/hls/hls/main.m3u8"),
            Some(("hls".into(), Target::Multivariant))
        );
        assert_eq!(
            read("/a/seg/1/init.mp4"),
            Some(("a".into(), Target::Init(1)))
        );
        assert_eq!(
            read("/a/seg/1/12.m4s"),
            Some(("a".into(), Target::Segment(1, 12)))
        );
        assert_eq!(
            read("/a/seg/1/file"),
            Some(("a/seg/1".into(), Target::File))
        );
        assert_eq!(read("/a/dash/main.mpd"), Some(("a".into(), Target::Mpd)));
        assert_eq!(
            read("/a/ts/ts/main.m3u8"),
            Some(("a/ts".into(), Target::StreamMultivariant))
        );
        assert_eq!(
            read("/a/ts/segments.m3u8"),
            Some(("a".into(), Target::StreamPlaylist))
        );
        assert_eq!(
            read("/a/ts/tables-2.ts"),
            Some(("a".into(), Target::StreamTables(2)))
        );
        assert_eq!(
            read("/a/ts/7.ts"),
            Some(("a".into(), Target::StreamSegment(7)))
        );
        assert_eq!(
            read("/a/hls/steering.json"),
            Some(("a".into(), Target::Steering))
        );
    }

    #[test]
    fn names_of_all_sorts_come_back() {
        for title in [
            "100% \"sure\"?",
            "ü/🎬 #1",
            "a\\xE9b",
            "..",
            "a+b&c;d=e",
            "x/y/z",
        ] {
            let path = format!("/{}/file", encode(title));
            assert!(path.is_ascii());
            assert_eq!(read(&path), Some((title.into(), Target::File)), "{path}");
        }
        assert_eq!(
            read("/a%2Fb/file"),
            Some(("a/b".into(), Target::File)),
            "an encoded slash is one too"
        );
    }

    #[test]
    fn what_is_no_film_is_none() {
        for path in [
            "/",
            "/file",
            "/hls/main.m3u8",
            "/a/hls/x.m3u8",
            "/a/seg/1/01.m4s",
            "/a/ts/01.ts",
            "/a/ts/tables-.ts",
            "/ts/1.ts",
            "/a/seg/-1/1.m4s",
            "/a",
            "a/file",
            "/%ff/file",
            "/a/seg/4294967296/init.mp4",
        ] {
            assert_eq!(read(path), None, "{path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_path_is_read_without_harm(path in "(/|%|[a-z0-9%/.]|.){0,40}") {
            let _ = film(&path);
            let _ = title(&path);
        }

        #[test]
        fn every_title_comes_back_from_its_address(title in "[^/]{1,20}(/[^/]{1,10}){0,3}") {
            let read = film(&format!("/{}/seg/3/7.m4s", encode(&title)));
            proptest::prop_assert_eq!(read, Some((title, Target::Segment(3, 7))));
        }
    }
}
