//! A bound for all policies that do not know future viewers.
//!
//! Viewers of a film come at random and independently of each other (a Poisson process), begin at
//! its start and watch it to the end. A policy that knows how often each film is begun, and where
//! the present viewers are, knows of a block that has just been used: with a viewer behind it, when
//! it is used next; with nobody behind it, that the next viewer will begin after a mean time of one
//! over the film's rate, and reach it after the whole way. As long as nobody begins, waiting
//! teaches nothing, so the block is kept until its next use or not at all. Keeping it for a use
//! costs its expected time in memory.
//!
//! The memory holds a fixed number of blocks at every moment. If it only had to hold that many *on
//! average*, it would be best to keep blocks for the cheapest uses until the average is reached.
//! Except for chance, no policy misses less.

use reelway_determinism::FixedMap;

use super::{Event, Outcome, Requests};

/// A use that a block may be kept for.
struct Chance {
    /// Expected seconds in memory, as known at the previous use.
    expected: f32,
    /// Actual seconds in memory, within the counted time.
    taken: f32,
    /// Whether the use is within the counted time.
    counted: bool,
}

/// The fewest misses on average of any policy that does not know the future, with room for
/// `capacity` blocks. `None` if viewers seek, play fast or leave early, if blocks differ in size,
/// or if it is not known how often films are begun.
pub fn bound(requests: &Requests, capacity: u64) -> Option<Outcome> {
    let starts = starts(requests)?;
    let size = requests.one_size()?;
    let from = requests.events.get(requests.warm)?.at() as f64 / 1e3;
    let until = requests.events.last()?.at() as f64 / 1e3;
    let mut chances = Vec::new();
    let mut uses = 0;
    for ((film, starts), rate) in requests.films.iter().zip(&starts).zip(&requests.rates) {
        let block_seconds = film.duration.as_secs_f64() / f64::from(film.blocks);
        for block in 0..film.blocks {
            let way = f64::from(block) * block_seconds;
            for (nth, start) in starts.iter().enumerate() {
                let used = start + way;
                if used > until {
                    break;
                }
                uses += u64::from(used >= from);
                let next = starts.get(nth + 1).map_or(f64::INFINITY, |next| next + way);
                let expected = match next - way <= used {
                    true => next - used,
                    false => way + 1.0 / rate,
                };
                let taken = (next.min(until) - used.max(from)).max(0.0);
                chances.push(Chance {
                    expected: expected as f32,
                    taken: taken as f32,
                    counted: (from..=until).contains(&next),
                });
            }
        }
    }
    chances.sort_unstable_by(|a, b| a.expected.total_cmp(&b.expected));
    let mut room = capacity as f64 * (until - from);
    let mut hits = 0;
    for chance in chances {
        room -= f64::from(chance.taken);
        if room < 0.0 {
            break;
        }
        hits += u64::from(chance.counted);
    }
    let misses = uses - hits;
    Some(Outcome {
        requests: uses,
        misses,
        bytes: uses * u64::from(size),
        missed_bytes: misses * u64::from(size),
    })
}

/// When each film was begun, in seconds; `None` unless every viewer watches from the film's start
/// without a jump until they leave at its end.
fn starts(requests: &Requests) -> Option<Vec<Vec<f64>>> {
    if requests.rates.len() != requests.films.len() {
        return None;
    }
    let mut starts = vec![Vec::new(); requests.films.len()];
    // The block that each viewer requests next.
    let mut next = FixedMap::default();
    for event in &requests.events {
        match *event {
            Event::Use {
                at,
                object,
                viewer,
                speed: 100,
                ..
            } if viewer != 0 => {
                let expected = next.insert(viewer, object + 1);
                if expected.is_none() {
                    let id = requests.id(object);
                    if id.block != 0 {
                        return None;
                    }
                    starts[id.film as usize].push(at as f64 / 1e3);
                }
                if expected.is_some_and(|expected| expected != object) {
                    return None;
                }
            }
            Event::Left { viewer, .. } => {
                let last = requests.id(next.remove(&viewer)?.checked_sub(1)?);
                if last.block + 1 != requests.films[last.film as usize].blocks {
                    return None;
                }
            }
            Event::Use { .. } => return None,
        }
    }
    Some(starts)
}

#[cfg(test)]
mod tests {
    use super::super::{Workload, belady, told};
    use super::*;
    use std::time::Duration;

    #[test]
    fn no_policy_that_does_not_see_the_future_beats_the_bound_and_who_sees_it_does() {
        let workload = Workload {
            films: 30,
            block: 64 << 20,
            arrivals: 0.01,
            duration: Duration::from_secs(96 * 3600),
            ..Workload::default()
        };
        let requests = workload.make().unwrap();
        let blocks = requests.objects() as u64 / 4;
        let bound = bound(&requests, blocks).unwrap().misses;
        let mut policy = told(&requests, blocks as usize).unwrap();
        let told = super::super::run(&requests, &mut *policy, blocks, true).misses;
        let optimum = belady(&requests, blocks, true).misses;
        assert!(optimum < bound && bound <= told, "{optimum} {bound} {told}");
    }

    #[test]
    fn there_is_no_bound_for_viewers_who_seek_or_leave_early() {
        let workload = Workload {
            films: 3,
            block: 64 << 20,
            ..Workload::default()
        };
        for (seeks, leave) in [(0.5, 0.0), (0.0, 0.5)] {
            let requests = Workload {
                seeks,
                leave,
                ..workload.clone()
            };
            assert_eq!(bound(&requests.make().unwrap(), 10), None);
        }
        assert!(bound(&workload.make().unwrap(), 10).is_some());
    }
}
