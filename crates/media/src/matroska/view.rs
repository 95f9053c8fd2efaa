//! The view of a film with header stripping: the file, with the stripped bytes put back before each
//! such frame. Bytes between frames remain, so the position of a view byte in the file follows from
//! the number of bytes put back before it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use crate::groups::group;
use crate::index::Index;
use crate::index_error::{IndexError, IndexErrorKind};
use crate::paged::Packing;
use crate::places::{Filled, Place, STEP, View, WITH_HEADS};
use crate::samples::{Sample, SampleTable, Samples, SamplesError};
use crate::title::{Title, Track};

/// The number of samples read at once.
const AT_ONCE: u32 = 64;

/// Gives a film its view, if any of its frames are stored without their first bytes. `len` is the
/// size of the file. The frames' lengths already include these bytes.
///
/// # Errors
/// The view would be too long.
pub fn put_heads(index: &mut Index, len: u64) -> Result<(), IndexError> {
    let (title, tables) = (&mut index.title, &mut index.tables);
    if title.tracks.iter().all(|track| track.stripped.is_empty()) {
        return Ok(());
    }
    let heads = title.tracks.iter().map(|track| track.stripped.len() as u64);
    let heads: Vec<u64> = heads.collect();
    let more = tables
        .iter()
        .zip(&heads)
        .map(|(table, head)| u64::from(table.len()) * head);
    let bytes = len + more.sum::<u64>();
    if bytes >= 1 << 48 {
        return Err(IndexError {
            path: "Segment".into(),
            offset: 0,
            problem: format!("has frames of {bytes} bytes with what they are stored without"),
            kind: IndexErrorKind::TooLarge,
        });
    }
    let new = |table: &SampleTable| Packing::new(table.scratch());
    let mut places: Vec<Packing<Place>> = tables.iter().map(new).collect();
    let mut samples: Vec<_> = tables.iter().map(|table| table.iter().peekable()).collect();
    let mut made: Vec<SampleTable> = tables
        .iter()
        .map(|table| SampleTable::new(table.scratch()))
        .collect();
    // The offset in the file of the next sample of each track.
    let mut next = BinaryHeap::new();
    for (track, samples) in samples.iter_mut().enumerate() {
        next.extend(samples.peek().map(|first| Reverse((first.offset, track))));
    }
    let mut put = 0;
    while let Some(Reverse((file, track))) = next.pop() {
        let (table, places) = (&mut made[track], &mut places[track]);
        let Some(sample) = samples[track].next() else {
            continue;
        };
        let (offset, number) = (file + put, table.len());
        table.push(Sample { offset, ..sample });
        let end = offset + u64::from(sample.size);
        while places.len() as u64 * STEP < end {
            places.push(Place {
                file,
                skip: 0,
                sample: number,
            });
        }
        put += heads[track];
        let follows = samples[track].peek();
        next.extend(follows.map(|sample| Reverse((sample.offset, track))));
    }
    drop(samples);
    *tables = made;
    let count = bytes.div_ceil(STEP) as usize;
    for ((track, table), mut places) in title.tracks.iter_mut().zip(tables).zip(places) {
        let none = Place {
            file: len,
            skip: 0,
            sample: table.len(),
        };
        while places.len() < count {
            places.push(none);
        }
        track.places = places.finish();
        // The frames are now further apart.
        let dts = track.groups.first().map_or(0, |first| first.dts);
        track.groups = group(
            table.iter(),
            track.kind,
            dts,
            track.timescale,
            table.scratch(),
        );
    }
    title.view = Some(View {
        bytes,
        file: len,
        packet: WITH_HEADS,
    });
    Ok(())
}

/// Bytes put back before a frame.
#[derive(Debug)]
struct Put {
    /// Their position in the view.
    at: u64,
    head: Arc<[u8]>,
    /// The number of bytes put back before them, if the index states it.
    before: Option<u64>,
}

impl Put {
    /// Returns how many of them lie before byte `at` of the view.
    fn up_to(&self, at: u64) -> u64 {
        at.saturating_sub(self.at).min(self.head.len() as u64)
    }
}

/// The process of making some bytes of such a view.
#[derive(Debug)]
pub struct Filling {
    range: Range<u64>,
    puts: Vec<Put>,
    /// The bytes of the file that the part contains; `None` if the index contradicts itself.
    has: Option<Range<u64>>,
}

impl Filling {
    /// Starts making these bytes of the view of a film.
    ///
    /// # Errors
    /// The film's sample records cannot be read.
    pub fn new(
        title: &Title,
        view: View,
        samples: &dyn Samples,
        range: Range<u64>,
    ) -> Result<Filling, SamplesError> {
        let mut heads = Heads {
            puts: Vec::new(),
            first: Some((view.bytes, view.bytes.saturating_sub(view.file))),
        };
        for (number, track) in title.tracks.iter().enumerate() {
            if !track.stripped.is_empty() {
                heads.add(track, number, samples, &range)?;
            }
        }
        let has = heads.of_file(&range).filter(|has| has.end <= view.file);
        Ok(Filling {
            range,
            puts: heads.puts,
            has,
        })
    }

    /// Returns the byte range of the file that is needed: at least one byte, as no read is empty.
    pub fn wanted(&self) -> Range<u64> {
        match &self.has {
            Some(has) if has.is_empty() => has.start.saturating_sub(1)..has.start.max(1),
            Some(has) => has.clone(),
            None => 0..1,
        }
    }

    /// Makes the bytes from the requested bytes of the file.
    pub fn fill(&self, file: &[u8], into: &mut [u8]) -> Filled {
        match self.copy(file, into) {
            Some(()) => Filled::Whole,
            None => Filled::Different,
        }
    }

    /// Returns `None` if these are not the bytes of the indexed file.
    fn copy(&self, file: &[u8], into: &mut [u8]) -> Option<()> {
        let has = self.has.as_ref()?;
        let size = usize::try_from(has.end - has.start).ok()?;
        let mut file = file.get(..size)?;
        if into.len() as u64 != self.range.end - self.range.start {
            return None;
        }
        let (mut into, mut at) = (into, self.range.start);
        for put in &self.puts {
            let before = usize::try_from(put.at.saturating_sub(at)).ok()?;
            let (bytes, rest) = file.split_at_checked(before.min(into.len()))?;
            into.split_off_mut(..bytes.len())?.copy_from_slice(bytes);
            (file, at) = (rest, at + bytes.len() as u64);
            // A header may begin in the previous part and may end in the next one.
            let begun = usize::try_from(put.up_to(at)).ok()?;
            let head = put.head.get(begun..)?;
            let head = &head[..head.len().min(into.len())];
            into.split_off_mut(..head.len())?.copy_from_slice(head);
            at += head.len() as u64;
        }
        (file.len() == into.len()).then(|| into.copy_from_slice(file))
    }
}

/// The bytes put back before frames, from a position on.
struct Heads {
    puts: Vec<Put>,
    /// The position of the first such frame (the end of the view if there is none), and the number
    /// of bytes put back before it. `None` if the index contradicts itself.
    first: Option<(u64, u64)>,
}

impl Heads {
    /// Adds the stripped bytes of a track.
    fn add(
        &mut self,
        track: &Track,
        number: usize,
        samples: &dyn Samples,
        range: &Range<u64>,
    ) -> Result<(), SamplesError> {
        let step = usize::try_from(range.start / STEP).ok();
        let Some(place) = step.and_then(|step| track.places.get(step)) else {
            self.first = None;
            return Ok(());
        };
        let head: Arc<[u8]> = track.stripped.as_slice().into();
        let mut some = Vec::new();
        let mut next = place.sample;
        while next < track.samples {
            let end = next.saturating_add(AT_ONCE).min(track.samples);
            some.clear();
            samples.read(number, next..end, &mut some)?;
            for (nth, sample) in (next..).zip(&some) {
                let before = (nth == place.sample).then(|| sample.offset.checked_sub(place.file));
                let is_sound = before != Some(None) && sample.size as usize >= head.len();
                self.first = self.first.filter(|_| is_sound);
                let Some(first) = &mut self.first else {
                    return Ok(());
                };
                if let Some(Some(before)) = before {
                    *first = (*first).min((sample.offset, before));
                }
                if sample.offset >= range.end {
                    return Ok(());
                }
                self.puts.push(Put {
                    at: sample.offset,
                    head: Arc::clone(&head),
                    before: before.flatten(),
                });
            }
            next = end;
        }
        Ok(())
    }

    /// Sorts the entries and returns the bytes of the file that this part of the view contains;
    /// `None` if the index contradicts itself.
    fn of_file(&mut self, range: &Range<u64>) -> Option<Range<u64>> {
        let (_, first) = self.first?;
        self.puts.sort_by_key(|put| put.at);
        let (mut before, mut end) = (first, 0);
        for put in &self.puts {
            if put.at < end || put.before.is_some_and(|stated| stated != before) {
                return None;
            }
            let length = put.head.len() as u64;
            (before, end) = (before + length, put.at + length);
        }
        let of_file = |at: u64| {
            let put = self.puts.iter().map(|put| put.up_to(at));
            at.checked_sub(first + put.sum::<u64>())
        };
        Some(of_file(range.start)?..of_file(range.end)?)
    }
}
