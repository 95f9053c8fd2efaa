//! Small films in real containers: the content of each file is known, sample by sample.
//!
//! | file | content |
//! |---|---|
//! | `coded.rs` | pictures and sound |
//! | `transport.rs`, `program.rs`, `matroska.rs`, `fragmented.rs` | the containers |

mod coded;
mod fragmented;
mod matroska;
mod program;
mod transport;

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use reelway_determinism::Random;
use reelway_media::{
    Container, IndexOptions, Nanos, SECOND, SampleTable, Samples, Title, index_with,
};

use coded::{Sound, TICKS, Unit};

/// The number of pictures of each film: 24 seconds.
const PICTURES: u64 = 600;

/// A film's file, and its index.
pub(crate) struct File {
    pub bytes: Vec<u8>,
    pub title: Arc<Title>,
    pub samples: Arc<Vec<SampleTable>>,
    /// All expected bytes of the view; empty if samples lie in the file.
    view: Vec<u8>,
    /// The known content, by track.
    tracks: Vec<Vec<Put>>,
    /// How the index differs from the known content.
    pub differs: Option<String>,
}

/// A sample that was put into a file.
pub(crate) struct Put {
    /// What a receiver should get of it: NAL units, or one part with all of it.
    pub parts: Vec<Vec<u8>>,
    /// When it is shown.
    pub shown: Nanos,
}

/// Returns all of them. They are created once, which takes a tenth of a second.
pub(crate) fn all() -> &'static [Arc<File>] {
    static ALL: LazyLock<Vec<Arc<File>>> = LazyLock::new(|| {
        let random = &mut Random::new(0x7265_656c);
        let mut h264 = |sound| tracks(random, coded::h264, sound);
        let transport = h264(Some(Sound::Aac));
        let on_disc = h264(Some(Sound::Mp2));
        let matroska = h264(Some(Sound::Opus));
        let fragmented = h264(Some(Sound::Aac));
        let bare = h264(None);
        let program = tracks(random, coded::mpeg2, Some(Sound::Mp2));
        let bare_mpeg2 = tracks(random, coded::mpeg2, None);
        let streams = |tracks: &[Vec<Unit>]| -> Vec<u8> {
            let streams = tracks[0].iter().map(|unit| &unit.stream[..]);
            streams.collect::<Vec<_>>().concat()
        };
        let all = [
            (
                Container::TransportStream,
                transport::file(random, &transport, Sound::Aac, 0),
                transport,
            ),
            (
                Container::TransportStream,
                transport::file(random, &on_disc, Sound::Mp2, 4),
                on_disc,
            ),
            (Container::Matroska, matroska::file(&matroska), matroska),
            (
                Container::FragmentedMp4,
                fragmented::file(&fragmented),
                fragmented,
            ),
            (Container::ElementaryStream, streams(&bare), bare),
            (Container::ProgramStream, program::file(&program), program),
            (
                Container::ElementaryStream,
                streams(&bare_mpeg2),
                bare_mpeg2,
            ),
        ];
        let files = all.into_iter();
        files
            .map(|(container, bytes, tracks)| Arc::new(File::new(container, bytes, tracks)))
            .collect()
    });
    &ALL
}

type Pictures = fn(&mut Random, u64) -> Vec<Unit>;

fn tracks(random: &mut Random, pictures: Pictures, sound: Option<Sound>) -> Vec<Vec<Unit>> {
    let picture = pictures(random, PICTURES);
    let long = PICTURES * TICKS / 25;
    let sound = sound.map(|sound| coded::sound(random, sound, long));
    std::iter::once(picture).chain(sound).collect()
}

impl File {
    fn new(container: Container, bytes: Vec<u8>, tracks: Vec<Vec<Unit>>) -> File {
        let read = |range: Range<u64>, into: &mut Vec<u8>| {
            into.extend(&bytes[range.start as usize..range.end as usize]);
            Ok(())
        };
        let (title, tables, error) =
            match index_with(read, bytes.len() as u64, IndexOptions::default()) {
                Ok(index) => (index.title, index.tables, None),
                Err(error) => (Title::new(Vec::new()), Vec::new(), Some(error.to_string())),
            };
        let zero = tracks[0][0].shown;
        let put = |unit: &Unit| Put {
            parts: unit.parts.clone(),
            shown: ((unit.shown - zero) * SECOND as u64 / TICKS) as Nanos,
        };
        let mut file = File {
            view: vec![0; title.view.map_or(0, |view| view.bytes as usize)],
            bytes,
            title: Arc::new(title),
            samples: Arc::new(tables),
            tracks: tracks
                .iter()
                .map(|units| units.iter().map(put).collect())
                .collect(),
            differs: None,
        };
        let what = format!("{container:?}");
        file.differs = error
            .or_else(|| file.compare(container, &tracks).err())
            .map(|why| format!("{what}: {why}"));
        file
    }

    /// Compares the index with the known content, and creates the expected view.
    fn compare(&mut self, container: Container, tracks: &[Vec<Unit>]) -> Result<(), String> {
        let title = &self.title;
        if (title.container, title.tracks.len()) != (container, tracks.len()) {
            let (is, has) = (title.container, title.tracks.len());
            return Err(format!("it is indexed as {is:?} with {has} tracks"));
        }
        for (number, (track, units)) in title.tracks.iter().zip(tracks).enumerate() {
            if track.samples as usize != units.len() {
                let (is, has) = (track.samples, units.len());
                return Err(format!("track {number} has {is} samples instead of {has}"));
            }
            let begins = track.groups.get(0).map_or(0, |group| group.dts);
            let (mut samples, mut dts) = (Vec::new(), begins);
            let read = self.samples.read(number, 0..track.samples, &mut samples);
            read.map_err(|error| error.to_string())?;
            for (nth, (sample, unit)) in samples.iter().zip(units).enumerate() {
                let (whole, put) = (unit.sample(), &self.tracks[number][nth]);
                let shown = track.presentation(dts, sample.cts);
                dts += i64::from(sample.duration);
                if sample.size as usize != whole.len() || sample.sync != unit.sync {
                    return Err(format!(
                        "sample {nth} of track {number} has {} bytes (expected: {}), sync: {}",
                        sample.size,
                        whole.len(),
                        sample.sync
                    ));
                }
                if !is_same(shown, put.shown) {
                    let of = put.shown;
                    return Err(format!(
                        "sample {nth} of track {number} is shown at {shown} ns instead of {of} ns"
                    ));
                }
                let bytes = sample.bytes();
                let bytes = bytes.start as usize..bytes.end as usize;
                let is_right = match title.view {
                    Some(_) => {
                        let place = self.view.get_mut(bytes);
                        place.map(|place| place.copy_from_slice(&whole)).is_some()
                    }
                    None => self.bytes.get(bytes) == Some(&whole[..]),
                };
                if !is_right {
                    return Err(format!("sample {nth} of track {number} has wrong bytes"));
                }
            }
        }
        Ok(())
    }

    /// Returns the expected bytes in which samples lie: of the view, or of the file.
    pub fn played(&self) -> &[u8] {
        match self.title.view {
            Some(_) => &self.view,
            None => &self.bytes,
        }
    }

    /// Returns whether its blocks are made from those of the file.
    pub fn has_view(&self) -> bool {
        self.title.view.is_some()
    }

    /// Returns the known content of these samples of a track.
    pub fn put(&self, track: usize, samples: Range<u32>) -> &[Put] {
        let samples = samples.start as usize..samples.end as usize;
        self.tracks
            .get(track)
            .and_then(|track| track.get(samples))
            .unwrap_or_default()
    }
}

/// Returns whether two times are the same except for rounding.
pub(crate) fn is_same(one: Nanos, two: Nanos) -> bool {
    one.abs_diff(two) <= 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_container_is_indexed_as_it_was_written() {
        for file in all() {
            assert_eq!(file.differs, None);
            assert!(
                file.bytes.len() > 8 << 18,
                "{:?}: few blocks",
                file.title.container
            );
        }
        let views = all().iter().filter(|file| file.has_view()).count();
        assert_eq!((all().len(), views), (7, 5));
    }
}
