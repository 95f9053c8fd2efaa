//! How a track's times are carried in fragments, such that every player shows a sample at the
//! film's presentation time exactly.
//!
//! A sample of the film is presented at `dts + cts + shift` ticks ([`Track::shift`]). A fragment
//! carries a decode time that cannot be negative (`tfdt`, version 1) and a signed composition
//! offset (`trun`, version 1).
//!
//! - **Picture**: everything is folded into these two and there is no edit list. The first
//!   sample's decode time becomes its presentation time, so that a segment that begins with a sync
//!   sample is presented at its `tfdt`; pictures that are shown before they would be decoded get
//!   negative offsets (CMAF, ISO/IEC 23000-19, 7.5.17 and brand `cmf2`).
//! - **Sound primed before 0**: a decoder needs access units that are not heard (1024 or 2112
//!   samples of AAC, Opus' pre-skip). They stay, decode time begins with 0 at the first of them, and an
//!   edit list in the initialisation segment (`media_time` = priming, CMAF 7.5.13) places the
//!   presentation.
//! - **Late beginnings**: `tfdt` starts with the delay.
//!
//! Why this and nothing else: `docs/design/timeline.md` lists what the players do with each way.

use reelway_media::{Kind, SECOND, Samples, SamplesError, TimedSample, Track, nanos_to_ticks};

/// Sound that lies further than this before 0 is not for priming and is left out: no decoder
/// needs more than a few access units (Opus asks for 80 ms, RFC 7845 4.6; HE-AAC has at most
/// 5186 samples, 118 ms at 44.1 kHz).
const MAX_PRIMING: i64 = SECOND / 4;

/// The constants that turn a track's media times into a fragment's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// First sample that is served.
    pub first: u32,
    /// Its decode time on the media timeline, in ticks.
    pub first_dts: i64,
    /// Ticks from a media decode time to `tfdt`.
    pub decode_shift: i64,
    /// Ticks from a composition offset of the film to one of the fragment.
    pub composition_shift: i64,
    /// `media_time` of the edit list in ticks; 0: there is none.
    pub priming: i64,
}

impl Timeline {
    /// The timeline of `track`, the `index`th of its title. `None`: it has no sample to serve.
    pub(crate) fn of(
        track: &Track,
        index: usize,
        samples: &dyn Samples,
    ) -> Result<Option<Timeline>, SamplesError> {
        let Some((first, first_dts, cts)) = first_sample(track, index, samples)? else {
            return Ok(None);
        };
        let presented = first_dts + i64::from(cts) + track.shift;
        let tfdt = presented.max(0);
        let decode_shift = tfdt - first_dts;
        let priming = match track.kind {
            Kind::Audio => (-presented).max(0),
            Kind::Video => 0,
        };
        Ok(Some(Timeline {
            first,
            first_dts,
            decode_shift,
            composition_shift: track.shift + priming - decode_shift,
            priming,
        }))
    }

    /// `tfdt` of a sample with media decode time `dts`, in ticks.
    pub(crate) fn tfdt(&self, dts: i64) -> u64 {
        // Decode times never run backwards from `first_dts`, which maps to 0 or later.
        (dts + self.decode_shift).max(0) as u64
    }

    /// `trun`'s composition offset for one of the film, in ticks.
    pub(crate) fn offset(&self, cts: i32) -> i32 {
        let offset = i64::from(cts) + self.composition_shift;
        offset.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
    }
}

/// Number, decode time and composition offset of the first sample that is served.
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
    if track.groups.is_empty() {
        return Ok(None);
    }
    let read = track.read_group(index, group, samples)?;
    let presented = |s: &TimedSample| track.presentation(s.dts, s.sample.cts);
    let place = match track.kind {
        // Groups of intra-only pictures hold many sync samples.
        Kind::Video => read
            .iter()
            .rposition(|s| s.sample.sync && presented(s) <= 0)
            .or_else(|| read.iter().position(|s| s.sample.sync))
            .unwrap_or(0),
        // Priming may begin in the group's last sample and go on in the next group.
        Kind::Audio => read
            .iter()
            .position(|s| presented(s) >= -MAX_PRIMING)
            .unwrap_or(read.len().saturating_sub(1)),
    };
    let number = track.groups[group].first + place as u32;
    Ok(read.get(place).map(|s| (number, s.dts, s.sample.cts)))
}
