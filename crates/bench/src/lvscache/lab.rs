//! Runs in the lab's guest, several at a time: their settings, and the results of machines and
//! viewers.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::bed::Child;

/// The settings for `lab/tests/lvscache/inside`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup(BTreeMap<&'static str, String>);

impl Setup {
    /// Adds or replaces a setting.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Setup {
        self.0.insert(name, value.to_string());
        self
    }

    /// Returns a setting; empty if the guest's default applies.
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Returns the settings in the format that the guest reads.
    fn words(&self) -> String {
        let words: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        words.join(" ")
    }

    /// Returns a name for its folder.
    fn folder(&self) -> String {
        self.words()
            .to_lowercase()
            .replace(|c: char| !c.is_ascii_alphanumeric() && c != '=', "-")
    }
}

/// Millions of instructions per second of a machine: a tenth of the paper's 866 MHz, at one a
/// cycle.
pub const POWER: f64 = 90.0;
/// Speed of a cache's link, bits per second.
pub const LINK: f64 = 10e6;

/// The paper's clients: 8 at first, 6 more at each step up to 38, each with three streams of a
/// film.
pub fn clients(step: u32, seconds: u32, film: u32) -> Setup {
    Setup::default()
        .with("FIRST", 8)
        .with("MORE", 6)
        .with("MOST", 38)
        .with("STEP", step)
        .with("SECONDS", seconds)
        .with("FILM", film)
}

/// The counters of a machine at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the guest started.
    pub at: f64,
    /// Millions of instructions, including those of its kernel for the network.
    pub instructions: f64,
    /// Bytes received.
    pub received: f64,
    /// Bytes sent.
    pub sent: f64,
}

/// A virtual viewer in the yardstick's report.
#[derive(Clone, Debug, Deserialize)]
pub struct Viewer {
    /// Arrival, in seconds since the yardstick began.
    pub came_s: f64,
    pub verdict: String,
}

/// The yardstick's report on all viewers.
#[derive(Clone, Debug, Deserialize)]
pub struct Story {
    pub each: Vec<Viewer>,
    pub bytes: u64,
    pub harmed: u64,
    pub refused: u64,
}

/// A run.
#[derive(Debug)]
pub struct Run {
    pub setup: Setup,
    /// Arrival of the first client, in seconds since the guest started.
    pub begin: f64,
    /// Samples by the machine's name: `origin`, `cache1`, `director`, ….
    pub machines: BTreeMap<String, Vec<Sample>>,
    pub story: Story,
    /// Counters of the director's kernel, if there is a director.
    director: Option<Status>,
    /// Bytes that the director has sent to viewers, as counted by their router.
    pub back: u64,
}

/// The director's own report.
#[derive(Debug, Deserialize)]
struct Status {
    services: Vec<Service>,
}

#[derive(Debug, Deserialize)]
struct Service {
    of: String,
    bytes_in: u64,
}

impl Run {
    /// Reads the guest's results.
    fn read(setup: &Setup, results: &Path) -> anyhow::Result<Run> {
        let text = |name: &str| {
            let path = results.join(name);
            std::fs::read_to_string(&path).with_context(|| path.display().to_string())
        };
        let story = serde_json::from_str(&text("viewers.json")?).context("viewers.json")?;
        let director = match setup.get("METHOD") {
            "none" => None,
            _ => Some(serde_json::from_str(&text("director.json")?).context("director.json")?),
        };
        let back = match setup.get("METHOD") {
            "none" => 0,
            _ => text("back")?.trim().parse().context("back")?,
        };
        Ok(Run {
            director,
            back,
            setup: setup.clone(),
            begin: text("begin")?.trim().parse().context("begin")?,
            machines: machines(&text("samples")?)?,
            story,
        })
    }

    /// Returns the bytes of viewers' packets that IPVS has forwarded to caches.
    pub fn forwarded(&self) -> u64 {
        let services = self.director.iter().flat_map(|status| &status.services);
        services
            // Health checks have their own services.
            .filter(|service| !service.of.starts_with("checks"))
            .map(|service| service.bytes_in)
            .sum()
    }

    /// Returns the caches' names.
    pub fn caches(&self) -> impl Iterator<Item = &str> {
        let names = self.machines.keys().map(String::as_str);
        names.filter(|name| name.starts_with("cache"))
    }

    /// Returns the work of a machine from the first client on, less its work in as much time before
    /// (health checks).
    pub fn done(&self, machine: &str) -> Sample {
        let samples = self.machines.get(machine).map_or(&[][..], Vec::as_slice);
        let before: Vec<&Sample> = samples
            .iter()
            .filter(|sample| sample.at <= self.begin)
            .collect();
        let (Some(first), Some(last)) = (before.first(), samples.last()) else {
            return Sample::default();
        };
        let start = before.last().map_or(**first, |last| **last);
        let idle = (start.at - first.at).max(1.0);
        let seconds = last.at - start.at;
        let beyond = |of: fn(&Sample) -> f64| {
            (of(last) - of(&start) - (of(&start) - of(first)) / idle * seconds).max(0.0)
        };
        Sample {
            at: seconds,
            instructions: beyond(|sample| sample.instructions),
            received: beyond(|sample| sample.received),
            sent: beyond(|sample| sample.sent),
        }
    }

    /// Returns the rate of `of` per second, averaged over `step` seconds, with the seconds since
    /// the first client.
    pub fn course(&self, machine: &str, step: f64, of: fn(&Sample) -> f64) -> Vec<(f64, f64)> {
        let mut out = Vec::new();
        let mut last: Option<&Sample> = None;
        for sample in self.machines.get(machine).into_iter().flatten() {
            match last {
                Some(before) if sample.at - before.at >= step => {
                    let rate = (of(sample) - of(before)) / (sample.at - before.at);
                    out.push((sample.at - self.begin, rate));
                    last = Some(sample);
                }
                None if sample.at >= self.begin => last = Some(sample),
                _ => {}
            }
        }
        out
    }

    /// Returns the peak rate of `of` per second, averaged over `step` seconds.
    pub fn peak(&self, machine: &str, step: f64, of: fn(&Sample) -> f64) -> f64 {
        let course = self.course(machine, step, of).into_iter();
        course.map(|point| point.1).fold(0.0, f64::max)
    }

    /// Returns the most bytes that a cache has sent, divided by the mean of all caches.
    pub fn unevenness(&self) -> f64 {
        let sent: Vec<f64> = self.caches().map(|cache| self.done(cache).sent).collect();
        let mean = sent.iter().sum::<f64>() / sent.len().max(1) as f64;
        sent.into_iter().fold(0.0, f64::max) / mean.max(1.0)
    }

    /// Returns the number of viewers whose film stalled, had errors or was refused.
    pub fn unwell(&self) -> u64 {
        self.story.harmed + self.story.refused
    }
}

/// Parses lines of seconds, name, microseconds (at one instruction per nanosecond), bytes in and
/// out.
fn machines(text: &str) -> anyhow::Result<BTreeMap<String, Vec<Sample>>> {
    let mut all: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [at, name, spent, received, sent] = words[..] else {
            bail!("samples: {line:?}");
        };
        let number = |word: &str| word.parse::<f64>().with_context(|| line.to_owned());
        all.entry(name.to_owned()).or_default().push(Sample {
            at: number(at)?,
            instructions: number(spent)? / 1e3,
            received: number(received)?,
            sent: number(sent)?,
        });
    }
    Ok(all)
}

/// Parameters of all runs.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The lab's command.
    pub command: String,
    /// Number of concurrent runs.
    pub jobs: usize,
    /// Folder of the results; runs by this program and this lab that it holds are not repeated.
    pub results: PathBuf,
}

impl Lab {
    /// Carries out all runs; returns them in the order of their setups.
    pub fn run(&self, setups: &[Setup]) -> anyhow::Result<Vec<Run>> {
        ensure!(
            Path::new(&self.command).is_file(),
            "{} is not there: start this in the repository",
            self.command
        );
        let made_by = &made_by(Path::new(&self.command))?;
        let taken = AtomicUsize::new(0);
        let take = || setups.get(taken.fetch_add(1, Ordering::Relaxed));
        std::thread::scope(|scope| {
            let work = || -> anyhow::Result<()> {
                while let Some(setup) = take() {
                    self.one(setup, made_by)?;
                }
                Ok(())
            };
            let workers: Vec<_> = (0..self.jobs.max(1)).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a run panicked")))
        })?;
        let read = |setup| Run::read(setup, &self.folder(setup).join("lvscache"));
        setups.iter().map(read).collect()
    }

    fn folder(&self, setup: &Setup) -> PathBuf {
        self.results.join(setup.folder())
    }

    /// Carries out a run, unless this very program and lab have done so already.
    fn one(&self, setup: &Setup, made_by: &str) -> anyhow::Result<()> {
        let folder = self.folder(setup);
        let stamp = folder.join("made-by");
        let kept = std::fs::read_to_string(&stamp).unwrap_or_default();
        if kept == made_by && Run::read(setup, &folder.join("lvscache")).is_ok() {
            return Ok(());
        }
        eprintln!("lvscache: {}", setup.words());
        if folder.exists() {
            std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        std::fs::create_dir_all(&folder)?;
        let log = std::fs::File::create(folder.join("log"))?;
        let mut command = Command::new(&self.command);
        command
            .arg("lvscache")
            .env("LVSCACHE", setup.words())
            .env("LAB_RESULTS", &folder)
            .env("REELWAY_BIN", std::env::current_exe()?)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let status = Child::spawn(&mut command)?.end()?;
        ensure!(
            status.success(),
            "{} has failed: see {}",
            setup.words(),
            folder.join("log").display()
        );
        std::fs::write(&stamp, made_by).with_context(|| stamp.display().to_string())
    }
}

/// Returns a digest of everything except the setup on which a run depends: this program, and the
/// files of the lab to which the command belongs.
fn made_by(command: &Path) -> anyhow::Result<String> {
    let folder = command.parent().filter(|dir| *dir != Path::new(""));
    let lab = folder.unwrap_or(Path::new("."));
    let (mut left, mut files) = (vec![lab.to_owned()], vec![std::env::current_exe()?]);
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => left.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    files[1..].sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        let bytes = std::fs::read(&file).with_context(|| file.display().to_string())?;
        (file, bytes).hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        let samples = "10 cache1 1000 100 0\n20 cache1 2000 200 10\n30 cache1 9000 300 1020\n40 cache1 19000 400 3020\n\
                       10 cache2 0 0 0\n20 cache2 0 0 0\n40 cache2 0 0 1000\n";
        Run {
            back: 0,
            setup: Setup::default().with("METHOD", "nat"),
            begin: 21.0,
            machines: machines(samples).unwrap(),
            story: serde_json::from_str(
                r#"{"each": [{"came_s": 0, "left_s": 9, "bytes": 7, "verdict": "well", "stalls": 0, "lost": 0}],
                    "bytes": 7, "harmed": 1, "refused": 2, "packets": 3}"#,
            )
            .unwrap(),
            director: serde_json::from_str(
                r#"{"services": [{"of": "virtual address", "bytes_in": 5, "bytes_out": 70, "mark": 1},
                    {"of": "addresses of films", "bytes_in": 1, "bytes_out": 0},
                    {"of": "checks", "bytes_in": 1000, "bytes_out": 1000}]}"#,
            )
            .unwrap(),
        }
    }

    #[test]
    fn what_checks_cause_is_not_counted_as_forwarded() {
        assert_eq!(run().forwarded(), 6);
    }

    #[test]
    fn what_a_machine_does_without_viewers_is_subtracted() {
        let done = run().done("cache1");
        assert_eq!(done.at, 20.0);
        // 17 in 20 seconds, of which 0.1 per second without viewers.
        assert!((done.instructions - 15.0).abs() < 1e-9);
        assert!((done.sent - (3010.0 - 20.0)).abs() < 1e-9);
        assert_eq!(done.received, 0.0);
        assert_eq!(run().done("director"), Sample::default());
    }

    #[test]
    fn courses_begin_with_the_first_client() {
        let course = run().course("cache1", 10.0, |sample| sample.sent);
        assert_eq!(course, [(19.0, 200.0)]);
        assert_eq!(
            run().peak("cache1", 10.0, |sample| sample.instructions),
            1.0
        );
    }

    #[test]
    fn the_largest_cache_is_compared_with_the_mean() {
        let run = run();
        assert_eq!(run.caches().collect::<Vec<_>>(), ["cache1", "cache2"]);
        assert!((run.unevenness() - 2990.0 / 1995.0).abs() < 1e-9);
        assert_eq!(run.unwell(), 3);
    }

    #[test]
    fn a_setup_has_a_folder_of_its_own() {
        let setup = Setup::default()
            .with("METHOD", "gue:6080")
            .with("CACHES", 3);
        assert_eq!(setup.words(), "CACHES=3 METHOD=gue:6080");
        assert_eq!(setup.folder(), "caches=3-method=gue-6080");
        assert_eq!((setup.get("CACHES"), setup.get("SEED")), ("3", ""));
        assert!(machines("10 cache1 1").is_err());
    }
}
