//! Where playback begins when a viewer requests a position.

use reelway_media::{Kind, Nanos, SECOND, Samples, SamplesError, TimedSample, Title, Track};

/// How long before the film's beginning sound that only primes its decoder may begin: Opus needs
/// 80 ms (RFC 7845 section 4.2), AAC encoders use up to 2112 samples (48 ms at 44.1 kHz).
pub const PRIMING: Nanos = SECOND / 10;

/// Where a play begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The presentation time at which it really begins.
    pub at: Nanos,
    /// Where each requested track begins; `None` if it has nothing at or after `at`.
    pub tracks: Vec<Option<TrackBeginning>>,
}

/// Where a track begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackBeginning {
    /// Number of the group.
    pub group: usize,
    /// The decode time of the first sample to send; earlier samples of the group are left out.
    pub due: Nanos,
}

impl Beginning {
    /// Returns where `tracks` (indices into `title.tracks`) begin when the position
    /// `wish` is requested.
    ///
    /// The leading track (the first video track, or else the first of all) begins with the sync
    /// sample at or before `wish`, which sets the time; if sound precedes the first picture, the
    /// time is `wish` itself. Other video tracks begin with their sync sample at or before that
    /// time, audio tracks with the first sample presented at or after it. At the film's own
    /// beginning, sound begins up to [`PRIMING`] earlier, with the samples that prime its decoder.
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
            // Sound comes before the first picture, and the play can begin with it.
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

/// Returns the last sync sample presented at or before `wish` and its group, or the first sync
/// sample if there is none.
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
    // A film whose first sample is no sync sample (an open recording) still begins with it.
    let sample = last.or_else(|| read.iter().find(sync)).or(read.first());
    Ok(sample.map(|sample| (group, *sample)))
}

/// Returns the first sample presented at or after `from`.
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
