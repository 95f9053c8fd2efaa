//! An MPEG transport stream (ISO/IEC 13818-1) of one film, for players that read from a pipe.
//! Written independently of the server's code: the yardstick shares none with it.

use std::collections::{BTreeMap, VecDeque};

const PACKET: usize = 188;
const PAT: u16 = 0;
const PMT: u16 = 0x100;
const FIRST: u16 = 0x101;
/// Maximum reordering of pictures: more than any codec's reference frames.
const REORDER: usize = 16;
/// Timestamp of the film's beginning in 90 kHz ticks; clock references are earlier than it.
const ZERO: i64 = 3 * 90_000;
/// Delay from decoding to presentation in 90 kHz ticks, which covers the reordering of pictures.
const SHOWN: i64 = 90_000;
/// Delay from clock reference to decoding in 90 kHz ticks: a player's buffer.
const AHEAD: i64 = 63_000;

/// The type of an elementary stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamType {
    H264,
    H265,
    /// AAC in ADTS (ISO/IEC 14496-3 section 1.A.2).
    Aac,
    /// Opus with its control headers, as private data with a registration descriptor.
    Opus,
}

impl StreamType {
    fn stream_type(self) -> u8 {
        match self {
            StreamType::H264 => 0x1b,
            StreamType::H265 => 0x24,
            StreamType::Aac => 0x0f,
            StreamType::Opus => 0x06,
        }
    }

    fn is_video(self) -> bool {
        matches!(self, StreamType::H264 | StreamType::H265)
    }

    /// Returns the stream's descriptors for the PMT.
    fn descriptors(self) -> &'static [u8] {
        match self {
            // Registered as "Opus", with two channels, as always in RTP (RFC 7587 section 4.1).
            StreamType::Opus => &[5, 4, b'O', b'p', b'u', b's', 0x7f, 2, 0x80, 2],
            _ => &[],
        }
    }
}

/// An access unit in the stream's format.
#[derive(Debug)]
struct MuxedUnit {
    media: i64,
    is_key: bool,
    data: Vec<u8>,
}

#[derive(Debug)]
struct Stream {
    kind: StreamType,
    continuity: u8,
    /// In decode order; pictures wait until their decode time is known.
    waiting: VecDeque<MuxedUnit>,
    /// Number of waiting units for each presentation time.
    times: BTreeMap<i64, u32>,
}

/// Writes a transport stream.
#[derive(Debug)]
pub(crate) struct Writer {
    streams: Vec<Stream>,
    tables: [u8; 2],
    /// The film's time at the stream's zero, in nanoseconds.
    zero: Option<i64>,
}

impl Writer {
    /// Creates a writer for streams of these types.
    pub fn new(kinds: &[StreamType]) -> Writer {
        let stream = |kind: &StreamType| Stream {
            kind: *kind,
            continuity: 0,
            waiting: VecDeque::new(),
            times: BTreeMap::new(),
        };
        Writer {
            streams: kinds.iter().map(stream).collect(),
            tables: [0; 2],
            zero: None,
        }
    }

    /// Takes an access unit of a stream with presentation time `media` (ns). Returns the bytes that
    /// can be written now.
    pub fn unit(&mut self, stream: usize, media: i64, is_key: bool, data: Vec<u8>) -> Vec<u8> {
        let mut out = Vec::new();
        self.zero.get_or_insert(media);
        let unit = MuxedUnit {
            media,
            is_key,
            data,
        };
        if !self.streams[stream].kind.is_video() {
            self.write(stream, &unit, media, &mut out);
            return out;
        }
        let pictures = &mut self.streams[stream];
        *pictures.times.entry(media).or_default() += 1;
        pictures.waiting.push_back(unit);
        while self.streams[stream].waiting.len() > REORDER {
            self.picture(stream, &mut out);
        }
        out
    }

    /// Returns the bytes of all waiting units.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        for stream in 0..self.streams.len() {
            while !self.streams[stream].waiting.is_empty() {
                self.picture(stream, &mut out);
            }
        }
        out
    }

    /// Writes the first waiting picture. The i-th picture in decode order gets the i-th
    /// presentation time as its decode time, and is shown later by the reordering delay.
    fn picture(&mut self, stream: usize, out: &mut Vec<u8>) {
        let pictures = &mut self.streams[stream];
        let (Some(unit), Some(mut first)) =
            (pictures.waiting.pop_front(), pictures.times.first_entry())
        else {
            return;
        };
        let decoded = *first.key();
        *first.get_mut() -= 1;
        if *first.get() == 0 {
            first.remove();
        }
        self.write(stream, &unit, decoded, out);
    }

    fn write(&mut self, stream: usize, unit: &MuxedUnit, decoded: i64, out: &mut Vec<u8>) {
        let zero = self.zero.unwrap_or(0);
        let ticks = |media: i64| ZERO + (media - zero) * 9 / 100_000;
        let clocked = self
            .streams
            .iter()
            .position(|stream| stream.kind.is_video());
        let clocked = clocked.unwrap_or(0) == stream;
        if clocked && unit.is_key {
            self.tables(out);
        }
        let (shown, decoded) = (ticks(unit.media) + SHOWN, ticks(decoded));
        let kind = self.streams[stream].kind;
        let mut pes = vec![0, 0, 1];
        if kind.is_video() {
            // Video PES packets may leave their length open.
            pes.extend([0xe0, 0, 0, 0x84, 0xc0, 10]);
            pes.extend(stamp(3, shown));
            pes.extend(stamp(1, decoded.min(shown)));
        } else {
            let length = u16::try_from(unit.data.len() + 8).unwrap_or(0);
            pes.push(if kind == StreamType::Opus { 0xbd } else { 0xc0 });
            pes.extend(length.to_be_bytes());
            pes.extend([0x84, 0x80, 5]);
            pes.extend(stamp(2, shown));
        }
        pes.extend(&unit.data);
        let clock = clocked.then_some(decoded - AHEAD);
        self.packets(stream, &pes, clock, unit.is_key, out);
    }

    /// Splits a PES packet into transport stream packets.
    fn packets(
        &mut self,
        stream: usize,
        mut pes: &[u8],
        mut clock: Option<i64>,
        is_key: bool,
        out: &mut Vec<u8>,
    ) {
        let pid = FIRST + stream as u16;
        let mut first = true;
        while !pes.is_empty() {
            let mut field = Vec::new();
            if let Some(clock) = clock.take() {
                field.push(if is_key { 0x50 } else { 0x10 });
                let base = clock.max(0) as u64 & 0x1_ffff_ffff;
                field.extend(&((base << 15) | 0x7e00).to_be_bytes()[2..]);
            }
            let room = |field: &Vec<u8>| match field.len() {
                0 => PACKET - 4,
                length => PACKET - 5 - length,
            };
            let mut has_field = !field.is_empty();
            if pes.len() < room(&field) {
                // Stuffing.
                let missing = room(&field) - pes.len();
                match (has_field, missing) {
                    (true, _) => field.resize(field.len() + missing, 0xff),
                    (false, 1) => {}
                    (false, _) => {
                        field.push(0);
                        field.resize(missing - 1, 0xff);
                    }
                }
                has_field = true;
            }
            let counter = self.streams[stream].continuity;
            self.streams[stream].continuity = (counter + 1) & 15;
            header(out, pid, first, has_field, counter);
            if has_field {
                out.push(field.len() as u8);
                out.extend(&field);
            }
            let taken = PACKET - 4 - if has_field { 1 + field.len() } else { 0 };
            out.extend(&pes[..taken]);
            pes = &pes[taken..];
            first = false;
        }
    }

    /// Writes the PAT and PMT.
    fn tables(&mut self, out: &mut Vec<u8>) {
        let mut pat = vec![0, 1, 0xc1, 0, 0, 0, 1];
        pat.extend((0xe000 | PMT).to_be_bytes());
        let clocked = self
            .streams
            .iter()
            .position(|stream| stream.kind.is_video());
        let mut pmt = vec![0, 1, 0xc1, 0, 0];
        pmt.extend((0xe000 | (FIRST + clocked.unwrap_or(0) as u16)).to_be_bytes());
        pmt.extend([0xf0, 0]);
        for (number, stream) in self.streams.iter().enumerate() {
            pmt.push(stream.kind.stream_type());
            pmt.extend((0xe000 | (FIRST + number as u16)).to_be_bytes());
            let descriptors = stream.kind.descriptors();
            pmt.extend([0xf0, descriptors.len() as u8]);
            pmt.extend(descriptors);
        }
        for (number, (pid, id, body)) in [(PAT, 0, pat), (PMT, 2, pmt)].into_iter().enumerate() {
            let mut section = vec![id];
            section.extend((0xb000 | (body.len() as u16 + 4)).to_be_bytes());
            section.extend(body);
            section.extend(crc(&section).to_be_bytes());
            header(out, pid, true, false, self.tables[number]);
            self.tables[number] = (self.tables[number] + 1) & 15;
            out.push(0);
            out.extend(&section);
            out.resize(out.len() + PACKET - 5 - section.len(), 0xff);
        }
    }
}

fn header(out: &mut Vec<u8>, pid: u16, first: bool, has_field: bool, counter: u8) {
    let high = (pid >> 8) as u8 | if first { 0x40 } else { 0 };
    let flags = if has_field { 0x30 } else { 0x10 };
    out.extend([0x47, high, pid as u8, flags | counter]);
}

/// Returns a 33-bit timestamp with its marker bits.
fn stamp(mark: u8, ticks: i64) -> [u8; 5] {
    let ticks = ticks.max(0) as u64;
    [
        mark << 4 | ((ticks >> 29) as u8 & 0x0e) | 1,
        (ticks >> 22) as u8,
        (ticks >> 14) as u8 | 1,
        (ticks >> 7) as u8,
        (ticks << 1) as u8 | 1,
    ]
}

/// Returns the CRC of sections: polynomial 0x04C11DB7, initial value all ones, not inverted.
fn crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte) << 24;
        for _ in 0..8 {
            crc = (crc << 1) ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 };
        }
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_whole_whatever_the_sizes() {
        let mut writer = Writer::new(&[StreamType::H264, StreamType::Aac]);
        let mut out = Vec::new();
        for number in 0..400_usize {
            let media = number as i64 * 40_000_000;
            out.extend(writer.unit(0, media, number % 50 == 0, vec![7; number + 1]));
            out.extend(writer.unit(1, media, true, vec![9; number + 1]));
        }
        out.extend(writer.finish());
        assert_eq!(out.len() % PACKET, 0);
        assert!(out.chunks(PACKET).all(|packet| packet[0] == 0x47));
        let sound = |byte: &&u8| **byte == 9;
        assert!(out.iter().filter(sound).count() >= 400 * 401 / 2);
    }

    #[test]
    fn a_section_with_its_checksum_has_none_left() {
        let mut section = vec![2, 0xb0, 0x12, 0, 1, 0xc1, 0, 0];
        let sum = crc(&section);
        section.extend(sum.to_be_bytes());
        assert_eq!(crc(&section), 0);
    }
}
