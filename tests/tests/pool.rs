//! The block pool is booked without being configured: nobody is admitted for whom it has no room,
//! and viewers who share blocks are not counted twice.

use reelway_tests::films::{film, library, temp_dir};
use reelway_tests::server::Options;
use reelway_tests::yardstick::yardstick;
use serde_json::Value;

/// A pool of 64 blocks.
const POOL: &str = "\"16MiB\"";

fn count(report: &Value, what: &str) -> u64 {
    report[what]
        .as_u64()
        .unwrap_or_else(|| panic!("{what}: {report:#}"))
}

#[test]
fn of_45_viewers_of_films_of_their_own_as_many_are_let_in_as_a_small_pool_carries() {
    let dir = temp_dir("pool");
    let source = film("seeks").path;
    let names: Vec<String> = (0..45).map(|number| format!("film{number}")).collect();
    for name in &names {
        std::fs::copy(&source, dir.path().join(format!("{name}.mp4"))).expect("a copy");
    }
    let server = Options::new(dir.path()).set("pool.size", POOL).start();
    server.wait_indexed();
    let urls: Vec<String> = names.iter().map(|name| server.rtsp_url(name)).collect();
    let mut words: Vec<&str> = urls.iter().map(String::as_str).collect();
    words.extend(["--arrivals=burst:45", "--films=even", "--watch=15s"]);
    let (_, printed, report) = yardstick(&words);
    let (admitted, refused) = (count(&report, "admitted"), count(&report, "refused"));
    println!("{printed}");
    assert_eq!(admitted + refused, 45, "{printed}");
    assert!((8..=40).contains(&admitted), "{printed}");
    assert!(printed.contains("453"), "{printed}");
    assert_eq!(count(&report, "lost"), 0, "{printed}");
    // If nothing else runs on the machine, they are on time as well.
    if std::env::var_os("REELWAY_LONG").is_some() {
        let late = report["late_p99_ms"].as_f64().expect("a number");
        assert!(late <= 20.0, "{late} ms late\n{printed}");
    }
}

#[test]
fn two_hundred_viewers_of_one_film_share_a_small_pool() {
    let films = library(&["seeks"]);
    let server = Options::new(films.path()).set("pool.size", POOL).start();
    server.wait_indexed();
    let url = server.rtsp_url("seeks");
    let (_, printed, report) =
        yardstick(&[&url, "--arrivals=burst:200", "--watch=5s", "--buffer=60"]);
    assert_eq!(
        (count(&report, "admitted"), count(&report, "lost")),
        (200, 0),
        "{printed}"
    );
}
