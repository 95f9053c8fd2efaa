//! Prometheus' text format (exposition format, version 0.0.4).
//!
//! Each crate writes the metrics that it counts into an [`Exposition`]; the HTTP side combines them
//! at `/metrics`.
#![forbid(unsafe_code)]

use std::fmt::{Display, Write};

/// Metrics as text.
#[derive(Clone, Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a family of metrics; `kind` is `counter`, `gauge`, `histogram` or `summary`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a value to the family that was begun last.
    pub fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(key, value)| {
                let value = value
                    .replace('\\', "\\\\")
                    .replace('"', "\\\"")
                    .replace('\n', "\\n");
                format!("{key}=\"{value}\"")
            })
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    /// Adds a counter without labels.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.value(name, &[], value);
    }

    /// Adds a gauge without labels.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.value(name, &[], value);
    }

    /// Returns the text.
    pub fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut out = Exposition::default();
        out.family("films", "gauge", "Films.");
        out.value("films", &[("title", "a \"b\"\\\nc"), ("state", "ready")], 1);
        out.counter("reads_total", "Reads.", 2.5);
        assert_eq!(
            out.into_text(),
            "# HELP films Films.\n# TYPE films gauge\n\
             films{title=\"a \\\"b\\\"\\\\\\nc\",state=\"ready\"} 1\n\
             # HELP reads_total Reads.\n# TYPE reads_total counter\nreads_total 2.5\n"
        );
    }
}
