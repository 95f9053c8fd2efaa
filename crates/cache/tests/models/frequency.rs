//! Models of policies that count or remember uses: LRU-K, FBR, ONS, W-TinyLFU.

use std::collections::HashMap;

use crate::{Model, out};

pub struct LruK {
    pub capacity: usize,
    pub k: usize,
    pub tick: usize,
    pub present: Vec<u32>,
    pub past: Vec<u32>,
    pub uses: HashMap<u32, Vec<usize>>,
}

impl Model for LruK {
    fn ask(&mut self, block: u32) -> bool {
        self.tick += 1;
        let hit = self.present.contains(&block);
        if !hit {
            let remembered = out(&mut self.past, block);
            if self.present.len() == self.capacity {
                let kth = |block: &u32| {
                    let uses = &self.uses[block];
                    let kth = uses.len().checked_sub(self.k).map_or(0, |at| uses[at]);
                    (kth, *uses.last().unwrap())
                };
                let gone = *self.present.iter().min_by_key(|block| kth(block)).unwrap();
                out(&mut self.present, gone);
                self.past.push(gone);
                if self.past.len() > self.capacity / 2 {
                    self.past.remove(0);
                }
            }
            if !remembered {
                self.uses.remove(&block);
            }
            self.present.push(block);
        }
        self.uses.entry(block).or_default().push(self.tick);
        hit
    }
}

pub struct Fbr {
    pub capacity: usize,
    /// Most recently used first.
    pub stack: Vec<u32>,
    pub count: HashMap<u32, u32>,
}

impl Model for Fbr {
    fn ask(&mut self, block: u32) -> bool {
        let at = self.stack.iter().position(|other| *other == block);
        let new = self.capacity / 4;
        if let Some(at) = at {
            self.stack.remove(at);
            self.stack.insert(0, block);
            if at >= new {
                *self.count.get_mut(&block).unwrap() += 1;
            }
            return true;
        }
        if self.stack.len() == self.capacity {
            let old = self.capacity - self.capacity / 2;
            let from_last = self.stack[old..].iter().rev();
            let gone = *from_last.min_by_key(|block| self.count[block]).unwrap();
            out(&mut self.stack, gone);
        }
        self.stack.insert(0, block);
        self.count.insert(block, 1);
        false
    }
}

pub struct Ons {
    pub new_most: usize,
    pub old_most: usize,
    pub promotion: u32,
    /// Least recently used first, with their hits.
    pub new: Vec<(u32, u32)>,
    pub old: Vec<(u32, u32)>,
}

fn least(list: &[(u32, u32)]) -> usize {
    let hits = |(_, (_, hits)): &(usize, &(u32, u32))| *hits;
    list.iter().enumerate().min_by_key(hits).unwrap().0
}

impl Model for Ons {
    fn ask(&mut self, block: u32) -> bool {
        if let Some(at) = self.old.iter().position(|(other, _)| *other == block) {
            let (_, hits) = self.old.remove(at);
            self.old.push((block, hits + 1));
            return true;
        }
        if let Some(at) = self.new.iter().position(|(other, _)| *other == block) {
            let (_, hits) = self.new.remove(at);
            if hits + 1 >= self.promotion {
                if self.old.len() == self.old_most {
                    self.old.remove(least(&self.old));
                }
                self.old.push((block, hits + 1));
            } else {
                self.new.push((block, hits + 1));
            }
            return true;
        }
        if self.new.len() == self.new_most {
            self.new.remove(least(&self.new));
        }
        self.new.push((block, 0));
        false
    }
}

#[derive(Default)]
pub struct WTinyLfu {
    pub capacity: usize,
    pub window_most: usize,
    /// Uses after which all counts are halved.
    pub sample: u64,
    pub uses: u64,
    pub counts: HashMap<u32, u8>,
    pub window: Vec<u32>,
    pub probation: Vec<u32>,
    pub protected: Vec<u32>,
}

impl WTinyLfu {
    fn count(&mut self, block: u32) {
        let count = self.counts.entry(block).or_default();
        *count = (*count + 1).min(15);
        self.uses += 1;
        if self.uses >= self.sample {
            self.uses /= 2;
            self.counts.values_mut().for_each(|count| *count /= 2);
        }
    }

    fn make_room(&mut self) {
        let old = [&self.probation, &self.protected]
            .into_iter()
            .find_map(|list| list.first().copied());
        let full = self.window.len() >= self.window_most;
        let new = self
            .window
            .first()
            .copied()
            .filter(|_| full || old.is_none());
        let better = new
            .zip(old)
            .is_some_and(|(new, old)| self.counts[&new] > self.counts[&old]);
        let gone = match (new, old) {
            (Some(new), Some(old)) if better => {
                out(&mut self.window, new);
                self.probation.push(new);
                old
            }
            (Some(new), _) => new,
            (None, old) => old.unwrap(),
        };
        for list in [&mut self.window, &mut self.probation, &mut self.protected] {
            // The block that has just entered probation is not the one that goes.
            out(list, gone);
        }
    }
}

impl Model for WTinyLfu {
    fn ask(&mut self, block: u32) -> bool {
        let main = self.capacity - self.window_most;
        if out(&mut self.window, block) {
            self.count(block);
            self.window.push(block);
            return true;
        }
        if out(&mut self.probation, block) || out(&mut self.protected, block) {
            self.count(block);
            self.protected.push(block);
            if self.protected.len() > main * 4 / 5 {
                let back = self.protected.remove(0);
                self.probation.push(back);
            }
            return true;
        }
        if self.window.len() + self.probation.len() + self.protected.len() == self.capacity {
            self.make_room();
        }
        self.count(block);
        self.window.push(block);
        while self.window.len() > self.window_most
            && self.probation.len() + self.protected.len() < main
        {
            let oldest = self.window.remove(0);
            self.probation.push(oldest);
        }
        false
    }
}
