//! Models of ARC and S3-FIFO, which remember evicted blocks.

use crate::{Model, out};

#[derive(Default)]
pub struct Arc {
    pub capacity: usize,
    pub goal: f64,
    pub t1: Vec<u32>,
    pub t2: Vec<u32>,
    pub b1: Vec<u32>,
    pub b2: Vec<u32>,
}

impl Arc {
    fn replace(&mut self, in_b2: bool) {
        let t1 = self.t1.len() as f64;
        if t1 >= 1.0 && (in_b2 && t1 == self.goal || t1 > self.goal) {
            let gone = self.t1.remove(0);
            self.b1.push(gone);
        } else {
            let gone = self.t2.remove(0);
            self.b2.push(gone);
        }
    }
}

impl Model for Arc {
    // The paper's figure 4, case by case. Its REPLACE takes from T2 even if that is empty, and from
    // a cache that is not full; here it cannot be both, since nothing is removed.
    fn ask(&mut self, block: u32) -> bool {
        let full = self.t1.len() + self.t2.len() == self.capacity;
        if out(&mut self.t1, block) || out(&mut self.t2, block) {
            self.t2.push(block);
            return true;
        }
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if self.b1.contains(&block) {
            self.goal = (self.goal + (b2 / b1).max(1.0)).min(self.capacity as f64);
            if full {
                self.replace(false);
            }
            out(&mut self.b1, block);
            self.t2.push(block);
        } else if self.b2.contains(&block) {
            self.goal = (self.goal - (b1 / b2).max(1.0)).max(0.0);
            if full {
                self.replace(true);
            }
            out(&mut self.b2, block);
            self.t2.push(block);
        } else {
            if self.t1.len() + self.b1.len() == self.capacity {
                if self.t1.len() < self.capacity {
                    self.b1.remove(0);
                    if full {
                        self.replace(false);
                    }
                } else {
                    self.t1.remove(0);
                }
            } else if full {
                let all = self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len();
                if all == 2 * self.capacity {
                    self.b2.remove(0);
                }
                self.replace(false);
            }
            self.t1.push(block);
        }
        false
    }
}

#[derive(Default)]
pub struct S3Fifo {
    pub capacity: usize,
    pub small: Vec<(u32, u8)>,
    pub main: Vec<(u32, u8)>,
    pub past: Vec<u32>,
}

impl Model for S3Fifo {
    fn ask(&mut self, block: u32) -> bool {
        let both = self.small.iter_mut().chain(&mut self.main);
        for (other, hits) in both {
            if *other == block {
                *hits = (*hits + 1).min(3);
                return true;
            }
        }
        let main_most = self.capacity - self.capacity / 10;
        while self.small.len() + self.main.len() == self.capacity {
            if self.main.len() > main_most || self.small.is_empty() {
                let (first, hits) = self.main.remove(0);
                if hits > 0 {
                    self.main.push((first, hits - 1));
                }
            } else {
                let (first, hits) = self.small.remove(0);
                if hits > 1 {
                    self.main.push((first, 0));
                } else {
                    self.past.push(first);
                    if self.past.len() > main_most {
                        self.past.remove(0);
                    }
                }
            }
        }
        match out(&mut self.past, block) {
            true => self.main.push((block, 0)),
            false => self.small.push((block, 0)),
        }
        false
    }
}
