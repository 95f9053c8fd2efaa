//! What ffprobe and ffmpeg find in a film or a stream.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::players::{ffmpeg, ffprobe, run};

/// A stream with its packets.
#[derive(Clone, Debug)]
pub struct Stream {
    /// track_ID of an MP4 film; if ffprobe reports none, the stream's number from 1, as ffmpeg
    /// numbers tracks of Matroska.
    pub id: u32,
    /// `video`, `audio`, …
    pub kind: String,
    /// `h264`, `aac`, …
    pub codec: String,
    /// `avc1`, `mp4a`, …
    pub tag: String,
    /// Ticks per second of times.
    pub timescale: u32,
    /// The `language` tag.
    pub language: Option<String>,
    /// Packets in file order.
    pub packets: Vec<Packet>,
}

/// A packet: a sample of an MP4 film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Presentation time in ticks; the decode time if ffprobe reports none.
    pub pts: i64,
    /// Whether ffprobe reports a presentation time.
    pub has_pts: bool,
    /// Decode time in ticks.
    pub dts: i64,
    /// Duration in ticks.
    pub duration: i64,
    /// Offset in the file.
    pub pos: Option<u64>,
    /// Length in bytes.
    pub size: u32,
    /// Whether a decoder may start here.
    pub key: bool,
    /// Whether it is decoded only because others depend on it, and not shown.
    pub discard: bool,
}

#[derive(Deserialize)]
struct Probed {
    #[serde(default)]
    packets: Vec<RawPacket>,
    streams: Vec<RawStream>,
}

#[derive(Deserialize)]
struct RawPacket {
    stream_index: usize,
    pts: Option<i64>,
    dts: Option<i64>,
    duration: Option<i64>,
    size: String,
    pos: Option<String>,
    flags: String,
}

#[derive(Deserialize)]
struct RawStream {
    id: Option<String>,
    codec_type: String,
    codec_name: Option<String>,
    codec_tag_string: String,
    time_base: String,
    #[serde(default)]
    tags: std::collections::HashMap<String, String>,
}

/// How ffprobe treats the edit list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edits {
    /// Applies it: times are presentation times, samples outside it are left out or marked.
    Apply,
    /// Ignores it: all samples, with media times.
    Ignore,
}

/// Returns the streams and packets of a film.
#[track_caller]
pub fn streams(film: &Path, edits: Edits) -> Vec<Stream> {
    let mut arguments: Vec<OsString> = ["-of", "json", "-show_packets", "-show_streams"]
        .map(OsString::from)
        .to_vec();
    if edits == Edits::Ignore {
        arguments.extend(["-ignore_editlist", "1"].map(OsString::from));
    }
    arguments.push(film.into());
    let ran = run(ffprobe(arguments), Duration::from_secs(60)).expect("ffprobe");
    let probed: Probed = serde_json::from_slice(&ran.out).expect("ffprobe's JSON");
    let mut streams: Vec<Stream> = probed
        .streams
        .into_iter()
        .zip(1..)
        .map(|(raw, number)| Stream {
            id: raw
                .id
                .and_then(|id| u32::from_str_radix(id.trim_start_matches("0x"), 16).ok())
                .unwrap_or(number),
            kind: raw.codec_type,
            codec: raw.codec_name.unwrap_or_default(),
            tag: raw.codec_tag_string,
            timescale: raw
                .time_base
                .split('/')
                .nth(1)
                .and_then(|scale| scale.parse().ok())
                .unwrap_or(1),
            language: raw.tags.get("language").cloned(),
            packets: Vec::new(),
        })
        .collect();
    for raw in probed.packets {
        streams[raw.stream_index].packets.push(Packet {
            pts: raw.pts.or(raw.dts).expect("a time"),
            has_pts: raw.pts.is_some(),
            dts: raw.dts.or(raw.pts).expect("a time"),
            duration: raw.duration.unwrap_or(0),
            pos: raw.pos.and_then(|pos| pos.parse().ok()),
            size: raw.size.parse().expect("a size"),
            key: raw.flags.contains('K'),
            discard: raw.flags.contains('D'),
        });
    }
    streams
}

/// One line of ffmpeg's `framehash`: a decoded frame, or a packet if the stream is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashed {
    /// Presentation time in ticks of the stream's timescale.
    pub pts: i64,
    /// Size in bytes.
    pub size: u64,
    /// Hash of the bytes.
    pub hash: String,
}

/// A stream as hashes.
#[derive(Clone, Debug, Default)]
pub struct Hashes {
    /// Ticks per second of the times.
    pub timescale: f64,
    /// Frames or packets in order of arrival.
    pub frames: Vec<Hashed>,
}

impl Hashes {
    fn parse(text: &str) -> Hashes {
        let mut hashes = Hashes::default();
        for line in text.lines() {
            if let Some(base) = line.strip_prefix("#tb 0: ") {
                let (num, den) = base.split_once('/').expect("a time base");
                hashes.timescale =
                    den.parse::<f64>().expect("a number") / num.parse::<f64>().expect("a number");
            }
            if line.starts_with('#') {
                continue;
            }
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            if let [_, _, pts, _, size, hash, ..] = fields[..] {
                hashes.frames.push(Hashed {
                    pts: pts.parse().expect("a time"),
                    size: size.parse().expect("a size"),
                    hash: hash.to_owned(),
                });
            }
        }
        hashes
    }

    /// Presentation times in seconds.
    pub fn seconds(&self) -> Vec<f64> {
        self.frames
            .iter()
            .map(|frame| frame.pts as f64 / self.timescale)
            .collect()
    }

    /// The hashes alone.
    pub fn hashes(&self) -> Vec<&str> {
        self.frames
            .iter()
            .map(|frame| frame.hash.as_str())
            .collect()
    }
}

/// What ffmpeg received from a film or an address in one pass.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The video's NAL units in order, without access unit delimiters and parameter sets; hashes of
    /// whole pictures for a codec without an elementary stream format.
    pub nals: Vec<Vec<u8>>,
    /// Packets of the video in order of arrival: times of access units.
    pub pictures: Hashes,
    /// Decoded pictures.
    pub frames: Hashes,
    /// Packets of the audio in order of arrival: access units.
    pub sound: Hashes,
}

/// What [`receive`] is to do.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// Arguments before `-i`, such as `-rtsp_transport tcp`.
    pub before: &'a [&'a str],
    /// The input.
    pub input: &'a str,
    /// The video codec as ffmpeg names it, for H.264, H.265, MPEG-1 and MPEG-2; `None` if the
    /// video's parts are not needed.
    pub picture: Option<&'a str>,
    /// Whether to receive audio.
    pub sound: bool,
    /// Whether to decode pictures.
    pub decode: bool,
    /// The time limit.
    pub limit: Duration,
}

/// Returns the hashes of the decoded frames of a stream of a film or an address; ffmpeg's name of
/// the stream, such as `0:v:0`.
#[track_caller]
pub fn decoded(input: &str, stream: &str) -> Vec<String> {
    let arguments = ["-v", "error", "-i", input, "-map", stream];
    let output = ["-fps_mode", "passthrough", "-f", "framehash"];
    let hash = ["-hash", "md5", "-"];
    let all = [&arguments[..], &output, &hash].concat();
    let ran = run(ffmpeg(all), Duration::from_secs(60)).expect(input);
    let text = String::from_utf8_lossy(&ran.out).into_owned();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let hash = |line: &str| line.rsplit(',').next().map(|hash| hash.trim().to_owned());
    lines.filter_map(hash).collect()
}

/// Whether datagrams get lost if the thread that receives them is held up.
fn is_over_udp(wanted: &Wanted) -> bool {
    wanted.before.contains(&"udp")
}

/// Reads a film or an address to its end.
#[track_caller]
pub fn receive(wanted: &Wanted) -> Received {
    let dir = crate::films::temp_dir("received");
    let path = |name: &str| dir.path().join(name);
    let mut arguments: Vec<OsString> = wanted.before.iter().map(OsString::from).collect();
    arguments.extend(["-noautorotate", "-i", wanted.input].map(OsString::from));
    let mut output = |options: &[&str], name: &str| {
        arguments.extend(options.iter().map(OsString::from));
        arguments.push(path(name).into());
    };
    let has_stream = ["h264", "hevc", "mpeg1video", "mpeg2video"];
    let stream = wanted.picture.filter(|codec| has_stream.contains(codec));
    if let Some(codec) = stream {
        output(&["-map", "0:v:0", "-c", "copy", "-f", codec], "nals");
    }
    if wanted.picture.is_some() {
        // ffmpeg does not recognise where decoders of VP9 over RTP may start.
        output(
            &[
                "-map",
                "0:v:0",
                "-c",
                "copy",
                "-copyinkf",
                "-copyts",
                "-f",
                "framehash",
                "-hash",
                "md5",
            ],
            "pictures",
        );
    }
    let decoded = [
        "-map",
        "0:v:0",
        "-fps_mode",
        "passthrough",
        "-f",
        "framehash",
        "-hash",
        "md5",
    ];
    // Codecs with an elementary stream format are decoded after everything has arrived.
    let later = stream.filter(|_| wanted.decode && is_over_udp(wanted));
    if wanted.decode && later.is_none() {
        output(&decoded, "frames");
    }
    if wanted.sound {
        output(
            &[
                "-map",
                "0:a:0",
                "-c",
                "copy",
                "-copyts",
                "-f",
                "framehash",
                "-hash",
                "md5",
            ],
            "sound",
        );
    }
    run(ffmpeg(arguments), wanted.limit).expect(wanted.input);
    if let Some(codec) = later {
        let form = if codec.starts_with("mpeg") {
            "mpegvideo"
        } else {
            codec
        };
        let before = ["-noautorotate", "-f", form, "-i"];
        let mut arguments: Vec<OsString> = before.map(OsString::from).into();
        arguments.push(path("nals").into());
        arguments.extend(decoded.map(OsString::from));
        arguments.push(path("frames").into());
        run(ffmpeg(arguments), wanted.limit).expect("what came");
    }
    let text = |name: &str| std::fs::read_to_string(path(name)).unwrap_or_default();
    let pictures = Hashes::parse(&text("pictures"));
    Received {
        nals: match stream {
            Some(codec) => split_nals(
                &std::fs::read(path("nals")).unwrap_or_default(),
                codec == "hevc",
            ),
            None => pictures.hashes().into_iter().map(Into::into).collect(),
        },
        pictures,
        frames: Hashes::parse(&text("frames")),
        sound: Hashes::parse(&text("sound")),
    }
}

/// Splits a byte stream (Annex B) into NAL units, without access unit delimiters and parameter
/// sets.
fn split_nals(stream: &[u8], hevc: bool) -> Vec<Vec<u8>> {
    let mut starts = Vec::new();
    let mut at = 0;
    while let Some(found) = stream[at..]
        .windows(3)
        .position(|window| window == [0, 0, 1])
    {
        starts.push(at + found + 3);
        at += found + 3;
    }
    let mut nals = Vec::new();
    for (n, &start) in starts.iter().enumerate() {
        let end = starts.get(n + 1).map_or(stream.len(), |next| next - 3);
        let mut nal = &stream[start..end];
        // The zero byte of a four-byte start code, and trailing zeros: no NAL unit ends with one.
        while let [rest @ .., 0] = nal {
            nal = rest;
        }
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

/// Removes the SEI messages of an H.265 film's decoder configuration (`hvcC` in MP4, CodecPrivate
/// in Matroska) from NAL units: when ffmpeg reads the file, it puts them before every key picture,
/// whether the samples have them or not.
pub fn without_declared_sei(nals: Vec<Vec<u8>>, film: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(film).expect("a film");
    let find = |mark: &[u8]| bytes.windows(mark.len()).position(|window| window == mark);
    let hvcc = match (find(b"hvcC"), find(b"\x63\xa2")) {
        (Some(at), _) => {
            let size = u32::from_be_bytes(bytes[at - 4..at].try_into().expect("four bytes"));
            &bytes[at..at - 4 + size as usize]
        }
        // The element begins there; the first picture is farther away.
        (None, Some(at)) => &bytes[at..bytes.len().min(at + 3000)],
        (None, None) => return nals,
    };
    let declared =
        |nal: &[u8]| nal[0] >> 1 == 39 && hvcc.windows(nal.len()).any(|window| window == nal);
    nals.into_iter().filter(|nal| !declared(nal)).collect()
}

/// Returns the file offset and presentation time, in seconds, of each key frame of a film's first
/// video track.
///
/// # Panics
/// Panics if ffprobe cannot read the film.
pub fn key_frames(path: &Path) -> Vec<(usize, f64)> {
    let command = ffprobe([
        "-select_streams".as_ref(),
        "v:0".as_ref(),
        "-show_entries".as_ref(),
        "packet=pts_time,pos,flags".as_ref(),
        "-of".as_ref(),
        "csv=p=0".as_ref(),
        path.as_os_str(),
    ]);
    let ran = run(command, Duration::from_secs(60)).expect("ffprobe");
    let said = String::from_utf8_lossy(&ran.out).into_owned();
    let key = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let is_key = fields.get(2)?.starts_with('K');
        is_key.then_some((fields[1].parse().ok()?, fields[0].parse().ok()?))
    };
    said.lines().filter_map(key).collect()
}
