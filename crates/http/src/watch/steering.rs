//! Content steering (draft-pantos-hls-rfc8216bis, section 7): an HLS player asks periodically which
//! server to use, and continues at another one if its server fails.
//!
//! It asks a different server from the one it plays from: that server notices within seconds that
//! its neighbour is gone, while a player would retry for a long time. The other servers are
//! *pathway clones*, named only in this manifest, so that players without content steering send
//! them no requests.

use std::sync::Arc;

use axum::http::{StatusCode, header};
use reelway_catalogue::Place;
use reelway_package::{Rendition, StableIds, stable_ids};
use serde_json::json;

use super::elsewhere::film;
use super::playlist::way;
use crate::answer::{self, Answer};
use crate::films::Show;

/// Seconds after which a player asks again: its buffer must last for this time and the time in
/// which a server notices that another one is gone.
const AGAIN: u32 = 5;
/// The pathway of everything in the playlist.
const NAMED: &str = ".";

/// The servers that a player may use.
pub(super) struct Servers {
    /// This server, as viewers reach it.
    pub own: Place,
    /// Whether it is stopping.
    pub is_ending: bool,
    /// Other servers that play the film.
    pub others: Vec<Place>,
    /// All other healthy servers.
    pub well: Vec<String>,
}

/// Returns the manifest's address for a player that plays a film from this server.
pub(super) fn address(own: &str, others: &[Place]) -> Option<String> {
    let (place, host) = (others.first()?, host(own)?);
    Some(format!("{}/hls/steering.json?at={host}", film(place)))
}

/// Makes the manifest for a player with this token whose playlist comes from `at` (`host:port`), or
/// from here.
pub(super) fn answer(
    (show, renditions): (&Show, &[Arc<Show>]),
    servers: &Servers,
    at: Option<&str>,
    token: Option<&str>,
) -> Answer {
    let ways: Vec<String> = renditions
        .iter()
        .map(|other| way(&show.film.name, &other.film.name))
        .collect();
    let renditions: Vec<_> = renditions
        .iter()
        .zip(&ways)
        .map(|(other, path)| Rendition {
            package: &other.package,
            path,
            segments: None,
        })
        .collect();
    let ids = stable_ids(&show.package, &renditions);
    let manifest = manifest(&ids, servers, at, token).to_string();
    let mut answer = answer::with(StatusCode::OK, "application/json", manifest);
    answer::set(&mut answer, header::CACHE_CONTROL, "no-store");
    answer
}

fn manifest(
    ids: &StableIds,
    servers: &Servers,
    at: Option<&str>,
    token: Option<&str>,
) -> serde_json::Value {
    let own = host(&servers.own.http).unwrap_or_default();
    let at = at.unwrap_or(own);
    let mut clones: Vec<&Place> = servers.others.iter().collect();
    let place = if servers.is_ending { clones.len() } else { 0 };
    clones.insert(place, &servers.own);
    clones.retain(|clone| host(&clone.http) != Some(at));
    let is_well = match at == own {
        true => !servers.is_ending,
        false => servers.well.iter().any(|well| host(well) == Some(at)),
    };
    let mut priority: Vec<String> = clones.iter().map(|place| id(place)).collect();
    let place = if is_well { 0 } else { priority.len() };
    priority.insert(place, NAMED.to_owned());
    let clones: Vec<_> = (clones.iter())
        .map(|place| clone(place, ids, token))
        .collect();
    json!({
        "VERSION": 1,
        "TTL": AGAIN,
        "PATHWAY-PRIORITY": priority,
        "PATHWAY-CLONES": clones,
    })
}

/// Describes a server as a pathway, with its own address for each playlist. The viewer keeps their
/// token.
fn clone(place: &Place, ids: &StableIds, token: Option<&str>) -> serde_json::Value {
    let query = token.map(|token| format!("?s={token}")).unwrap_or_default();
    let film = film(place);
    let addresses = |ids: &[(String, String)]| {
        let each = ids.iter().map(|(id, playlist)| {
            let address = resolved(&film, playlist) + &query;
            (id.clone(), address.into())
        });
        serde_json::Value::Object(each.collect())
    };
    json!({
        "BASE-ID": NAMED,
        "ID": id(place),
        "URI-REPLACEMENT": {
            "PER-VARIANT-URIS": addresses(&ids.variants),
            "PER-RENDITION-URIS": addresses(&ids.renditions),
        },
    })
}

/// Returns a playlist's absolute address, given relative to the film's multivariant playlist.
fn resolved(film: &str, mut playlist: &str) -> String {
    let mut folder = format!("{film}/hls");
    while let Some(above) = playlist.strip_prefix("../") {
        folder.truncate(folder.rfind('/').unwrap_or(0));
        playlist = above;
    }
    format!("{folder}/{playlist}")
}

fn host(address: &str) -> Option<&str> {
    Some(address.split_once("://")?.1)
}

/// Returns a server's name as a pathway: letters, digits and dashes.
fn id(place: &Place) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let host = host(&place.http).unwrap_or_default();
    host.chars().map(allowed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(http: &str, title: &str) -> Place {
        Place {
            rtsp: String::new(),
            http: http.to_owned(),
            title: title.to_owned(),
        }
    }

    fn manifest_at_edge_3(is_ending: bool, well: &[&str], at: Option<&str>) -> serde_json::Value {
        let servers = Servers {
            own: place("http://edge3:80", "film"),
            is_ending,
            others: vec![place("http://edge1:80", "another folder/film")],
            well: well.iter().map(|host| format!("http://{host}")).collect(),
        };
        let ids = StableIds {
            variants: vec![
                ("1-sound".to_owned(), "1.m3u8".to_owned()),
                (
                    "r1-1-sound".to_owned(),
                    "../../film.set/low/hls/1.m3u8".to_owned(),
                ),
            ],
            renditions: vec![("2".to_owned(), "2.m3u8".to_owned())],
        };
        manifest(&ids, &servers, at, Some("TOKEN"))
    }

    fn priority(is_ending: bool, well: &[&str], at: Option<&str>) -> Vec<String> {
        let manifest = manifest_at_edge_3(is_ending, well, at);
        let names = manifest["PATHWAY-PRIORITY"].as_array().unwrap();
        let clones = manifest["PATHWAY-CLONES"].as_array().unwrap();
        assert_eq!(names.len(), clones.len() + 1);
        names
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn a_clone_has_the_same_playlists_at_its_own_addresses() {
        let manifest = manifest_at_edge_3(false, &[], None);
        assert_eq!(
            manifest["PATHWAY-CLONES"],
            json!([{
                "BASE-ID": ".",
                "ID": "edge1-80",
                "URI-REPLACEMENT": {
                    "PER-VARIANT-URIS": {
                        "1-sound": "http://edge1:80/another%20folder/film/hls/1.m3u8?s=TOKEN",
                        "r1-1-sound": "http://edge1:80/another%20folder/film.set/low/hls/1.m3u8?s=TOKEN",
                    },
                    "PER-RENDITION-URIS": { "2": "http://edge1:80/another%20folder/film/hls/2.m3u8?s=TOKEN" },
                },
            }])
        );
    }

    #[test]
    fn a_player_stays_where_it_is_until_that_server_is_gone() {
        let at = Some("edge2:80");
        assert_eq!(
            priority(false, &["edge1:80", "edge2:80"], at),
            [".", "edge3-80", "edge1-80"]
        );
        assert_eq!(
            priority(false, &["edge1:80"], at),
            ["edge3-80", "edge1-80", "."]
        );
    }

    #[test]
    fn a_server_that_ends_is_the_last_choice() {
        assert_eq!(priority(false, &["edge1:80"], None), [".", "edge1-80"]);
        assert_eq!(priority(true, &["edge1:80"], None), ["edge1-80", "."]);
        assert_eq!(
            priority(true, &["edge1:80"], Some("edge2:80")),
            ["edge1-80", "edge3-80", "."]
        );
    }

    #[test]
    fn the_manifest_is_at_another_server() {
        let others = [
            place("http://edge3:80", "a b"),
            place("http://edge1:80", "a b"),
        ];
        let address = address("http://[::1]:80", &others);
        assert_eq!(
            address.as_deref(),
            Some("http://edge3:80/a%20b/hls/steering.json?at=[::1]:80")
        );
    }
}
