//! Code shared by H.264 and H.265: length-prefixed NAL units, put into packets singly, several to a
//! packet, or in fragments.

use reelway_media::TimedSample;

use crate::bytes::Bytes;
use crate::error::{Damage, PlanError};
use crate::plan::{Builder, FrameInfo, MAX_AGGREGATED, Plan};
use crate::timing::Timing;

/// The first bytes of a NAL unit: one for H.264 (the second is then 0), two for H.265.
pub(crate) type NalHeader = [u8; 2];

/// The role of a NAL unit in decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Part of a picture from which others are decoded.
    Reference,
    /// Part of a picture that no other picture needs.
    Disposable,
    /// Not part of a picture, such as parameter sets and SEI.
    Other,
    /// Not sent: access unit delimiters, which RTP's marker replaces, and types with another
    /// meaning over RTP.
    Drop,
}

/// The differences between the two formats.
pub(crate) trait NalFormat {
    /// Size of the NAL header in bytes.
    const HEADER: usize;

    /// Returns the role of a NAL unit.
    fn role(&self, header: NalHeader) -> Role;

    /// Returns the payload header of an aggregation packet for units with these headers.
    fn aggregate(headers: impl Iterator<Item = NalHeader>) -> NalHeader;

    /// Returns payload header and fragment header of a unit's fragment: `HEADER + 1` bytes.
    fn fragment(header: NalHeader, first: bool, last: bool) -> [u8; 3];
}

/// A NAL unit within the film.
#[derive(Clone, Copy, Debug, Default)]
struct Nal {
    /// First byte of the unit.
    offset: u64,
    /// Length in bytes without the length field; at least that of the header.
    len: u32,
    header: NalHeader,
}

/// Plans samples that consist of NAL units, each after a length field of `length_size` (1 to 4)
/// bytes.
pub(crate) fn plan<F: NalFormat>(
    format: &F,
    length_size: u8,
    samples: &[TimedSample],
    bytes: &dyn Bytes,
    timing: Timing,
    max_payload: usize,
) -> Result<Plan, PlanError> {
    let mut packer = Packer {
        format,
        length_size,
        max_payload,
        out: Builder::default(),
        waiting: Waiting::default(),
    };
    for sample in samples {
        let mut reference = false;
        let mut picture = false;
        let mut nals = Nals::<F>::new(sample, length_size, bytes);
        while let Some(nal) = nals.step()? {
            match packer.format.role(nal.header) {
                Role::Drop => continue,
                Role::Other => {}
                Role::Reference => (picture, reference) = (true, true),
                Role::Disposable => picture = true,
            }
            packer.put(nal);
        }
        if let Some(damage) = nals.damage {
            packer.out.leaves_out(damage);
        }
        packer.flush();
        // The marker is on the last packet of the access unit (RFC 6184 section 5.1, RFC 7798
        // section 4.1).
        packer.out.mark_last();
        packer.out.end_frame(FrameInfo {
            droppable: picture && !reference,
            ..timing.frame(sample)
        });
    }
    Ok(packer.out.finish())
}

/// Plans parameter sets as packets that contain all their bytes: one frame, or none.
pub(crate) fn preface<'a, F: NalFormat>(
    format: &F,
    sets: impl Iterator<Item = &'a Vec<u8>>,
    max_payload: usize,
) -> Plan {
    // Planned like a film of one sample, whose bytes are then copied into the plan.
    let mut film = Vec::new();
    let mut packer = Packer {
        format,
        length_size: 4,
        max_payload,
        out: Builder::default(),
        waiting: Waiting::default(),
    };
    for set in sets {
        let Some(header) = set.get(..F::HEADER) else {
            continue;
        };
        film.extend_from_slice(&(set.len() as u32).to_be_bytes());
        let mut nal = Nal {
            offset: film.len() as u64,
            len: set.len() as u32,
            header: [0; 2],
        };
        nal.header[..F::HEADER].copy_from_slice(header);
        film.extend_from_slice(set);
        packer.put(nal);
    }
    packer.flush();
    packer.out.end_frame(FrameInfo {
        sync: true,
        ..FrameInfo::default()
    });
    packer.out.finish_with(&film)
}

/// Small units that may share a packet.
#[derive(Debug, Default)]
struct Waiting {
    nals: [Nal; MAX_AGGREGATED],
    count: usize,
    /// Bytes of the units, including a two-byte length for each.
    bytes: usize,
}

struct Packer<'f, F> {
    format: &'f F,
    length_size: u8,
    max_payload: usize,
    out: Builder,
    waiting: Waiting,
}

impl<F: NalFormat> Packer<'_, F> {
    fn put(&mut self, nal: Nal) {
        let len = nal.len as usize;
        if len > self.max_payload {
            self.flush();
            self.fragments(nal);
            return;
        }
        let full = self.waiting.count == MAX_AGGREGATED;
        if full || F::HEADER + self.waiting.bytes + 2 + len > self.max_payload {
            self.flush();
        }
        self.waiting.nals[self.waiting.count] = nal;
        self.waiting.count += 1;
        self.waiting.bytes += 2 + len;
    }

    /// Adds the waiting units as a packet: one unit as it is, several in an aggregation packet.
    fn flush(&mut self) {
        let nals = &self.waiting.nals[..self.waiting.count];
        match nals {
            [] => return,
            [nal] => self.out.film(nal.offset, nal.len),
            nals => {
                let header = F::aggregate(nals.iter().map(|nal| nal.header));
                self.out.inline(&header[..F::HEADER]);
                for nal in nals {
                    // The format requires a two-byte length before each unit. These bytes are in
                    // the film: the end of its own length field, unless that has only one byte.
                    if self.length_size == 1 {
                        self.out.inline(&[0]);
                        self.out.film(nal.offset - 1, nal.len + 1);
                    } else {
                        self.out.film(nal.offset - 2, nal.len + 2);
                    }
                }
            }
        }
        self.out.end_packet(false);
        self.waiting.count = 0;
        self.waiting.bytes = 0;
    }

    /// Adds a unit in fragments of equal size (the last may be shorter), as segmentation offload
    /// requires of packets that are sent in one call.
    fn fragments(&mut self, nal: Nal) {
        let head = F::HEADER + 1;
        let body = nal.len as usize - F::HEADER;
        let count = body.div_ceil(self.max_payload - head);
        let size = body.div_ceil(count);
        let middle = self
            .out
            .keep(&F::fragment(nal.header, false, false)[..head]);
        let mut done = 0;
        while done < body {
            let len = size.min(body - done);
            let (first, last) = (done == 0, done + len == body);
            if first || last {
                self.out
                    .inline(&F::fragment(nal.header, first, last)[..head]);
            } else {
                self.out.add(middle);
            }
            self.out
                .film(nal.offset + (F::HEADER + done) as u64, len as u32);
            self.out.end_packet(false);
            done += len;
        }
    }
}

/// The NAL units of a sample that are at least as long as a header.
struct Nals<'b, F> {
    bytes: &'b dyn Bytes,
    length_size: u32,
    at: u64,
    end: u64,
    /// Why reading stopped early.
    damage: Option<Damage>,
    format: std::marker::PhantomData<F>,
}

impl<'b, F: NalFormat> Nals<'b, F> {
    fn new(sample: &TimedSample, length_size: u8, bytes: &'b dyn Bytes) -> Self {
        let range = sample.sample.bytes();
        Nals {
            bytes,
            length_size: u32::from(length_size),
            at: range.start,
            end: range.end,
            damage: None,
            format: std::marker::PhantomData,
        }
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), PlanError> {
        if self.bytes.read_at(offset, buf) {
            Ok(())
        } else {
            Err(PlanError::Missing { offset })
        }
    }

    /// Returns the next unit; `None` at the end, or if the rest is damaged.
    fn step(&mut self) -> Result<Option<Nal>, PlanError> {
        loop {
            let left = (self.end - self.at) as u32;
            if left == 0 {
                return Ok(None);
            }
            let mut word = [0; 4];
            let field = self.length_size.min(left);
            self.read(self.at, &mut word[4 - field as usize..])?;
            let length = u32::from_be_bytes(word);
            let left = left - field;
            // Some writers pad a sample with a few zeros, fewer than a length field takes.
            if length > left || (field < self.length_size && length != 0) {
                self.damage = Some(Damage::NalTooLong {
                    offset: self.at,
                    length,
                    left,
                });
                return Ok(None);
            }
            let offset = self.at + u64::from(field);
            self.at = offset + u64::from(length);
            if length < F::HEADER as u32 {
                continue;
            }
            let mut header = [0; 2];
            self.read(offset, &mut header[..F::HEADER])?;
            return Ok(Some(Nal {
                offset,
                len: length,
                header,
            }));
        }
    }
}
