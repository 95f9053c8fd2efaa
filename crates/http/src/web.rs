//! The web pages, as they were built into the binary.

use axum::body::Body;
use axum::http::{HeaderMap, Method, StatusCode, header};

use crate::answer::{self, Answer, accepts_gzip};

/// A file of `web/dist`.
pub(crate) struct File {
    /// Path below `web/dist`.
    path: &'static str,
    /// Strong entity tag.
    etag: &'static str,
    bytes: &'static [u8],
    /// Compressed, where that pays.
    gzip: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Pages get everything from here, and films from `others` too, to which the server may send viewers; scripts and styles are
/// files. `blob:` is what a player's sources and posters are made of. The pages keep to it; see `docs/reference/api.md`.
fn policy(others: &[String]) -> String {
    let films: String = others.iter().map(|other| format!(" {other}")).collect();
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' blob:{films}; \
         connect-src 'self'{films}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

/// Shown when the library was built before the pages.
const UNBUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Reelway</title>\
<h1>Reelway is running</h1><p>Its web pages were not built into it. Build them with \
<code>npm --prefix web ci &amp;&amp; npm --prefix web run build</code>, then build the server again.</p>\
<p>Films can still be played: see <a href=\"/api/films\">/api/films</a> for them and their addresses.</p></html>\n";

/// Answers a request for a page or a part of one; viewers may be sent to these other servers.
pub(crate) fn answer(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    others: &[String],
) -> Answer {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut answer = answer::error(
            StatusCode::METHOD_NOT_ALLOWED,
            "pages only allow GET and HEAD",
        );
        answer::set(&mut answer, header::ALLOW, "GET, HEAD");
        return answer;
    }
    let name = path.trim_start_matches('/');
    let name = if name.is_empty() { "index.html" } else { name };
    match find(name) {
        Some(file) => protect(serve(file, headers), others),
        None if FILES.is_empty() && name == "index.html" => {
            let unbuilt = answer::with(StatusCode::OK, "text/html; charset=utf-8", UNBUILT);
            protect(unbuilt, others)
        }
        None => answer::error(
            StatusCode::NOT_FOUND,
            format!("there is no film and no page at {path}"),
        ),
    }
}

fn find(path: &str) -> Option<&'static File> {
    FILES
        .binary_search_by(|file| file.path.cmp(path))
        .ok()
        .map(|found| &FILES[found])
}

fn serve(file: &'static File, headers: &HeaderMap) -> Answer {
    let gzip = file.gzip.filter(|_| accepts_gzip(headers));
    // Compressed, it is another representation with a tag of its own (RFC 9110 8.8.3.3).
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
        answer::empty(StatusCode::NOT_MODIFIED)
    } else {
        let mut answer = answer::with(
            StatusCode::OK,
            media_type(file.path),
            Body::from(gzip.unwrap_or(file.bytes)),
        );
        if gzip.is_some() {
            answer::set(&mut answer, header::CONTENT_ENCODING, "gzip");
        }
        answer
    };
    answer::set(&mut answer, header::ETAG, &etag);
    answer::set(&mut answer, header::VARY, "Accept-Encoding");
    // Files in `assets` carry a hash of their content in their names.
    let rule = if file.path.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    answer::set(&mut answer, header::CACHE_CONTROL, rule);
    answer
}

fn protect(mut answer: Answer, others: &[String]) -> Answer {
    answer::set(
        &mut answer,
        header::CONTENT_SECURITY_POLICY,
        &policy(others),
    );
    answer::set(&mut answer, header::X_FRAME_OPTIONS, "DENY");
    // Addresses of playlists carry viewers' tokens.
    answer::set(&mut answer, header::REFERRER_POLICY, "no-referrer");
    answer
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
