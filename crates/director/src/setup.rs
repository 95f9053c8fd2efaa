//! Settings of this machine: made, and put back.

use std::fmt;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::journal::{Journal, Undo};
use crate::steps::Step;

/// A setting could not be made.
#[derive(Debug)]
pub struct SetupError {
    /// The step that failed.
    pub step: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, self.reason)
    }
}

impl std::error::Error for SetupError {}

/// Settings made by this program and by a predecessor that was killed. They are put back when this
/// is dropped.
#[derive(Debug)]
pub struct Setup {
    journal: Journal,
    stays: bool,
}

impl fmt::Display for Step {
    /// Formats the step as a command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Address { address, interface } => {
                let options = options(*address);
                write!(
                    f,
                    "ip address add {address}/{} dev {interface}{options}",
                    bits(self)
                )
            }
            Step::Setting { key, value } => write!(f, "sysctl {key}={value}"),
            Step::Rules { table, rules } => {
                write!(
                    f,
                    "nft 'table inet {table} {{ {} }}'",
                    rules.trim().replace('\n', " ")
                )
            }
            Step::Made { make, .. } => f.write_str(&make.join(" ")),
        }
    }
}

/// Returns the options for adding an address. For IPv6: no duplicate address detection, as other
/// machines have the address too, and no choice of it as a source address, as the edge has it too
/// and would keep the answers to the director's checks.
fn options(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "",
        IpAddr::V6(_) => " nodad preferred_lft 0",
    }
}

fn bits(step: &Step) -> u8 {
    match step {
        Step::Address { address, .. } if address.is_ipv6() => 128,
        _ => 32,
    }
}

impl Setup {
    /// Makes these settings, in this order. If one fails, the earlier ones are put back, and so are
    /// those that another program has left, unless `keep` is set. The undo steps are recorded in
    /// this directory, so that the next program puts them back if this one is killed.
    ///
    /// # Errors
    /// The first setting that fails.
    pub fn make(steps: &[Step], dir: &Path, keep: bool) -> Result<Setup, SetupError> {
        let journal = Journal::open(dir).map_err(|error| SetupError {
            step: dir.display().to_string(),
            reason: error.to_string(),
        })?;
        let left = journal.len();
        let mut setup = Setup {
            journal,
            stays: false,
        };
        let made = setup.add(steps);
        if made.is_err() && keep {
            setup.put_back(left);
            setup.stays = true;
        }
        made.map(|()| setup)
    }

    fn add(&mut self, steps: &[Step]) -> Result<(), SetupError> {
        for step in steps {
            let failed = |reason| SetupError {
                step: step.to_string(),
                reason,
            };
            if let Some(undo) = make(step).map_err(failed)? {
                let noted = self.journal.push(undo);
                noted.map_err(|error| failed(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Puts back all settings but the first `stay`.
    fn put_back(&mut self, stay: usize) {
        for undo in self.journal.take(stay) {
            let undone = match &undo {
                Undo::Run(words) => run(words, "").map(drop),
                Undo::Set { key, value } => set(key, value),
            };
            if let Err(reason) = undone {
                tracing::warn!("not restored: {undo:?}: {reason}");
            }
        }
    }

    /// Leaves the settings to the next program that makes them.
    pub fn leave(mut self) {
        self.stays = true;
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        if !self.stays {
            self.put_back(0);
        }
    }
}

/// Makes a setting again with another value. Its undo step is already recorded.
///
/// # Errors
/// The setting cannot be made.
pub(crate) fn renew(step: &Step) -> Result<(), SetupError> {
    match make(step) {
        Ok(_) => Ok(()),
        Err(reason) => Err(SetupError {
            step: step.to_string(),
            reason,
        }),
    }
}

/// Makes a setting, and returns its undo step; `None` if it was already made.
fn make(step: &Step) -> Result<Option<Undo>, String> {
    let words = |text: String| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    match step {
        Step::Address { address, interface } => {
            let bits = bits(step);
            let there = run(&words(format!("ip -o address show dev {interface}")), "")?;
            if there.contains(&format!(" {address}/{bits} ")) {
                return Ok(None);
            }
            let text = format!("{address}/{bits} dev {interface}");
            run(
                &words(format!("ip address add {text}{}", options(*address))),
                "",
            )?;
            Ok(Some(Undo::Run(words(format!("ip address del {text}")))))
        }
        Step::Setting { key, value } => {
            let before = get(key)?;
            if before == *value {
                return Ok(None);
            }
            set(key, value)?;
            Ok(Some(Undo::Set {
                key: key.clone(),
                value: before,
            }))
        }
        Step::Rules { table, rules } => {
            // Replaces rules that a killed director left.
            let script = format!(
                "table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n{rules}}}\n"
            );
            run(&words("nft -f -".to_owned()), &script)?;
            Ok(Some(Undo::Run(words(format!(
                "nft delete table inet {table}"
            )))))
        }
        Step::Made {
            look,
            expected,
            make,
            remove,
        } => {
            if run(look, "").is_ok_and(|output| output.contains(expected.as_str())) {
                return Ok(None);
            }
            run(make, "")?;
            Ok((!remove.is_empty()).then(|| Undo::Run(remove.clone())))
        }
    }
}

fn path(key: &str) -> PathBuf {
    let root = Path::new("/proc/sys");
    // Device names may contain dots.
    match key.contains('/') {
        true => root.join(key),
        false => root.join(key.replace('.', "/")),
    }
}

fn get(key: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path(key)).map_err(|error| error.to_string())?;
    Ok(text.trim().to_owned())
}

fn set(key: &str, value: &str) -> Result<(), String> {
    std::fs::write(path(key), value).map_err(|error| error.to_string())
}

/// Runs a program and returns its output.
pub(crate) fn run(words: &[String], input: &str) -> Result<String, String> {
    let Some((program, arguments)) = words.split_first() else {
        return Ok(String::new());
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the program does not read its input, its exit status and standard error say why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(match words.is_empty() {
            true => output.status.to_string(),
            false => words,
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_says_why_and_what_was_made_before_it_is_put_back() {
        let notes = tempfile::tempdir().unwrap();
        let dir = notes.path().join("made");
        let path = dir.display().to_string();
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let made = Step::Made {
            look: words(&format!("ls {path}")),
            expected: String::new(),
            make: words(&format!("mkdir {path}")),
            remove: words(&format!("rmdir {path}")),
        };
        let wrong = Step::Setting {
            key: "net.no_such_setting".into(),
            value: "1",
        };
        let error = Setup::make(&[made.clone(), wrong.clone()], notes.path(), false).unwrap_err();
        assert_eq!(error.step, "sysctl net.no_such_setting=1");
        assert!(!dir.exists());

        let setup = || Setup::make(std::slice::from_ref(&made), notes.path(), false).unwrap();
        drop(setup());
        assert!(!dir.exists());
        // What exists already is not removed.
        std::fs::create_dir(&dir).unwrap();
        drop(setup());
        assert!(dir.exists());
        std::fs::remove_dir(&dir).unwrap();
        // The next program puts back what was left.
        setup().leave();
        assert!(dir.exists());
        drop(setup());
        assert!(!dir.exists());
        // With `keep`, what was left stays if the next program fails; only that program's own
        // settings are put back.
        setup().leave();
        let next = notes.path().join("next");
        let text = next.display().to_string();
        let own = Step::Made {
            look: words(&format!("ls {text}")),
            expected: String::new(),
            make: words(&format!("mkdir {text}")),
            remove: words(&format!("rmdir {text}")),
        };
        Setup::make(&[made.clone(), own, wrong.clone()], notes.path(), true).unwrap_err();
        assert!(dir.exists() && !next.exists());
        Setup::make(&[wrong], notes.path(), false).unwrap_err();
        assert!(!dir.exists());
    }

    #[test]
    fn a_step_is_shown_as_it_would_be_typed() {
        let address = Step::Address {
            address: "fd00::1".parse().unwrap(),
            interface: "lo".into(),
        };
        assert_eq!(
            address.to_string(),
            "ip address add fd00::1/128 dev lo nodad preferred_lft 0"
        );
    }
}
