//! The pages in docs/benchmarks and the tables in docs/benchmarks.md and the README match the kept
//! figures.

use std::path::PathBuf;

use reelway_bench::{list, publish, summary};

fn pages() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks")
}

#[test]
fn every_missed_figure_has_its_reason_and_no_other() {
    assert_eq!(summary::complaints(&pages()).unwrap(), [""; 0]);
}

#[test]
fn tables_of_figures_are_what_the_kept_figures_say() {
    let renewed = summary::renewed(&pages()).unwrap();
    assert_eq!(
        renewed.len(),
        2,
        "docs/benchmarks.md and README.md have places for figures"
    );
    for (path, text) in renewed {
        let is = std::fs::read_to_string(&path).unwrap();
        assert!(
            is == text,
            "{} differs from the kept figures: run reelway bench --summary docs/benchmarks",
            path.display()
        );
    }
}

#[test]
fn every_page_shows_the_figures_that_are_kept_of_it() {
    for page in list().flat_map(|experiment| experiment.pages) {
        let kept = publish::kept(&pages(), page.name).unwrap();
        let kept = kept.unwrap_or_else(|| panic!("{} has no figures", page.name));
        assert_eq!(kept.stamp.bench, page.name);
        let path = pages().join(format!("{}.md", page.name));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(&kept.head()), "{}", path.display());
    }
}

#[test]
fn an_experiment_of_somebodys_own_folder_leaves_other_files_alone() {
    let dir = std::env::temp_dir().join(format!("reelway-pages-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    assert_eq!(summary::renewed(&dir).unwrap(), []);
    assert_eq!(summary::complaints(&dir).unwrap(), [""; 0]);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_missed_figure_without_a_reason_and_a_reason_without_one_are_named() {
    let dir = std::env::temp_dir().join(format!("reelway-why-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let kept = r#"{"bench": "index", "machine": "m", "when": "2026-11-22T00:00:00Z", "command": "c", "commit": null,
        "seconds": null, "figures": [{"id": "index_ms", "value": 101.0, "unit": "ms", "must": "≤ 100", "met": false,
        "spread": null}]}"#;
    std::fs::write(publish::figures_of(&dir, "index"), kept).unwrap();
    std::fs::write(dir.join("readme.toml"), "row = []").unwrap();
    let why = "[\"index/gone\"]\nwhat = \"a\"\nwhy = \"b\"\n";
    std::fs::write(dir.join("why.toml"), why).unwrap();
    assert_eq!(
        summary::complaints(&dir).unwrap(),
        [
            "\"index/index_ms\" is missed: add what it is and why",
            "\"index/gone\" is not missed: remove its entry"
        ]
    );
    std::fs::remove_dir_all(dir).unwrap();
}
