//! A film of H.264 and AAC made in memory.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use reelway_catalogue::{Film, Growth};
use reelway_media::{
    AacConfig, Codec, Container, Group, H264Config, Kind, Sample, SampleTable, Samples, Sound,
    Title, Track,
};
use reelway_sys::FileIdentity;

pub const PICTURES_A_SECOND: u32 = 25;
const SOUND_RATE: u32 = 48_000;

/// A film of H.264 and AAC in a file of its own; its bytes are distinguishable noise.
pub struct TestFilm {
    pub film: Arc<Film>,
    pub dir: tempfile::TempDir,
    /// NAL units of each picture, and access units of the audio.
    pub pictures: Vec<Vec<u8>>,
    pub sounds: Vec<Vec<u8>>,
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}

struct Making {
    bytes: Vec<u8>,
    table: SampleTable,
    groups: Vec<Group>,
    low: u64,
    dts: i64,
    total: u64,
}

impl Making {
    fn new() -> Making {
        Making {
            bytes: Vec::new(),
            table: SampleTable::default(),
            groups: Vec::new(),
            low: 0,
            dts: 0,
            total: 0,
        }
    }

    fn push(&mut self, offset: u64, size: u32, duration: u32, sync: bool, all_sync: bool) {
        self.table.push(Sample {
            offset,
            size,
            duration,
            cts: 0,
            sync,
        });
        let fits = |group: &Group| {
            (all_sync || !sync)
                && group.count < Group::MAX_SAMPLES
                && offset + u64::from(size) - self.low <= Group::MAX_SPAN
        };
        match self.groups.last_mut().filter(|group| fits(group)) {
            Some(group) => {
                group.count += 1;
                group.bytes += size;
            }
            None => {
                let first = self.table.len() - 1;
                self.groups.push(Group {
                    first,
                    count: 1,
                    dts: self.dts,
                    cts: 0,
                    bytes: size,
                    sync,
                });
                self.low = offset;
            }
        }
        self.dts += i64::from(duration);
        self.total += u64::from(size);
    }
}

impl TestFilm {
    /// Makes a film of `seconds` with a sync sample each second and about `kbit` kb/s of video.
    pub fn make(seconds: u32, kbit: u32) -> TestFilm {
        TestFilm::make_with(seconds, kbit, |_| false)
    }

    /// The same; no other picture is decoded from those whose numbers satisfy `droppable`.
    pub fn make_with(seconds: u32, kbit: u32, droppable: impl Fn(u32) -> bool) -> TestFilm {
        let mut bytes = noise(1, 1000);
        let (mut video, mut audio) = (Making::new(), Making::new());
        let (mut pictures, mut sounds) = (Vec::new(), Vec::new());
        let second = kbit as usize * 125;
        for picture in 0..seconds * PICTURES_A_SECOND {
            let sync = picture % PICTURES_A_SECOND == 0;
            // A quarter of each second's bytes is its first picture.
            let size = if sync {
                second / 4
            } else {
                second * 3 / 4 / (PICTURES_A_SECOND as usize - 1)
            };
            let mut nal = noise(u64::from(picture) + 100, size.max(8));
            nal[0] = match sync {
                true => 0x65,
                false if droppable(picture) => 0x01,
                false => 0x41,
            };
            let offset = bytes.len() as u64;
            bytes.extend_from_slice(&(nal.len() as u32).to_be_bytes());
            bytes.extend_from_slice(&nal);
            video.push(offset, nal.len() as u32 + 4, 512, sync, false);
            pictures.push(nal);
            while u64::from(audio.table.len()) * 1024 * u64::from(PICTURES_A_SECOND)
                < u64::from(picture + 1) * u64::from(SOUND_RATE)
            {
                let unit = noise(sounds.len() as u64 + 1_000_000, 250);
                audio.push(bytes.len() as u64, 250, 1024, true, true);
                bytes.extend_from_slice(&unit);
                sounds.push(unit);
            }
        }
        let codec = Codec::H264(H264Config {
            fourcc: *b"avc1",
            length_size: 4,
            profile: [66, 0, 30],
            sps: vec![vec![0x67, 66, 0, 30, 1, 2, 3, 4]],
            pps: vec![vec![0x68, 1, 2, 3]],
        });
        let sound = Codec::Aac(AacConfig {
            config: vec![0x11, 0x90],
            object_type: 2,
            rate: SOUND_RATE,
            channels: 2,
            frame_length: 1024,
        });
        let track = |id, kind, codec, timescale, making: &Making| Track {
            samples: making.table.len(),
            bytes: making.total,
            duration: making.dts as u64,
            groups: making.groups.iter().copied().collect(),
            sound: (kind == Kind::Audio).then_some(Sound {
                rate: SOUND_RATE,
                channels: 2,
            }),
            ..Track::new(id, kind, codec, timescale)
        };
        let title = Title {
            duration: i64::from(seconds) * 1_000_000_000,
            ..Title::new(vec![
                track(1, Kind::Video, codec, 512 * PICTURES_A_SECOND, &video),
                track(2, Kind::Audio, sound, SOUND_RATE, &audio),
            ])
        };
        let dir = tempfile::tempdir().unwrap();
        let path: PathBuf = dir.path().join("film.mp4");
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&bytes).unwrap();
        file.sync_all().unwrap();
        let identity = FileIdentity::from(&std::fs::metadata(&path).unwrap());
        let samples: Arc<dyn Samples> = Arc::new(vec![video.table, audio.table]);
        let film = Arc::new(Film {
            name: "film".into(),
            path,
            identity,
            title: Arc::new(title),
            samples,
            growth: Growth::default(),
        });
        TestFilm {
            film,
            dir,
            pictures,
            sounds,
        }
    }
}
