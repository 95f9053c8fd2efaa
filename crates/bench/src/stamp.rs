//! The origin of a page's figures: the machine, the command, the commit.

use std::path::Path;
use std::process::Command;
use std::time::UNIX_EPOCH;

use crate::bed::cores;

/// Returns processor, cores, memory and kernel, as the system reports them.
pub fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim().to_owned())
    };
    let processor = field(&read("/proc/cpuinfo"), "model name")
        .unwrap_or_else(|| std::env::consts::ARCH.into());
    let cores = cores::configured();
    let memory = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let kernel = read("/proc/sys/kernel/osrelease");
    format!(
        "{processor}, {cores} cores, {} GiB, Linux {}",
        memory.unwrap_or(0) >> 20,
        kernel.trim()
    )
}

/// Returns the command line of this process, after the command that sets its scheduling priority:
/// figures measured with a real-time priority do not hold without it.
pub fn command() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let words = std::iter::once("reelway".to_owned()).chain(std::env::args().skip(1));
    priority(&stat) + &words.collect::<Vec<_>>().join(" ")
}

/// Returns the command that starts a process with the priority in its /proc/PID/stat (proc(5):
/// fields 19, 40 and 41).
fn priority(stat: &str) -> String {
    // The name in brackets may contain anything; the third field follows it.
    let fields: Vec<&str> = match stat.rsplit_once(')') {
        Some((_, rest)) => rest.split_ascii_whitespace().collect(),
        None => return String::new(),
    };
    let field = |number: usize| fields.get(number - 3).copied().unwrap_or("0");
    match (field(41), field(19)) {
        ("1", _) => format!("chrt -f {} ", field(40)),
        ("2", _) => format!("chrt -r {} ", field(40)),
        (_, "0") => String::new(),
        (_, nice) => format!("nice -n {nice} "),
    }
}

/// Returns the commit of the working tree that contains `dir`, with a note if there are uncommitted
/// changes or the program is older; `None` outside of a working tree.
pub fn commit(dir: &Path) -> Option<String> {
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(dir).args(args).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "--short=12", "HEAD"])?;
    let code = [":/crates", ":/Cargo.lock", ":/web"];
    let changes = git(&[&["status", "--porcelain", "--"][..], &code[..]].concat())?;
    let changed = git(&[&["log", "-1", "--format=%ct", "--"][..], &code[..]].concat())?;
    let built = std::env::current_exe()
        .and_then(|path| path.metadata()?.modified())
        .ok()?;
    let built = built.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let mut commit = head;
    if !changes.is_empty() {
        commit += " with uncommitted changes";
    }
    if changed.parse().is_ok_and(|changed| built < changed) {
        commit += ", by a program that was built before it";
    }
    Some(commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(nice: i32, real_time: u32, policy: u32) -> String {
        let mut fields = vec!["0".to_owned(); 52];
        fields[0] = "7".into();
        fields[1] = "(a ) name)".into();
        fields[18] = nice.to_string();
        fields[39] = real_time.to_string();
        fields[40] = policy.to_string();
        fields.join(" ")
    }

    #[test]
    fn the_command_shows_the_priority_that_it_ran_with() {
        assert_eq!(priority(&stat(0, 0, 0)), "");
        assert_eq!(priority(&stat(-5, 0, 0)), "nice -n -5 ");
        assert_eq!(priority(&stat(0, 10, 2)), "chrt -r 10 ");
        assert_eq!(priority(&stat(0, 3, 1)), "chrt -f 3 ");
        assert_eq!(priority(""), "");
    }

    #[test]
    fn a_folder_outside_of_a_repository_has_no_commit() {
        assert_eq!(commit(Path::new("/proc")), None);
    }
}
