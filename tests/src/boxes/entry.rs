//! Rewrites the codec configuration in sample entries.

use anyhow::{Context, Result, ensure};

use super::movie::Track;

/// Returns the offset of the box `kind` in the sample entry `entry`. It is searched by name, which
/// is good enough for films made by these tests.
fn inner(entry: &[u8], kind: &[u8; 4]) -> Result<usize> {
    let at = entry.windows(4).position(|window| window == kind);
    Ok(at.with_context(|| format!("no {} in the sample entry", kind.escape_ascii()))? - 4)
}

/// Gives an H.264 track NAL length fields of `to` bytes (1, 2 or 4), in the samples and in `avcC`.
pub fn set_nal_length(track: &mut Track, to: usize) -> Result<()> {
    for sample in &mut track.samples {
        let mut out = Vec::with_capacity(sample.data.len());
        let mut rest = &sample.data[..];
        while !rest.is_empty() {
            let (length, after) = rest
                .split_first_chunk::<4>()
                .context("NAL length cut off")?;
            let length = u32::from_be_bytes(*length) as usize;
            ensure!(length <= after.len(), "NAL reaches past its sample");
            ensure!(
                to == 4 || length >> (8 * to) == 0,
                "a NAL of {length} bytes needs a longer length"
            );
            out.extend_from_slice(&(length as u32).to_be_bytes()[4 - to..]);
            out.extend_from_slice(&after[..length]);
            rest = &after[length..];
        }
        sample.data = out;
    }
    let mut entry = track.sample_entry().to_vec();
    let avcc = inner(&entry, b"avcC")? + 8;
    entry[avcc + 4] = 0xfc | (to as u8 - 1);
    track.set_sample_entry(&entry);
    Ok(())
}

/// Replaces the AudioSpecificConfig (DecoderSpecificInfo, tag 5) in the `esds` of an `mp4a` track.
pub fn set_audio_config(track: &mut Track, config: &[u8]) -> Result<()> {
    let old = track.sample_entry().to_vec();
    let esds = inner(&old, b"esds")?;
    // ffmpeg's descriptors: ES (3), its DecoderConfig (4), in it DecoderSpecificInfo (5), then SL (6).
    let body = &old[esds + 12..];
    let (es, es_body) = descriptor(body, 3)?;
    let (decoder, decoder_body) = descriptor(&es_body[3..], 4)?;
    let fixed = &decoder_body[..13];
    let after = &es_body[3 + decoder..];
    let specific = [&[5, config.len() as u8][..], config].concat();
    let decoder = [&[4, (13 + specific.len()) as u8][..], fixed, &specific].concat();
    let new = [
        &[3, (3 + decoder.len() + after.len()) as u8][..],
        &es_body[..3],
        &decoder,
        after,
    ]
    .concat();
    let mut entry = old[..esds + 12].to_vec();
    entry.extend(&new);
    entry.extend(&body[es..]);
    let longer = |bytes: &mut [u8]| {
        let size = super::tree::u32_at(bytes, 0) as i64 + new.len() as i64 - es as i64;
        bytes[..4].copy_from_slice(&(size as u32).to_be_bytes());
    };
    longer(&mut entry[esds..]);
    longer(&mut entry);
    track.set_sample_entry(&entry);
    Ok(())
}

/// Parses the descriptor with this tag at the start of `bytes`: returns its total length and its
/// body.
fn descriptor(bytes: &[u8], tag: u8) -> Result<(usize, &[u8])> {
    ensure!(
        bytes.first() == Some(&tag),
        "descriptor {tag} is not where ffmpeg puts it"
    );
    let (mut at, mut length) = (1, 0usize);
    loop {
        let byte = *bytes.get(at).context("descriptor cut off")?;
        length = length << 7 | usize::from(byte & 0x7f);
        at += 1;
        if byte & 0x80 == 0 {
            break;
        }
    }
    Ok((
        at + length,
        bytes.get(at..at + length).context("descriptor cut off")?,
    ))
}
