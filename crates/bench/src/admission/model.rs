//! One simulated run: the judge, called as the server calls it, on simulated time, and a link that
//! carries the admitted viewers.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use reelway_admission::{Admission, Capacity, Limits, Newcomer, Policy, Resource};
use reelway_demand::{BIN, BINS, Curve, Play};
use serde::Serialize;

use super::films::{AHEAD, Film};

/// The limited resource.
const LINK: Resource = Resource::Network(0);
/// Speed of the link, bytes per second: 100 Mbit/s.
pub const SPEED: u64 = 12_500_000;
/// Usable share of the link in thousandths; the server's default.
pub const USABLE: u32 = 980;
/// Bytes that a switch queues for an overloaded link before it drops packets: 200 ms.
const QUEUE: u64 = SPEED / 5;
/// Memory of a node of the paper, in bytes.
pub const MEMORY: u64 = 256 << 20;

/// Results of one run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Newcomers.
    pub arrivals: usize,
    /// Newcomers who were admitted.
    pub admitted: usize,
    /// The most viewers present at once.
    pub most: usize,
    /// Admitted viewers who lost packets because the link was overloaded for longer than its queue
    /// holds.
    pub harmed: usize,
    /// Newcomers who were refused although each second of their film would have fitted beside those
    /// of all viewers present.
    pub wrong: usize,
    /// Share of the link that was used, between the time when it could first be full and the last
    /// arrival.
    pub share: f64,
    /// Load of the link as a share of its speed, by minute; above 1 if it is overloaded.
    pub minutes: Vec<f64>,
}

/// A viewer who was admitted.
struct Viewer {
    start: usize,
    play: Play,
}

/// Second from which the share is measured: from then on films end as well as begin.
const FROM: usize = 2400;

/// Returns what is really sent of a film under this policy.
fn sent(policy: Policy, film: &Film) -> &Arc<Curve> {
    match policy {
        Policy::Smoothed(_) => &film.smoothed,
        _ => &film.curve,
    }
}

/// Runs `policy` over these arrivals.
pub fn run(policy: Policy, films: &[Film], arrivals: &[(u64, usize)], seconds: usize) -> Outcome {
    let capacity =
        Capacity::unlimited()
            .with(LINK, SPEED, USABLE)
            .with(Resource::Memory, MEMORY, 1000);
    let link = Capacity::unlimited().with(LINK, SPEED, USABLE);
    let memory = matches!(policy, Policy::Vodca);
    let capacity = if memory { capacity } else { link.clone() };
    let mut judge = Admission::new(policy, capacity, Limits::default());
    // The real load, second by second, against which refusals are checked.
    let mut truth = Admission::new(Policy::Exact, link, Limits::default());
    let mut outcome = Outcome {
        arrivals: arrivals.len(),
        ..Outcome::default()
    };
    let longest = films.iter().map(|film| film.curve.len() / BINS);
    let mut load = vec![0u64; seconds + longest.max().unwrap_or(0) + 8];
    let mut viewers = Vec::new();
    let mut ends = std::collections::BinaryHeap::new();
    for (at, film) in arrivals {
        let film = &films[*film];
        while let Some(std::cmp::Reverse((end, id, real))) = ends.peek().copied() {
            if end > *at {
                break;
            }
            judge.end(end, id);
            truth.end(end, real);
            ends.pop();
        }
        let real = [(LINK, sent(policy, film).clone())];
        let booked = match policy {
            Policy::Smoothed(_) => vec![(LINK, film.smoothed.clone())],
            _ => vec![(LINK, policy.booked(LINK, &film.curve))],
        };
        let mut booked = booked;
        if memory {
            // Two buffers of the paper's largest GOP.
            let buffers = film.curve.flattened(2 * 252_900);
            booked.push((Resource::Memory, Arc::new(buffers)));
        }
        match judge.decide(*at, &newcomer(&booked), 0) {
            Ok(admitted) => {
                truth_enters(&mut truth, *at, &real, &mut ends, film, admitted.id);
                let quarter = (at / BIN as u64) as usize;
                let play = Play::new(real[0].1.clone(), 0, usize::MAX, quarter % BINS);
                let start = quarter / BINS;
                for nth in 0..play.len() {
                    load[start + nth] += u64::from(play.need(nth));
                }
                viewers.push(Viewer { start, play });
                outcome.most = outcome.most.max(ends.len());
            }
            Err(_) => {
                let fits = truth.what_if(*at, &newcomer(&real), 0).is_ok();
                outcome.wrong += usize::from(fits);
            }
        }
    }
    outcome.admitted = viewers.len();
    outcome.harmed = harmed(&viewers, &load);
    let window = &load[FROM.min(seconds)..seconds];
    let carried: u64 = window.iter().map(|load| (*load).min(SPEED)).sum();
    outcome.share = carried as f64 / (window.len() as f64 * SPEED as f64);
    let of_minute = |minute: &[u64]| minute.iter().sum::<u64>() as f64 / minute.len() as f64;
    outcome.minutes = load[..seconds]
        .chunks(60)
        .map(|minute| of_minute(minute) / SPEED as f64)
        .collect();
    outcome
}

type Ends = std::collections::BinaryHeap<
    std::cmp::Reverse<(
        u64,
        reelway_admission::BookingId,
        reelway_admission::BookingId,
    )>,
>;

/// Books what is really sent, even if it does not fit.
fn truth_enters(
    truth: &mut Admission,
    at: u64,
    real: &[(Resource, Arc<Curve>)],
    ends: &mut Ends,
    film: &Film,
    id: reelway_admission::BookingId,
) {
    let nothing = newcomer(&[]);
    // A newcomer without needs is always admitted. The real needs are then booked as for a viewer
    // who resumes, who is never refused.
    if let Ok(admitted) = truth.decide(at, &nothing, 0) {
        let _ = truth.rebook(at, admitted.id, real, (0, usize::MAX), false);
        let length = film.curve.len() as u64 * BIN as u64;
        ends.push(std::cmp::Reverse((at + length, id, admitted.id)));
    }
}

fn newcomer<'a>(needs: &'a [(Resource, Arc<Curve>)]) -> Newcomer<'a> {
    Newcomer {
        title: "film",
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        user: None,
        class: 0,
        fast: false,
        fetches: false,
        needs,
        later: None,
        from: 0,
        to: usize::MAX,
    }
}

/// Counts viewers present while the link's queue overflows: the dropped packets include some of
/// every viewer.
fn harmed(viewers: &[Viewer], load: &[u64]) -> usize {
    let mut queue = 0u64;
    let dropping: Vec<bool> = load
        .iter()
        .map(|load| {
            queue = (queue + load).saturating_sub(SPEED);
            let over = queue > QUEUE;
            queue = queue.min(QUEUE);
            over
        })
        .collect();
    let is_harmed = |viewer: &&Viewer| {
        let there = &dropping[viewer.start..viewer.start + viewer.play.len()];
        there.iter().any(|dropping| *dropping)
    };
    viewers.iter().filter(is_harmed).count()
}

/// Returns how many newcomers a naive booker admits: one list of seconds, scanned from end to end.
pub fn naive(smoothed: bool, films: &[Film], arrivals: &[(u64, usize)], seconds: usize) -> usize {
    let limit = SPEED * u64::from(USABLE) / 1000;
    let longest = films.iter().map(|film| film.curve.len() / BINS);
    let mut load = vec![0u64; seconds + longest.max().unwrap_or(0) + 8];
    let mut admitted = 0;
    for (at, film) in arrivals {
        let film = &films[*film];
        let curve = if smoothed {
            &film.smoothed
        } else {
            &film.curve
        };
        let quarter = (at / BIN as u64) as usize;
        // Each bin is added to its second.
        let mut needs = vec![0u64; curve.len() / BINS + 2];
        for (nth, bin) in curve.bins().iter().enumerate() {
            needs[(quarter % BINS + nth) / BINS] += u64::from(*bin);
        }
        let start = quarter / BINS;
        let place = &mut load[start..start + needs.len()];
        if place
            .iter()
            .zip(&needs)
            .all(|(load, need)| load + need <= limit)
        {
            for (load, need) in place.iter_mut().zip(&needs) {
                *load += need;
            }
            admitted += 1;
        }
    }
    admitted
}

/// Returns the share of the link that no admission policy can exceed with these arrivals: everybody
/// admitted, each second filled up to the limit.
pub fn bound(films: &[Film], arrivals: &[(u64, usize)], seconds: usize) -> f64 {
    let limit = SPEED * u64::from(USABLE) / 1000;
    let longest = films.iter().map(|film| film.curve.len() / BINS);
    let mut load = vec![0u64; seconds + longest.max().unwrap_or(0) + 8];
    for (at, film) in arrivals {
        let quarter = (at / BIN as u64) as usize;
        for (nth, bin) in films[*film].curve.bins().iter().enumerate() {
            load[(quarter + nth) / BINS] += u64::from(*bin);
        }
    }
    let window = &load[FROM.min(seconds)..seconds];
    let carried: u64 = window.iter().map(|load| (*load).min(limit)).sum();
    carried as f64 / (window.len() as f64 * SPEED as f64)
}

/// Measures decisions per second with this many viewers of three-hour films booked, some of whom
/// leave meanwhile.
pub fn decisions(booked: usize, films: &[Film]) -> f64 {
    const ASKED: usize = 200_000;
    let bins: Vec<u32> = films[0]
        .curve
        .bins()
        .iter()
        .copied()
        .cycle()
        .take(3 * 3600 * BINS)
        .collect();
    let long = Arc::new(Curve::new(bins));
    let needs = [(LINK, long.clone())];
    // Nearly full: the most expensive case, in which whole calendars are compared.
    let limit = (booked as u64 + 20) * u64::from(long.mean());
    let mut judge = Admission::new(
        Policy::Exact,
        Capacity::unlimited().with(LINK, limit, 1000),
        Limits::default(),
    );
    let mut present = Vec::new();
    for nth in 0..booked as u64 {
        // Spread over 10,000 s, so that all are at different positions.
        let at = nth * 10_000_000_000_000 / booked as u64;
        if let Ok(admitted) = judge.decide(at, &newcomer(&needs), 0) {
            present.push(admitted.id);
        }
    }
    let began = reelway_clock::now();
    let mut now = 10_000_000_000_000;
    for nth in 0..ASKED {
        now += 10_000_000;
        if let Ok(admitted) = judge.decide(now, &newcomer(&needs), 0) {
            let place = nth % present.len();
            judge.end(now, present[place]);
            present[place] = admitted.id;
        }
    }
    let took: Duration = reelway_clock::now().since(began);
    ASKED as f64 / took.as_secs_f64()
}

/// Returns the policies that are compared.
pub fn policies() -> Vec<Policy> {
    // The count that an operator would set: the link's speed divided by the films' mean rate.
    let count = (SPEED * 8 / 1_500_000) as u32;
    vec![
        Policy::Everybody,
        Policy::Count(count),
        Policy::Vodca,
        Policy::Peak,
        Policy::Mean,
        Policy::Exact,
        Policy::Smoothed(AHEAD as u32),
    ]
}
