//! Moments: nanoseconds with a type for each clock, so that monotonic and real time
//! are never confused.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;

/// Returns a `Duration` in nanoseconds, at most 584 years.
#[inline]
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A moment of `CLOCK_MONOTONIC`, in nanoseconds since an arbitrary zero (Linux: since the boot,
/// excluding time suspended). Arithmetic saturates instead of wrapping: a deadline beyond 584 years
/// is never reached, and a time before zero is zero.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Monotonic(u64);

/// A moment of `CLOCK_REALTIME`, in nanoseconds since 1970-01-01 00:00 UTC, without leap seconds
/// (POSIX). Times before 1970 are zero. Arithmetic saturates.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Real(u64);

/// A moment of `CLOCK_BOOTTIME`, in nanoseconds since the boot, including time suspended.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Boot(u64);

macro_rules! moment {
    ($name:ident) => {
        impl $name {
            /// The clock's zero.
            pub const ZERO: $name = $name(0);
            /// Later than every real moment: a deadline that is never reached.
            pub const MAX: $name = $name(u64::MAX);

            /// Returns the moment `nanos` nanoseconds after the clock's zero.
            #[inline]
            pub const fn from_nanos(nanos: u64) -> $name {
                $name(nanos)
            }

            /// Returns the nanoseconds since the clock's zero.
            #[inline]
            pub const fn nanos(self) -> u64 {
                self.0
            }

            /// Returns how long after `earlier` this is; zero if it is not later.
            #[inline]
            pub const fn since(self, earlier: $name) -> Duration {
                Duration::from_nanos(self.0.saturating_sub(earlier.0))
            }

            /// Returns the nanoseconds from `other` to this moment: negative if this is
            /// the earlier one.
            #[inline]
            pub const fn offset_from(self, other: $name) -> i64 {
                self.0.wrapping_sub(other.0) as i64
            }

            /// Returns this moment moved by `nanos` nanoseconds, later or earlier.
            #[inline]
            pub const fn offset(self, nanos: i64) -> $name {
                $name(self.0.saturating_add_signed(nanos))
            }
        }

        impl Add<Duration> for $name {
            type Output = $name;
            #[inline]
            fn add(self, duration: Duration) -> $name {
                $name(self.0.saturating_add(nanos(duration)))
            }
        }

        impl AddAssign<Duration> for $name {
            #[inline]
            fn add_assign(&mut self, duration: Duration) {
                *self = *self + duration;
            }
        }

        impl Sub<Duration> for $name {
            type Output = $name;
            #[inline]
            fn sub(self, duration: Duration) -> $name {
                $name(self.0.saturating_sub(nanos(duration)))
            }
        }

        impl Sub for $name {
            type Output = Duration;
            /// Like [`Self::since`]: zero instead of negative.
            #[inline]
            fn sub(self, earlier: $name) -> Duration {
                self.since(earlier)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    concat!(stringify!($name), "({}.{:09} s)"),
                    self.0 / SECOND,
                    self.0 % SECOND
                )
            }
        }
    };
}

moment!(Monotonic);
moment!(Real);
moment!(Boot);

/// Seconds from 1900 (the zero of NTP) to 1970 (RFC 5905, section 6).
const NTP_TO_UNIX: u64 = 2_208_988_800;

impl Real {
    /// Returns the NTP timestamp of 32.32 bits (RFC 5905, section 6; RTCP sender reports, RFC 3550,
    /// section 4). Seconds wrap at the end of the NTP era in 2036, as the format prescribes.
    pub const fn ntp(self) -> u64 {
        let seconds = (self.0 / SECOND).wrapping_add(NTP_TO_UNIX);
        // Rounded up, so that a round trip through `from_ntp` gives the same nanosecond.
        let fraction = (((self.0 % SECOND) << 32).div_ceil(SECOND)) & 0xffff_ffff;
        (seconds << 32) | fraction
    }

    /// Returns the moment of an NTP timestamp, assumed to be between 1970 and 2106: seconds below
    /// those of 1970 belong to the era that begins in 2036.
    pub const fn from_ntp(ntp: u64) -> Real {
        let seconds = ntp >> 32;
        let seconds = if seconds >= NTP_TO_UNIX {
            seconds - NTP_TO_UNIX
        } else {
            seconds + (1 << 32) - NTP_TO_UNIX
        };
        Real(seconds * SECOND + (((ntp & 0xffff_ffff) * SECOND) >> 32))
    }

    /// Returns whole seconds since 1970.
    #[inline]
    pub const fn seconds(self) -> u64 {
        self.0 / SECOND
    }

    /// Returns the standard library's type, for file times and HTTP dates.
    pub fn system_time(self) -> std::time::SystemTime {
        std::time::UNIX_EPOCH + Duration::from_nanos(self.0)
    }
}

/// RFC 3339 in UTC, to the second: `2026-11-21T08:42:57Z`.
impl fmt::Display for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Days to civil date: Howard Hinnant's algorithm, in eras of 400 years from 0000-03-01.
        let (days, time) = (self.seconds() / 86_400 + 719_468, self.seconds() % 86_400);
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, year) = if month < 10 {
            (month + 3, year)
        } else {
            (month - 9, year + 1)
        };
        let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
        let year = year + era * 400;
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

impl From<std::time::SystemTime> for Real {
    fn from(time: std::time::SystemTime) -> Real {
        Real(time.duration_since(std::time::UNIX_EPOCH).map_or(0, nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let one = Monotonic::from_nanos(1);
        assert_eq!(one - Duration::from_secs(1), Monotonic::ZERO);
        assert_eq!(Monotonic::MAX + Duration::MAX, Monotonic::MAX);
        assert_eq!(Monotonic::ZERO.since(one), Duration::ZERO);
        assert_eq!(Monotonic::ZERO.offset_from(one), -1);
        assert_eq!(Monotonic::ZERO.offset(-5), Monotonic::ZERO);
    }

    #[test]
    fn dates_are_civil() {
        let shown = |seconds: u64| Real::from_nanos(seconds * SECOND).to_string();
        assert_eq!(shown(0), "1970-01-01T00:00:00Z");
        assert_eq!(shown(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(shown(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(shown(1_795_250_577), "2026-11-21T08:42:57Z");
    }

    #[test]
    fn an_ntp_timestamp_comes_back_to_the_same_nanosecond() {
        for nanos in [
            0,
            1,
            999_999_999,
            1_700_000_000_123_456_789,
            2_085_978_496_000_000_000,
        ] {
            let real = Real::from_nanos(nanos);
            assert_eq!(Real::from_ntp(real.ntp()), real, "{nanos}");
        }
    }

    #[test]
    fn ntp_counts_from_1900() {
        assert_eq!(Real::ZERO.ntp(), 2_208_988_800 << 32);
        assert_eq!(Real::from_nanos(500_000_000).ntp() as u32, 1 << 31);
    }
}
