//! Checks that seeds keep all rules, that their outcomes are reproducible, and that the
//! checks can fail.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use reelway_sim::{Config, Counters, Outcome, Rule, Wrong, run};

fn sum(into: &mut Vec<(&'static str, u64)>, counters: &Counters) {
    for (nth, (name, value)) in counters.named().into_iter().enumerate() {
        match into.get_mut(nth) {
            Some((_, sum)) => *sum += value,
            None => into.push((name, value)),
        }
    }
}

/// Names the seed in which a panic occurs.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {0}; replay: reelway sim --seed {0} --trace", self.0);
        }
    }
}

/// Runs seeds on all processors in parallel.
fn each(seeds: std::ops::Range<u64>, run: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let named = Named(seed);
            run(seed);
            drop(named);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
}

#[test]
fn a_thousand_seeds_hold_all_rules_and_come_out_the_same_again() {
    let config = Config::default();
    let counted = Mutex::new(Vec::new());
    each(0..1000, |seed| {
        let Outcome {
            trace_hash,
            violations,
            counters,
            trace,
        } = run(seed, &config);
        assert!(
            violations.is_empty(),
            "seed {seed}: {}; replay: reelway sim --seed {seed} --trace",
            violations[0]
        );
        assert!(trace.is_empty(), "nobody reads it");
        let again = run(seed, &config);
        assert_eq!(again.trace_hash, trace_hash, "seed {seed}");
        assert_eq!(again.counters, counters, "seed {seed}");
        sum(&mut counted.lock().unwrap(), &counters);
    });
    let counted = counted.into_inner().unwrap();
    // What the rules are about does occur.
    let of = |name| {
        counted
            .iter()
            .find(|(of, _)| *of == name)
            .map(|(_, sum)| *sum)
    };
    for name in [
        "admitted",
        "refused",
        "sent_away",
        "seeks",
        "pauses",
        "vanished",
        "failed",
        "fetched",
        "given_up",
        "hits",
        "errors",
        "waited_for_room",
        "strict",
        "late",
        "faults",
        "written",
        "stood",
        "disconnected",
        "replaced",
        "refused_packets",
        "missed",
        "resent",
        "left_out",
        "made",
        "compared",
    ] {
        assert!(of(name) > Some(0), "{name}: {counted:?}");
    }
    // Most groups arrive at a time when nothing would excuse a delay.
    assert!(of("strict") > Some(250_000), "{counted:?}");
}

#[test]
fn a_trace_can_be_read_and_changes_nothing() {
    let quiet = run(7, &Config::default());
    let told = run(
        7,
        &Config {
            trace: true,
            ..Config::default()
        },
    );
    assert_eq!(told.trace_hash, quiet.trace_hash);
    assert!(told.trace.len() > 100);
    let has = |words: &str| told.trace.iter().any(|line| line.contains(words));
    assert!(has("machine:") && has("is admitted to film") && has("asks for group"));
    assert!(told.trace.last().is_some_and(|line| line.contains("end:")));
    assert_ne!(run(8, &Config::default()).trace_hash, quiet.trace_hash);
}

/// Finds the first of a hundred seeds in which `rule` is broken.
fn caught(wrong: Wrong, rule: Rule) {
    let config = Config {
        wrong: Some(wrong),
        ..Config::default()
    };
    let broken = |seed: &u64| {
        let violations = run(*seed, &config).violations;
        violations.iter().any(|violation| violation.rule == rule)
    };
    let seed = (0..100).find(broken);
    assert!(seed.is_some(), "{wrong:?} is not found in 100 seeds");
}

#[test]
fn a_leaked_pin_is_found() {
    caught(Wrong::PinLeaked, Rule::PinsReturn);
}

#[test]
fn a_booking_that_is_not_released_is_found() {
    caught(Wrong::BookingKept, Rule::BookingsReturn);
}

#[test]
fn a_second_answer_is_found() {
    caught(Wrong::AnsweredTwice, Rule::AnsweredOnce);
}

#[test]
fn blocks_held_beyond_what_is_booked_are_found() {
    caught(Wrong::HeldTooLong, Rule::WithinBooking);
}

#[test]
fn a_disk_slower_than_what_is_booked_of_it_is_found() {
    caught(Wrong::SlowDisk, Rule::OnTime);
}

#[test]
fn a_link_slower_than_what_is_booked_of_it_is_found() {
    caught(Wrong::SlowLink, Rule::WithinLink);
    caught(Wrong::SlowLink, Rule::Carried);
}

#[test]
fn a_byte_that_was_not_put_into_a_film_is_found() {
    caught(Wrong::OtherByte, Rule::AsPutIn);
}

#[test]
fn a_block_of_another_film_is_found() {
    caught(Wrong::OtherBlock, Rule::RightBlock);
}

#[test]
fn memory_that_is_filled_again_while_a_connection_has_it_is_found() {
    caught(Wrong::FilledAgain, Rule::GivenStays);
}
