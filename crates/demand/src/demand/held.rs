//! The memory that viewers of a film hold along its time.

use reelway_media::{Nanos, TimedSample, Title};

use crate::curve::{BIN, BINS, Curve};

/// How a film is read for its viewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Bytes of a block of the pool, which is held as a whole while any of its bytes are.
    pub block: u64,
    /// How long before its due time a group may be read; never before the previous group is being
    /// sent.
    pub ahead: Nanos,
}

/// Memory held along a film's time.
pub(super) struct HeldMemory {
    /// Number of quarter seconds of the film.
    pub(super) bins: usize,
    reading: Reading,
    /// Which blocks are held, and when.
    all: Vec<Hold>,
}

/// Blocks that are held for a group.
struct Hold {
    /// Quarter seconds: the first, and the end.
    from: u32,
    to: u32,
    /// Blocks of the file: the first, and the end.
    low: u32,
    high: u32,
}

impl HeldMemory {
    pub(super) fn new(bins: usize, reading: Reading) -> HeldMemory {
        let block = reading.block.max(1);
        HeldMemory {
            bins,
            reading: Reading { block, ..reading },
            all: Vec::new(),
        }
    }

    /// Adds a group, which is held from when it is read to its own end.
    pub(super) fn group(&mut self, begins: &[Nanos], group: usize, samples: &[TimedSample]) {
        let filled = || {
            let all = samples.iter().map(|sample| sample.sample.bytes());
            all.filter(|bytes| !bytes.is_empty())
        };
        let (Some(low), Some(high)) = (
            filled().map(|bytes| bytes.start).min(),
            filled().map(|bytes| bytes.end).max(),
        ) else {
            return;
        };
        self.hold(begins, group, (low, high));
    }

    /// Adds bytes of the file that are held for a group.
    pub(super) fn hold(&mut self, begins: &[Nanos], group: usize, (low, high): (u64, u64)) {
        let of = |number: usize| begins.get(number).copied();
        let before = of(group.saturating_sub(1)).unwrap_or(0);
        let read = of(group).unwrap_or(0).saturating_sub(self.reading.ahead);
        let start = read.max(before).max(0) / BIN;
        let end = of(group + 1).map_or(self.bins, |end| (end.max(0) / BIN) as usize + 1);
        let end = end.min(self.bins);
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        self.all.push(Hold {
            from: small(start as u64),
            to: small(end as u64),
            low: small(low / self.reading.block),
            high: small(high.div_ceil(self.reading.block)),
        });
    }

    pub(super) fn curve(&mut self) -> Curve {
        self.all.sort_unstable_by_key(|hold| hold.from);
        let quarter = |level: u64| u32::try_from(level.div_ceil(BINS as u64)).unwrap_or(u32::MAX);
        let mut coming = self.all.iter().peekable();
        let mut here: Vec<&Hold> = Vec::new();
        let bins = (0..self.bins as u32).map(|bin| {
            here.retain(|hold| bin < hold.to);
            while let Some(hold) = coming.next_if(|hold| hold.from <= bin) {
                if bin < hold.to {
                    here.push(hold);
                }
            }
            here.sort_unstable_by_key(|hold| hold.low);
            let (mut blocks, mut end) = (0, 0);
            for hold in &here {
                blocks += u64::from(hold.high.saturating_sub(hold.low.max(end)));
                end = end.max(hold.high);
            }
            quarter(blocks * self.reading.block)
        });
        Curve::new(bins.collect())
    }
}

/// Where groups lie in a file that stores side by side what is due at the same time, as nearly all
/// do.
pub(super) struct SideBySide {
    /// When the groups of all tracks begin, and the bytes of all groups before each.
    begins: Vec<(Nanos, u64)>,
    all: u64,
}

impl SideBySide {
    pub(super) fn of(title: &Title) -> SideBySide {
        let groups = title.tracks.iter().flat_map(|track| {
            let groups = track.groups.iter();
            groups.map(|group| (track.decode(group.dts), u64::from(group.bytes)))
        });
        let mut begins: Vec<(Nanos, u64)> = groups.collect();
        begins.sort_unstable();
        let mut all = 0;
        for (_, bytes) in &mut begins {
            all += std::mem::replace(bytes, all);
        }
        SideBySide { begins, all }
    }

    /// Bytes of groups that begin before `at`.
    pub(super) fn before(&self, at: Nanos) -> u64 {
        let next = self.begins.partition_point(|(begin, _)| *begin < at);
        self.begins
            .get(next)
            .map_or(self.all, |(_, before)| *before)
    }
}
