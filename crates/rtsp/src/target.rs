//! The target of a request: title and track of a URL.

use crate::film::{AS_TS, Form};

/// Query parameter that marks viewers redirected by another server.
const MOVED: &str = "moved";

/// A request's URL, interpreted as far as possible without knowing the films.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `scheme://host:port` as the client wrote it, without user and password; `None` for `*` and
    /// paths alone.
    pub origin: Option<String>,
    /// The path's parts, percent-decoded, without empty parts and without a track.
    parts: Vec<String>,
    /// The last part, if it names a track.
    track: Option<Part>,
    /// The part after `?` as written; it still contains a track that a client appended.
    pub query: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    number: u32,
    text: String,
}

impl Target {
    /// Parses a URL. This never fails; a nonsensical URL names no film.
    pub fn parse(url: &str) -> Target {
        let url = url.trim();
        if url == "*" {
            return Target {
                origin: None,
                parts: Vec::new(),
                track: None,
                query: None,
            };
        }
        let (origin, path) = split_origin(url);
        // Fragments are for the client only, and a query at most says who the viewer is. Clients
        // that ignore Content-Base append the track to the whole URL: rtsp://host/film?x=y/track=1.
        let path = path.split('#').next().unwrap_or(path);
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut parts = Vec::new();
        for part in path.split('/').map(decode) {
            // Encoded slashes separate parts, too.
            let within = part.split('/').filter(|part| !part.is_empty());
            parts.extend(within.map(str::to_owned));
        }
        let appended = query
            .trim_end_matches('/')
            .rsplit_once('/')
            // Drop the track's own query.
            .map(|(_, last)| last.split('?').next().unwrap_or(last))
            .and_then(|last| track(&decode(last)));
        let track = appended.or_else(|| {
            let found = track(parts.last()?)?;
            parts.pop();
            Some(found)
        });
        Target {
            origin,
            parts,
            track,
            query: (!query.is_empty()).then(|| query.to_owned()),
        }
    }

    /// Returns whether another server redirected the viewer here.
    pub fn is_moved(&self) -> bool {
        self.has_word(MOVED)
    }

    /// Returns how the film is requested.
    pub fn form(&self) -> Form {
        match self.has_word(AS_TS) {
            true => Form::TransportStream,
            false => Form::Tracks,
        }
    }

    /// Returns the query if it contains more than the form of the film: it may identify the viewer.
    pub fn about_viewer(&self) -> Option<&str> {
        self.query.as_deref().filter(|query| *query != AS_TS)
    }

    /// Returns whether the query contains this word; a track that a client appended may follow it.
    fn has_word(&self, wanted: &str) -> bool {
        let mut words = self
            .query
            .iter()
            .flat_map(|query| query.split(['&', '/', '?']));
        words.any(|word| word == wanted)
    }

    /// Returns whether no film is named: `*`, or the server's root.
    pub fn is_server(&self) -> bool {
        self.parts.is_empty() && self.track.is_none()
    }

    /// Returns the title if a last part that looks like a track is one.
    pub fn title(&self) -> String {
        self.parts.join("/")
    }

    /// Returns the number of a last part `track=N`.
    pub fn track(&self) -> Option<u32> {
        self.track.as_ref().map(|part| part.number)
    }

    /// Returns the title if a last part that looks like a track belongs to it: films may have such
    /// names.
    pub fn whole_title(&self) -> String {
        let last = self.track.as_ref().map(|part| part.text.as_str());
        self.parts
            .iter()
            .map(String::as_str)
            .chain(last)
            .collect::<Vec<_>>()
            .join("/")
    }
}

/// Returns the URL that redirects a viewer with this query to `url` at another server.
pub fn moved(url: &str, query: Option<&str>) -> String {
    match query {
        Some(query) => format!("{url}?{query}&{MOVED}"),
        None => format!("{url}?{MOVED}"),
    }
}

/// Returns the film's URL with the closing slash, below which its tracks are: `Content-Base`.
pub fn base(origin: &str, title: &str) -> String {
    let mut url = origin.to_owned();
    for part in title.split('/') {
        url.push('/');
        encode(part, &mut url);
    }
    url.push('/');
    url
}

/// Parses `track=N`, case-insensitively.
fn track(part: &str) -> Option<Part> {
    let (name, number) = part.split_once('=')?;
    let number = number
        .parse()
        .ok()
        .filter(|_| name.eq_ignore_ascii_case("track"))?;
    Some(Part {
        number,
        text: part.to_owned(),
    })
}

/// Splits a URL into `rtsp://host:port`, without a user, and the path. A path alone has no origin.
fn split_origin(url: &str) -> (Option<String>, &str) {
    let Some((scheme, rest)) = url.split_once("://") else {
        return (None, url);
    };
    if !["rtsp", "rtspu", "rtsps"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
    {
        return (None, url);
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    // The origin is echoed in Content-Base, so only characters of hosts and ports are allowed.
    let sound = |c: char| c.is_ascii_alphanumeric() || "-._~:[]%".contains(c);
    let origin = (!host.is_empty() && host.chars().all(sound))
        .then(|| format!("{}://{host}", scheme.to_ascii_lowercase()));
    (origin, path)
}

/// Percent-decodes; a `%` without two hexadecimal digits stays as it is, as in names that clients
/// did not encode.
fn decode(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex = |at: usize| {
            after
                .get(at)
                .and_then(|digit| char::from(*digit).to_digit(16))
        };
        match (byte, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Percent-encodes all but RFC 3986's unreserved characters, so that URLs never contain separators
/// of headers and SDP.
fn encode(part: &str, to: &mut String) {
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            to.push(char::from(byte));
        } else {
            to.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title_and_track(url: &str) -> (String, Option<u32>) {
        let target = Target::parse(url);
        (target.title(), target.track())
    }

    #[test]
    fn a_film_and_its_tracks_are_found_however_sloppily_the_slashes_stand() {
        let bunny = |track| ("nature/bunny".to_owned(), track);
        for url in [
            "rtsp://h:8554/nature/bunny",
            "rtsp://h:8554/nature/bunny/",
            "RTSP://h//nature///bunny//",
            "rtsp://user:p@ss@h/nature/bunny",
            "rtsp://[::1]:8554/nature/bunny",
            "rtspu://h/nature/bunny?token=a/b",
            "/nature/bunny",
            "nature%2Fbunny",
            "rtsp://h/n%61ture/bunny#t=3",
        ] {
            assert_eq!(title_and_track(url), bunny(None), "{url}");
        }
        for url in [
            "rtsp://h:8554/nature/bunny/track=2",
            "rtsp://h:8554/nature/bunny/track=2/",
            "rtsp://h:8554/nature/bunny//track=2",
            "rtsp://h:8554/nature/bunny/Track%3D2",
            "rtsp://h:8554/nature/bunny?token=x/track=2",
            "rtsp://h:8554/nature/bunny/?token=x/track=2/",
        ] {
            assert_eq!(title_and_track(url), bunny(Some(2)), "{url}");
        }
    }

    #[test]
    fn names_of_any_kind_come_through_encoded_and_raw() {
        for (url, title) in [
            ("rtsp://h/a%20b", "a b"),
            ("rtsp://h/a b", "a b"),
            ("rtsp://h/%F0%9F%8E%AC", "🎬"),
            ("rtsp://h/🎬", "🎬"),
            ("rtsp://h/100%", "100%"),
            ("rtsp://h/100%25", "100%"),
            ("rtsp://h/%zz%4", "%zz%4"),
            ("rtsp://h/%22quoted%22", "\"quoted\""),
            ("rtsp://h/what%3F", "what?"),
            ("rtsp://h/caf%5CxE9", "caf\\xE9"),
        ] {
            assert_eq!(Target::parse(url).title(), title, "{url}");
            let again = base("rtsp://h", title);
            assert_eq!(Target::parse(&again).title(), title, "{again}");
        }
    }

    #[test]
    fn a_transport_stream_is_asked_for_by_a_word_in_the_query() {
        for (url, track, is_wanted) in [
            ("rtsp://h/film?as=ts", None, true),
            ("rtsp://h/film/?user=me&as=ts", None, true),
            ("rtsp://h/film/track=1?as=ts", Some(1), true),
            ("rtsp://h/film?as=ts/track=1?as=ts", Some(1), true),
            ("rtsp://h/film?as=tsx", None, false),
            ("rtsp://h/film/as=ts", None, false),
        ] {
            let target = Target::parse(url);
            let is_found = target.form() == Form::TransportStream;
            assert_eq!((target.track(), is_found), (track, is_wanted), "{url}");
        }
    }

    #[test]
    fn a_film_may_be_called_like_a_track() {
        let target = Target::parse("rtsp://h/x/track=1");
        assert_eq!((target.title(), target.track()), ("x".to_owned(), Some(1)));
        assert_eq!(target.whole_title(), "x/track=1");
        let of_it = Target::parse("rtsp://h/x/track=1/track=2");
        assert_eq!(
            (of_it.title(), of_it.track()),
            ("x/track=1".to_owned(), Some(2))
        );
    }

    #[test]
    fn the_server_itself_is_named_by_a_star_or_nothing() {
        assert!(Target::parse("*").is_server());
        assert!(Target::parse("rtsp://h").is_server());
        assert!(Target::parse("rtsp://h:554/").is_server());
        assert!(!Target::parse("rtsp://h/x").is_server());
    }

    #[test]
    fn the_origin_comes_back_without_the_password_and_only_if_it_is_one() {
        let origin = |url: &str| Target::parse(url).origin;
        assert_eq!(
            origin("RTSP://me:secret@[fe80::1%25eth0]:8554/x").as_deref(),
            Some("rtsp://[fe80::1%25eth0]:8554")
        );
        assert_eq!(origin("rtsp://h\"<>/x"), None);
        assert_eq!(origin("/x"), None);
        assert_eq!(origin("http://h/x"), None);
    }
}
