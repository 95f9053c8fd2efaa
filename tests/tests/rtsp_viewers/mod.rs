//! What the tests of RTSP viewers share: what of a film must arrive.
#![allow(dead_code)]

use std::path::Path;

use reelway_tests::boxes::Movie;
use reelway_tests::probe::{Edits, streams};

/// A sample as a viewer should get it.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Presentation time in the film, in seconds.
    pub at: f64,
    /// How long it takes, in seconds.
    pub duration: f64,
    /// A decoder may start here.
    pub sync: bool,
    /// Its NAL units without access unit delimiters and parameter sets, or the sound's access unit.
    pub parts: Vec<Vec<u8>>,
}

/// The samples of a film's picture and first sound in decode order.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// Pictures.
    pub video: Vec<Unit>,
    /// Sound.
    pub audio: Vec<Unit>,
}

impl Expected {
    /// Reads a progressive film whose samples all count.
    pub fn of(path: &Path) -> Expected {
        let movie = Movie::read(path).expect("a film");
        let streams = streams(path, Edits::Apply);
        let units = |handler: &[u8; 4], kind: &str| -> Vec<Unit> {
            let Some(track) = movie.tracks.iter().find(|track| track.handler == *handler) else {
                return vec![];
            };
            let stream = streams
                .iter()
                .find(|stream| stream.kind == kind)
                .expect("the same track");
            assert_eq!(
                track.samples.len(),
                stream.packets.len(),
                "{kind} of {}",
                path.display()
            );
            let hevc = stream.codec == "hevc";
            let scale = f64::from(track.timescale);
            let samples = track.samples.iter().zip(&stream.packets);
            samples
                .map(|(sample, packet)| Unit {
                    at: packet.pts as f64 / scale,
                    duration: f64::from(sample.duration) / scale,
                    sync: sample.sync,
                    parts: if kind == "video" {
                        nals(&sample.data, hevc)
                    } else {
                        vec![sample.data.clone()]
                    },
                })
                .collect()
        };
        Expected {
            video: units(b"vide", "video"),
            audio: units(b"soun", "audio"),
        }
    }

    /// Pictures or sound.
    pub fn units(&self, kind: &str) -> &[Unit] {
        if kind == "video" {
            &self.video
        } else {
            &self.audio
        }
    }

    /// The sync picture presented at or before `at`: where a viewer who wants `at` begins.
    pub fn start_of(&self, at: f64) -> usize {
        self.video
            .iter()
            .rposition(|unit| unit.sync && unit.at <= at + 1e-6)
            .expect("a sync picture")
    }
}

/// The NAL units of a sample with lengths of four bytes, without access unit delimiters and
/// parameter sets.
pub fn nals(mut sample: &[u8], hevc: bool) -> Vec<Vec<u8>> {
    let mut nals = Vec::new();
    while let Some((length, rest)) = sample.split_first_chunk() {
        let (nal, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        sample = rest;
        let Some(first) = nal.first() else { continue };
        let skip = match hevc {
            true => (32..=35).contains(&(first >> 1 & 0x3f)),
            false => matches!(first & 0x1f, 7..=9),
        };
        if !skip {
            nals.push(nal.to_vec());
        }
    }
    nals
}
