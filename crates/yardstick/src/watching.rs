//! Monitoring beside the viewers: a server's own metrics, and the load of machines (this one, and
//! network namespaces on it).

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::str::FromStr;
use std::time::Duration;
use std::{fmt, fs, io};

use nix::sched::{CloneFlags, setns};
use serde::Serialize;

use crate::http::fetch_text;
use crate::trouble::Trouble;

/// Maximum number of series of a server's metrics.
const MOST_SERIES: usize = 400;
/// Maximum number of moments; of more, every second, fourth, … is kept.
const MOST_MOMENTS: usize = 3600;
/// Timeout for a page of metrics.
const PATIENCE: Duration = Duration::from_secs(1);

/// Values over time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Series {
    /// Seconds since the start of the run.
    pub at_s: Vec<f64>,
    /// Values by name; null if a value was missing at a moment.
    pub values: BTreeMap<String, Vec<Option<f64>>>,
    /// Why there are no values, or no more.
    pub trouble: Option<String>,
    /// Number of moments that were added.
    #[serde(skip)]
    told: usize,
    /// How many times every second moment was dropped.
    #[serde(skip)]
    halved: u32,
}

impl Series {
    /// Adds the result of [`metrics`] or [`load`].
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
        let number = self.told;
        self.told += 1;
        if !number.is_multiple_of(1 << self.halved) {
            return;
        }
        if self.at_s.len() == MOST_MOMENTS {
            every_second(&mut self.at_s);
            self.values.values_mut().for_each(every_second);
            self.halved += 1;
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

/// Drops every second element, beginning with the second.
fn every_second<T>(all: &mut Vec<T>) {
    let mut number = 0;
    all.retain(|_| {
        number += 1;
        number % 2 == 1
    });
}

/// Parses a page of metrics (Prometheus' text format): names with labels, and values. Histogram
/// buckets are left out, as they are many and say little over time.
fn numbers(page: &str) -> Vec<(String, f64)> {
    let line = |line: &str| {
        let line = line.trim();
        if line.starts_with('#') || line.contains("_bucket{") {
            return None;
        }
        // A label may contain spaces.
        let end = line
            .rfind('}')
            .map_or_else(|| line.find(' '), |at| Some(at + 1))?;
        let (name, rest) = line.split_at(end);
        let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
        value.is_finite().then(|| (name.to_owned(), value))
    };
    page.lines().filter_map(line).collect()
}

/// Fetches a server's current metrics.
///
/// # Errors
/// The page cannot be fetched.
pub async fn metrics(url: &str) -> Result<Vec<(String, f64)>, Trouble> {
    Ok(numbers(&fetch_text(url, PATIENCE).await?))
}

/// A machine whose load is monitored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Machine {
    /// This machine: its busy cores and its interfaces.
    #[default]
    This,
    /// A network namespace by name (`ip netns`): its interfaces, and the CPU time of its processes.
    Namespace(String),
    /// A node, by its metrics: those of Reelway, of Prometheus' `node_exporter`, or of any process
    /// with the usual `process_…` counters.
    Node(String),
}

impl FromStr for Machine {
    type Err = String;

    fn from_str(text: &str) -> Result<Machine, String> {
        match text.split_once(':') {
            Some(("netns", name)) if !name.is_empty() && !name.contains('/') => {
                Ok(Machine::Namespace(name.to_owned()))
            }
            Some(("http", _)) => Ok(Machine::Node(text.to_owned())),
            _ => Err("netns:NAME, or a node's metrics: http://HOST:8080/metrics".to_owned()),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Machine::This => f.write_str("this machine"),
            Machine::Namespace(name) => write!(f, "netns {name}"),
            Machine::Node(url) => {
                let host = url.trim_start_matches("http://").split('/').next();
                f.write_str(host.unwrap_or(url))
            }
        }
    }
}

/// Returns a machine's load counters since its start: seconds of busy cores (`cpu`), and bytes in
/// and out of its interfaces (`eth0 in`).
///
/// # Errors
/// There is no such namespace, it cannot be entered, or the node does not report.
pub async fn load(machine: &Machine) -> Result<Vec<(String, f64)>, Trouble> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    match machine {
        Machine::This => {
            let mut all = interfaces(&read("/proc/net/dev"));
            all.extend(busy(&read("/proc/stat")).map(|busy| ("cpu".to_owned(), busy)));
            Ok(all)
        }
        Machine::Namespace(name) => {
            let name = name.clone();
            // A thread stays in a namespace until it ends.
            let entered = std::thread::spawn(move || namespace(&name)).join();
            Ok(entered.map_err(|_| io::Error::other("a thread panicked"))??)
        }
        Machine::Node(url) => Ok(of_node(&metrics(url).await?)),
    }
}

/// Enters a namespace and returns its load.
fn namespace(name: &str) -> io::Result<Vec<(String, f64)>> {
    let path = format!("/run/netns/{name}");
    let because = |why: io::Error| io::Error::new(why.kind(), format!("{path}: {why}"));
    let file = fs::File::open(&path).map_err(because)?;
    let number = file.metadata()?.ino();
    setns(&file, CloneFlags::CLONE_NEWNET).map_err(|why| because(why.into()))?;
    let mut all = interfaces(&fs::read_to_string("/proc/thread-self/net/dev")?);
    let mut ticks = 0.0;
    for process in fs::read_dir("/proc")?.flatten() {
        let inside = |file: &fs::Metadata| file.ino() == number;
        if fs::metadata(process.path().join("ns/net")).is_ok_and(|file| inside(&file)) {
            let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
            // The name in parentheses may contain anything; user and system time follow it.
            let numbers = stat.rsplit_once(')').map_or("", |(_, numbers)| numbers);
            let times = numbers.split_whitespace().skip(11).take(2);
            ticks += times
                .filter_map(|text| text.parse::<f64>().ok())
                .sum::<f64>();
        }
    }
    all.push(("cpu".to_owned(), ticks / USER_HZ));
    Ok(all)
}

/// Extracts a node's load from its metrics.
fn of_node(metrics: &[(String, f64)]) -> Vec<(String, f64)> {
    let of = |name: &'static str| {
        let series = metrics.iter().filter_map(move |(series, value)| {
            let labels = series.strip_prefix(name)?;
            (labels.is_empty() || labels.starts_with('{')).then_some((labels, *value))
        });
        series.collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    let mut busy = of("node_cpu_seconds_total");
    busy.retain(|(labels, _)| !labels.contains("\"idle\"") && !labels.contains("\"iowait\""));
    if busy.is_empty() {
        busy = of("process_cpu_seconds_total");
    }
    if !busy.is_empty() {
        let sum = busy.iter().map(|(_, value)| value).sum();
        all.push(("cpu".to_owned(), sum));
    }
    for (way, node, process) in [
        (
            "in",
            "node_network_receive_bytes_total",
            "process_network_receive_bytes_total",
        ),
        (
            "out",
            "node_network_transmit_bytes_total",
            "process_network_transmit_bytes_total",
        ),
    ] {
        for (labels, value) in of(node) {
            let device = labels.split('"').nth(1).unwrap_or_default();
            all.push((format!("{device} {way}"), value));
        }
        if of(node).is_empty() {
            all.extend(
                of(process)
                    .first()
                    .map(|(_, value)| (format!("all {way}"), *value)),
            );
        }
    }
    all
}

/// Ticks per second in the kernel's accounting: 100 on every Linux architecture in use.
const USER_HZ: f64 = 100.0;

/// Returns the seconds of busy cores from `/proc/stat`.
fn busy(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<f64> = line
        .split_whitespace()
        .take(8)
        .filter_map(|text| text.parse().ok())
        .collect();
    // user, nice, system, idle, iowait, irq, softirq, steal.
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((ticks.iter().sum::<f64>() - idle) / USER_HZ)
}

/// Returns the bytes in and out of every interface from `/proc/net/dev`.
fn interfaces(dev: &str) -> Vec<(String, f64)> {
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
            all.push((format!("{name} in"), *input));
            all.push((format!("{name} out"), *output));
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
    fn of_a_long_run_moments_are_kept_from_its_beginning_to_its_end() {
        let mut series = Series::default();
        let last = 5 * MOST_MOMENTS as u32;
        for at in 0..=last {
            series.add(f64::from(at), [("a".to_owned(), f64::from(at))]);
        }
        assert!((MOST_MOMENTS / 2..=MOST_MOMENTS).contains(&series.at_s.len()));
        let (first, end) = (series.at_s[0], series.at_s[series.at_s.len() - 1]);
        assert_eq!((first, end), (0.0, f64::from(last)));
        let steps = series.at_s.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(steps.into_iter().all(|step| step == 8.0));
        let values: Vec<Option<f64>> = series.at_s.iter().map(|at| Some(*at)).collect();
        assert_eq!(series.values["a"], values);
    }

    #[tokio::test]
    async fn this_machine_tells_its_load() {
        let mut series = Series::default();
        series.note(0.0, load(&Machine::This).await);
        assert!(series.values["cpu"][0] > Some(0.0));
        assert!(series.values.contains_key("lo in"), "{series:?}");
        let nowhere = load(&Machine::Namespace("rw-nowhere".into())).await;
        assert!(
            nowhere
                .unwrap_err()
                .to_string()
                .contains("/run/netns/rw-nowhere")
        );
    }

    #[test]
    fn a_node_tells_its_load_by_its_own_metrics_or_those_of_its_exporter() {
        let page = "process_cpu_seconds_total 2.5\nprocess_network_receive_bytes_total 7\nprocess_network_transmit_bytes_total 8\n";
        let named = |all: Vec<(String, f64)>| {
            let all = all
                .into_iter()
                .map(|(name, value)| format!("{name} {value}"));
            all.collect::<Vec<_>>()
        };
        assert_eq!(
            named(of_node(&numbers(page))),
            ["cpu 2.5", "all in 7", "all out 8"]
        );
        let exporter = "node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 9\nnode_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 2\nnode_cpu_seconds_total{cpu=\"1\",mode=\"system\"} 1\nnode_network_receive_bytes_total{device=\"eth0\"} 3\n";
        assert_eq!(
            named(of_node(&numbers(&(page.to_owned() + exporter)))),
            ["cpu 3", "eth0 in 3", "all out 8"]
        );
    }
}
