//! What `media` reads from each film equals what ffprobe reads.

mod chapters;
mod codecs;
mod elementary;
mod matroska;
mod transport;

use std::collections::HashMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use reelway_media::{
    Group, Index, IndexOptions, Kind, ReadIndexError, SampleTable, Track, index_with,
};
use reelway_tests::films::{self, Film};
use reelway_tests::probe::{self, Edits, Stream};

fn index(path: &Path) -> Result<Index, ReadIndexError> {
    index_reading(path, |_| {})
}

/// Indexes a film, and passes each range that is read to `seen`.
fn index_reading(path: &Path, mut seen: impl FnMut(Range<u64>)) -> Result<Index, ReadIndexError> {
    let file = File::open(path).expect("the film");
    let len = file.metadata().expect("its length").len();
    let read = |range: Range<u64>, bytes: &mut Vec<u8>| {
        seen(range.clone());
        bytes.resize((range.end - range.start) as usize, 0);
        file.read_exact_at(bytes, range.start)
    };
    index_with(read, len, IndexOptions::default())
}

#[track_caller]
fn good(film: &Film) -> Index {
    index(&film.path).unwrap_or_else(|error| panic!("{}: {error}", film.name))
}

/// Runs a check over films on all cores, and reports all failures together.
fn for_each(films: &[Film], check: impl Fn(&Film) -> Result<(), String> + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(film) =
                    films.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    if let Err(error) = check(film) {
                        wrong
                            .lock()
                            .unwrap()
                            .push(format!("{} ({}): {error}", film.name, film.what));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "{} of {} films:\n{}",
        wrong.len(),
        films.len(),
        wrong.join("\n")
    );
}

/// Returns a film's video and audio streams whose codecs are supported. Each film is probed once
/// for all tests.
fn playable(film: &Film, edits: Edits) -> Vec<Stream> {
    type Probed = HashMap<(&'static str, bool), Vec<Stream>>;
    static PROBED: LazyLock<Mutex<Probed>> = LazyLock::new(Mutex::default);
    let key = (film.name, edits == Edits::Apply);
    let known = PROBED.lock().unwrap().get(&key).cloned();
    known.unwrap_or_else(|| {
        let codecs = [
            "h264",
            "hevc",
            "av1",
            "aac",
            "aac_latm",
            "ac3",
            "eac3",
            "opus",
            "mpeg1video",
            "mpeg2video",
            "mp2",
            "mp3",
            "mpeg4",
            "vp8",
            "vp9",
            "flac",
            "vorbis",
        ];
        let mut streams = probe::streams(&film.path, edits);
        streams.retain(|stream| codecs.contains(&stream.codec.as_str()));
        PROBED.lock().unwrap().insert(key, streams.clone());
        streams
    })
}

/// A track's samples: offset, size, decode and presentation time in ticks, sync flag.
fn samples(index: &Index, track: usize) -> Vec<(u64, u32, i64, i64, bool)> {
    let mut dts = index.title.tracks[track]
        .groups
        .first()
        .map_or(0, |group| group.dts);
    let shift = index.title.tracks[track].shift;
    let one = |sample: reelway_media::Sample| {
        let at = dts;
        dts += i64::from(sample.duration);
        (
            sample.offset,
            sample.size,
            at + shift,
            at + i64::from(sample.cts) + shift,
            sample.sync,
        )
    };
    index.tables[track].iter().map(one).collect()
}

fn track_of<'a>(index: &'a Index, stream: &Stream) -> Result<(usize, &'a Track), String> {
    let found = index
        .title
        .tracks
        .iter()
        .enumerate()
        .find(|(_, track)| track.id == stream.id);
    found.ok_or_else(|| {
        format!(
            "track {} ({}) is missing; notes: {:?}",
            stream.id, stream.codec, index.title.notes
        )
    })
}

#[test]
fn every_sample_lies_where_ffprobe_sees_it() {
    let mut films = films::playable();
    films.retain(Film::is_mp4);
    for_each(&films, |film| {
        let index = index(&film.path).map_err(|error| error.to_string())?;
        let streams = playable(film, Edits::Ignore);
        if streams.len() != index.title.tracks.len() {
            return Err(format!(
                "{} tracks for {} streams; notes: {:?}",
                index.title.tracks.len(),
                streams.len(),
                index.title.notes
            ));
        }
        for stream in &streams {
            let (number, track) = track_of(&index, stream)?;
            let samples = samples(&index, number);
            if track.timescale != stream.timescale {
                return Err(format!(
                    "timescale {} for {}",
                    track.timescale, stream.timescale
                ));
            }
            if track.samples as usize != samples.len() {
                return Err(format!(
                    "track {}: {} samples in a table of {}",
                    track.id,
                    track.samples,
                    samples.len()
                ));
            }
            // Samples that the edit list cuts off may be left out, those that are shown may not.
            let start = stream
                .packets
                .iter()
                .position(|packet| packet.pos == Some(samples[0].0));
            let start = start.ok_or("the first sample is no packet")?;
            let packets = stream
                .packets
                .get(start..start + samples.len())
                .ok_or("more samples than packets")?;
            let mut left_out = stream.packets[..start]
                .iter()
                .chain(&stream.packets[start + samples.len()..]);
            if samples.len() != stream.packets.len() {
                let shown = playable(film, Edits::Apply)
                    .into_iter()
                    .find(|shown| shown.id == stream.id)
                    .expect("the stream");
                let shown = |pos| {
                    shown
                        .packets
                        .iter()
                        .any(|packet| packet.pos == pos && !packet.discard)
                };
                if let Some(packet) = left_out.find(|packet| shown(packet.pos)) {
                    let (mine, theirs) = (samples.len(), stream.packets.len());
                    return Err(format!(
                        "track {}: {mine} samples for {theirs} packets, without {packet:?}",
                        track.id
                    ));
                }
            }
            let (first, first_packet) = (samples[0], packets[0]);
            for (n, (sample, packet)) in samples.iter().zip(packets).enumerate() {
                let &(offset, size, dts, pts, sync) = sample;
                let mine = (Some(offset), size, dts - first.2, pts - first.3, sync);
                let theirs = (
                    packet.pos,
                    packet.size,
                    packet.dts - first_packet.dts,
                    packet.pts - first_packet.pts,
                    packet.key,
                );
                if mine != theirs {
                    return Err(format!(
                        "track {} sample {n}: {mine:?} for {theirs:?} (offset, size, dts, pts, sync)",
                        track.id
                    ));
                }
            }
        }
        Ok(())
    });
}

#[test]
fn sound_and_picture_stand_to_each_other_as_the_edit_lists_say() {
    // ffprobe deviates from the standard for these films: it adds the largest negative offset of
    // fragments to presentation times, shows nothing of an edit of length 0, follows both of two
    // edits, where Reelway follows the first, and plays a dwell edit as a moving picture.
    let others = [
        "fragmented_signed",
        "edit_zero_length",
        "edit_in_two",
        "edit_dwell",
    ];
    let films: Vec<Film> = films::playable()
        .into_iter()
        .filter(|film| !others.contains(&film.name) && film.is_mp4())
        .collect();
    for_each(&films, |film| {
        let index = index(&film.path).map_err(|error| error.to_string())?;
        // The film's time minus ffprobe's in seconds, for each track at its first sample that
        // ffprobe shows.
        let mut differences = Vec::new();
        for stream in playable(film, Edits::Apply) {
            let (number, track) = track_of(&index, &stream)?;
            let tick = 1.0 / f64::from(track.timescale);
            let samples = samples(&index, number);
            for packet in stream
                .packets
                .iter()
                .filter(|packet| !packet.discard)
                .take(50)
            {
                let sample = samples.iter().find(|sample| Some(sample.0) == packet.pos);
                let sample = sample.ok_or_else(|| format!("no sample at {:?}", packet.pos))?;
                differences.push((track.id, (sample.3 - packet.pts) as f64 * tick));
            }
        }
        let first = differences.first().ok_or("ffprobe shows nothing")?.1;
        // ffmpeg rounds edits to the movie's timescale, usually milliseconds, and an edit that
        // begins inside a picture to that picture.
        let allowed = if film.name == "start_offset" {
            0.0215
        } else {
            0.0015
        };
        match differences
            .iter()
            .find(|(_, difference)| (difference - first).abs() > allowed)
        {
            Some((id, other)) => Err(format!(
                "track {id} is off by {} ms; notes: {:?}",
                (other - first) * 1e3,
                index.title.notes
            )),
            None => Ok(()),
        }
    });
}

#[test]
fn edit_lists_that_ffprobe_takes_otherwise_are_followed_too() {
    let signed = good(&films::film("fragmented_signed"));
    assert_eq!(samples(&signed, 0)[0].3, 0, "the picture begins at 0");
    assert_eq!(
        samples(&signed, 1)[0].3,
        -1024,
        "the sound's priming lies before it"
    );

    let dwell = good(&films::film("edit_dwell"));
    assert_eq!(
        samples(&dwell, 0)[0].3,
        12800 / 5,
        "the picture moves after a fifth of a second"
    );
    assert_eq!(samples(&dwell, 1)[0].3, -1024);

    let to_the_end = good(&films::film("edit_zero_length"));
    assert_eq!(
        to_the_end.title.duration / 100_000_000,
        50,
        "length 0 means to the end"
    );

    let in_two = good(&films::film("edit_in_two"));
    assert_eq!(samples(&in_two, 0)[0].3, 0);
    assert_eq!(samples(&in_two, 1)[0].3, -1024);
    assert!(
        in_two
            .title
            .notes
            .iter()
            .any(|note| note.contains("2 edits")),
        "{:?}",
        in_two.title.notes
    );
}

#[test]
fn a_film_begins_with_its_first_picture_and_lasts_as_long_as_ffprobe_says() {
    for_each(&films::playable(), |film| {
        let index = index(&film.path).map_err(|error| error.to_string())?;
        let seconds = |nanos: i64| nanos as f64 / 1e9;
        let title = &index.title;
        if let Some((number, track)) = title.video() {
            let from_zero = samples(&index, number)
                .into_iter()
                .map(|sample| sample.3)
                .filter(|pts| *pts >= 0)
                .min();
            let first =
                from_zero.ok_or("no picture from 0 on")? as f64 / f64::from(track.timescale);
            // An empty edit before the video remains.
            let late = if film.name.starts_with("late_picture") || film.name == "edit_dwell" {
                0.6
            } else {
                0.0
            };
            if first > late {
                return Err(format!("the first picture is shown at {first} s"));
            }
        }
        if ["edit_in_two", "edit_zero_length"].contains(&film.name) {
            return Ok(()); // other tests check these
        }
        let streams = playable(film, Edits::Apply);
        let ends = streams.iter().map(|stream| {
            let packets = &stream.packets;
            let shown = packets
                .iter()
                .map(|packet| packet.pts + packet.duration)
                .max()
                .unwrap_or(0);
            shown as f64 / f64::from(stream.timescale)
        });
        let starts = streams.iter().filter_map(|stream| {
            let pts = stream.packets.iter().map(|packet| packet.pts).min()?;
            Some(pts as f64 / f64::from(stream.timescale))
        });
        let (start, end) = (starts.fold(f64::MAX, f64::min), ends.fold(0.0, f64::max));
        let longest = end - start.min(0.0);
        if !(end - 0.1..longest + 0.1).contains(&seconds(title.duration)) {
            return Err(format!(
                "lasts {} s; ffprobe has {start} to {end}",
                seconds(title.duration)
            ));
        }
        Ok(())
    });
}

#[test]
fn indexing_reads_no_media() {
    // Transport and program streams are read whole.
    let mut films = films::all();
    films.retain(|film| !film.is_stream());
    for_each(&films, |film| {
        let mut read = 0;
        let index = index_reading(&film.path, |range| read += range.end - range.start)
            .map_err(|error| error.to_string())?;
        let media: u64 = index.title.tracks.iter().map(|track| track.bytes).sum();
        let len = fs::metadata(&film.path).expect("the film").len();
        // The holes of the sparse film are not media, and are not read either; the long film's
        // tables use its media many times.
        let others = if film.name == "huge" {
            1 << 20
        } else {
            len.saturating_sub(media).max(16 << 20)
        };
        if read > others + (64 << 10) {
            return Err(format!(
                "{read} of {len} bytes read, {media} of them are media"
            ));
        }
        Ok(())
    });
}

#[test]
fn groups_cover_every_sample_and_keep_their_limits() {
    for_each(&films::all(), |film| {
        let index = index(&film.path).map_err(|error| error.to_string())?;
        for (number, track) in index.title.tracks.iter().enumerate() {
            let samples: Vec<_> = index.tables[number].iter().collect();
            let (mut next, mut dts) = (0, track.groups.first().map_or(0, |group| group.dts));
            for (n, group) in track.groups.iter().enumerate() {
                let wrong =
                    |what: &str| Err(format!("track {} group {n} {group:?}: {what}", track.id));
                if group.first != next || group.count == 0 || group.count > Group::MAX_SAMPLES {
                    return wrong("does not follow the one before it, or is too long");
                }
                let of = &samples[group.first as usize..(group.first + group.count) as usize];
                let bytes: u64 = of.iter().map(|sample| u64::from(sample.size)).sum();
                if (group.dts, group.cts, u64::from(group.bytes), group.sync)
                    != (dts, of[0].cts, bytes, of[0].sync)
                {
                    return wrong("does not say what its samples say");
                }
                let start = of.iter().map(|sample| sample.offset).min().unwrap_or(0);
                let end = of
                    .iter()
                    .map(|sample| sample.offset + u64::from(sample.size))
                    .max()
                    .unwrap_or(0);
                if end - start > Group::MAX_SPAN && of.len() > 1 {
                    return wrong("spans too many bytes");
                }
                if track.kind == Kind::Video
                    && of
                        .iter()
                        .skip(1)
                        .any(|sample| sample.sync != of[0].sync && sample.sync)
                {
                    return wrong("has a sync sample in its middle");
                }
                next += group.count;
                dts += of
                    .iter()
                    .map(|sample| i64::from(sample.duration))
                    .sum::<i64>();
            }
            if next != track.samples {
                return Err(format!(
                    "track {}: groups hold {next} of {} samples",
                    track.id, track.samples
                ));
            }
        }
        Ok(())
    });
}

#[test]
fn two_hours_are_all_there_in_18_bytes_a_sample() {
    let index = good(&films::film("two_hours"));
    let counts: Vec<u32> = index
        .title
        .tracks
        .iter()
        .map(|track| track.samples)
        .collect();
    assert_eq!(counts, [172_800, 337_500]);
    let records = |table: &SampleTable| table.iter().map(|sample| sample.to_record().len()).sum();
    let bytes: [usize; 2] = [records(&index.tables[0]), records(&index.tables[1])];
    assert_eq!(bytes, [18 * 172_800, 18 * 337_500]);
    assert_eq!(index.title.duration, 7200 * 1_000_000_000);
}
