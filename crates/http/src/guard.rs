//! Access checks: `Host` against DNS rebinding, `Origin` against foreign pages, the token for all
//! changes.
//!
//! An attacker's page can make a viewer's browser send requests to this server, even on the
//! loopback address, under a name that the attacker has rebound to the server's address. Such a
//! request carries the attacker's name in `Host`. An IP address cannot be rebound, and `localhost`
//! is never looked up; other names must be configured.

use std::net::IpAddr;

use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Version, header, uri::Authority};
use reelway_viewing::{bearer, is_secret};

use crate::config::HttpConfig;

/// Why a request is refused.
pub(crate) type Refused = (StatusCode, String);

/// Checks the host name in the request.
pub(crate) fn check_host(config: &HttpConfig, request: &Parts) -> Result<(), Refused> {
    let Some(host) = host(request)? else {
        // HTTP/1.0 does not require one, and browsers do not use it.
        return match request.version {
            Version::HTTP_10 | Version::HTTP_09 => Ok(()),
            _ => Err((StatusCode::BAD_REQUEST, "the request names no host".into())),
        };
    };
    let name = host.host();
    if is_own_name(config, name) {
        return Ok(());
    }
    let words = format!(
        "'{name}' is not a name of this server; to allow it, add it to `names` in the configuration"
    );
    Err((StatusCode::FORBIDDEN, words))
}

fn is_own_name(config: &HttpConfig, name: &str) -> bool {
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    if bare.parse::<IpAddr>().is_ok() {
        return true;
    }
    let bare = bare.strip_suffix('.').unwrap_or(bare);
    let same = |own: &str| own.trim_end_matches('.').eq_ignore_ascii_case(bare);
    let is_localhost = same("localhost") || bare.to_ascii_lowercase().ends_with(".localhost");
    is_localhost || config.names.iter().any(|own| same(own))
}

/// Returns the authority of the request line, or else of `Host`.
pub(crate) fn host(request: &Parts) -> Result<Option<Authority>, Refused> {
    if let Some(authority) = request.uri.authority() {
        return Ok(Some(authority.clone()));
    }
    let mut hosts = request.headers.get_all(header::HOST).iter();
    let (host, more) = (hosts.next(), hosts.next());
    if more.is_some() {
        return Err((
            StatusCode::BAD_REQUEST,
            "the request names several hosts".into(),
        ));
    }
    let Some(host) = host else { return Ok(None) };
    let parsed = host
        .to_str()
        .ok()
        .and_then(|host| host.parse::<Authority>().ok());
    parsed.map(Some).ok_or_else(|| {
        (
            StatusCode::BAD_REQUEST,
            "the request's Host is not a host".into(),
        )
    })
}

/// Checks a request for a change: not from a foreign page, and only with the token.
pub(crate) fn check_change(config: &HttpConfig, request: &Parts) -> Result<(), Refused> {
    if let Some(origin) = request.headers.get(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or("null");
        if !is_own_origin(request, origin) && !is_allowed_origin(config, origin) {
            let words = format!(
                "pages of '{origin}' may not change anything here; see `http.allowed_origins`"
            );
            return Err((StatusCode::FORBIDDEN, words));
        }
    } else if request
        .headers
        .get("sec-fetch-site")
        .is_some_and(|site| site == "cross-site")
    {
        return Err((
            StatusCode::FORBIDDEN,
            "foreign pages may not change anything here".into(),
        ));
    }
    if config.api_token.is_empty() {
        return Err((
            StatusCode::FORBIDDEN,
            "this server has no API token, so nothing can be changed".into(),
        ));
    }
    let authorization = request.headers.get(header::AUTHORIZATION);
    let authorization = authorization.and_then(|value| value.to_str().ok());
    match authorization.and_then(bearer) {
        Some(token) if is_secret(token, &config.api_token) => Ok(()),
        _ => Err((
            StatusCode::UNAUTHORIZED,
            "this needs the token (`Authorization: Bearer TOKEN`); it is in the file `token` of the state \
             directory".into(),
        )),
    }
}

/// Marks a request for a film as sent by an edge that has presented a token; stored in the
/// request's extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge;

/// Whether a request comes from an edge.
///
/// # Errors
/// Edge tokens are configured, and the request carries a different one.
pub(crate) fn check_edge(config: &HttpConfig, request: &Parts) -> Result<Option<Edge>, Refused> {
    let authorization = request.headers.get(header::AUTHORIZATION);
    let authorization = authorization.and_then(|value| value.to_str().ok());
    match authorization.and_then(bearer) {
        Some(token) if !config.edge_tokens.is_empty() => {
            let mut tokens = config.edge_tokens.iter();
            match tokens.any(|edge| is_secret(token, edge)) {
                true => Ok(Some(Edge)),
                false => Err((
                    StatusCode::UNAUTHORIZED,
                    "the token is not among the server's `http.edge_tokens`".into(),
                )),
            }
        }
        _ => Ok(None),
    }
}

/// Checks that another site's page does not make a viewer's browser request films in ways that no
/// player does: as an image, as a script, or without access to the answer. Each playlist makes a
/// session, and a page could request thousands.
pub(crate) fn check_page(request: &Parts) -> Result<(), Refused> {
    let says = |name: &str, values: &[&str]| {
        let value = request
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok());
        value.is_some_and(|value| values.contains(&value))
    };
    let is_player = says("sec-fetch-dest", &["video", "audio"]);
    if says("sec-fetch-site", &["cross-site"]) && says("sec-fetch-mode", &["no-cors"]) && !is_player
    {
        let words =
            "pages of other sites may fetch films with CORS, or play them in a video element";
        return Err((StatusCode::FORBIDDEN, words.into()));
    }
    Ok(())
}

fn is_own_origin(request: &Parts, origin: &str) -> bool {
    let Ok(Some(host)) = host(request) else {
        return false;
    };
    let name = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    name.is_some_and(|name| name.eq_ignore_ascii_case(host.as_str()))
}

/// Whether pages of this origin may use the API.
pub(crate) fn is_allowed_origin(config: &HttpConfig, origin: &str) -> bool {
    config
        .allowed_origins
        .iter()
        .any(|allowed| allowed.trim_end_matches('/').eq_ignore_ascii_case(origin))
}

/// Whether a method makes changes.
pub(crate) fn changes(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn config() -> HttpConfig {
        HttpConfig {
            names: vec!["films.example".into()],
            allowed_origins: vec!["https://tv.example".into()],
            api_token: "secret".into(),
            ..HttpConfig::default()
        }
    }

    fn request(headers: &[(&str, &str)]) -> Parts {
        let mut builder = Request::builder()
            .method(Method::DELETE)
            .uri("/api/sessions/x");
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap().into_parts().0
    }

    fn host_status(host: &str) -> Option<u16> {
        check_host(&config(), &request(&[("host", host)]))
            .err()
            .map(|(status, _)| status.as_u16())
    }

    #[test]
    fn addresses_and_own_names_are_welcome() {
        for host in [
            "localhost:8080",
            "127.0.0.1",
            "192.168.1.5:8080",
            "[::1]:8080",
            "films.example",
            "Films.Example.:80",
            "tv.localhost",
        ] {
            assert_eq!(host_status(host), None, "{host}");
        }
    }

    #[test]
    fn rebound_names_are_refused() {
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "notlocalhost",
            "films.example.evil",
        ] {
            assert_eq!(host_status(host), Some(403), "{host}");
        }
        assert_eq!(host_status("a b"), Some(400));
        assert_eq!(
            check_host(&config(), &request(&[])).unwrap_err().0.as_u16(),
            400
        );
        let twice = request(&[("host", "localhost"), ("host", "evil.example")]);
        assert_eq!(check_host(&config(), &twice).unwrap_err().0.as_u16(), 400);
    }

    fn change_status(headers: &[(&str, &str)]) -> Option<u16> {
        let mut all = vec![("host", "localhost:8080")];
        all.extend_from_slice(headers);
        check_change(&config(), &request(&all))
            .err()
            .map(|(status, _)| status.as_u16())
    }

    #[test]
    fn changes_want_the_token() {
        assert_eq!(change_status(&[]), Some(401));
        assert_eq!(
            change_status(&[("authorization", "Bearer wrong!")]),
            Some(401)
        );
        assert_eq!(
            change_status(&[("authorization", "Bearer secre")]),
            Some(401)
        );
        assert_eq!(change_status(&[("authorization", "bearer secret")]), None);
        let none = HttpConfig {
            api_token: String::new(),
            ..config()
        };
        let empty = request(&[("host", "localhost"), ("authorization", "Bearer ")]);
        assert_eq!(check_change(&none, &empty).unwrap_err().0.as_u16(), 403);
    }

    #[test]
    fn foreign_pages_are_refused_even_with_the_token() {
        let token = ("authorization", "Bearer secret");
        assert_eq!(
            change_status(&[token, ("origin", "http://localhost:8080")]),
            None
        );
        assert_eq!(
            change_status(&[token, ("origin", "https://tv.example")]),
            None
        );
        assert_eq!(
            change_status(&[token, ("origin", "http://localhost:9090")]),
            Some(403)
        );
        assert_eq!(
            change_status(&[token, ("origin", "https://evil.example")]),
            Some(403)
        );
        assert_eq!(change_status(&[token, ("origin", "null")]), Some(403));
        assert_eq!(
            change_status(&[token, ("sec-fetch-site", "cross-site")]),
            Some(403)
        );
    }

    #[test]
    fn a_foreign_page_fetches_films_as_a_player_does_or_not_at_all() {
        let status = |site, mode, dest| {
            let asked = request(&[
                ("sec-fetch-site", site),
                ("sec-fetch-mode", mode),
                ("sec-fetch-dest", dest),
            ]);
            check_page(&asked).err().map(|(status, _)| status.as_u16())
        };
        for dest in ["image", "script", "empty"] {
            assert_eq!(status("cross-site", "no-cors", dest), Some(403), "{dest}");
            assert_eq!(status("same-origin", "no-cors", dest), None, "{dest}");
        }
        assert_eq!(
            status("cross-site", "cors", "empty"),
            None,
            "a player's script"
        );
        assert_eq!(status("cross-site", "no-cors", "video"), None);
        assert_eq!(status("cross-site", "navigate", "document"), None, "a link");
        assert!(check_page(&request(&[])).is_ok(), "no browser");
    }
}
