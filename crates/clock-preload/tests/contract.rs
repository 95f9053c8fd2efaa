//! The contract of libc's clock functions, and programs that stress a clock, in C.
//!
//! The checks of the Linux Test Project for `gettimeofday` (01, 02) and `clock_gettime` (01 to 04)
//! are in `c/contract.c`; the stress programs are in `c/odd.c`.

mod common;

use std::time::Duration;

use common::{Preloaded, c_program};

const LIMIT: Duration = Duration::from_secs(180);

fn odd(name: &str, seconds: &str) -> Preloaded {
    Preloaded::new(c_program("odd")).args([name, seconds])
}

#[test]
fn the_contract_holds_and_no_clock_steps_back_for_thirty_seconds() {
    let (_, counts) = Preloaded::new(c_program("contract"))
        .arg("30")
        .expect(LIMIT);
    assert!(counts.of("clock_gettime") > 1_000_000, "{counts:?}");
    assert!(counts.of("gettimeofday") > 100_000, "{counts:?}");
}

#[test]
fn the_contract_holds_for_unordered_readings() {
    let run = Preloaded::new(c_program("contract"))
        .arg("2")
        .env("REELWAY_CLOCK_ORDER", "none");
    run.expect(LIMIT);
}

#[test]
fn the_contract_holds_with_a_guard_and_for_any_bad_address() {
    let run = Preloaded::new(c_program("contract"))
        .args(["2", "guard"])
        .env("REELWAY_CLOCK_EFAULT", "guard");
    run.expect(LIMIT);
}

#[test]
fn the_contract_holds_when_switched_off() {
    let run = Preloaded::new(c_program("contract"))
        .arg("1")
        .env("REELWAY_CLOCK", "off");
    let (_, counts) = run.expect(LIMIT);
    assert_eq!(counts.of("clock_gettime"), 0, "everything is passed on");
    assert!(counts.of("passed on") > 1_000_000, "{counts:?}");
}

#[test]
fn signals_may_interrupt_anything_and_jump_out() {
    odd("signals", "3").expect(LIMIT);
}

#[test]
fn children_of_fork_vfork_and_clone_have_a_clock() {
    odd("forks", "3").expect(LIMIT);
}

#[test]
fn a_storm_of_forks_is_survived() {
    odd("storm", "1").expect(LIMIT);
}

#[test]
fn a_filter_that_kills_at_system_calls_is_not_met() {
    Preloaded::uncounted(c_program("odd"))
        .args(["seccomp", "2"])
        .expect(LIMIT);
}

#[test]
fn sixty_four_threads_never_see_each_other_in_the_past() {
    odd("threads", "3").expect(LIMIT);
}

#[test]
fn sixty_four_threads_never_step_back_unordered() {
    odd("unordered-threads", "3")
        .env("REELWAY_CLOCK_ORDER", "none")
        .expect(LIMIT);
}

#[test]
fn a_program_that_was_stopped_for_ten_seconds_has_the_right_time() {
    let mut run = odd("stopped", "12");
    let child = run.start();
    std::thread::sleep(Duration::from_millis(700));
    child.signal("-STOP");
    std::thread::sleep(Duration::from_secs(10));
    child.signal("-CONT");
    let output = common::finish(child, LIMIT);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let pause = said
        .split_whitespace()
        .rev()
        .nth(1)
        .and_then(|ms| ms.parse::<u64>().ok());
    assert!(
        pause.is_some_and(|ms| ms >= 9_000),
        "it was stopped: {said}"
    );
}

#[test]
fn a_time_namespace_is_honoured() {
    let (output, _) = odd("namespaces", "1").run(LIMIT);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(77) {
        // Not root, or a kernel without time namespaces: the lab runs it as root.
        return reelway_skip::skipped!("{said}");
    }
    assert!(output.status.success(), "{said}");
}

#[test]
fn a_program_keeps_its_own_handler_of_faults_under_the_guard() {
    odd("faults", "1")
        .env("REELWAY_CLOCK_EFAULT", "guard")
        .expect(LIMIT);
}

#[test]
fn a_constructor_may_ask_for_the_time_before_the_library_is_ready() {
    // The dynamic linker runs constructors from the last library to the first: those of a library
    // that is preloaded after ours run before ours.
    let early = c_program("libearly");
    let both = format!("{}:{}", common::library().display(), early.display());
    let run = Preloaded::new(c_program("contract"))
        .arg("0.1")
        .env("LD_PRELOAD", &both);
    let (said, _) = run.expect(LIMIT);
    assert!(said.contains("early: the time is right"), "{said}");
}

#[test]
fn it_says_on_request_where_the_time_comes_from() {
    for (value, wanted) in [
        ("auto", "the time comes from"),
        ("off", "REELWAY_CLOCK=off"),
    ] {
        let run = Preloaded::new("true")
            .env("REELWAY_CLOCK_VERBOSE", "1")
            .env("REELWAY_CLOCK", value);
        let (output, _) = run.run(LIMIT);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(wanted), "{said}");
    }
    let (output, _) = Preloaded::new("true")
        .env("REELWAY_CLOCK_VERBOSE", "1")
        .env("REELWAY_CLOCK", "of")
        .run(LIMIT);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("REELWAY_CLOCK=of is not known: off, trust, force or auto"),
        "{said}"
    );
}

#[test]
fn it_says_nothing_unasked() {
    let (output, _) = Preloaded::uncounted("true").run(LIMIT);
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
}
