//! Texts common to all pages of the experiment.

/// Description of the guest for all pages.
pub const GUEST: &str = "All machines are network namespaces of one kernel in the lab's guest (`lab/tests/lvscache`), whose processor does \
    an instruction in a nanosecond, so that a run is the same on every computer. Caches and director have a link of 10 Mbit/s and \
    90 million instructions a second each, a tenth of the paper's; the film has 70 kbit/s. What a machine's kernel does for its network \
    counts as its own.";

/// Formats a Markdown table.
pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut out = format!("| {} |\n|", head.join(" | "));
    for number in 0..head.len() {
        out += if number == 0 { "---|" } else { "---:|" };
    }
    out.push('\n');
    for row in rows {
        out += &format!("| {} |\n", row.join(" | "));
    }
    out
}
