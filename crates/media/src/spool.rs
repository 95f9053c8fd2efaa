//! An append-only byte sequence for sequential reading, kept in scratch space except for its end.

use std::sync::Arc;

use crate::scratch::{SCRATCH_CHUNK, Scratch};
use crate::stored::{Lost, Stored};

/// Records of `N` bytes each. Stored chunks are never changed, so clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spool<const N: usize> {
    scratch: Scratch,
    /// Chunks of [`Spool::CHUNK`] bytes each.
    full: Vec<Arc<dyn Stored>>,
    /// The bytes after them; if there are records, the last one is here.
    tail: Vec<u8>,
}

impl<const N: usize> Spool<N> {
    /// Bytes put into scratch space at once: whole records.
    const CHUNK: usize = SCRATCH_CHUNK / N * N;

    /// Creates an empty spool.
    pub fn new(scratch: &Scratch) -> Self {
        Spool {
            scratch: scratch.clone(),
            full: Vec::new(),
            tail: Vec::new(),
        }
    }

    /// Reserves memory for this many records, as far as they stay in memory.
    pub fn reserve(&mut self, records: usize) {
        let bytes = records.saturating_mul(N).min(Self::CHUNK);
        self.tail
            .reserve_exact(bytes.saturating_sub(self.tail.len()));
    }

    /// Returns the scratch space that the spool uses.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.full.len() * Self::CHUNK + self.tail.len()
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.bytes() / N
    }

    /// Appends a record.
    pub fn push(&mut self, record: [u8; N]) {
        // Chunks consist of whole records.
        if self.tail.len() == Self::CHUNK {
            self.put_aside();
        }
        self.tail.extend_from_slice(&record);
    }

    /// Appends whole records.
    pub fn append(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.tail.len() == Self::CHUNK {
                self.put_aside();
            }
            // The last record must stay in the tail.
            while self.tail.is_empty() && rest.len() > Self::CHUNK {
                let (now, later) = rest.split_at(Self::CHUNK);
                self.full.push(self.scratch.keep(now));
                rest = later;
            }
            let (now, later) = rest.split_at((Self::CHUNK - self.tail.len()).min(rest.len()));
            self.tail.extend_from_slice(now);
            rest = later;
        }
    }

    fn put_aside(&mut self) {
        self.full.push(self.scratch.keep(&self.tail));
        self.tail.clear();
    }

    /// Returns the last record.
    pub fn last(&self) -> Option<&[u8; N]> {
        self.tail.last_chunk()
    }

    /// Returns the last record for modification.
    pub fn last_mut(&mut self) -> Option<&mut [u8; N]> {
        self.tail.last_chunk_mut()
    }

    /// Frees unused capacity.
    pub fn shrink(&mut self) {
        self.full.shrink_to_fit();
        self.tail.shrink_to_fit();
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        let kept = self.full.iter().map(|chunk| chunk.memory());
        kept.sum::<usize>()
            + self.full.capacity() * size_of::<Arc<dyn Stored>>()
            + self.tail.capacity()
    }

    /// Returns the number of bytes in scratch space.
    pub fn aside(&self) -> u64 {
        let aside = self.full.iter().filter(|chunk| chunk.memory() == 0);
        aside.count() as u64 * Self::CHUNK as u64
    }

    /// Loads everything into memory.
    pub fn bring(&self) -> Result<Self, Lost> {
        if self.aside() == 0 {
            return Ok(self.clone());
        }
        let mut here = Spool::new(&Scratch::default());
        for piece in self.pieces() {
            here.append(&piece?);
        }
        here.shrink();
        Ok(here)
    }

    /// Fills `into` from byte `at` on, completely or not at all; returns whether it succeeded.
    pub fn read_at(&self, at: usize, into: &mut [u8]) -> bool {
        let (mut at, mut into) = (at, into);
        while !into.is_empty() {
            let (number, within) = (at / Self::CHUNK, at % Self::CHUNK);
            let count = (Self::CHUNK - within).min(into.len());
            let (now, later) = into.split_at_mut(count);
            let is_read = match self.full.get(number) {
                Some(chunk) => self.scratch.read(&**chunk, within as u32, now),
                None if number == self.full.len() => {
                    let bytes = self.tail.get(within..within + count);
                    bytes.inspect(|bytes| now.copy_from_slice(bytes)).is_some()
                }
                None => false,
            };
            if !is_read {
                return false;
            }
            (at, into) = (at + count, later);
        }
        true
    }

    /// Returns all bytes as one vector, if none of them lie in scratch space.
    pub fn in_memory(&self) -> Option<Vec<u8>> {
        if self.aside() > 0 {
            return None;
        }
        let mut bytes = Vec::with_capacity(self.bytes());
        for piece in self.pieces() {
            bytes.extend(piece.ok()?);
        }
        Some(bytes)
    }

    /// Returns all bytes piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = Result<Vec<u8>, Lost>> + '_ {
        (0..=self.full.len()).map(|number| {
            let mut bytes = Vec::new();
            self.piece(number, &mut bytes).map(|()| bytes)
        })
    }

    fn piece(&self, number: usize, into: &mut Vec<u8>) -> Result<(), Lost> {
        into.clear();
        let Some(chunk) = self.full.get(number) else {
            into.extend_from_slice(&self.tail);
            return Ok(());
        };
        into.resize(Self::CHUNK, 0);
        match self.scratch.read(&**chunk, 0, into) {
            true => Ok(()),
            false => Err(Lost),
        }
    }

    /// Iterates over the records in order. Stops early if they cannot be read back; code that
    /// builds an index from them must call [`Scratch::check`] afterwards.
    pub fn records(&self) -> Records<'_, N> {
        Records {
            of: self,
            number: 0,
            piece: Vec::new(),
            at: 0,
        }
    }
}

impl<const N: usize> Stored for Spool<N> {
    fn read_at(&self, at: u32, into: &mut [u8]) -> bool {
        Spool::read_at(self, at as usize, into)
    }

    fn memory(&self) -> usize {
        Spool::memory(self)
    }
}

/// The iterator of [`Spool::records`].
#[derive(Clone, Debug)]
pub(crate) struct Records<'a, const N: usize> {
    of: &'a Spool<N>,
    /// The number of the next piece.
    number: usize,
    /// The current piece, and the position of the next record in it.
    piece: Vec<u8>,
    at: usize,
}

impl<const N: usize> Iterator for Records<'_, N> {
    type Item = [u8; N];

    fn next(&mut self) -> Option<[u8; N]> {
        if self.at == self.piece.len() {
            if self.number > self.of.full.len() {
                return None;
            }
            self.at = 0;
            if self.of.piece(self.number, &mut self.piece).is_err() {
                (self.number, self.piece) = (usize::MAX, Vec::new());
                return None;
            }
            self.number += 1;
        }
        let record = self.piece.get(self.at..)?.first_chunk().copied()?;
        self.at += N;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scratch::ScratchSpace;

    /// Scratch space that stores only every n-th chunk.
    #[derive(Debug)]
    struct Nth(usize, std::sync::atomic::AtomicUsize);

    #[derive(Debug)]
    struct Kept(Vec<u8>);

    impl ScratchSpace for Nth {
        fn keep(&self, bytes: &[u8]) -> Option<Arc<dyn Stored>> {
            let nth = self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let kept: Arc<dyn Stored> = Arc::new(Kept(bytes.to_vec()));
            nth.is_multiple_of(self.0).then_some(kept)
        }
    }

    impl Stored for Kept {
        fn read_at(&self, at: u32, into: &mut [u8]) -> bool {
            let bytes = &self.0[at as usize..at as usize + into.len()];
            into.copy_from_slice(bytes);
            true
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_spool_has_what_was_put_into_it(
            count in 0usize..60_000, shared in 0usize..60_000, each in 1usize..4, at in 0usize..600_000, length in 0usize..300_000,
        ) {
            let scratch = Scratch::new(Nth(each, Default::default()));
            let mut spool: Spool<18> = Spool::new(&scratch);
            let mut copy = spool.clone();
            let record = |nth: usize| [nth.to_le_bytes().as_slice(), &[7; 10]].concat().try_into().unwrap();
            let records: Vec<[u8; 18]> = (0..count).map(record).collect();
            for (nth, record) in records.iter().enumerate() {
                if nth == shared {
                    copy = spool.clone();
                }
                spool.push(*record);
                prop_assert_eq!(spool.last(), Some(record));
            }
            // What is appended to one is not in its clone.
            copy.push([1; 18]);
            let all = records.concat();
            prop_assert_eq!((spool.len(), spool.bytes()), (count, all.len()));
            prop_assert!(spool.records().eq(records.iter().copied()));
            let pieces: Result<Vec<_>, Lost> = spool.pieces().collect();
            prop_assert_eq!(pieces.unwrap().concat(), all.clone());
            let mut into = vec![0; length];
            let read = spool.read_at(at, &mut into).then_some(&into[..]);
            prop_assert_eq!(read, all.get(at..at + length));
            let chunks = all.len().div_ceil(SCRATCH_CHUNK).saturating_sub(1);
            prop_assert_eq!(spool.aside(), (chunks.div_ceil(each) * SCRATCH_CHUNK) as u64);
            let here = spool.bring().unwrap();
            prop_assert_eq!((here.aside(), here.in_memory()), (0, Some(all)));
            prop_assert!(here.memory() >= here.bytes());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn whatever_is_appended_at_once_is_there(
            counts in prop::collection::vec(prop_oneof![0usize..30, 0usize..40_000, Just(SCRATCH_CHUNK / 18)], 1..9),
        ) {
            let scratch = Scratch::new(Nth(1, Default::default()));
            let mut spool: Spool<18> = Spool::new(&scratch);
            let mut all = Vec::new();
            for count in counts {
                let from = all.len();
                all.extend((from..from + count * 18).map(|at| (at / 7) as u8));
                spool.append(&all[from..]);
                prop_assert_eq!(spool.last(), all.last_chunk());
                prop_assert_eq!(spool.bytes(), all.len());
            }
            let pieces: Result<Vec<_>, Lost> = spool.pieces().collect();
            prop_assert_eq!(pieces.unwrap().concat(), all);
        }
    }

    #[test]
    fn where_a_chunk_is_lost_records_end_and_it_is_said() {
        #[derive(Debug)]
        struct Forgetful;
        impl ScratchSpace for Forgetful {
            fn keep(&self, _: &[u8]) -> Option<Arc<dyn Stored>> {
                Some(Arc::new(Forgetful))
            }
        }
        impl Stored for Forgetful {
            fn read_at(&self, _: u32, _: &mut [u8]) -> bool {
                false
            }
        }
        let scratch = Scratch::new(Forgetful);
        let mut spool: Spool<8> = Spool::new(&scratch);
        (0..50_000u64).for_each(|nth| spool.push(nth.to_le_bytes()));
        assert!(scratch.check().is_ok());
        assert_eq!(spool.last(), Some(&49_999u64.to_le_bytes()));
        assert_eq!(spool.records().count(), 0);
        assert!(scratch.check().is_err());
        assert!(spool.bring().is_err());
    }
}
