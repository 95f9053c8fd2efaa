//! Models of policies that keep lists in the order of use: FIFO, LRU, LFU, SIEVE, SLRU, 2Q.

use std::collections::HashMap;

use crate::{Model, out};

/// Oldest first.
pub struct OneList {
    pub capacity: usize,
    pub list: Vec<u32>,
    pub hits: HashMap<u32, u32>,
    pub kind: &'static str,
    pub hand: usize,
}

impl Model for OneList {
    fn ask(&mut self, block: u32) -> bool {
        if self.list.contains(&block) {
            *self.hits.entry(block).or_default() += 1;
            if matches!(self.kind, "lru" | "lfu") {
                out(&mut self.list, block);
                self.list.push(block);
            }
            return true;
        }
        if self.list.len() == self.capacity {
            match self.kind {
                "lfu" => {
                    let hits = |block: &u32| self.hits[block];
                    let least = *self.list.iter().min_by_key(|block| hits(block)).unwrap();
                    out(&mut self.list, least);
                }
                "sieve" => loop {
                    let at = self.hand % self.list.len();
                    let hits = self.hits.get_mut(&self.list[at]).unwrap();
                    if *hits == 0 {
                        self.list.remove(at);
                        self.hand = if at == self.list.len() { 0 } else { at };
                        break;
                    }
                    *hits = 0;
                    self.hand = at + 1;
                },
                _ => drop(self.list.remove(0)),
            }
        }
        // A hand at the end starts again only when it is needed: not at the newcomer.
        if self.kind == "sieve" && self.hand >= self.list.len() {
            self.hand = 0;
        }
        self.list.push(block);
        self.hits.insert(block, 0);
        false
    }
}

pub struct Slru {
    pub capacity: usize,
    pub protected_most: usize,
    pub probation: Vec<u32>,
    pub protected: Vec<u32>,
}

impl Model for Slru {
    fn ask(&mut self, block: u32) -> bool {
        if out(&mut self.probation, block) || out(&mut self.protected, block) {
            self.protected.push(block);
            if self.protected.len() > self.protected_most {
                let back = self.protected.remove(0);
                self.probation.push(back);
            }
            return true;
        }
        if self.probation.len() + self.protected.len() == self.capacity {
            match self.probation.is_empty() {
                true => self.protected.remove(0),
                false => self.probation.remove(0),
            };
        }
        self.probation.push(block);
        false
    }
}

#[derive(Default)]
pub struct TwoQ {
    pub capacity: usize,
    pub a1_in: Vec<u32>,
    pub a1_out: Vec<u32>,
    pub am: Vec<u32>,
}

impl Model for TwoQ {
    fn ask(&mut self, block: u32) -> bool {
        if out(&mut self.am, block) {
            self.am.push(block);
            return true;
        }
        if self.a1_in.contains(&block) {
            return true;
        }
        let again = out(&mut self.a1_out, block);
        if self.a1_in.len() + self.am.len() == self.capacity {
            if self.a1_in.len() > self.capacity / 4 || self.am.is_empty() {
                let gone = self.a1_in.remove(0);
                self.a1_out.push(gone);
                if self.a1_out.len() > self.capacity / 2 {
                    self.a1_out.remove(0);
                }
            } else {
                self.am.remove(0);
            }
        }
        match again {
            true => self.am.push(block),
            false => self.a1_in.push(block),
        }
        false
    }
}
