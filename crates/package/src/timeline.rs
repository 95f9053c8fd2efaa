//! Maps a track's times to fragments such that every player shows each sample exactly at the film's
//! presentation time.
//!
//! A sample of the film is presented at `dts + cts + shift` ticks ([`Track::shift`]) and decoded at
//! some time before. A fragment has a decode time that cannot be negative (`tfdt`), decode
//! durations and composition offsets. For viewers of segments, only presentation times matter, and
//! only the order of decode times. So:
//!
//! - **Segments begin where they are shown.** `tfdt` of a segment is the earliest presentation time
//!   in it. A picture that would be decoded earlier is decoded at the segment's beginning instead.
//!   The last sample of a segment lasts until the next segment begins (in the last segment, from
//!   its presentation until the film ends). Composition offsets are never negative, and there is no
//!   edit list: players interpret both differently.
//! - **Priming of sound before 0**: a decoder needs access units that are not heard (1024 or 2112
//!   samples of AAC, Opus' pre-skip). They are kept, decode time begins with 0 at the first of
//!   them, and an edit list in the initialisation segment (`media_time` = priming, CMAF, ISO/IEC
//!   23000-19, 7.5.13) shifts the presentation. There is no other way to express this.
//! - **Late beginnings**: `tfdt` starts with the delay.
//!
//! `docs/design/timeline.md` describes what players do with the alternatives.

use reelway_media::{Kind, SECOND, Samples, SamplesError, TimedSample, Track, nanos_to_ticks};

/// Sound further than this before 0 is not priming and is left out: no decoder needs more than a
/// few access units (Opus requires 80 ms, RFC 7845 4.6; HE-AAC has at most 5186 samples, 118 ms at
/// 44.1 kHz).
const MAX_PRIMING: i64 = SECOND / 4;

/// The constants that convert a track's media times to a fragment's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// First sample that is served.
    pub first: u32,
    /// Its decode time on the media timeline, in ticks.
    pub first_dts: i64,
    /// Its presentation time on the fragments' timeline; never negative.
    pub first_shown: i64,
    /// `media_time` of the edit list in ticks, by which the fragments' timeline is ahead of the
    /// presentation. 0: there is no edit list.
    pub priming: i64,
    /// Ticks from `dts + cts` to presentation time on the fragments' timeline.
    shown_shift: i64,
    /// Smallest composition offset of the film's samples. The excess of a sample's offset is the
    /// time by which it is decoded early.
    pub least_cts: i32,
}

impl Timeline {
    /// Returns the timeline of `track`, the `index`th of its title. `None`: it has no sample to
    /// serve.
    pub(crate) fn of(
        track: &Track,
        index: usize,
        samples: &dyn Samples,
    ) -> Result<Option<Timeline>, SamplesError> {
        let Some((first, first_dts, cts)) = first_sample(track, index, samples)? else {
            return Ok(None);
        };
        let presented = first_dts + i64::from(cts) + track.shift;
        let priming = (-presented).max(0);
        Ok(Some(Timeline {
            first,
            first_dts,
            first_shown: presented + priming,
            priming,
            shown_shift: track.shift + priming,
            least_cts: cts,
        }))
    }

    /// Returns the presentation time on the fragments' timeline, in ticks.
    pub(crate) fn shown(&self, dts: i64, cts: i32) -> i64 {
        dts + i64::from(cts) + self.shown_shift
    }

    /// Returns the latest time at which a sample can be decoded without delaying the presentation
    /// of a later one. It is not after the sample's own presentation, follows the decoding order,
    /// and may be negative.
    pub(crate) fn decoded(&self, dts: i64) -> i64 {
        dts + i64::from(self.least_cts) + self.shown_shift
    }

    /// Returns whether a sample of the first segment is left out. Pictures shown before the sync
    /// sample with which the film begins refer to earlier pictures and cannot be decoded.
    pub(crate) fn leads(&self, kind: Kind, dts: i64, cts: i32) -> bool {
        kind == Kind::Video && self.shown(dts, cts) < self.first_shown
    }
}

/// Returns number, decode time and composition offset of the first sample that is served.
fn first_sample(
    track: &Track,
    index: usize,
    samples: &dyn Samples,
) -> Result<Option<(u32, i64, i32)>, SamplesError> {
    let group = match track.kind {
        // Samples before the sync sample that is shown at 0 would never be seen.
        Kind::Video => track.sync_group_at(0),
        Kind::Audio => {
            let earliest = nanos_to_ticks(-MAX_PRIMING, track.timescale) - track.shift;
            track
                .groups
                .partition_point(|g| g.dts + i64::from(g.cts) <= earliest)
                .saturating_sub(1)
        }
    };
    let Some(first) = track.groups.get(group) else {
        return Ok(None);
    };
    let read = track.read_group(index, group, samples)?;
    let presented = |s: &TimedSample| track.presentation(s.dts, s.sample.cts);
    let place = match track.kind {
        // Groups of intra-only pictures contain many sync samples.
        Kind::Video => read
            .iter()
            .rposition(|s| s.sample.sync && presented(s) <= 0)
            .or_else(|| read.iter().position(|s| s.sample.sync))
            .unwrap_or(0),
        // Priming may begin in the group's last sample and continue in the next group.
        Kind::Audio => read
            .iter()
            .position(|s| presented(s) >= -MAX_PRIMING)
            .unwrap_or(read.len().saturating_sub(1)),
    };
    let number = first.first + place as u32;
    Ok(read.get(place).map(|s| (number, s.dts, s.sample.cts)))
}
