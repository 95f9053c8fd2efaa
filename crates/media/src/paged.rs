//! Packed tables of small records, read a page at a time from memory or from storage.
//!
//! A film of two hours has thousands of groups and segments, and a server may play many films:
//! their tables would be most of what it holds beside the film blocks. Packed, a record takes about
//! ten bytes, and no memory if the pages lie in an index file. Then they are read on demand, and
//! the kernel's page cache is their cache.
//!
//! A page has [`PAGE`] records. Each record consists of its words' differences from the previous
//! one (the first: from zeros), zigzag-encoded in 7-bit groups, lowest first (LEB128).

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::scratch::Scratch;
use crate::spool::Spool;
use crate::stored::{Home, Lost, Stored};

/// Records per page.
pub const PAGE: usize = 64;
/// The maximum number of words per record.
pub const WORDS: usize = 8;
/// The maximum number of bytes of an encoded word.
const LONGEST: usize = 10;

/// A record of a [`Paged`] table.
pub trait Record: Copy {
    /// The number of words it uses, at most [`WORDS`].
    const USED: usize;

    /// Returns the record as words. Those of consecutive records should differ little.
    fn words(&self) -> [i64; WORDS];

    /// Returns the record with these words.
    fn of(words: &[i64; WORDS]) -> Self;
}

/// A table of records. Records that cannot be read from storage appear to be missing.
#[derive(Clone)]
pub struct Paged<R> {
    len: u32,
    /// The end of each page.
    ends: Vec<u32>,
    home: Home,
    records: PhantomData<fn() -> R>,
}

impl<R> Default for Paged<R> {
    fn default() -> Self {
        Paged {
            len: 0,
            ends: Vec::new(),
            home: Home::Here(Vec::new()),
            records: PhantomData,
        }
    }
}

/// The records of a page, decoded in order.
struct Page<'a> {
    bytes: &'a [u8],
    last: [i64; WORDS],
}

impl<'a> Page<'a> {
    fn of(bytes: &'a [u8]) -> Page<'a> {
        let last = [0; WORDS];
        Page { bytes, last }
    }

    fn word(&mut self) -> i64 {
        let (mut value, mut shift) = (0u64, 0);
        while let Some((byte, rest)) = self.bytes.split_first() {
            self.bytes = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        (value >> 1) as i64 ^ -((value & 1) as i64)
    }

    fn step<R: Record>(&mut self) {
        for at in 0..R::USED {
            self.last[at] = self.last[at].wrapping_add(self.word());
        }
    }

    fn next<R: Record>(&mut self) -> R {
        self.step::<R>();
        R::of(&self.last)
    }
}

fn put(bytes: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// Appends a record that follows the one with the words `last`.
fn pack<R: Record>(bytes: &mut Vec<u8>, last: &mut [i64; WORDS], record: &R) {
    let words = record.words();
    for at in 0..R::USED {
        put(bytes, words[at].wrapping_sub(last[at]));
    }
    *last = words;
}

impl<R: Record> Paged<R> {
    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether the table has no records.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        self.home.memory() + self.ends.capacity() * size_of::<u32>()
    }

    /// Returns the table without its records, which are missing until [`Paged::attach`] is called.
    pub fn without_records(&self) -> Paged<R> {
        Paged {
            len: self.len,
            ends: self.ends.clone(),
            home: Home::Here(Vec::new()),
            records: PhantomData,
        }
    }

    /// Returns the packed records piece by piece, wherever they are stored.
    pub fn pieces(&self) -> impl Iterator<Item = Result<Vec<u8>, Lost>> + '_ {
        self.home.pieces(self.bytes())
    }

    /// Loads the packed records into memory.
    pub(crate) fn bring(&mut self) -> Result<(), Lost> {
        if let Home::Here(_) = self.home {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(self.bytes() as usize);
        for piece in self.pieces() {
            bytes.extend(piece?);
        }
        self.home = Home::Here(bytes);
        Ok(())
    }

    /// Sets where the packed records, which are the concatenated [`Paged::pieces`], are read from.
    pub fn attach(&mut self, stored: Arc<dyn Stored>) {
        self.home = Home::There(stored);
    }

    /// Returns the size of the packed records in bytes, wherever they are stored.
    pub fn bytes(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Calls `look` with the first `most` bytes of a page, or with all of it if it is shorter.
    fn page<T>(&self, page: usize, most: usize, look: impl FnOnce(Page<'_>) -> T) -> Option<T> {
        let end = *self.ends.get(page)?;
        let start = page.checked_sub(1).map_or(0, |before| self.ends[before]);
        let len = (end.checked_sub(start)? as usize).min(most);
        match &self.home {
            Home::Here(bytes) => {
                let bytes = bytes.get(start as usize..start as usize + len)?;
                Some(look(Page::of(bytes)))
            }
            Home::There(stored) => {
                let mut bytes = [0; PAGE * WORDS * LONGEST];
                let bytes = bytes.get_mut(..len)?;
                stored.read_at(start, bytes).then(|| look(Page::of(bytes)))
            }
        }
    }

    /// Returns the number of records of a page.
    fn count(&self, page: usize) -> usize {
        self.len().saturating_sub(page * PAGE).min(PAGE)
    }

    /// Returns record number `index`.
    pub fn get(&self, index: usize) -> Option<R> {
        let within = index % PAGE;
        if index >= self.len() {
            return None;
        }
        self.page(index / PAGE, usize::MAX, |mut page| {
            for _ in 0..within {
                page.step::<R>();
            }
            page.next()
        })
    }

    /// Returns the first record.
    pub fn first(&self) -> Option<R> {
        self.get(0)
    }

    /// Returns the last record.
    pub fn last(&self) -> Option<R> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Iterates over all records in order.
    pub fn iter(&self) -> Iter<'_, R> {
        self.from(0)
    }

    /// Iterates over the records from number `index` on.
    pub fn from(&self, index: usize) -> Iter<'_, R> {
        Iter {
            of: self,
            next: index,
            page: Vec::new(),
        }
    }

    /// Returns the number of records for which `before` is true; all others must follow them.
    pub fn partition_point(&self, mut before: impl FnMut(&R) -> bool) -> usize {
        // Find the last page for whose first record it is true.
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            let first = self.page(middle, R::USED * LONGEST, |mut page| page.next::<R>());
            if first.is_some_and(|first| before(&first)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let Some(page) = low.checked_sub(1) else {
            return 0;
        };
        let count = self.count(page);
        let within = self.page(page, usize::MAX, |mut page| {
            (0..count)
                .position(|_| !before(&page.next::<R>()))
                .unwrap_or(count)
        });
        page * PAGE + within.unwrap_or(0)
    }

    /// Returns the last record up to number `index` (inclusive) that is `wanted`, and its number.
    pub fn last_up_to(
        &self,
        index: usize,
        mut wanted: impl FnMut(&R) -> bool,
    ) -> Option<(usize, R)> {
        let index = index.min(self.len().checked_sub(1)?);
        (0..=index / PAGE).rev().find_map(|number| {
            let count = (index + 1 - number * PAGE).min(PAGE);
            self.page(number, usize::MAX, |mut page| {
                let records = (0..count).map(|within| (number * PAGE + within, page.next::<R>()));
                records.filter(|(_, record)| wanted(record)).last()
            })
            .flatten()
        })
    }

    /// Appends a record. Records that are stored elsewhere are loaded into memory first.
    pub fn push(&mut self, record: R) {
        self.extend([record]);
    }
}

impl<R: Record> Extend<R> for Paged<R> {
    fn extend<T: IntoIterator<Item = R>>(&mut self, records: T) {
        let len = self.bytes();
        let mut bytes = self.home.take(len);
        let mut last = [0; WORDS];
        if !self.len().is_multiple_of(PAGE) {
            self.home = Home::Here(bytes);
            last = self.last().map_or(last, |last| last.words());
            bytes = self.home.take(len);
        }
        for record in records {
            if self.len().is_multiple_of(PAGE) {
                last = [0; WORDS];
                self.ends.push(bytes.len() as u32);
            }
            pack(&mut bytes, &mut last, &record);
            self.len += 1;
            if let Some(end) = self.ends.last_mut() {
                *end = bytes.len() as u32;
            }
        }
        self.home = Home::Here(bytes);
    }
}

impl<R: Record> FromIterator<R> for Paged<R> {
    fn from_iter<T: IntoIterator<Item = R>>(records: T) -> Self {
        let mut table = Paged::default();
        table.extend(records);
        table.ends.shrink_to_fit();
        if let Home::Here(bytes) = &mut table.home {
            bytes.shrink_to_fit();
        }
        table
    }
}

/// A table that records are still added to; it may lie in scratch space.
#[derive(Clone, Debug)]
pub(crate) struct Packing<R> {
    len: u32,
    ends: Vec<u32>,
    bytes: Spool<1>,
    /// The words of the last record.
    last: [i64; WORDS],
    /// A buffer for the record that is being packed.
    packed: Vec<u8>,
    records: PhantomData<fn() -> R>,
}

impl<R: Record> Packing<R> {
    /// Creates an empty table.
    pub fn new(scratch: &Scratch) -> Packing<R> {
        Packing {
            len: 0,
            ends: Vec::new(),
            bytes: Spool::new(scratch),
            last: [0; WORDS],
            packed: Vec::new(),
            records: PhantomData,
        }
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        self.bytes.memory() + self.ends.capacity() * size_of::<u32>() + self.packed.capacity()
    }

    /// Returns the use of scratch space in bytes.
    pub fn aside(&self) -> u64 {
        self.bytes.aside()
    }

    /// Appends a record.
    pub fn push(&mut self, record: R) {
        let end = self.bytes.bytes() as u32;
        if self.len().is_multiple_of(PAGE) {
            self.last = [0; WORDS];
            self.ends.push(end);
        }
        self.packed.clear();
        pack(&mut self.packed, &mut self.last, &record);
        self.bytes.append(&self.packed);
        self.len += 1;
        if let Some(last) = self.ends.last_mut() {
            *last = end + self.packed.len() as u32;
        }
    }

    /// Returns the finished table.
    pub fn finish(mut self) -> Paged<R> {
        self.ends.shrink_to_fit();
        Paged {
            len: self.len,
            ends: self.ends,
            home: match self.bytes.in_memory() {
                Some(bytes) => Home::Here(bytes),
                None => Home::There(Arc::new(self.bytes)),
            },
            records: PhantomData,
        }
    }
}

/// An iterator over records in order; see [`Paged::iter`].
pub struct Iter<'a, R> {
    of: &'a Paged<R>,
    next: usize,
    /// The page of the previous record, if this iterator has returned one.
    page: Vec<R>,
}

impl<R: Record> Iterator for Iter<'_, R> {
    type Item = R;

    fn next(&mut self) -> Option<R> {
        let (page, within) = (self.next / PAGE, self.next % PAGE);
        if self.page.is_empty() || within == 0 {
            self.page.clear();
            let count = self.of.count(page);
            let into = &mut self.page;
            self.of.page(page, usize::MAX, |mut page| {
                into.extend((0..count).map(|_| page.next::<R>()));
            })?;
        }
        let record = self.page.get(within).copied()?;
        self.next += 1;
        Some(record)
    }
}

impl<'a, R: Record> IntoIterator for &'a Paged<R> {
    type Item = R;
    type IntoIter = Iter<'a, R>;

    fn into_iter(self) -> Iter<'a, R> {
        self.iter()
    }
}

impl<R: Record + PartialEq> PartialEq for Paged<R> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<R: Record + Eq> Eq for Paged<R> {}

impl<R> fmt::Debug for Paged<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Paged({})", self.len)
    }
}

/// Records that are stored elsewhere are omitted: the reader of the table has to attach them.
impl<R> Serialize for Paged<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes: &[u8] = match &self.home {
            Home::Here(bytes) => bytes,
            Home::There(_) => &[],
        };
        (self.len, &self.ends, bytes).serialize(serializer)
    }
}

impl<'de, R> Deserialize<'de> for Paged<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (len, mut ends, bytes) = <(u32, Vec<u32>, Vec<u8>)>::deserialize(deserializer)?;
        if ends.len() != (len as usize).div_ceil(PAGE) {
            let pages = ends.len();
            let words = format!("a table of {len} records in {pages} pages");
            return Err(serde::de::Error::custom(words));
        }
        ends.shrink_to_fit();
        Ok(Paged {
            len,
            ends,
            home: Home::Here(bytes),
            records: PhantomData,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_table_has_as_many_pages_as_its_records_fill() {
        let read = |len: u32, pages: usize| {
            let table = (len, vec![0u32; pages], Vec::<u8>::new());
            let bytes = postcard::to_stdvec(&table).expect("it is written");
            postcard::from_bytes::<Paged<Three>>(&bytes).is_ok()
        };
        assert!(read(0, 0) && read(1, 1) && read(64, 1) && read(65, 2));
        assert!(!read(0, 1) && !read(64, 2) && !read(65, 1) && !read(u32::MAX, 1));
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Three(i64, u32, bool);

    impl Record for Three {
        const USED: usize = 3;

        fn words(&self) -> [i64; WORDS] {
            [self.0, self.1.into(), self.2.into(), 0, 0, 0, 0, 0]
        }

        fn of(words: &[i64; WORDS]) -> Three {
            Three(words[0], words[1] as u32, words[2] != 0)
        }
    }

    #[derive(Debug)]
    struct Elsewhere(Vec<u8>);

    impl Stored for Elsewhere {
        fn read_at(&self, at: u32, into: &mut [u8]) -> bool {
            let at = at as usize;
            let bytes = self.0.get(at..at + into.len());
            bytes.inspect(|bytes| into.copy_from_slice(bytes)).is_some()
        }
    }

    fn all(table: &Paged<Three>) -> Vec<u8> {
        let pieces: Result<Vec<_>, Lost> = table.pieces().collect();
        pieces.unwrap().concat()
    }

    fn records() -> impl Strategy<Value = Vec<Three>> {
        let one = (any::<i64>(), any::<u32>(), any::<bool>()).prop_map(|(a, b, c)| Three(a, b, c));
        proptest::collection::vec(one, 0..300)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_table_is_the_list_it_was_made_of_wherever_it_lies(
            mut list in records(), at in 0usize..320, word in any::<i64>(), begun in 0usize..300,
        ) {
            list.sort_by_key(|record| record.0);
            // Built in two steps.
            let begun = begun.min(list.len());
            let mut table: Paged<Three> = list[..begun].iter().copied().collect();
            list[begun..].iter().for_each(|record| table.push(*record));
            let mut there = table.clone();
            let bytes = all(&there);
            there = there.without_records();
            prop_assert_eq!(bytes.len(), table.bytes() as usize);
            there.attach(Arc::new(Elsewhere(bytes)));
            let saved = postcard::to_stdvec(&table).unwrap();
            let read: Paged<Three> = postcard::from_bytes(&saved).unwrap();
            prop_assert!(read == table && there == table);
            for table in [&table, &there] {
                prop_assert_eq!(table.len(), list.len());
                prop_assert!(table.iter().eq(list.iter().copied()));
                prop_assert_eq!(table.get(at), list.get(at).copied());
                prop_assert_eq!(table.last(), list.last().copied());
                let rest = list.get(at..).unwrap_or(&[]);
                prop_assert!(table.from(at).eq(rest.iter().copied()));
                let before = list.partition_point(|record| record.0 < word);
                prop_assert_eq!(table.partition_point(|record| record.0 < word), before);
                let up_to = &list[..(at + 1).min(list.len())];
                let last = up_to.iter().rposition(|record| record.2);
                let found = table.last_up_to(at, |record| record.2);
                prop_assert_eq!(found, last.map(|last| (last, list[last])));
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_there() {
        let mut table: Paged<Three> = (0..200).map(|n| Three(n, 0, true)).collect();
        let mut bytes = all(&table);
        table = table.without_records();
        bytes.truncate(bytes.len() / 2);
        assert_eq!(table.get(0), None);
        table.attach(Arc::new(Elsewhere(bytes)));
        assert_eq!(table.get(0), Some(Three(0, 0, true)));
        assert_eq!(table.get(199), None);
        assert!(table.iter().count() < 200);
        assert!(table.partition_point(|record| record.0 < 190) < 190);
    }
}
