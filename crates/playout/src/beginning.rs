//! Where a play begins when a viewer wishes for a position.

use reelway_media::{Kind, Nanos, SECOND, Samples, SamplesError, TimedSample, Title, Track};

/// How long before the film's beginning sound may lie that only primes its decoder: Opus asks for
/// 80 ms (RFC 7845 section 4.2), AAC encoders use up to 2112 samples (48 ms at 44.1 kHz).
pub const PRIMING: Nanos = SECOND / 10;

/// The beginning of a play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Presentation time at which it really begins.
    pub at: Nanos,
    /// For each track asked for, where it begins; `None` where it has nothing at or after `at`.
    pub tracks: Vec<Option<TrackBeginning>>,
}

/// Where a track begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackBeginning {
    /// Number of the group.
    pub group: usize,
    /// Decode time of the first sample to send: the earlier ones of the group are left out.
    pub due: Nanos,
}

impl Beginning {
    /// Where `tracks` (indices into `title.tracks`) begin when `wish` is asked for.
    ///
    /// The leading track, the first picture or else the first of all, begins with the sync sample at or
    /// before the wish, and so sets the time (the wish itself where sound comes before the first
    /// picture); other pictures begin with their sync sample at or before that time, sound with the
    /// first sample presented at or after it. At the film's own beginning sound begins up to
    /// [`PRIMING`] earlier, with what its decoder needs to get going.
    pub fn find(
        title: &Title,
        samples: &dyn Samples,
        tracks: &[usize],
        wish: Nanos,
    ) -> Result<Beginning, SamplesError> {
        let track_of = |index: usize| title.tracks.get(index);
        let is_picture =
            |index: &&usize| track_of(**index).is_some_and(|track| track.kind == Kind::Video);
        let lead = tracks
            .iter()
            .find(is_picture)
            .or_else(|| tracks.first())
            .copied();
        let Some((lead, lead_track)) = lead.and_then(|lead| Some((lead, track_of(lead)?))) else {
            return Ok(Beginning {
                at: wish,
                tracks: vec![None; tracks.len()],
            });
        };
        let Some((group, first)) = last_sync(lead_track, lead, samples, wish)? else {
            return Ok(Beginning {
                at: wish,
                tracks: vec![None; tracks.len()],
            });
        };
        let mut at = presentation(lead_track, &first);
        if at > wish {
            // Sound comes before the first picture, which does not keep the play from beginning there.
            at = wish.max(0);
        }
        let from_the_first = at <= 0;
        let mut found = Vec::with_capacity(tracks.len());
        for &index in tracks {
            found.push(match track_of(index) {
                None => None,
                Some(track) if index == lead && track.kind == Kind::Video => Some(TrackBeginning {
                    group,
                    due: track.decode(first.dts),
                }),
                Some(track) if track.kind == Kind::Video => last_sync(track, index, samples, at)?
                    .map(|(group, sample)| TrackBeginning {
                        group,
                        due: track.decode(sample.dts),
                    }),
                Some(track) => {
                    let from = if from_the_first { at - PRIMING } else { at };
                    first_from(track, index, samples, from)?
                }
            });
        }
        Ok(Beginning { at, tracks: found })
    }
}

fn presentation(track: &Track, sample: &TimedSample) -> Nanos {
    track.presentation(sample.dts, sample.sample.cts)
}

/// The last sync sample presented at or before `wish`, and its group; the first of all where none is.
fn last_sync(
    track: &Track,
    index: usize,
    samples: &dyn Samples,
    wish: Nanos,
) -> Result<Option<(usize, TimedSample)>, SamplesError> {
    if track.groups.is_empty() {
        return Ok(None);
    }
    let group = track.sync_group_at(wish);
    let read = track.read_group(index, group, samples)?;
    let sync = |sample: &&TimedSample| sample.sample.sync;
    let last = read
        .iter()
        .filter(sync)
        .rfind(|sample| presentation(track, sample) <= wish);
    // A film whose first sample is no sync sample (an open recording) begins with it all the same.
    let sample = last.or_else(|| read.iter().find(sync)).or(read.first());
    Ok(sample.map(|sample| (group, *sample)))
}

/// The first sample presented at or after `from`.
fn first_from(
    track: &Track,
    index: usize,
    samples: &dyn Samples,
    from: Nanos,
) -> Result<Option<TrackBeginning>, SamplesError> {
    let after = track
        .groups
        .partition_point(|group| track.presentation(group.dts, group.cts) <= from);
    for group in after.saturating_sub(1)..track.groups.len() {
        let read = track.read_group(index, group, samples)?;
        if let Some(sample) = read
            .iter()
            .find(|sample| presentation(track, sample) >= from)
        {
            return Ok(Some(TrackBeginning {
                group,
                due: track.decode(sample.dts),
            }));
        }
    }
    Ok(None)
}
