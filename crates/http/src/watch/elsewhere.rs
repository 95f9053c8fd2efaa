//! Redirects a new viewer to the server that is to send their film, if that is another one.

use axum::http::{StatusCode, header, request::Parts};
use reelway_catalogue::Place;
use reelway_viewing::Caller;

use crate::answer::{self, Answer};
use crate::films::Show;
use crate::guard::Edge;
use crate::route::{self, Target};
use crate::tls::IsSecure;

/// Query word that marks a viewer as redirected by another server.
const MOVED: &str = "moved";

/// Whether a viewer may be redirected: they are beginning, and were not redirected here. Viewers
/// over TLS stay, since only the non-TLS addresses of other servers are known.
pub(super) fn may_leave(target: Target, request: &Parts, caller: &Caller) -> bool {
    let begins = matches!(
        target,
        Target::Multivariant | Target::StreamMultivariant | Target::Mpd | Target::File
    );
    let is_edge = request.extensions.get::<Edge>().is_some();
    let is_secure = request.extensions.get::<IsSecure>().is_some();
    begins && !is_secure && caller.token.is_none() && !is_edge && !route::flag(request, MOVED)
}

/// Returns the address of the same target at another server.
pub(super) fn address(place: &Place, target: Target) -> String {
    let of_film = match target {
        Target::Mpd => "dash/main.mpd",
        Target::File => "file",
        Target::StreamMultivariant => "ts/main.m3u8",
        _ => "hls/main.m3u8",
    };
    format!("{}/{of_film}", film(place))
}

/// Returns the base address of a film at another server.
pub(super) fn film(place: &Place) -> String {
    format!("{}/{}", place.http, route::encode(&place.title))
}

/// Makes the redirect.
pub(super) fn redirect(show: &Show, place: &Place, target: Target, request: &Parts) -> Answer {
    let query = match request.uri.query() {
        Some(query) => format!("{query}&{MOVED}"),
        None => MOVED.to_owned(),
    };
    let url = format!("{}?{query}", address(place, target));
    let words = format!("film '{}' is sent by {}", show.film.name, place.http);
    let mut answer = answer::error(StatusCode::TEMPORARY_REDIRECT, words);
    answer::set(&mut answer, header::LOCATION, &url);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_begins_may_be_sent_elsewhere_but_not_over_tls_or_twice() {
        let caller = Caller {
            peer: ([127, 0, 0, 1], 4000).into(),
            connection: 0,
            agent: None,
            token: None,
            query: None,
        };
        let may = |path: &str, target, is_secure| {
            let request = axum::http::Request::get(path).body(()).unwrap();
            let mut request = request.into_parts().0;
            if is_secure {
                request.extensions.insert(IsSecure);
            }
            may_leave(target, &request, &caller)
        };
        assert!(may("/film/hls/main.m3u8", Target::Multivariant, false));
        assert!(!may("/film/hls/main.m3u8", Target::Multivariant, true));
        assert!(!may("/film/file?moved", Target::File, false));
        assert!(!may("/film/hls/1.m3u8", Target::Playlist(1), false));
    }

    #[test]
    fn viewers_find_the_same_of_a_film_at_another_server() {
        let place = Place {
            rtsp: "rtsp://edge:8554".into(),
            http: "http://edge:8080".into(),
            title: "a film".into(),
        };
        for (target, of_film) in [
            (Target::Multivariant, "hls/main.m3u8"),
            (Target::StreamMultivariant, "ts/main.m3u8"),
            (Target::Mpd, "dash/main.mpd"),
            (Target::File, "file"),
        ] {
            let expected = format!("http://edge:8080/a%20film/{of_film}");
            assert_eq!(address(&place, target), expected);
        }
    }
}
