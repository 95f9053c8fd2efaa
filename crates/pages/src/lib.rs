//! The web pages embedded in the program, and the HTTP responses that serve them. A film server's
//! start page is `index.html`, a director's is `director.html`.
#![forbid(unsafe_code)]

use axum::body::Body;
use axum::http::header::HeaderName;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};

/// A file of `web/dist`.
struct File {
    /// Path relative to `web/dist`.
    path: &'static str,
    /// Strong entity tag.
    etag: &'static str,
    bytes: &'static [u8],
    /// The compressed file, if compression pays off.
    gzip: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Shown if the library was built before the pages.
const UNBUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Reelway</title>\
<h1>Reelway is running</h1><p>Its web pages were not built into it. Build them with \
<code>npm --prefix web ci &amp;&amp; npm --prefix web run build</code>, then build the program again.</p>\
<p>Everything else works.</p></html>\n";

/// The pages of a server.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The page at `/`.
    pub start: &'static str,
    /// Other servers from which the pages may load films.
    pub others: &'a [String],
}

impl Site<'_> {
    /// Answers a request for a page or one of its assets.
    pub fn answer(&self, method: &Method, path: &str, headers: &HeaderMap) -> Response<Body> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let words = "pages only allow GET and HEAD\n";
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, words.to_owned());
            set(&mut answer, header::ALLOW, "GET, HEAD");
            return answer;
        }
        let name = path.trim_start_matches('/');
        let name = if name.is_empty() { self.start } else { name };
        match find(name) {
            Some(file) => self.protect(serve(file, headers)),
            None if FILES.is_empty() && name == self.start => {
                let mut unbuilt = Response::new(Body::from(UNBUILT));
                set(
                    &mut unbuilt,
                    header::CONTENT_TYPE,
                    "text/html; charset=utf-8",
                );
                self.protect(unbuilt)
            }
            None => text(
                StatusCode::NOT_FOUND,
                format!("there is nothing at {path}\n"),
            ),
        }
    }

    /// Returns the content security policy. Pages load everything from this server, and films also
    /// from `others`; scripts and styles are files. `blob:` is needed for a player's sources and
    /// posters. The pages comply with it; see `docs/reference/api.md`.
    fn policy(&self) -> String {
        let films: String = (self.others.iter())
            .map(|other| format!(" {other}"))
            .collect();
        format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' blob:{films}; \
             connect-src 'self'{films}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
    }

    fn protect(&self, mut answer: Response<Body>) -> Response<Body> {
        set(&mut answer, header::CONTENT_SECURITY_POLICY, &self.policy());
        set(&mut answer, header::X_FRAME_OPTIONS, "DENY");
        // Playlist URLs contain viewers' tokens.
        set(&mut answer, header::REFERRER_POLICY, "no-referrer");
        answer
    }
}

fn text(status: StatusCode, words: String) -> Response<Body> {
    let mut answer = Response::new(Body::from(words));
    *answer.status_mut() = status;
    set(
        &mut answer,
        header::CONTENT_TYPE,
        "text/plain; charset=utf-8",
    );
    set(&mut answer, header::CACHE_CONTROL, "no-store");
    answer
}

/// Sets a header to a value made by this server: visible ASCII.
fn set(answer: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

fn find(path: &str) -> Option<&'static File> {
    FILES
        .binary_search_by(|file| file.path.cmp(path))
        .ok()
        .map(|found| &FILES[found])
}

fn serve(file: &'static File, headers: &HeaderMap) -> Response<Body> {
    let gzip = file.gzip.filter(|_| accepts_gzip(headers));
    // The compressed file is a different representation with its own entity tag (RFC 9110 8.8.3.3).
    let etag = match gzip {
        Some(_) => format!("{}-gzip\"", file.etag.trim_end_matches('"')),
        None => file.etag.to_owned(),
    };
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|tags| tags.to_str().ok());
    let known = known.is_some_and(|tags| {
        tags.split(',')
            .any(|tag| tag.trim().trim_start_matches("W/") == etag)
    });
    let mut answer = if known {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        answer
    } else {
        let mut answer = Response::new(Body::from(gzip.unwrap_or(file.bytes)));
        set(&mut answer, header::CONTENT_TYPE, media_type(file.path));
        if gzip.is_some() {
            set(&mut answer, header::CONTENT_ENCODING, "gzip");
        }
        answer
    };
    set(&mut answer, header::ETAG, &etag);
    set(&mut answer, header::VARY, "Accept-Encoding");
    // Files in `assets` have a hash of their contents in their names.
    let rule = if file.path.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    set(&mut answer, header::CACHE_CONTROL, rule);
    answer
}

/// Whether `Accept-Encoding` allows gzip (RFC 9110 12.5.3).
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let mut any = None;
    let mut gzip = None;
    let lines = headers.get_all(header::ACCEPT_ENCODING).iter();
    for coding in lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
    {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let refused = parts
            .filter_map(|part| part.strip_prefix("q="))
            .any(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0));
        if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
            gzip = Some(!refused);
        } else if name == "*" {
            any = Some(!refused);
        }
    }
    gzip.or(any).unwrap_or(false)
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        "wasm" => "application/wasm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(value: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, value.parse().unwrap());
        accepts_gzip(&headers)
    }

    #[test]
    fn gzip_is_used_only_where_it_is_welcome() {
        assert!(accepts("gzip"));
        assert!(accepts("deflate, GZIP;q=0.5"));
        assert!(accepts("br, *"));
        assert!(!accepts("br"));
        assert!(!accepts("gzip;q=0"));
        assert!(!accepts("gzip;q=0, *"));
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
