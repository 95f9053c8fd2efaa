//! Video elementary streams that are files of their own: their coding, and the presentation times
//! of their pictures, which only the pictures themselves state.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::clock::RATE;
use super::coded::is_sequence;
use super::nal::{Family, Units};
use super::parameters::Parameters;
use super::pictures::Counted;
use super::psi::Coding;
use super::sequence::Shape;
use crate::scratch::Scratch;
use crate::spool::Spool;

/// The maximum distance between decode and presentation position (ITU-T H.264 A.3.1: at most 16
/// pictures are kept).
const FURTHEST: i32 = 64;
/// The maximum picture rate per second that a stream may state.
const MOST_A_SECOND: u64 = 300;
/// The maximum timescale of a stream, such that reordering delays fit their records.
const FINEST: u32 = 10_000_000;

/// Returns the coding of a file that begins with `head`; `None`: no video elementary stream.
pub fn coding(head: &[u8]) -> Option<Coding> {
    let zeros = head.iter().take_while(|byte| **byte == 0).count();
    if !(2..=8).contains(&zeros) || head.get(zeros) != Some(&1) {
        return None;
    }
    let mut units = Units::default();
    let mut units = std::iter::from_fn(|| units.next(head, true)).map(|unit| &head[unit]);
    let first = units.next()?;
    if is_sequence(first) {
        return Some(Coding::MpegVideo);
    }
    // Such a file begins with parameter sets, or with a delimiter or SEI before them.
    let family = match *first.first()? {
        0x27 | 0x47 | 0x67 | 0x09 | 0x06 => Family::H264,
        0x40 | 0x42 | 0x46 | 0x4e => Family::H265,
        _ => return None,
    };
    let mut parameters = Parameters::new(family);
    std::iter::once(first)
        .chain(units)
        .for_each(|unit| parameters.take(unit));
    parameters.shape?;
    Some(match family {
        Family::H264 => Coding::H264,
        Family::H265 => Coding::H265,
    })
}

/// The duration of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// The duration in ticks.
    pub ticks: u32,
    /// Ticks per second.
    pub timescale: u32,
}

impl Period {
    /// Returns the period for a fraction of pictures per second, at [`RATE`] ticks per second if
    /// that is exact.
    fn of((count, seconds): (u32, u32)) -> Option<Period> {
        let ticks = u64::from(RATE) * u64::from(seconds);
        let is_likely = count >= seconds && u64::from(count) <= MOST_A_SECOND * u64::from(seconds);
        if seconds == 0 || count > FINEST || !is_likely {
            return None;
        }
        Some(match ticks.is_multiple_of(count.into()) {
            true => Period {
                ticks: (ticks / u64::from(count)) as u32,
                timescale: RATE,
            },
            false => Period {
                ticks: seconds,
                timescale: count,
            },
        })
    }
}

/// Derives the presentation times of pictures.
#[derive(Clone, Debug)]
pub struct Bare {
    /// Pictures per second if the stream does not state it.
    usual: (u32, u32),
    period: Option<Period>,
    order: Order,
}

impl Bare {
    /// Creates the state for a stream with this default picture rate. The pictures' order is stored
    /// in scratch space.
    pub fn new(usual: (u32, u32), scratch: &Scratch) -> Bare {
        Bare {
            usual,
            period: None,
            order: Order::new(scratch),
        }
    }

    /// Returns the duration of its pictures; `None` before the first one.
    pub fn period(&self) -> Option<Period> {
        self.period
    }

    /// Takes the next picture in decode order and returns its decode time in ticks.
    pub fn take(&mut self, counted: Counted, shape: Option<Shape>) -> i64 {
        let period = *self.period.get_or_insert_with(|| {
            let stated = shape.and_then(|shape| Period::of(shape.rate?));
            let usual = Period {
                ticks: RATE / 25,
                timescale: RATE,
            };
            stated.or(Period::of(self.usual)).unwrap_or(usual)
        });
        let at = i64::from(self.order.len()) * i64::from(period.ticks);
        self.order.take(counted);
        at
    }

    /// Ends the stream and returns the delays until presentation; `None` if the order is invalid.
    pub fn waits(&mut self) -> Option<Waits<'_>> {
        self.order.end();
        let ticks = self.period.map_or(0, |period| period.ticks as i32);
        (!self.order.is_wrong).then_some(Waits {
            order: &self.order,
            ticks,
        })
    }
}

/// The presentation delays of pictures.
pub struct Waits<'a> {
    order: &'a Order,
    ticks: i32,
}

impl Waits<'_> {
    /// Iterates over the delay of each picture, in ticks.
    pub fn iter(&self) -> impl Iterator<Item = i32> + '_ {
        self.order.waits().map(|places| places * self.ticks)
    }
}

/// The presentation order of pictures, by picture order count (ITU-T H.264 8.2.1, H.265 8.3.1).
#[derive(Clone, Debug)]
struct Order {
    /// The number of pictures taken.
    len: u32,
    /// For the first pictures: the signed distance from decode to presentation position, at most
    /// [`FURTHEST`] either way.
    moves: Spool<1>,
    /// The smallest of these distances.
    least: i32,
    /// The distances of the following pictures, as far as they are known.
    open: VecDeque<Option<i8>>,
    /// Counts and numbers of the sequence's pictures without a known position, lowest first.
    waiting: BinaryHeap<Reverse<(i64, u32)>>,
    /// The last picture with a known position, and the number of the first picture in its sequence.
    shown: Option<(i64, u32)>,
    begin: u32,
    /// Whether a picture is further from its position than possible.
    is_wrong: bool,
    /// The count of the last reference picture: its stated bits, and the more significant part.
    low: u32,
    high: i64,
}

impl Order {
    fn new(scratch: &Scratch) -> Order {
        Order {
            len: 0,
            moves: Spool::new(scratch),
            least: 0,
            open: VecDeque::new(),
            waiting: BinaryHeap::new(),
            shown: None,
            begin: 0,
            is_wrong: false,
            low: 0,
            high: 0,
        }
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn take(&mut self, picture: Counted) {
        if picture.begins || self.len == 0 {
            self.end();
            (self.low, self.high) = (picture.low, 0);
        }
        let whole = 1i64 << picture.bits;
        let apart = i64::from(picture.low) - i64::from(self.low);
        // The count advances by less than half of the range of its bits.
        let high = match apart {
            _ if -apart >= whole / 2 => self.high + whole,
            _ if apart > whole / 2 => self.high - whole,
            _ => self.high,
        };
        // Without bits, pictures are presented in decode order.
        let count = match picture.bits {
            0 => i64::from(self.len - self.begin),
            _ => high + i64::from(picture.low),
        };
        if picture.referred {
            (self.low, self.high) = (picture.low, high);
        }
        let number = self.len;
        self.len += 1;
        if self.is_wrong {
            return;
        }
        self.waiting.push(Reverse((count, number)));
        self.open.push_back(None);
        // After this many, no later picture can be presented before the first one.
        if self.waiting.len() > FURTHEST as usize {
            self.show();
        }
    }

    /// Assigns the next position to the first waiting picture.
    fn show(&mut self) {
        let Some(Reverse((count, number))) = self.waiting.pop() else {
            return;
        };
        let place = match self.shown {
            Some((_, place)) => place + 1,
            None => self.begin,
        };
        let is_late = self.shown.is_some_and(|(before, _)| count < before);
        self.shown = Some((count, place));
        let moved = place as i32 - number as i32;
        let known = self.len - self.open.len() as u32;
        let open = self.open.get_mut((number - known) as usize);
        match open {
            Some(open) if !is_late && moved.abs() <= FURTHEST => *open = Some(moved as i8),
            _ => {
                self.is_wrong = true;
                self.open.clear();
                self.waiting.clear();
                return;
            }
        }
        self.least = self.least.min(moved);
        while let Some(Some(moved)) = self.open.pop_front_if(|open| open.is_some()) {
            self.moves.push([moved as u8]);
        }
    }

    /// Ends a sequence.
    fn end(&mut self) {
        while !self.waiting.is_empty() {
            self.show();
        }
        (self.shown, self.begin) = (None, self.len);
    }

    /// Iterates over the positions from decoding to presentation, such that no picture is late.
    fn waits(&self) -> impl Iterator<Item = i32> + '_ {
        let moves = self.moves.records();
        moves.map(|[moved]| i32::from(moved as i8) - self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn picture(count: i64, begins: bool, referred: bool) -> Counted {
        Counted {
            begins,
            low: (count & 15) as u32,
            bits: 4,
            referred,
        }
    }

    fn waits(order: &mut Order) -> Option<Vec<i32>> {
        order.end();
        (!order.is_wrong).then(|| order.waits().collect())
    }

    #[test]
    fn pictures_are_shown_as_they_count() {
        let mut order = Order::new(&Scratch::default());
        // I P B B P B B of two sequences; counts exceed their four bits.
        for _ in 0..2 {
            for (nth, count) in [0, 6, 2, 4, 12, 8, 10, 18, 14, 16].into_iter().enumerate() {
                let referred = count % 6 == 0;
                order.take(picture(count, nth == 0, referred));
            }
        }
        let once = [1, 3, 0, 0, 3, 0, 0, 3, 0, 0];
        assert_eq!(waits(&mut order), Some([once, once].concat()));
    }

    #[test]
    fn pictures_ahead_of_the_first_in_the_order_of_showing_are_shown_before_it() {
        let mut order = Order::new(&Scratch::default());
        for (count, referred) in [
            (0i64, true),
            (-4, false),
            (-2, false),
            (6, true),
            (2, false),
        ] {
            order.take(picture(count, false, referred));
        }
        assert_eq!(waits(&mut order), Some(vec![3, 0, 0, 2, 0]));
    }

    #[test]
    fn rates_are_exact() {
        let ticks = |rate| Period::of(rate).map(|period| (period.ticks, period.timescale));
        assert_eq!(ticks((25, 1)), Some((3600, 90_000)));
        assert_eq!(ticks((30_000, 1001)), Some((3003, 90_000)));
        assert_eq!(ticks((24_000, 1001)), Some((1001, 24_000)));
        assert_eq!(ticks((0, 1)), None);
        assert_eq!(ticks((25, 0)), None);
        assert_eq!(ticks((90_000, 1)), None);
        assert_eq!(ticks((1, 2)), None);
        assert_eq!(ticks((u32::MAX, u32::MAX / 25)), None);
    }

    /// The same result by sorting each sequence as a whole: counts, and whether a sequence begins.
    fn by_sorting(counts: &[(i64, bool)]) -> Option<Vec<i32>> {
        let mut moves = Vec::new();
        let mut sequences: Vec<Vec<i64>> = Vec::new();
        for (count, begins) in counts {
            if *begins || sequences.is_empty() {
                sequences.push(Vec::new());
            }
            sequences.last_mut().unwrap().push(*count);
        }
        for counts in sequences {
            let mut shown: Vec<usize> = (0..counts.len()).collect();
            shown.sort_by_key(|nth| counts[*nth]);
            let begin = moves.len();
            moves.resize(begin + counts.len(), 0);
            for (place, nth) in shown.into_iter().enumerate() {
                moves[begin + nth] = place as i32 - nth as i32;
            }
        }
        let least = moves.iter().copied().min().unwrap_or(0);
        let can_be = moves.iter().all(|moved| moved.abs() <= FURTHEST);
        can_be.then(|| moves.into_iter().map(|moved| moved - least).collect())
    }

    proptest! {
        #[test]
        fn every_picture_has_its_place(
            counts in prop::collection::vec((0u32..16, any::<bool>(), prop::bool::weighted(0.1)), 0..200),
        ) {
            let mut order = Order::new(&Scratch::default());
            for (low, referred, begins) in &counts {
                order.take(Counted { begins: *begins, low: *low, bits: 4, referred: *referred });
            }
            if let Some(waits) = waits(&mut order) {
                let mut shown: Vec<i32> = (0..).zip(&waits).map(|(nth, wait)| nth + wait).collect();
                shown.sort_unstable();
                prop_assert!(waits.iter().all(|wait| *wait >= 0));
                let first = shown.first().copied().unwrap_or(0);
                prop_assert!(shown.into_iter().eq((first..).take(counts.len())));
            }
        }

        #[test]
        fn places_are_those_of_sorted_sequences(
            moved in prop::collection::vec((-66i64..67, prop::bool::weighted(0.01)), 0..600),
            part in 1i64..67,
        ) {
            let counts = (0i64..).zip(&moved).map(|(nth, (moved, begins))| (1000 + nth + moved % part, *begins));
            let counts: Vec<_> = counts.collect();
            let mut order = Order::new(&Scratch::default());
            for (count, begins) in &counts {
                order.take(Counted { begins: *begins, low: *count as u32, bits: 16, referred: false });
            }
            prop_assert_eq!(waits(&mut order), by_sorting(&counts));
        }
    }
}
