//! Feeding a player (receiver, buffer, reassembler and pipe of the VODCA paper): complete access
//! units, in order, as an MPEG transport stream on the standard input of a command.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use crate::depacketise::Format;
use crate::meter::Kept;
use crate::rtsp::description::Media;
use crate::transport_stream::{StreamType, Writer};

/// Maximum number of access units that wait for a player that does not read: several minutes.
/// Others are left out.
const MOST_WAITING: usize = 16_384;

/// What a player was fed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Fed {
    /// Access units that were passed to the player.
    pub units: u64,
    /// Access units that were left out because the player did not read or had ended.
    pub left_out: u64,
    /// Tracks that cannot be written to the transport stream, such as audio other than AAC and
    /// Opus.
    pub tracks_left_out: usize,
}

/// The output format of a track.
#[derive(Debug)]
struct PipedTrack {
    kind: StreamType,
    /// Parameter sets from the session description, for streams that do not carry their own.
    parameters: Vec<Vec<u8>>,
    /// The first bytes of the ADTS header, without the length.
    adts: Option<[u8; 4]>,
}

/// A player that is being fed.
#[derive(Debug)]
pub(crate) struct Pipe {
    writer: Writer,
    /// The stream of each track of the film.
    streams: Vec<Option<(usize, PipedTrack)>>,
    to_player: Option<SyncSender<Vec<u8>>>,
    gone: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    child: Child,
    fed: Fed,
}

impl Pipe {
    /// Starts `command` in a shell, for a film with these tracks.
    ///
    /// # Errors
    /// There is no shell, or no track of the film can be fed.
    pub fn start(command: &str, media: &[Media]) -> io::Result<Pipe> {
        let mut kinds = Vec::new();
        let mut streams = Vec::new();
        for media in media {
            streams.push(track(media).map(|track| {
                kinds.push(track.kind);
                (kinds.len() - 1, track)
            }));
        }
        if kinds.is_empty() {
            return Err(io::Error::other(
                "nothing of this film can be fed to a player: only H.264, H.265, AAC and Opus can",
            ));
        }
        let mut child = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let (to_player, units) = sync_channel::<Vec<u8>>(MOST_WAITING);
        let gone = Arc::new(AtomicBool::new(false));
        let is_gone = Arc::clone(&gone);
        let thread = std::thread::Builder::new()
            .name("pipe".to_owned())
            .spawn(move || {
                for unit in units {
                    if input.write_all(&unit).is_err() {
                        is_gone.store(true, Ordering::Relaxed);
                        return;
                    }
                }
            })?;
        let fed = Fed {
            tracks_left_out: streams.iter().filter(|stream| stream.is_none()).count(),
            ..Fed::default()
        };
        Ok(Pipe {
            writer: Writer::new(&kinds),
            streams,
            to_player: Some(to_player),
            gone,
            thread: Some(thread),
            child,
            fed,
        })
    }

    /// Feeds an access unit of a track.
    pub fn unit(&mut self, track: usize, unit: &Kept) {
        let Some(Some((stream, track))) = self.streams.get(track) else {
            return;
        };
        let (data, is_key) = track.data(unit);
        let bytes = self.writer.unit(*stream, unit.media, is_key, data);
        self.fed.units += 1;
        self.send(bytes);
    }

    fn send(&mut self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let sent = self.to_player.as_ref().map(|player| player.try_send(bytes));
        if let Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) = sent {
            self.fed.left_out += 1;
        }
    }

    /// Whether the player has closed its input.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Ends the input and waits until the player has ended.
    ///
    /// # Errors
    /// The player failed, unless the user closed it.
    pub fn finish(mut self) -> io::Result<Fed> {
        let rest = self.writer.finish();
        self.send(rest);
        self.to_player = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let status = self.child.wait()?;
        match status.success() || self.is_gone() {
            true => Ok(self.fed.clone()),
            false => Err(io::Error::other(format!("the player ended with {status}"))),
        }
    }
}

/// Returns the output format of a track, if it can be written.
fn track(media: &Media) -> Option<PipedTrack> {
    let (kind, names) = match media.format {
        Format::H264 => (StreamType::H264, &["sprop-parameter-sets"][..]),
        Format::H265 => (
            StreamType::H265,
            &["sprop-vps", "sprop-sps", "sprop-pps"][..],
        ),
        Format::AacHbr { .. } => (StreamType::Aac, &[][..]),
        Format::Whole if media.encoding == "OPUS" => (StreamType::Opus, &[][..]),
        Format::Whole => return None,
    };
    let adts = match kind {
        StreamType::Aac => Some(adts(media.parameter("config")?)?),
        _ => None,
    };
    let sets = names.iter().filter_map(|name| media.parameter(name));
    let parameters = sets.flat_map(|sets| sets.split(',')).filter_map(base64);
    Some(PipedTrack {
        kind,
        parameters: parameters.collect(),
        adts,
    })
}

impl PipedTrack {
    /// Returns an access unit in the stream's format, and whether decoding can start with it.
    fn data(&self, unit: &Kept) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        if let Some([first, second, third, fourth]) = self.adts {
            for part in &unit.parts {
                // A length of 13 bits in three bytes.
                let length = part.len() + 7;
                out.extend([first, second, third, fourth | (length >> 11) as u8 & 3]);
                out.extend([(length >> 3) as u8, (length << 5) as u8 | 0x1f, 0xfc]);
                out.extend(part);
            }
            return (out, true);
        }
        if self.kind == StreamType::Opus {
            // An Opus control header with the length, as FFmpeg writes and reads it: bytes of 255,
            // and the rest.
            for part in &unit.parts {
                out.extend([0x7f, 0xe0]);
                out.resize(out.len() + part.len() / 255, 255);
                out.push((part.len() % 255) as u8);
                out.extend(part);
            }
            return (out, true);
        }
        let is_key = |nal: &Vec<u8>| match (self.kind, nal.first()) {
            (StreamType::H264, Some(first)) => first & 31 == 5,
            (_, Some(first)) => (16..=21).contains(&(first >> 1 & 63)),
            _ => false,
        };
        let is_key = unit.parts.iter().any(is_key);
        // A delimiter comes first, as the standard requires.
        let delimiter: &[u8] = match self.kind {
            StreamType::H264 => &[0, 0, 0, 1, 9, 0xf0],
            _ => &[0, 0, 0, 1, 0x46, 1, 0x50],
        };
        out.extend(delimiter);
        let own = unit.parameters.is_empty() && is_key;
        let parameters = if own {
            &self.parameters
        } else {
            &unit.parameters
        };
        for nal in parameters.iter().chain(&unit.parts) {
            out.extend([0, 0, 0, 1]);
            out.extend(nal);
        }
        (out, is_key)
    }
}

/// Returns the constant bytes of the ADTS header for an AudioSpecificConfig in hexadecimal (RFC
/// 3640 section 4.1).
fn adts(config: &str) -> Option<[u8; 4]> {
    let config = u16::from_str_radix(config.get(..4)?, 16).ok()?;
    let (object, rate, channels) = (config >> 11, config >> 7 & 15, config >> 3 & 15);
    // ADTS cannot express explicit sampling rates; players detect SBR themselves.
    if rate == 15 || channels > 7 {
        return None;
    }
    let profile = if (1..=4).contains(&object) {
        object - 1
    } else {
        1
    };
    Some([
        0xff,
        0xf1,
        (profile << 6 | rate << 2 | channels >> 2) as u8,
        (channels << 6) as u8,
    ])
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut count, mut out) = (0_u32, 0, Vec::new());
    for byte in text.trim().trim_end_matches('=').bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    (!out.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_description_are_read() {
        assert_eq!(base64("Z0LAHg==").unwrap(), [0x67, 0x42, 0xc0, 0x1e]);
        assert_eq!(base64("no!"), None);
        // AAC-LC, 48 kHz, stereo.
        assert_eq!(adts("1190"), Some([0xff, 0xf1, 0x4c, 0x80]));
        assert_eq!(adts("17"), None);
    }
}
