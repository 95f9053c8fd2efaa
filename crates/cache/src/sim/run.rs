//! Runs a policy, or Belady's optimum, over all requests.

use std::collections::BinaryHeap;
use std::time::Duration;

use super::{Event, Requests};
use crate::timetable::Timetable;
use crate::{BlockId, Policy, Slot, Watching};

/// No slot; also: never.
const NONE: u32 = u32::MAX;

/// The outcome of a simulated cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Requests counted.
    pub requests: u64,
    /// Counted requests that were not in the cache.
    pub misses: u64,
    /// Bytes requested.
    pub bytes: u64,
    /// Bytes that were not in the cache.
    pub missed_bytes: u64,
}

impl Outcome {
    fn count(&mut self, bytes: u32, hit: bool) {
        self.requests += 1;
        self.bytes += u64::from(bytes);
        if !hit {
            self.misses += 1;
            self.missed_bytes += u64::from(bytes);
        }
    }
}

/// The cache's memory: the content of each slot.
struct Memory {
    /// The slot of each object.
    slot: Vec<u32>,
    /// By slot: the object and its weight.
    held: Vec<(u32, u32)>,
    free: Vec<Slot>,
    used: u64,
    capacity: u64,
}

impl Memory {
    fn new(objects: usize, capacity: u64) -> Memory {
        Memory {
            slot: vec![NONE; objects],
            held: Vec::new(),
            free: Vec::new(),
            used: 0,
            capacity,
        }
    }

    fn put(&mut self, object: u32, weight: u32) -> Slot {
        let slot = self.free.pop().unwrap_or(self.held.len() as u32);
        match (slot as usize) < self.held.len() {
            true => self.held[slot as usize] = (object, weight),
            false => self.held.push((object, weight)),
        }
        self.slot[object as usize] = slot;
        self.used += u64::from(weight);
        slot
    }

    fn drop(&mut self, slot: Slot) {
        let (object, weight) = self.held[slot as usize];
        self.slot[object as usize] = NONE;
        self.used -= u64::from(weight);
        self.free.push(slot);
    }
}

/// Sends all requests through a cache of `capacity`, in bytes, or in objects if `unit` makes each
/// count as one.
///
/// A request for more than the whole cache is a miss that changes nothing.
pub fn run(requests: &Requests, policy: &mut dyn Policy, capacity: u64, unit: bool) -> Outcome {
    let mut outcome = Outcome::default();
    let mut memory = Memory::new(requests.objects(), capacity);
    for (number, film) in requests.films.iter().enumerate() {
        policy.film(number as u32, *film, Duration::ZERO);
    }
    for (number, event) in requests.events.iter().enumerate() {
        let now = Duration::from_millis(event.at());
        let &Event::Use {
            object,
            bytes,
            viewer,
            speed,
            ..
        } = event
        else {
            if let Event::Left { viewer, .. } = event {
                policy.left(u64::from(*viewer), now);
            }
            continue;
        };
        let id = requests.id(object);
        if viewer != 0 {
            let watching = Watching {
                film: id.film,
                block: id.block,
                speed: f32::from(speed) / 100.0,
            };
            policy.watch(u64::from(viewer), watching, now);
        }
        let slot = memory.slot[object as usize];
        if number >= requests.warm {
            outcome.count(bytes, slot != NONE);
        }
        if slot != NONE {
            policy.hit(slot, now);
            while policy.crowded(0) {
                evict_one(policy, &mut memory, id, now);
            }
            continue;
        }
        let weight = if unit { 1 } else { bytes };
        if u64::from(weight) > capacity {
            continue;
        }
        while memory.used + u64::from(weight) > memory.capacity || policy.crowded(weight) {
            evict_one(policy, &mut memory, id, now);
        }
        let slot = memory.put(object, weight);
        policy.insert(slot, id, weight, now);
    }
    outcome
}

/// Evicts one block.
fn evict_one(policy: &mut dyn Policy, memory: &mut Memory, incoming: BlockId, now: Duration) {
    match policy.victim(incoming, &mut |_| true, now) {
        Some(slot) => memory.drop(slot),
        None => unreachable!("a policy that holds blocks names none of them"),
    }
}

/// Timetable that is given how often each film is begun instead of learning it: the comparison
/// shows the cost of learning. `None` if that is not known.
pub fn told(requests: &Requests, slots: usize) -> Option<Box<dyn Policy>> {
    if requests.rates.is_empty() {
        return None;
    }
    Some(Box::new(Timetable::told(slots, &requests.rates)))
}

/// Belady's optimum, which knows the future and evicts the block that is used latest. Optimal if
/// all objects have one size.
pub fn belady(requests: &Requests, capacity: u64, unit: bool) -> Outcome {
    let mut outcome = Outcome::default();
    let mut memory = Memory::new(requests.objects(), capacity);
    let next = next_uses(requests);
    // The next use of each slot's block, and a queue of them that also holds outdated entries.
    let mut due: Vec<u32> = Vec::new();
    let mut queue: BinaryHeap<(u32, Slot)> = BinaryHeap::new();
    for (number, event) in requests.events.iter().enumerate() {
        let &Event::Use { object, bytes, .. } = event else {
            continue;
        };
        let mut slot = memory.slot[object as usize];
        if number >= requests.warm {
            outcome.count(bytes, slot != NONE);
        }
        if slot == NONE {
            let weight = if unit { 1 } else { bytes };
            if u64::from(weight) > capacity {
                continue;
            }
            while memory.used + u64::from(weight) > capacity {
                let Some((at, victim)) = queue.pop() else {
                    break;
                };
                if due[victim as usize] == at && at as usize > number {
                    memory.drop(victim);
                    due[victim as usize] = 0;
                }
            }
            slot = memory.put(object, weight);
            if slot as usize >= due.len() {
                due.resize(slot as usize + 1, 0);
            }
        }
        due[slot as usize] = next[number];
        queue.push((next[number], slot));
        if queue.len() > 4 * due.len() + 64 {
            let mut entries = std::mem::take(&mut queue).into_vec();
            entries.retain(|(at, slot)| due[*slot as usize] == *at);
            entries.dedup();
            queue = entries.into();
        }
    }
    outcome
}

/// For each event, the number of the next one that uses the same object.
fn next_uses(requests: &Requests) -> Vec<u32> {
    let mut seen = vec![NONE; requests.objects()];
    let mut next = vec![NONE; requests.events.len()];
    for (number, event) in requests.events.iter().enumerate().rev() {
        if let Event::Use { object, .. } = event {
            next[number] = std::mem::replace(&mut seen[*object as usize], number as u32);
        }
    }
    next
}
