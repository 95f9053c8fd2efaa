//! What is watched beside the viewers: a server's own metrics, and the load of machines (this one, network
//! namespaces of it).

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde::Serialize;

use crate::Trouble;
use crate::http::fetch_text;

/// Most series of a server's metrics that are kept.
const MOST_SERIES: usize = 400;
/// Most moments.
const MOST_MOMENTS: usize = 3600;
/// Silence after which a page of metrics is given up.
const PATIENCE: Duration = Duration::from_secs(1);

/// Numbers over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    /// Seconds from the beginning of the run.
    pub at_s: Vec<f64>,
    /// Each by its name; what was not there at a moment is null.
    pub values: BTreeMap<String, Vec<Option<f64>>>,
    /// Why there is nothing, or no more.
    pub trouble: Option<String>,
}

impl Series {
    /// Adds what [`metrics`] told.
    pub fn note(&mut self, at_s: f64, told: Result<Vec<(String, f64)>, Trouble>) {
        match told {
            Ok(numbers) => self.add(at_s, numbers),
            Err(trouble) => {
                self.trouble.get_or_insert_with(|| trouble.to_string());
            }
        }
    }

    /// Adds a moment.
    fn add(&mut self, at_s: f64, numbers: impl IntoIterator<Item = (String, f64)>) {
        if self.at_s.len() >= MOST_MOMENTS {
            return;
        }
        let before = self.at_s.len();
        self.at_s.push(at_s);
        for (name, value) in numbers {
            if self.values.len() >= MOST_SERIES && !self.values.contains_key(&name) {
                continue;
            }
            let values = self.values.entry(name).or_default();
            values.resize(before, None);
            values.push(Some(value));
        }
        for values in self.values.values_mut() {
            values.resize(before + 1, None);
        }
    }
}

/// The lines of a page of metrics (Prometheus' text format): name with labels, and value. Histogram buckets
/// are left out: there are many, and they say little over time.
fn numbers(page: &str) -> Vec<(String, f64)> {
    let line = |line: &str| {
        let line = line.trim();
        if line.starts_with('#') || line.contains("_bucket{") {
            return None;
        }
        // A label may hold spaces.
        let end = line
            .rfind('}')
            .map_or_else(|| line.find(' '), |at| Some(at + 1))?;
        let (name, rest) = line.split_at(end);
        let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
        value.is_finite().then(|| (name.to_owned(), value))
    };
    page.lines().filter_map(line).collect()
}

/// A server's own metrics as they are now.
///
/// # Errors
/// The page cannot be had.
pub async fn metrics(url: &str) -> Result<Vec<(String, f64)>, Trouble> {
    Ok(numbers(&fetch_text(url, PATIENCE).await?))
}

/// Adds this machine's load as it is now: seconds of busy cores, and bytes in and out of its interfaces, all
/// since it was started.
pub fn machine(at_s: f64, series: &mut Series) {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut all = interfaces(&read("/proc/net/dev"), "");
    all.extend(busy(&read("/proc/stat")).map(|busy| ("cpu".to_owned(), busy)));
    series.add(at_s, all);
}

/// Seconds of busy cores, by `/proc/stat`.
fn busy(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<f64> = line
        .split_whitespace()
        .take(8)
        .filter_map(|text| text.parse().ok())
        .collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; USER_HZ is 100 on every Linux there is.
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((ticks.iter().sum::<f64>() - idle) / 100.0)
}

/// Bytes in and out of every interface, by `/proc/net/dev`.
fn interfaces(dev: &str, prefix: &str) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for line in dev.lines() {
        let Some((name, fields)) = line.split_once(':') else {
            continue;
        };
        let fields: Vec<f64> = fields
            .split_whitespace()
            .filter_map(|text| text.parse().ok())
            .collect();
        if let (Some(input), Some(output)) = (fields.first(), fields.get(8)) {
            let name = name.trim();
            all.push((format!("{prefix}{name} in"), *input));
            all.push((format!("{prefix}{name} out"), *output));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_with_their_labels() {
        let page = "# HELP a b\n# TYPE a counter\na 1\nb{film=\"x } y\",to=\"z\"} 2.5 1700000000\nc_bucket{le=\"1\"} 3\nd NaN\nnonsense\n";
        assert_eq!(
            numbers(page),
            [
                ("a".to_owned(), 1.0),
                ("b{film=\"x } y\",to=\"z\"}".to_owned(), 2.5)
            ]
        );
    }

    #[test]
    fn what_comes_later_or_goes_is_null_meanwhile() {
        let mut series = Series::default();
        series.add(0.0, [("a".to_owned(), 1.0)]);
        series.add(1.0, [("b".to_owned(), 2.0)]);
        assert_eq!(series.values["a"], [Some(1.0), None]);
        assert_eq!(series.values["b"], [None, Some(2.0)]);
    }

    #[test]
    fn this_machine_tells_its_load() {
        let mut series = Series::default();
        machine(0.0, &mut series);
        assert!(series.values["cpu"][0] > Some(0.0));
        assert!(series.values.contains_key("lo in"), "{series:?}");
    }
}
