//! Puts tracks on one presentation timeline: determines where it begins, by how many ticks each
//! track is shifted, and which samples lie outside it. See [`Track`] for the definition of zero.

use super::edits::Edit;
use super::moov::{Draft, Movie};
use crate::chapters::arranged;
use crate::index::Index;
use crate::index_error::{IndexError, IndexErrorKind};
use crate::time::MAX_SECONDS;
use crate::track_head::TrackHead;
use crate::{
    Codec, Container, Kind, Nanos, SECOND, SampleTable, Title, Track, nanos_to_ticks, rescale,
    ticks_to_nanos,
};

/// The number of audio frames entirely before zero that are kept to prime the decoder: AAC needs
/// one to three, HE-AAC and Opus (80 ms in 20 ms frames) four.
const PRIMING_FRAMES: usize = 5;

/// Audio that begins earlier than this before the first picture, or by more frames than prime a
/// decoder, is not priming but part of the film, which then begins with it.
const EARLY_SOUND: Nanos = SECOND / 10;

/// A point on the movie's timeline with the film's own precision: `delay` ticks of the movie's
/// timescale and `media` ticks of a track's timescale.
#[derive(Clone, Copy, Debug)]
struct Point {
    delay: u64,
    media: i64,
    timescale: u32,
}

impl Point {
    /// Converts it to nanoseconds.
    fn nanos(&self, movie_timescale: u32) -> Nanos {
        let delay = i64::try_from(self.delay).unwrap_or(i64::MAX);
        let (delay, media) = (
            ticks_to_nanos(delay, movie_timescale),
            ticks_to_nanos(self.media, self.timescale),
        );
        delay.saturating_add(media)
    }
}

/// Builds the index of a film whose samples have all been read.
pub fn lay_out(mut movie: Movie, container: Container) -> Result<Index, IndexError> {
    let drafts = playable(&mut movie)?;
    let Some(zero) = zero(&drafts, movie.timescale)? else {
        return Err(unplayable(&movie));
    };
    let mut tracks = Vec::new();
    let mut tables = Vec::new();
    let mut duration = 0;
    for draft in drafts {
        let shift = shift(&draft, &zero, movie.timescale)?;
        let (first, end) = kept(&draft, shift, movie.timescale, container);
        if first >= end {
            movie.note(format!(
                "track {} (ends before the film's first picture) skipped",
                draft.id
            ));
            continue;
        }
        let (before, after) = (first, draft.gathered.samples.len() as usize - end);
        let what = if draft.kind == Kind::Video {
            "pictures"
        } else {
            "sound frames"
        };
        if before > 0 {
            movie.note(format!(
                "track {}: {before} {what} before the film's beginning are skipped",
                draft.id
            ));
        }
        if after > 0 {
            movie.note(format!(
                "track {}: {after} {what} that its edit list cuts off are skipped",
                draft.id
            ));
        }
        let (track, table, last) = finish(draft, shift, first, end, &mut movie)?;
        duration = duration.max(ticks_to_nanos(last + shift, track.timescale));
        tracks.push(track);
        tables.push(table);
    }
    if tracks.is_empty() {
        return Err(unplayable(&movie));
    }
    let start = zero.nanos(movie.timescale);
    let texts = movie.subtitles.take();
    let texts = texts.finish(start, &mut |note| movie.note(note));
    let title = Title {
        container,
        view: None,
        name: movie.name,
        tracks,
        duration,
        recorded_at: (movie.date).and_then(|date| date.checked_add(start)),
        chapters: arranged(movie.chapters.take(), start, duration),
        texts,
        notes: movie.notes,
        multiplex: None,
        multiplex_view: None,
        entry_points: None,
    };
    Ok(Index { title, tables })
}

fn unplayable(movie: &Movie) -> IndexError {
    let mut problem = String::from("no track can be played");
    if !movie.notes.is_empty() {
        problem = format!("{problem}: {}", movie.notes.join("; "));
    }
    IndexError {
        path: String::new(),
        offset: 0,
        problem,
        kind: IndexErrorKind::Unplayable,
    }
}

/// Returns the tracks that have samples of a supported codec, and notes the others.
fn playable(movie: &mut Movie) -> Result<Vec<Draft>, IndexError> {
    let mut drafts = std::mem::take(&mut movie.tracks);
    let moving = drafts
        .iter()
        .any(|draft| draft.kind == Kind::Video && draft.gathered.samples.len() > 1);
    drafts.retain(|draft| {
        let reason = match draft.entry() {
            _ if draft.gathered.samples.is_empty() => "no samples".into(),
            Err(reason) => reason,
            Ok(_) if draft.kind == Kind::Video && moving && draft.gathered.samples.len() == 1 => {
                "cover art".into()
            }
            Ok(_) => return true,
        };
        movie.note(format!("track {} ({reason}) skipped", draft.id));
        false
    });
    for draft in &mut drafts {
        let overlaps = draft.gathered.overlaps;
        if overlaps > 0 {
            movie.note(format!(
                "track {}: {overlaps} fragments begin before the end of the one before",
                draft.id
            ));
        }
        // An edit that begins after the media shows nothing: players ignore it.
        if draft.edit.start >= draft.gathered.end_dts && draft.edit.start > 0 {
            movie.note(format!(
                "track {}: its edit list begins after its media and is ignored",
                draft.id
            ));
            draft.edit = Edit::default();
        }
        let seconds = draft.gathered.end_dts / i64::from(draft.timescale);
        let delay = draft.edit.delay / u64::from(movie.timescale);
        if seconds > MAX_SECONDS || delay > MAX_SECONDS as u64 {
            return Err(draft.damaged(format!(
                "lasts {seconds} s after {delay} s, which is no film"
            )));
        }
    }
    Ok(drafts)
}

impl Draft {
    fn damaged(&self, problem: String) -> IndexError {
        IndexError {
            path: self.path.clone(),
            offset: self.offset,
            problem,
            kind: IndexErrorKind::Damaged,
        }
    }

    fn is_uncompressed(&self) -> bool {
        self.entry()
            .is_ok_and(|entry| matches!(entry.codec, Codec::Pcm(_)))
    }

    /// Returns the point on the movie's timeline of a media time.
    fn point(&self, time: i64) -> Point {
        Point {
            delay: self.edit.delay,
            media: time - self.edit.start,
            timescale: self.timescale,
        }
    }

    /// Iterates over the number, decode time and presentation time of each sample, in ticks.
    fn times(&self) -> impl Iterator<Item = (usize, Times)> + '_ {
        let mut dts = self.gathered.first_dts;
        self.gathered
            .samples
            .iter()
            .enumerate()
            .map(move |(number, sample)| {
                let start = dts + i64::from(sample.cts);
                let end = start + i64::from(sample.duration);
                dts += i64::from(sample.duration);
                (
                    number,
                    Times {
                        start,
                        end,
                        dts: dts - i64::from(sample.duration),
                        sync: sample.sync,
                    },
                )
            })
    }

    /// Returns number and presentation time of the last sync sample presented at or before `at`
    /// (media ticks), or of the first sync sample, or of the first sample.
    fn sync_at(&self, at: i64) -> Option<(usize, i64)> {
        let mut found = None;
        for (number, times) in self.times().filter(|(_, times)| times.sync) {
            if found.is_some() && times.start > at {
                break;
            }
            found = Some((number, times.start));
        }
        found.or_else(|| {
            self.times()
                .next()
                .map(|(number, times)| (number, times.start))
        })
    }
}

struct Times {
    start: i64,
    end: i64,
    dts: i64,
    sync: bool,
}

/// Returns the beginning of the presentation; `None` if there are no tracks.
fn zero(drafts: &[Draft], movie_timescale: u32) -> Result<Option<Point>, IndexError> {
    let mut pictures = drafts.iter().filter(|draft| draft.kind == Kind::Video);
    let picture = pictures
        .clone()
        .find(|draft| draft.enabled)
        .or_else(|| pictures.next());
    let picture = picture.and_then(|draft| {
        let (_, start) = draft.sync_at(draft.edit.start)?;
        Some(draft.point(start))
    });
    let mut starts = Vec::new();
    for draft in drafts.iter().filter(|draft| draft.kind == Kind::Audio) {
        let Some((_, first)) = draft.times().next() else {
            continue;
        };
        let start = first.start.max(draft.edit.start);
        if let Some(picture) = &picture {
            let shift = shift(draft, picture, movie_timescale)?;
            let early = -nanos_to_ticks(EARLY_SOUND, draft.timescale);
            let heard = draft
                .times()
                .filter(|(_, times)| times.start >= start && times.end + shift <= 0);
            if start + shift >= early && heard.take(PRIMING_FRAMES + 1).count() <= PRIMING_FRAMES {
                continue;
            }
        }
        starts.push(draft.point(start));
    }
    // An exact comparison would take 160 bits; if times are equal, either will do.
    let seconds = |at: &Point| {
        at.delay as f64 / f64::from(movie_timescale) + at.media as f64 / f64::from(at.timescale)
    };
    Ok(starts
        .into_iter()
        .min_by(|a, b| seconds(a).total_cmp(&seconds(b)))
        .or(picture))
}

/// Returns the offset in ticks from the track's media time to presentation time.
fn shift(draft: &Draft, zero: &Point, movie_timescale: u32) -> Result<i64, IndexError> {
    let own = i128::from(draft.timescale);
    let (movie, theirs) = (i128::from(movie_timescale), i128::from(zero.timescale));
    let delay = i128::from(draft.edit.delay) - i128::from(zero.delay);
    // In units of own/(movie × theirs), so that it is rounded only once.
    let apart = delay * theirs - i128::from(zero.media) * movie;
    let unit = movie * theirs;
    let ticks = apart
        .checked_mul(own)
        .map(|apart| (apart + unit / 2).div_euclid(unit) - i128::from(draft.edit.start));
    ticks
        .and_then(|ticks| i64::try_from(ticks).ok())
        .filter(|ticks| {
            ticks.unsigned_abs() < 1 << 62
                && (ticks / i64::from(draft.timescale)).abs() <= 2 * MAX_SECONDS
        })
        .ok_or_else(|| draft.damaged("begins at a time that is none".into()))
}

/// Returns the range of samples that lie on the timeline.
fn kept(draft: &Draft, shift: i64, movie_timescale: u32, container: Container) -> (usize, usize) {
    let count = draft.gathered.samples.len() as usize;
    // Streams keep all samples, because the places of their view count them.
    let is_stream = !matches!(
        container,
        Container::Mp4 | Container::FragmentedMp4 | Container::Matroska
    );
    // Uncompressed audio has no decoder to prime.
    let priming = match draft.is_uncompressed() && !is_stream {
        true => 0,
        false => PRIMING_FRAMES,
    };
    let first = match draft.kind {
        Kind::Video if is_stream => 0,
        Kind::Video => draft.sync_at(-shift).map_or(0, |(number, _)| number),
        Kind::Audio => {
            let heard = draft.times().find(|(_, times)| times.end + shift > 0);
            heard.map_or(count, |(number, _)| number.saturating_sub(priming))
        }
    };
    let mut end = count;
    // The edit list of a fragmented film was written before its length was known.
    if let (Some(length), Container::Mp4) = (draft.edit.length, container) {
        let length = i64::try_from(length).unwrap_or(i64::MAX - 1);
        let length = rescale(length + 1, movie_timescale, draft.timescale);
        let after = draft.edit.start.saturating_add(length).saturating_add(1);
        let inside = draft
            .times()
            .filter(|(_, times)| times.start < after)
            .last();
        end = inside.map_or(count, |(number, _)| number + 1);
    }
    if end <= first {
        (first, count)
    } else {
        (first, end)
    }
}

/// Returns the track with its samples `first..end`, and the media time at which they end.
fn finish(
    draft: Draft,
    shift: i64,
    first: usize,
    end: usize,
    movie: &mut Movie,
) -> Result<(Track, SampleTable, i64), IndexError> {
    let entry = draft
        .entry()
        .map_err(|reason| draft.damaged(reason))?
        .clone();
    let dts = draft.times().nth(first).map_or(0, |(_, times)| times.dts);
    let mut table = draft.gathered.samples;
    table.keep(first..end);
    if !table.iter().any(|sample| sample.sync) {
        movie.note(format!(
            "track {}: has no sync sample; it begins with its first",
            draft.id
        ));
        table.mark_first_sync();
    }
    let head = TrackHead {
        id: draft.id,
        kind: draft.kind,
        timescale: draft.timescale,
        shift,
        language: draft.language,
        name: draft.name,
        enabled: draft.enabled,
        dts,
        matrix: draft.matrix,
        display: draft.display,
        stripped: draft.stripped,
    };
    let (track, last) = head.track(entry, &table);
    Ok((track, table, last))
}
