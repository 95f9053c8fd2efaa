//! `reelway cachesim` as a program: traces in and out, charts, and errors for wrong input.

use std::fs;
use std::process::{Command, Output};

use reelway_tests::films::temp_dir;
use reelway_tests::server::binary;

/// A small workload.
const SMALL: &[&str] = &[
    "--films", "10", "--hours", "4", "--warmup", "2", "--block", "16MiB",
];

fn cachesim(arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("cachesim").args(arguments);
    command.output().expect("the program")
}

#[test]
fn a_workload_written_as_a_trace_has_the_same_outcome_when_it_is_read() {
    let dir = temp_dir("cachesim");
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let (trace, made, read, charts) = (path("a.csv"), path("a"), path("b"), path("charts"));
    let first = cachesim(
        &[
            SMALL,
            &[
                "--size",
                "10%,25%",
                "--write-trace",
                &trace,
                "--json",
                &made,
            ],
        ]
        .concat(),
    );
    assert!(first.status.success(), "{first:?}");
    let again = [
        "--trace", &trace, "--size", "10%,25%", "--json", &read, "--svg", &charts,
    ];
    let second = cachesim(&again);
    assert!(second.status.success(), "{second:?}");
    let outcomes = |path: &str| fs::read_to_string(path).expect("outcomes");
    assert_eq!(outcomes(&made), outcomes(&read));
    assert_eq!(first.stdout, second.stdout);
    let chart = fs::read_to_string(dir.path().join("charts/missed-25-percent.svg"));
    let chart = chart.expect("a chart");
    assert!(chart.starts_with("<svg") && chart.contains("timetable"));
}

#[test]
fn ons_is_swept_over_thirteen_thresholds_in_both_readings() {
    let output = cachesim(&[SMALL, &["--policy", "ons-sweep", "--size", "25%"]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.matches("ons:threshold=").count(), 26, "{text}");
    assert_eq!(text.matches("exceed=1").count(), 13, "{text}");
}

#[test]
fn wrong_input_is_wrong_usage_and_says_what_would_be_right() {
    let dir = temp_dir("cachesim");
    let bad = dir.path().join("bad.csv");
    fs::write(&bad, "1,2,3\n0,2,3\n").expect("a file");
    let bad = bad.to_string_lossy().into_owned();
    for (arguments, words) in [
        (
            vec!["--policy", "random"],
            "there is no cache policy `random`",
        ),
        (
            vec!["--policy", "ons:threshold=0"],
            "a number from 1 to 1000 is needed",
        ),
        (vec!["--size", "0%"], "a percentage above 0"),
        (vec!["--size", "200%"], "at most 100"),
        (vec!["--size", "1KiB"], "smaller than a block"),
        (vec!["--zipf", "9"], "zipf is 9: it must be from 0 to 5"),
        (
            vec!["--seeks", "21"],
            "seeks is 21: it must be from 0 to 20",
        ),
        (vec!["--arrivals", "1000"], "use fewer viewers"),
        (vec!["--trace", "/nowhere.csv"], "/nowhere.csv"),
        (vec!["--trace", &bad], "line 2: time 0 comes after 1"),
        (vec!["--frames", "3"], "unexpected argument"),
    ] {
        let output = cachesim(&[SMALL, &arguments].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
}
