//! Reports tests that cannot do their work on this machine, so that they do not pass silently.
//!
//! ```
//! # use reelway_skip::skipped;
//! fn films_on_two_disks_have_a_queue_each() {
//!     let Ok(_memory) = std::fs::read_dir("/dev/shm") else {
//!         return skipped!("there is no /dev/shm");
//!     };
//!     // ...
//! }
//! # films_on_two_disks_have_a_queue_each();
//! ```
//!
//! A test that does only a part of its work reports that too, and continues:
//! `skipped!("io_uring: {why}")`. `scripts/test` counts these lines and compares them with the
//! lists in `tests/skipped`. The line names the function that contains the macro, so the macro must
//! be in the test itself; helpers return the reason.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::Write;

/// Prints `SKIPPED name: reason` to standard error, where `name` is the path of the surrounding function in its
/// crate, as the test harness prints it. The arguments are those of `format!`.
#[macro_export]
macro_rules! skipped {
    ($($reason:tt)+) => {{
        fn here() {}
        $crate::say(::std::any::type_name_of_val(&here), format_args!($($reason)+))
    }};
}

/// Implements [`skipped!`]; `here` is the type name of a function within the test.
#[doc(hidden)]
pub fn say(here: &str, reason: impl Display) {
    let line = line(here, &reason.to_string());
    // The test harness captures the output of the print macros, but not this. A single write keeps
    // the lines of several threads intact. There is no way to report an error.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Returns the line for a name such as `tier::disks::a_disk_is_full::{{closure}}::here`.
fn line(here: &str, reason: &str) -> String {
    let path = here.strip_suffix("::here").unwrap_or(here);
    let path = path.replace("::{{closure}}", "");
    let name = path
        .split_once("::")
        .map_or(path.as_str(), |(_, name)| name);
    let reason: Vec<&str> = reason.split_whitespace().collect();
    format!("\nSKIPPED {name}: {}\n", reason.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_the_test_as_the_harness_does() {
        fn here() {}
        let said = line(std::any::type_name_of_val(&here), "no\n  rings");
        let name = "tests::the_line_names_the_test_as_the_harness_does";
        assert_eq!(said, format!("\nSKIPPED {name}: no rings\n"));
    }

    #[test]
    fn closures_in_a_test_are_the_test() {
        let say = || {
            fn here() {}
            line(std::any::type_name_of_val(&here), "no rings")
        };
        let said = say();
        let name = "tests::closures_in_a_test_are_the_test";
        assert_eq!(said, format!("\nSKIPPED {name}: no rings\n"));
    }
}
