//! What each sample of a group of pictures takes over RTP.

use reelway_media::{GroupPackets, TimedSample};
use reelway_rtp::PayloadOptions;

/// What is sent for a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub bytes: u64,
    pub packets: u64,
}

/// What is sent for each of a group's samples, in order. If the group's packets have been counted,
/// they are divided among its samples; if not, each sample is estimated from its size.
pub(super) fn shares(
    samples: &[TimedSample],
    payload: PayloadOptions,
    counted: Option<GroupPackets>,
) -> impl Iterator<Item = Share> {
    let counted = counted.filter(|counted| counted.packets > 0);
    let reckoned = samples.iter().map(move |sample| reckoned(sample, payload));
    let all = reckoned.clone().fold(Share::default(), Share::and);
    let (mut so_far, mut given) = (Share::default(), Share::default());
    reckoned.map(move |share| {
        let Some(counted) = counted else {
            return share;
        };
        so_far = so_far.and(share);
        let by_now = Share {
            bytes: part(counted.bytes, so_far.bytes, all.bytes),
            packets: part(counted.packets, so_far.packets, all.packets),
        };
        let share = Share {
            bytes: by_now.bytes - given.bytes,
            packets: by_now.packets - given.packets,
        };
        given = by_now;
        share
    })
}

impl Share {
    fn and(self, more: Share) -> Share {
        Share {
            bytes: self.bytes + more.bytes,
            packets: self.packets + more.packets,
        }
    }
}

fn part(counted: u32, so_far: u64, all: u64) -> u64 {
    (u128::from(counted) * u128::from(so_far) / u128::from(all.max(1))) as u64
}

/// Estimates a picture as a single NAL unit, with one packet more for a sync sample (parameter
/// sets).
fn reckoned(sample: &TimedSample, payload: PayloadOptions) -> Share {
    // A fragment has a header of two or three bytes (RFC 6184 section 5.8, RFC 7798 section 4.4.3).
    const FRAGMENT: u64 = 3;
    let room = (payload.max_payload as u64).saturating_sub(FRAGMENT).max(1);
    let bytes = u64::from(sample.sample.size);
    Share {
        bytes,
        packets: bytes.div_ceil(room) + u64::from(sample.sample.sync),
    }
}

#[cfg(test)]
mod tests {
    use reelway_media::Sample;

    use super::*;

    fn samples(sizes: &[u32]) -> Vec<TimedSample> {
        let each = sizes.iter().enumerate().map(|(number, size)| TimedSample {
            sample: Sample {
                offset: 0,
                size: *size,
                duration: 1,
                cts: 0,
                sync: number == 0,
            },
            dts: number as i64,
        });
        each.collect()
    }

    const PAYLOAD: PayloadOptions = PayloadOptions { max_payload: 1003 };

    fn of(sizes: &[u32], counted: Option<GroupPackets>) -> Vec<(u64, u64)> {
        let samples = samples(sizes);
        let shares = shares(&samples, PAYLOAD, counted);
        shares.map(|share| (share.bytes, share.packets)).collect()
    }

    #[test]
    fn samples_are_reckoned_from_their_sizes_where_nothing_was_counted() {
        let reckoned = [(5000, 6), (1000, 1), (1001, 2)];
        assert_eq!(of(&[5000, 1000, 1001], None), reckoned);
        // A group that cannot be planned.
        assert_eq!(
            of(&[5000, 1000, 1001], Some(GroupPackets::default())),
            reckoned
        );
    }

    #[test]
    fn what_was_counted_is_divided_without_a_rest() {
        let counted = GroupPackets {
            packets: 25,
            bytes: 7100,
            sync_packets: 16,
            sync_bytes: 5070,
        };
        let shares = of(&[5000, 1000, 1001], Some(counted));
        let sum = shares
            .iter()
            .fold((0, 0), |sum, share| (sum.0 + share.0, sum.1 + share.1));
        assert_eq!(sum, (7100, 25));
        assert_eq!(shares[0], (7100 * 5000 / 7001, 25 * 6 / 9));
    }
}
