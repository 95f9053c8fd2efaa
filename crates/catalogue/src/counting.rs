//! Counts the RTP packets of a film's groups.
//!
//! A container's tables give the size of a picture, but not the number of its packets, which
//! depends on the units inside it. So the film is read once from beginning to end, part by part,
//! and each group is planned as it will be for its viewers.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::path::Path;

use reelway_media::{
    Filled, Filling, GroupPackets, Index, Packets, Samples, SamplesError, Title, Track,
};
use reelway_rtp::{Bytes, Payload, PayloadOptions};
use reelway_sys::FileIdentity;
use reelway_sys::parts::Parts;

use crate::indexing::{IndexingError, open};

/// Bytes of the film that are in memory at once.
const WINDOW: u64 = 1 << 20;

/// Why a film's packets were not counted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CountError {
    /// The film could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its samples could not be read.
    #[error(transparent)]
    Samples(#[from] SamplesError),
    /// The file has been replaced or changed.
    #[error("the file has changed")]
    Changed,
    /// Counting was stopped.
    #[error("stopped")]
    Stopped,
}

/// A film whose packets are to be counted.
pub(crate) struct Uncounted<'a> {
    pub title: &'a Title,
    pub samples: &'a dyn Samples,
    pub path: &'a Path,
    pub identity: FileIdentity,
}

impl Uncounted<'_> {
    /// Returns the packets of each track's groups, in the order of [`Title::recorded`]. Before each
    /// part of the film is read, `go_on` decides whether to continue.
    pub fn count(
        &self,
        payload: PayloadOptions,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Packets>, CountError> {
        let file = Parts::open(self.path)?;
        if file.identity() != self.identity {
            return Err(CountError::Changed);
        }
        let window = Window {
            film: self,
            file: &file,
            state: RefCell::new(Loaded {
                range: 0..0,
                bytes: Vec::new(),
                room: Vec::new(),
                problem: None,
                go_on,
            }),
        };
        let tracks = self.title.recorded().enumerate();
        let counted: Result<Vec<Packets>, CountError> = tracks
            .map(|(number, track)| self.count_track(number, track, payload, &window))
            .collect();
        // If the file has been replaced meanwhile, the data read belong to another film.
        if file.identity_now()? != self.identity {
            return Err(CountError::Changed);
        }
        counted
    }

    fn count_track(
        &self,
        number: usize,
        track: &Track,
        options: PayloadOptions,
        window: &Window<'_>,
    ) -> Result<Packets, CountError> {
        // A track that cannot be sent over RTP makes no packets.
        let Ok(payload) = Payload::new(track, options) else {
            return Ok(Packets::default());
        };
        let mut groups = Vec::with_capacity(track.groups.len());
        for group in 0..track.groups.len() {
            let samples = track.read_group(number, group, self.samples)?;
            let planned = payload.plan(&samples, window);
            if let Some(problem) = window.state.borrow_mut().problem.take() {
                return Err(problem);
            }
            // Damaged samples are also skipped during playback.
            groups.push(planned.map_or(GroupPackets::default(), |plan| plan.counted()));
        }
        Ok(Packets {
            payload: payload.max_payload() as u32,
            groups: groups.into_iter().collect(),
        })
    }
}

/// A part of the film in memory, which follows the reads.
struct Window<'a> {
    film: &'a Uncounted<'a>,
    file: &'a Parts,
    state: RefCell<Loaded<'a>>,
}

struct Loaded<'a> {
    range: Range<u64>,
    bytes: Vec<u8>,
    /// Working buffers for making a part of a view.
    room: Vec<Vec<u8>>,
    /// Why a part could not be loaded.
    problem: Option<CountError>,
    go_on: &'a mut dyn FnMut() -> bool,
}

impl Window<'_> {
    /// Loads the part that contains byte `offset`.
    fn load(&self, state: &mut Loaded<'_>, offset: u64) -> Result<(), CountError> {
        if !(state.go_on)() {
            return Err(CountError::Stopped);
        }
        let view = self.film.title.view;
        let len = view.map_or(self.film.identity.size, |view| view.bytes);
        let start = offset / WINDOW * WINDOW;
        let range = start..len.min(start + WINDOW);
        // The window is empty until the part has been loaded.
        state.range = 0..0;
        if range.contains(&offset) {
            state.bytes.resize((range.end - range.start) as usize, 0);
            match view {
                Some(_) => self.make(state, range.clone())?,
                None => self.file.read_exact_at(&mut state.bytes, range.start)?,
            }
            state.range = range;
        }
        Ok(())
    }

    /// Makes a part of a film's view.
    fn make(&self, state: &mut Loaded<'_>, range: Range<u64>) -> Result<(), CountError> {
        let len = self.film.identity.size;
        let filling = Filling::new(self.film.title, self.film.samples, len, range)?;
        let mut filling = filling.ok_or(CountError::Changed)?;
        let mut file = Vec::new();
        loop {
            let wanted = filling.wanted();
            file.resize((wanted.end - wanted.start) as usize, 0);
            self.file.read_exact_at(&mut file, wanted.start)?;
            match filling.fill(&file, &mut state.bytes, &mut state.room) {
                Filled::Whole => return Ok(()),
                Filled::More => {}
                Filled::Different => return Err(CountError::Changed),
            }
        }
    }
}

impl Bytes for Window<'_> {
    fn read_at(&self, mut offset: u64, mut into: &mut [u8]) -> bool {
        let mut state = self.state.borrow_mut();
        while !into.is_empty() {
            if !state.range.contains(&offset)
                && let Err(problem) = self.load(&mut state, offset)
            {
                state.problem = Some(problem);
                return false;
            }
            if !state.range.contains(&offset) {
                return false;
            }
            let within = (offset - state.range.start) as usize;
            let part = into.len().min(state.bytes.len() - within);
            let (now, rest) = into.split_at_mut(part);
            now.copy_from_slice(&state.bytes[within..within + part]);
            offset += part as u64;
            into = rest;
        }
        true
    }
}

/// Counts the RTP packets of an indexed film's groups, for links with an MTU of `mtu` bytes. Reads
/// the whole film.
///
/// # Errors
/// The film cannot be read, or has changed since it was indexed.
pub fn count_packets(
    path: &Path,
    identity: FileIdentity,
    index: &mut Index,
    mtu: u16,
) -> Result<(), IndexingError> {
    // Reports why a film cannot be opened with the messages of indexing.
    open(path)?;
    let film = Uncounted {
        title: &index.title,
        samples: &index.tables,
        path,
        identity,
    };
    let counted = film.count(PayloadOptions::for_mtu(mtu.into()), &mut || true);
    let counted = counted.map_err(|error| IndexingError::Io {
        path: path.to_owned(),
        error: io::Error::other(error),
    })?;
    put(&mut index.title, counted);
    Ok(())
}

/// Stores the counts in a title.
pub(crate) fn put(title: &mut Title, counted: Vec<Packets>) {
    for (track, packets) in title.recorded_mut().zip(counted) {
        track.packets = packets;
    }
}
