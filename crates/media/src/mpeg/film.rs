//! Turns streams into tracks.

use super::carrier::Carrier;
use super::clock::RATE;
use super::elementary::Elementary;
use super::streams::Streams;
use crate::index::Index;
use crate::index_error::{IndexError, IndexErrorKind};
use crate::mp4::{Draft, Gathered, Movie, entry_of, lay_out};
use crate::places::{Place, View};
use crate::ticks_to_nanos;
use crate::title::Kind;

/// The identity matrix: no rotation, no scaling (ISO/IEC 14496-12 8.3.2).
const AS_IT_IS: [i32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];

/// Builds the index of a film with these streams in this carrier; its file has `len` bytes.
pub fn index(mut streams: Streams, carrier: Carrier, len: u64) -> Result<Index, IndexError> {
    let mut movie = Movie {
        timescale: 1000,
        ..Movie::default()
    };
    for note in streams.notes {
        movie.note(note);
    }
    let multiplex = streams.multiplex.take();
    let date = streams.date;
    let mut places = Vec::new();
    for mut stream in streams.all {
        let pid = stream.stated.pid;
        for note in notes(&stream) {
            movie.note(format!("track {pid}: {note}"));
        }
        let Some(entry) = stream.entry().filter(|_| !stream.table.is_empty()) else {
            let why = match stream.scrambled {
                0 => "nothing that can be decoded",
                _ => "encrypted",
            };
            movie.note(format!("track {pid} ({why}) skipped"));
            continue;
        };
        places.push((
            u32::from(pid),
            stream.table.len(),
            stream.places.clone().finish(),
            std::mem::take(&mut stream.moves),
        ));
        movie.tracks.push(draft(stream, streams.programme, &entry));
    }
    let mut index = lay_out(movie, carrier.container())?;
    index.title.view = Some(View {
        bytes: streams.view,
        file: len,
        packet: carrier.packet(),
    });
    for track in &mut index.title.tracks {
        let own = places.iter().position(|(pid, ..)| *pid == track.id);
        let Some((pid, samples, places, moves)) = own.map(|own| places.swap_remove(own)) else {
            continue;
        };
        if track.samples != samples {
            // The places count all samples.
            return Err(IndexError {
                path: format!("PID {pid}"),
                offset: 0,
                problem: format!(
                    "has {samples} samples, of which {} are on the timeline",
                    track.samples
                ),
                kind: IndexErrorKind::Damaged,
            });
        }
        debug_assert!(places.iter().all(|place: Place| place.file <= len));
        track.places = places;
        track.moves = moves;
    }
    index.title.recorded_at = date.and_then(|(date, at)| {
        // All streams are on the same timeline.
        let track = index.title.tracks.first()?;
        let since = at.map_or(0, |at| ticks_to_nanos(at + track.shift, RATE));
        date.checked_sub(since)
    });
    if let Some(multiplex) = multiplex
        && let Err(why) = multiplex.finish(&mut index, len)
    {
        let note = format!("it is not offered as a transport stream: {why}");
        index.title.notes.push(note);
    }
    Ok(index)
}

fn notes(stream: &Elementary) -> Vec<String> {
    let mut notes = Vec::new();
    if stream.missing > 0 {
        notes.push(format!("packets are missing in {} places", stream.missing));
    }
    if stream.dropped > 0 {
        let what = if stream.is_picture() {
            "pictures"
        } else {
            "sound frames"
        };
        notes.push(format!(
            "{} {what} before the first that can be decoded are skipped",
            stream.dropped
        ));
    }
    if stream.changed > 0 {
        notes.push(format!(
            "{} packets in another form of sound than the first are skipped",
            stream.changed
        ));
    }
    if let (count @ 1.., from) = stream.others {
        let seconds = from as f64 / f64::from(stream.timescale());
        notes.push(format!(
            "from {seconds:.1} s on, {count} sound frames have another configuration of AAC than the first and are skipped"
        ));
    }
    if stream.is_disordered {
        notes.push(
            "its pictures are shown in the order in which they are decoded: their own cannot be"
                .into(),
        );
    }
    if stream.untimed > 0 {
        notes.push(format!(
            "{} pictures have no time of their own",
            stream.untimed
        ));
    }
    if stream.scrambled > 0 {
        notes.push(format!(
            "{} packets are encrypted and skipped",
            stream.scrambled
        ));
    }
    notes
}

fn draft(stream: Elementary, programme: u16, entry: &[u8]) -> Draft {
    let kind = match stream.is_picture() {
        true => Kind::Video,
        false => Kind::Audio,
    };
    let pid = stream.stated.pid;
    let known = entry_of(entry, kind);
    let side = |side: u16| u32::from(side) << 16;
    let display = known.as_ref().map_or((0, 0), |entry| {
        let (wide, high) = entry.pixel_aspect;
        let shown = u64::from(entry.size.0) * u64::from(wide) / u64::from(high.max(1));
        (side(shown.min(0xffff) as u16), side(entry.size.1))
    });
    Draft {
        path: format!("programme {programme}, PID {pid}"),
        offset: 0,
        id: pid.into(),
        kind,
        enabled: true,
        timescale: stream.timescale(),
        language: stream.stated.language.clone(),
        name: None,
        matrix: AS_IT_IS,
        display: if kind == Kind::Video { display } else { (0, 0) },
        edit: Default::default(),
        entries: vec![known],
        gathered: Gathered {
            first_dts: stream.first,
            end_dts: stream.end(),
            samples: stream.table,
            description: 1,
            ..Gathered::default()
        },
        stripped: Vec::new(),
    }
}
