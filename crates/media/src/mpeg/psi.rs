//! The streams of a transport stream: PAT and PMT (ISO/IEC 13818-1 2.4.4) with the additions of DVB
//! and ATSC (ETSI EN 300 468 annex D, ETSI TS 101 154; ATSC A/52 annex A).

use std::collections::{BTreeMap, BTreeSet};

use super::lpcm::Lpcm;
use super::ts::{Packet, packets_of};
use crate::mp4::language_tag;

/// The PID of the PAT.
pub const PAT: u16 = 0;
/// The maximum number of programmes that are read.
const MAX_PROGRAMMES: usize = 128;
/// The maximum number of streams per programme that are read.
const MAX_STREAMS: usize = 64;
/// The maximum size of a PAT or PMT section in bytes (ISO/IEC 13818-1 2.4.4.5, 2.4.4.9).
const LONGEST: usize = 1024;
/// The byte that fills the rest of a packet.
const STUFFING: u8 = 0xff;

/// The coding of a stream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coding {
    /// H.264.
    H264,
    /// H.265.
    H265,
    /// MPEG-1 or MPEG-2 video.
    MpegVideo,
    /// MPEG-4 Visual.
    Mpeg4Visual,
    /// MPEG-1 or MPEG-2 audio.
    MpegAudio,
    /// AAC with ADTS headers.
    Adts,
    /// AAC in LATM.
    Latm,
    /// AC-3 or E-AC-3.
    Dolby,
    /// Opus with this many channels.
    Opus(u8),
    /// Uncompressed audio of a DVD.
    Dvd(Lpcm),
    /// Uncompressed audio of a Blu-ray Disc.
    Hdmv,
    /// Not playable; a description for users.
    Other(&'static str),
}

impl Coding {
    /// Returns whether it is playable video.
    pub fn is_picture(&self) -> bool {
        matches!(
            self,
            Coding::H264 | Coding::H265 | Coding::MpegVideo | Coding::Mpeg4Visual
        )
    }

    /// Returns whether it is playable.
    pub fn is_known(&self) -> bool {
        !matches!(self, Coding::Other(_))
    }
}

/// A stream of a programme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stated {
    /// The PID of its packets.
    pub pid: u16,
    /// The coding.
    pub coding: Coding,
    /// The ISO 639-2 language.
    pub language: Option<String>,
}

/// A section that is not complete yet.
#[derive(Clone, Debug, Default)]
struct Section {
    bytes: Vec<u8>,
    began: bool,
}

impl Section {
    /// Takes a packet and returns the sections that it completes.
    fn take(&mut self, packet: &Packet) -> Vec<Vec<u8>> {
        let mut whole = Vec::new();
        let mut payload = packet.payload;
        if packet.starts {
            let Some((pointer, rest)) = payload.split_first() else {
                return whole;
            };
            let (before, after) = rest.split_at(usize::from(*pointer).min(rest.len()));
            self.add(before, &mut whole);
            self.bytes.clear();
            self.began = true;
            payload = after;
        }
        self.add(payload, &mut whole);
        whole
    }

    fn add(&mut self, mut payload: &[u8], whole: &mut Vec<Vec<u8>>) {
        while self.began && !payload.is_empty() {
            let length = match self.bytes[..] {
                [] if payload[0] == STUFFING => return self.began = false,
                [_, high, low, ..] => 3 + (usize::from(high & 0xf) << 8) + usize::from(low),
                _ => self.bytes.len() + 1,
            };
            let wanted = length.saturating_sub(self.bytes.len()).min(payload.len());
            let (more, rest) = payload.split_at(wanted);
            self.bytes.extend_from_slice(more);
            payload = rest;
            if self.bytes.len() >= 3 && self.bytes.len() >= self.length() {
                whole.push(std::mem::take(&mut self.bytes));
            }
        }
    }

    /// Returns the size of the section whose header has been read.
    fn length(&self) -> usize {
        3 + (usize::from(self.bytes[1] & 0xf) << 8) + usize::from(self.bytes[2])
    }
}

/// The programmes of a stream, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Programmes {
    pat: Section,
    /// The last complete PAT.
    listed: Vec<u8>,
    /// The programme numbers by the PID of their PMT.
    numbers: BTreeMap<u16, u16>,
    sections: BTreeMap<u16, Section>,
    /// The maps by their PID.
    maps: BTreeMap<u16, Map>,
    /// Whether later maps replace the first ones: a film begins with the first ones.
    follows: bool,
}

/// The contents of a PMT.
#[derive(Clone, Debug)]
struct Map {
    /// The PID of the packets that carry the programme's clock.
    clock: u16,
    streams: Vec<Stated>,
    /// The original section.
    section: Vec<u8>,
}

/// A programme.
#[derive(Clone, Copy, Debug)]
pub struct Programme<'a> {
    /// The PID of its PMT.
    pub map: u16,
    /// Its number in the PAT.
    pub number: u16,
    pub streams: &'a [Stated],
}

/// The result of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed {
    /// A PAT that differs from the previous one.
    List,
    /// A programme map, with its PID.
    Map(u16),
}

impl Programmes {
    /// Takes a packet of any stream and returns what it completes.
    pub fn take(&mut self, packet: &Packet) -> Option<Completed> {
        if packet.pid == PAT {
            let mut differs = false;
            for section in self.pat.take(packet) {
                differs |= self.list(&section);
            }
            return differs.then_some(Completed::List);
        }
        if !self.numbers.contains_key(&packet.pid) {
            return None;
        }
        let section = self.sections.entry(packet.pid).or_default();
        // Maps of other programmes may have the same PID.
        let number = self.numbers.get(&packet.pid)?.to_be_bytes();
        let sections = section.take(packet).into_iter();
        let own = sections.filter(|section| section.get(3..5) == Some(&number));
        let map = own.filter_map(|section| map(&section)).next_back()?;
        if self.follows || !self.maps.contains_key(&packet.pid) {
            self.maps.insert(packet.pid, map);
        }
        Some(Completed::Map(packet.pid))
    }

    /// From now on, later maps replace earlier ones.
    pub fn follow(&mut self) {
        self.follows = true;
    }

    /// Takes a PAT and returns whether it differs from the previous one.
    fn list(&mut self, section: &[u8]) -> bool {
        let Some(body) = body(section, 0, 8) else {
            return false;
        };
        if self.listed == section {
            return false;
        }
        self.listed.clear();
        self.listed.extend_from_slice(section);
        for (number, pid) in entries(body) {
            if let Some(before) = self.numbers.get(&pid) {
                // Several programmes may have maps with the same PID.
                let stays = entries(body).any(|entry| entry == (*before, pid));
                if self.follows && !stays {
                    self.numbers.insert(pid, number);
                }
            } else if self.numbers.len() < MAX_PROGRAMMES {
                self.numbers.insert(pid, number);
            }
        }
        true
    }

    /// Returns the last PAT's programmes with their map PIDs; `None` if it has several sections.
    pub fn listed(&self) -> Option<impl Iterator<Item = (u16, u16)>> {
        let is_whole = self.listed.get(7) == Some(&0);
        is_whole.then(|| entries(body(&self.listed, 0, 8).unwrap_or_default()))
    }

    /// Returns whether the maps of all listed programmes are known.
    pub fn are_known(&self) -> bool {
        !self.numbers.is_empty() && self.numbers.len() == self.maps.len()
    }

    /// Returns the number of programmes. One may have had several maps over time.
    pub fn count(&self) -> usize {
        let numbers: BTreeSet<u16> = self.numbers.values().copied().collect();
        numbers.len()
    }

    /// Returns how many of them have a map.
    pub fn mapped(&self) -> usize {
        let mapped = self.maps.keys().filter_map(|map| self.numbers.get(map));
        mapped.collect::<BTreeSet<_>>().len()
    }

    /// Returns packets of the PAT and this PMT; `None` if they exceed the allowed size.
    pub fn tables(&self, map: u16) -> Option<Vec<u8>> {
        let own = &self.maps.get(&map)?.section;
        let is_short = |section: &[u8]| (1..=LONGEST).contains(&section.len());
        (is_short(&self.listed) && is_short(own))
            .then(|| [packets_of(PAT, &self.listed), packets_of(map, own)].concat())
    }

    /// Returns the programme to play: the first with video, else with audio, else the first.
    pub fn chosen(&self) -> Option<Programme<'_>> {
        let all = self.maps.iter().filter_map(|(pid, map)| {
            Some(Programme {
                map: *pid,
                number: *self.numbers.get(pid)?,
                streams: &map.streams,
            })
        });
        all.min_by_key(|programme| {
            let mut codings = programme.streams.iter().map(|stream| &stream.coding);
            let has_picture = codings.clone().any(Coding::is_picture);
            let has_any = codings.any(Coding::is_known);
            (!has_picture, !has_any, programme.number)
        })
    }

    /// Returns the number of the programme whose map has this PID.
    pub fn number(&self, map: u16) -> Option<u16> {
        self.numbers.get(&map).copied()
    }

    /// Returns the PID of the packets with the clock of the programme with this map.
    pub fn clock(&self, map: u16) -> Option<u16> {
        self.maps.get(&map).map(|map| map.clock)
    }

    /// Returns the streams of a programme.
    pub fn streams(&self, map: u16) -> &[Stated] {
        self.maps.get(&map).map_or(&[], |map| &map.streams)
    }
}

/// Returns the part of a section of table `table` between its first `head` bytes and its checksum.
/// `None` for sections that only announce future contents.
fn body(section: &[u8], table: u8, head: usize) -> Option<&[u8]> {
    let is_current = section.get(5)? & 1 == 1;
    if section[0] != table || !is_current || checksum(section) != 0 {
        return None;
    }
    section.get(head..section.len().checked_sub(4)?)
}

/// Iterates over the programmes in the body of a PAT, each with the PID of its map.
fn entries(body: &[u8]) -> impl Iterator<Item = (u16, u16)> {
    let entries = body.as_chunks::<4>().0.iter().map(|entry| {
        let number = u16::from_be_bytes([entry[0], entry[1]]);
        (number, u16::from_be_bytes([entry[2] & 0x1f, entry[3]]))
    });
    // Number 0 denotes the network.
    entries.filter(|(number, _)| *number != 0)
}

/// Returns 0 for a section with a valid checksum (ISO/IEC 13818-1 annex A).
fn checksum(section: &[u8]) -> u32 {
    section.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte) << 24, |sum, _| {
            sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 }
        })
    })
}

/// Parses a PMT.
fn map(section: &[u8]) -> Option<Map> {
    let (clock, body) = body(section, 2, 8)?.split_first_chunk::<2>()?;
    let length =
        |bytes: &[u8]| Some(usize::from(bytes.first()? & 0xf) << 8 | usize::from(*bytes.get(1)?));
    let (about, mut rest) = body.get(2..)?.split_at_checked(length(body)?)?;
    let is_hdmv = is_registered(&descriptors(about), b"HDMV");
    let mut streams = Vec::new();
    while let (Some((head, more)), true) =
        (rest.split_first_chunk::<3>(), streams.len() < MAX_STREAMS)
    {
        let [kind, high, low] = *head;
        let length = length(more)?;
        let about = more.get(2..2 + length)?;
        rest = &more[2 + length..];
        let descriptors: Vec<(u8, &[u8])> = descriptors(about);
        let language = descriptors
            .iter()
            .find(|(tag, _)| *tag == 0x0a)
            .and_then(|(_, body)| language_tag(body.get(..3)?));
        streams.push(Stated {
            pid: u16::from_be_bytes([high & 0x1f, low]),
            coding: match kind {
                // This type is user private: its meaning depends on the programme.
                0x80 if is_hdmv => Coding::Hdmv,
                _ => coding(kind, &descriptors),
            },
            language,
        });
    }
    Some(Map {
        clock: u16::from_be_bytes([clock[0] & 0x1f, clock[1]]),
        streams,
        section: section.to_vec(),
    })
}

fn descriptors(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut all = Vec::new();
    while let Some(([tag, length], rest)) = bytes.split_first_chunk::<2>() {
        let Some(body) = rest.get(..usize::from(*length)) else {
            break;
        };
        all.push((*tag, body));
        bytes = &rest[body.len()..];
    }
    all
}

/// Returns whether a registration descriptor has this identifier (ISO/IEC 13818-1 2.6.8).
fn is_registered(descriptors: &[(u8, &[u8])], name: &[u8; 4]) -> bool {
    let mut all = descriptors.iter();
    all.any(|(tag, body)| *tag == 0x05 && body.starts_with(name))
}

/// Returns the coding of a stream of this type (ISO/IEC 13818-1 table 2-34).
fn coding(kind: u8, descriptors: &[(u8, &[u8])]) -> Coding {
    let registered = |name: &[u8; 4]| is_registered(descriptors, name);
    let described = |wanted: u8| descriptors.iter().any(|(tag, _)| *tag == wanted);
    match kind {
        0x01 | 0x02 => Coding::MpegVideo,
        0x03 | 0x04 => Coding::MpegAudio,
        0x0f => Coding::Adts,
        0x10 => Coding::Mpeg4Visual,
        0x11 => Coding::Latm,
        0x15 => Coding::Other("metadata"),
        0x1b => Coding::H264,
        0x24 => Coding::H265,
        0x33 => Coding::Other("H.266 picture"),
        0x81 | 0x84 | 0x87 => Coding::Dolby,
        0x82 | 0x85 | 0x86 | 0x8a => Coding::Other("DTS sound"),
        0x83 => Coding::Other("TrueHD sound"),
        0x90 | 0x92 => Coding::Other("subtitles as pictures"),
        0xea => Coding::Other("VC-1 picture"),
        0x06 if described(0x6a) || described(0x7a) => Coding::Dolby,
        0x06 if registered(b"AC-3") || registered(b"EAC3") => Coding::Dolby,
        0x06 if registered(b"HEVC") => Coding::H265,
        0x06 if registered(b"Opus") => opus(descriptors),
        0x06 if registered(b"AV01") => Coding::Other("AV1 picture"),
        0x06 if described(0x7b) => Coding::Other("DTS sound"),
        0x06 if described(0x56) => Coding::Other("teletext"),
        0x06 if described(0x59) => Coding::Other("subtitles as pictures"),
        0x05 | 0x06 | 0x0b..=0x0d | 0x86..=0x89 => Coding::Other("private data"),
        _ => Coding::Other("a stream of an unknown type"),
    }
}

/// Returns Opus with DVB's channel count (ETSI_TS_opus 0.1.3): up to eight in the usual order.
fn opus(descriptors: &[(u8, &[u8])]) -> Coding {
    let stated = descriptors.iter().find_map(|(tag, body)| match body {
        [0x80, channels, ..] if *tag == 0x7f => Some(*channels),
        _ => None,
    });
    match stated {
        Some(channels @ 1..=8) => Coding::Opus(channels),
        None => Coding::Other("Opus sound that does not say how many channels it has"),
        Some(_) => Coding::Other("Opus sound whose channels are arranged in a way of their own"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(table: u8, number: u16, body: &[u8]) -> Vec<u8> {
        let length = 5 + body.len() + 4;
        let mut section = vec![table, 0xb0 | (length >> 8) as u8, length as u8];
        section.extend(number.to_be_bytes());
        section.extend([0xc1, 0, 0]);
        section.extend(body);
        let sum = checksum(&section);
        section.extend(sum.to_be_bytes());
        section
    }

    fn packets(pid: u16, section: &[u8]) -> Vec<(u16, bool, Vec<u8>)> {
        let whole = [&[0], section].concat();
        let pieces = whole.chunks(184).enumerate();
        pieces
            .map(|(nth, piece)| (pid, nth == 0, piece.to_vec()))
            .collect()
    }

    fn feed(programmes: &mut Programmes, packets: &[(u16, bool, Vec<u8>)]) {
        for (pid, starts, payload) in packets {
            programmes.take(&Packet {
                pid: *pid,
                starts: *starts,
                scrambled: false,
                counter: 0,
                jumps: false,
                payload,
            });
        }
    }

    #[test]
    fn the_programme_with_picture_is_chosen_and_its_streams_are_known() {
        let mut programmes = Programmes::default();
        let pat = [0, 1, 0xe1, 0x00, 0, 2, 0xe2, 0x00];
        feed(&mut programmes, &packets(PAT, &section(0, 1, &pat)));
        assert!(!programmes.are_known());
        let radio = [0xe1, 1, 0xf0, 0, 0x0f, 0xe1, 1, 0xf0, 0];
        feed(&mut programmes, &packets(0x100, &section(2, 1, &radio)));
        let mut film = vec![0xe2, 1, 0xf0, 2, 0x09, 0];
        film.extend([0x1b, 0xe2, 1, 0xf0, 0]);
        film.extend([
            0x06, 0xe2, 2, 0xf0, 8, 0x6a, 0, 0x0a, 4, b'd', b'e', b'u', 0,
        ]);
        // Enough subtitles for the map to span several packets.
        for pid in 3..40 {
            film.extend([0x06, 0xe2, pid, 0xf0, 2, 0x59, 0]);
        }
        let mut announced = section(2, 2, &[0xe2, 1, 0xf0, 0]);
        announced[5] &= !1;
        feed(&mut programmes, &packets(0x200, &announced));
        feed(&mut programmes, &packets(0x200, &section(2, 2, &film)));
        assert!(programmes.are_known());
        let Programme {
            map,
            number,
            streams,
        } = programmes.chosen().unwrap();
        assert_eq!((map, number), (0x200, 2));
        assert_eq!(programmes.clock(map), Some(0x201));
        assert_eq!(streams.len(), 39);
        assert_eq!((streams[0].pid, &streams[0].coding), (0x201, &Coding::H264));
        assert_eq!(streams[1].coding, Coding::Dolby);
        assert_eq!(streams[1].language.as_deref(), Some("deu"));
        assert!(!streams[2].coding.is_known());
    }

    #[test]
    fn uncompressed_sound_is_known_in_programmes_of_blu_ray_discs_only() {
        for (registration, expected) in [
            (&[5, 4, b'H', b'D', b'M', b'V'][..], Coding::Hdmv),
            (&[], Coding::Other("a stream of an unknown type")),
        ] {
            let mut programmes = Programmes::default();
            let pat = [0, 1, 0xe1, 0x00];
            feed(&mut programmes, &packets(PAT, &section(0, 1, &pat)));
            let about = [&[0xe1, 1, 0xf0, registration.len() as u8], registration].concat();
            let film = [&about[..], &[0x80, 0xe1, 1, 0xf0, 0]].concat();
            feed(&mut programmes, &packets(0x100, &section(2, 1, &film)));
            assert_eq!(programmes.chosen().unwrap().streams[0].coding, expected);
        }
    }

    #[test]
    fn a_damaged_section_is_none() {
        let mut programmes = Programmes::default();
        let mut pat = section(0, 1, &[0, 1, 0xe1, 0]);
        pat[9] ^= 1;
        feed(&mut programmes, &packets(PAT, &pat));
        assert_eq!(programmes.count(), 0);
    }
}
