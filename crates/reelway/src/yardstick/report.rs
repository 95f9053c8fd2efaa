//! The report: one HTML file that loads no other resources.

use std::path::Path;

use anyhow::Context;
use reelway_yardstick::watching::{Machine, Series};
use serde_json::{Value, json};

use super::beside::Observations;

const PAGE: &str = include_str!("report.html");

/// Writes the report.
pub fn write(path: &Path, story: &Value, seen: &Observations) -> anyhow::Result<()> {
    let machine = |(machine, series): &(Machine, Series)| json!({"name": machine.to_string(), "series": series});
    let data = json!({
        "command": std::env::args().collect::<Vec<_>>().join(" "),
        "when": reelway_clock::real().to_string(),
        "story": story,
        "machines": seen.machines.iter().map(machine).collect::<Vec<_>>(),
        "metrics": seen.metrics,
    });
    // In a script element, only its end tag could be misread; in JSON, an escaped "<" is the same.
    let text = serde_json::to_string(&data)?.replace('<', "\\u003c");
    let page = PAGE.replacen("DATA", &text, 1);
    std::fs::write(path, page).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_cannot_leave_its_place() {
        let dir = std::env::temp_dir().join(format!("reelway-report-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("report.html");
        let story = json!({"each": [{"url": "</script><script>alert(1)</script>"}]});
        write(&path, &story, &Observations::default()).unwrap();
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(!page.contains("alert(1)</script>"));
        // It loads no other resources (the namespace is only a name).
        assert!(!page.contains("src=") && !page.contains("@import") && !page.contains("fetch("));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
