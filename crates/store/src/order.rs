//! Blocks in the order of their last use: a list whose links are indices, so that moving one costs
//! nothing and nothing is allocated after the start.

/// Not a block.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Links {
    older: u32,
    newer: u32,
    listed: bool,
}

/// An order of some of the numbers below a fixed count.
#[derive(Debug)]
pub(crate) struct Order {
    links: Vec<Links>,
    oldest: u32,
    newest: u32,
}

impl Order {
    /// None of `count` numbers.
    pub fn new(count: usize) -> Order {
        let links = vec![
            Links {
                older: NONE,
                newer: NONE,
                listed: false
            };
            count
        ];
        Order {
            links,
            oldest: NONE,
            newest: NONE,
        }
    }

    /// Makes `number` the newest.
    pub fn touch(&mut self, number: u32) {
        self.remove(number);
        let before = std::mem::replace(&mut self.newest, number);
        self.links[number as usize] = Links {
            older: before,
            newer: NONE,
            listed: true,
        };
        match before {
            NONE => self.oldest = number,
            before => self.links[before as usize].newer = number,
        }
    }

    /// Takes `number` out, if it is in.
    pub fn remove(&mut self, number: u32) {
        let Links {
            older,
            newer,
            listed,
        } = self.links[number as usize];
        if !listed {
            return;
        }
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        self.links[number as usize].listed = false;
    }

    /// The numbers from the oldest on.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let here = (at != NONE).then_some(at)?;
            at = self.links[here as usize].newer;
            Some(here)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_the_last_touches(steps in proptest::collection::vec((0u32..8, any::<bool>()), 0..64)) {
            let mut order = Order::new(8);
            let mut plain: Vec<u32> = Vec::new();
            for (number, touch) in steps {
                plain.retain(|other| *other != number);
                if touch {
                    order.touch(number);
                    plain.push(number);
                } else {
                    order.remove(number);
                }
                prop_assert_eq!(order.iter().collect::<Vec<_>>(), plain.clone());
            }
        }
    }
}
