//! Many films: how much all caches fetch from the origin, behind one address with each scheduler,
//! with addresses of films, and with redirects to the cache that has the film.

use super::lab::{Run, Setup};
use super::text::{GUEST, table};
use crate::report::{Figure, Report};

const SCHEDULERS: [&str; 11] = [
    "rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "mh", "sed", "nq",
];
/// Schedulers for the addresses of films.
const BY_FILM: [&str; 3] = ["dh", "lblc", "lblcr"];

fn setup(locality: &str, scheduler: &str) -> Setup {
    Setup::default()
        .with("METHOD", "direct")
        .with("LOCALITY", locality)
        .with("SCHEDULER", scheduler)
        .with("FILMS", 48)
        .with("FILM", 60)
        .with("ZIPF", 1)
        .with("CACHE", "5MiB")
        .with("FIRST", 38)
        .with("MORE", 0)
        .with("MOST", 38)
        .with("STEP", 600)
        .with("SECONDS", 300)
}

/// The same with mixed viewers, over RTSP and HLS, who leave, seek and pause.
fn mixed(locality: &str, scheduler: &str) -> Setup {
    setup(locality, scheduler)
        .with("PROTOCOL", "mixed")
        .with("WATCH", "exp:30s")
        .with("SEEK", 20)
        .with("PAUSE", 20)
}

fn is_mixed(run: &Run) -> bool {
    run.setup.get("PROTOCOL") == "mixed"
}

pub fn setups() -> Vec<Setup> {
    let mut all: Vec<Setup> = SCHEDULERS.map(|name| setup("none", name)).into();
    all.extend(BY_FILM.map(|name| setup("films", name)));
    all.push(setup("redirect", "wlc"));
    let ways = [("none", "wlc"), ("films", "dh"), ("redirect", "wlc")];
    all.extend(ways.map(|(locality, scheduler)| mixed(locality, scheduler)));
    all
}

fn fetched(run: &Run) -> f64 {
    run.done("origin").sent
}

pub fn report(runs: &[Run]) -> Report {
    let mut report = Report::new("lvscache-films");
    report.title = "Caches behind a director: many films".into();
    let of = |locality: &'static str| {
        let is = move |run: &&Run| run.setup.get("LOCALITY") == locality && !is_mixed(run);
        runs.iter().filter(is)
    };
    let best = of("none").map(fetched).fold(f64::INFINITY, f64::min);
    let by_hash = of("films").find(|run| run.setup.get("SCHEDULER") == "dh");
    if let (Some(redirect), Some(by_hash)) = (of("redirect").next(), by_hash) {
        let ours = fetched(redirect);
        report.figures.extend([
            Figure::at_most(
                "fetched_against_best_scheduler",
                ours / best,
                "of its bytes from the origin",
                0.8,
            ),
            Figure::at_most(
                "fetched_against_dh_by_film",
                ours / fetched(by_hash),
                "of its bytes from the origin",
                1.05,
            ),
            Figure::at_most(
                "largest_cache",
                redirect.unevenness(),
                "× the mean of all caches",
                1.25,
            ),
            Figure::without_goal(
                "largest_cache_dh_by_film",
                by_hash.unevenness(),
                "× the mean of all caches",
            ),
        ]);
    }
    let row = |run: &Run| {
        let way = match run.setup.get("LOCALITY") {
            "films" => "addresses of films, ",
            "redirect" => "redirects; first contact ",
            _ => "one address, ",
        };
        vec![
            format!("{way}{}", run.setup.get("SCHEDULER")),
            run.story.each.len().to_string(),
            run.unwell().to_string(),
            format!("{:.1}", fetched(run) / 1e6),
            format!(
                "{:.1}",
                100.0 * (1.0 - fetched(run) / run.story.bytes.max(1) as f64)
            ),
            format!("{:.2}", run.unevenness()),
        ]
    };
    const HEAD: [&str; 6] = [
        "viewers are sent by",
        "films watched",
        "not well",
        "fetched from the origin, MB",
        "saved, %",
        "largest cache / mean",
    ];
    let (mixed, plain): (Vec<&Run>, Vec<&Run>) = runs.iter().partition(|run| is_mixed(run));
    let plain = table(&HEAD, plain.into_iter().map(row));
    let mixed = table(&HEAD, mixed.into_iter().map(row));
    report.page = format!(
        "48 films of a minute, 25 MB in all, chosen by Zipf's law (exponent 1) by 114 viewers of 38 addresses, who begin another film when \
         one ends, for five minutes; three caches of 5 MiB by direct routing. {GUEST} What siblings give each other counts as \
         sent, too.\n\n{plain}\n\
         The same with viewers of all kinds: half of them over RTSP (UDP), half over HLS, who watch half a minute on average; of those \
         over RTSP a fifth seeks, and a fifth pauses.\n\n{mixed}"
    );
    report
}
