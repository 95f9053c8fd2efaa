//! Edges of one origin that know each other.

use std::fs;
use std::path::Path;
use std::time::Duration;

use reelway_tests::elsewhere::Spoiler;
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

use crate::open_to_all;

const TOKEN: &str = "a token of siblings";

/// Edges of an origin, each behind a proxy that its siblings use to reach it.
pub struct Group {
    pub edges: Vec<Server>,
    pub proxies: Vec<Spoiler>,
}

impl Group {
    /// Starts this many edges of an origin that know each other. They look for new films every
    /// second.
    pub fn of(count: usize, origin: &str) -> Group {
        Group::with(count, origin, |options| options)
    }

    pub fn with(count: usize, origin: &str, change: impl Fn(Options) -> Options) -> Group {
        // The proxies have no server until the edges have started.
        let nowhere = ([127, 0, 0, 1], 1).into();
        let proxies: Vec<Spoiler> = (0..count).map(|_| Spoiler::of(nowhere)).collect();
        let urls: Vec<String> = proxies
            .iter()
            .map(|proxy| format!("'http://{}/'", proxy.at))
            .collect();
        let edges: Vec<Server> = proxies
            .iter()
            .map(|proxy| {
                let options = Options::nothing()
                    .set("source", format!("[{{ url = '{origin}', refresh = 1 }}]"))
                    .set("siblings.urls", format!("[{}]", urls.join(", ")))
                    .set("siblings.token", format!("'{TOKEN}'"))
                    .set("http.ahead", 3600);
                let edge = change(options).start();
                proxy.leads_to(edge.http);
                edge
            })
            .collect();
        let group = Group { edges, proxies };
        group.meet();
        group
    }

    /// Waits until each edge considers all others healthy.
    pub fn meet(&self) {
        for edge in &self.edges {
            meets(edge, self.edges.len() - 1);
        }
    }

    /// Waits until all edges have a film.
    pub fn have(&self, title: &str) {
        for edge in &self.edges {
            let path = format!("/api/films/{}", title.replace(' ', "%20"));
            let has = wait::until(Duration::from_secs(30), || {
                (edge.get(&path).json()["state"] == "ready").then_some(())
            });
            assert!(has.is_some(), "{}", edge.log());
        }
    }

    pub fn sum(&self, name: &str) -> f64 {
        self.edges.iter().map(|edge| sum(edge, name)).sum()
    }

    /// Lets `each` viewers fetch the whole film from each edge, all at the same time.
    pub fn play(&self, each: usize, title: &str, film: &[u8]) {
        let path = format!("/{}/file", title.replace(' ', "%20"));
        std::thread::scope(|scope| {
            for edge in &self.edges {
                for _ in 0..each {
                    scope.spawn(|| assert!(edge.get(&path).body == film));
                }
            }
        });
    }
}

/// Waits until an edge considers this many siblings healthy.
pub fn meets(edge: &Server, siblings: usize) {
    let met = wait::until(Duration::from_secs(60), || {
        (sum(edge, "reelway_sibling_up") == siblings as f64).then_some(())
    });
    assert!(met.is_some(), "{}", edge.log());
}

/// The sum of a metric's values.
pub fn sum(server: &Server, name: &str) -> f64 {
    let text = server.get("/metrics").text();
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let rest = match rest.strip_prefix('{') {
            Some(rest) => rest.split_once("} ")?.1,
            None => rest.strip_prefix(' ')?,
        };
        rest.parse::<f64>().ok()
    });
    values.sum()
}

/// Moves a film into a directory atomically.
pub fn put(dir: &Path, title: &str, film: &[u8]) {
    let (draft, place) = (dir.join("draft"), dir.join(format!("{title}.mp4")));
    fs::write(&draft, film).expect("a draft");
    fs::rename(&draft, &place).expect("a film");
    open_to_all(dir);
}
