//! Fast play, which shows I-frames only and may show fewer of them: if there is no room for all, it
//! goes on below its rate, as in the VODCA paper, instead of being refused.

use std::sync::Arc;

use reelway_demand::Curve;

use crate::capacity::Resource;
use crate::judge::Admission;
use crate::verdict::{Admitted, BookingId, Newcomer, Refused};

/// A way to play: its needs of each resource along its time.
pub type Way = [(Resource, Arc<Curve>)];

impl Admission {
    /// Judges a viewer who plays fast, and books for them. `newcomer` needs what all I-frames take;
    /// each of `fewer` what a part of them takes, the largest part first. They get as many I-frames
    /// as there is room for. Returns which: 0 for all, n for the nth of `fewer`.
    ///
    /// # Errors
    /// There is no room even for the fewest; the error says when there would be.
    pub fn decide_fast(
        &mut self,
        now: u64,
        newcomer: &Newcomer<'_>,
        fewer: &[&Way],
        wait: u32,
    ) -> Result<(usize, Admitted), Refused> {
        let all_but_last = std::iter::once(newcomer.needs).chain(fewer.iter().copied());
        let with = |needs| Newcomer {
            needs,
            ..newcomer.clone()
        };
        for (number, needs) in all_but_last.take(fewer.len()).enumerate() {
            // Only a newcomer who is refused in the end counts as refused.
            if self.what_if(now, &with(needs), 0).is_ok() {
                let admitted = self.decide(now, &with(needs), wait)?;
                return Ok((number, admitted));
            }
        }
        let fewest = fewer.last().copied().unwrap_or(newcomer.needs);
        let admitted = self.decide(now, &with(fewest), wait)?;
        Ok((fewer.len(), admitted))
    }

    /// Books for an admitted viewer who begins to play fast, or could show more I-frames than now:
    /// the first of `ways`, the most I-frames first, for which there is room from now on. `None` if
    /// there is room for none; then nothing changes.
    pub fn rebook_fast(
        &mut self,
        now: u64,
        id: BookingId,
        ways: &[&Way],
        range: (usize, usize),
    ) -> Option<usize> {
        let fits = |needs: &&Way| self.rebook(now, id, needs, range, true).is_ok();
        ways.iter().position(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::Capacity;
    use crate::crowd::Limits;
    use crate::policy::Policy;

    const LINK: Resource = Resource::Network(0);

    /// A minute that needs `rate` per second.
    fn needs(rate: u32) -> Vec<(Resource, Arc<Curve>)> {
        let curve = Curve::new(vec![rate; 60]).flattened(rate);
        vec![(LINK, Arc::new(curve))]
    }

    fn judge(policy: Policy) -> Admission {
        let capacity = Capacity::unlimited().with(LINK, 100, 1000);
        Admission::new(policy, capacity, Limits::default())
    }

    fn newcomer(needs: &Way, fast: bool) -> Newcomer<'_> {
        Newcomer {
            title: "film",
            address: [10, 0, 0, 1].into(),
            user: None,
            class: 0,
            fast,
            fetches: false,
            needs,
            later: None,
            from: 0,
            to: usize::MAX,
        }
    }

    #[test]
    fn a_viewer_who_plays_fast_where_it_is_nearly_full_is_shown_fewer_i_frames_and_nobody_suffers()
    {
        let mut judge = judge(Policy::Exact);
        let normal = needs(16);
        let (all, half, quarter) = (needs(52), needs(28), needs(12));
        let fewer: [&Way; 2] = [&half, &quarter];
        let come = |judge: &mut Admission| judge.decide_fast(0, &newcomer(&all, true), &fewer, 0);
        let first = come(&mut judge).unwrap();
        assert_eq!(first.0, 0, "all of them fit an idle link");
        let viewer = judge.decide(0, &newcomer(&normal, false), 0).unwrap();
        assert_eq!(judge.load(LINK, 1), 68);
        let second = come(&mut judge).unwrap();
        assert_eq!((second.0, judge.load(LINK, 1)), (1, 96), "half of them");
        let refused = come(&mut judge).unwrap_err();
        assert_eq!((judge.refused(), judge.load(LINK, 1)), (1, 96));
        assert_eq!(refused.retry_after.as_secs(), 15, "when the films end");
        // When others leave, the viewer gets more I-frames, and all of them when the last has left.
        judge.end(0, viewer.id);
        let ways: [&Way; 3] = [&all, &half, &quarter];
        assert_eq!(judge.rebook_fast(0, second.1.id, &ways, (0, 60)), Some(1));
        judge.end(0, first.1.id);
        assert_eq!(judge.rebook_fast(0, second.1.id, &ways, (0, 60)), Some(0));
        assert_eq!(judge.load(LINK, 1), 52);
    }

    #[test]
    fn a_viewer_for_whom_not_even_the_fewest_fit_goes_on_as_before() {
        let mut judge = judge(Policy::Exact);
        let normal = needs(48);
        let one = judge.decide(0, &newcomer(&normal, false), 0).unwrap();
        judge.decide(0, &newcomer(&normal, false), 0).unwrap();
        let (all, few) = (needs(80), needs(56));
        assert_eq!(judge.rebook_fast(0, one.id, &[&all, &few], (0, 60)), None);
        assert_eq!(judge.load(LINK, 1), 96, "what was booked stays");
        assert_eq!(judge.refused(), 0);
    }

    #[test]
    fn the_papers_rule_lets_a_fifth_play_fast_however_few_i_frames_they_want() {
        let mut judge = judge(Policy::Vodca);
        let (normal, fast) = (needs(1), needs(1));
        for _ in 0..4 {
            judge.decide(0, &newcomer(&normal, false), 0).unwrap();
        }
        let mut come = || judge.decide_fast(0, &newcomer(&fast, true), &[&fast], 0);
        assert_eq!(come().unwrap().0, 0);
        assert!(
            come()
                .unwrap_err()
                .reason
                .to_string()
                .contains("one viewer in five")
        );
    }
}
