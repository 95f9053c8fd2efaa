//! Transport streams that ffmpeg cannot make: packets of another stream are laid out again.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

/// The size of a packet in bytes.
const PACKET: usize = 188;

fn packets(from: &Path) -> Result<Vec<[u8; PACKET]>> {
    let bytes = fs::read(from)?;
    let (packets, rest) = bytes.as_chunks::<PACKET>();
    ensure!(rest.is_empty() && !packets.is_empty(), "no whole packets");
    Ok(packets.to_vec())
}

/// Puts a timestamp before each packet, as on Blu-ray discs.
pub(super) fn timed(from: &Path, to: &Path) -> Result<()> {
    let packets = packets(from)?.into_iter().zip(0u32..);
    let bytes: Vec<u8> = packets
        .flat_map(|(packet, nth)| [&(nth * 300).to_be_bytes()[..], &packet].concat())
        .collect();
    Ok(fs::write(to, bytes)?)
}

/// Adds space for error correction after each packet.
pub(super) fn corrected(from: &Path, to: &Path) -> Result<()> {
    let packets = packets(from)?.into_iter();
    let bytes: Vec<u8> = packets
        .flat_map(|packet| [&packet[..], &[0; 16]].concat())
        .collect();
    Ok(fs::write(to, bytes)?)
}

/// Cuts a part out of a longer stream: it begins and ends in the middle of a picture.
pub(super) fn cut(from: &Path, to: &Path) -> Result<()> {
    let packets = packets(from)?;
    let (start, end) = (packets.len() / 10 + 3, packets.len() * 9 / 10);
    Ok(fs::write(to, packets[start..end].concat())?)
}
