//! Converts dates and times of containers to nanoseconds since 1970 (UTC).

use crate::time::{Nanos, SECOND};

/// Seconds from the beginning of 1904 to the beginning of 1970.
const FROM_1904: i64 = 2_082_844_800;
/// Seconds from the beginning of 1970 to the beginning of 2001.
const TO_2001: i64 = 978_307_200;
/// The number of the first day of 1970 in the modified Julian calendar.
const DAY_OF_1970: i64 = 40_587;

/// Converts seconds since 1970. `None` for its beginning and before: no film has such a date.
fn of_seconds(seconds: i64) -> Option<Nanos> {
    (seconds > 0).then(|| seconds.checked_mul(SECOND)).flatten()
}

/// Converts seconds since 1904 (ISO/IEC 14496-12 8.2.2.3); 0 means that no date is stated.
pub(crate) fn since_1904(seconds: u64) -> Option<Nanos> {
    of_seconds(i64::try_from(seconds).ok()?.checked_sub(FROM_1904)?)
}

/// Converts nanoseconds since 2001 (RFC 9559 section 5.1.2.11).
pub(crate) fn since_2001(nanos: i64) -> Option<Nanos> {
    let nanos = nanos.checked_add(TO_2001 * SECOND)?;
    (nanos > 0).then_some(nanos)
}

/// Converts a day's number in the modified Julian calendar, and hours, minutes and seconds as
/// decimal digits (ETSI EN 300 468 annex C).
pub(crate) fn of_dvb([day_high, day_low, hours, minutes, seconds]: [u8; 5]) -> Option<Nanos> {
    let digits = |byte: u8, most: u8| {
        let (tens, ones) = (byte >> 4, byte & 15);
        let number = tens * 10 + ones;
        (tens < 10 && ones < 10 && number < most).then_some(i64::from(number))
    };
    let (hours, minutes, seconds) = (
        digits(hours, 24)?,
        digits(minutes, 60)?,
        digits(seconds, 60)?,
    );
    let day = i64::from(u16::from_be_bytes([day_high, day_low])) - DAY_OF_1970;
    of_seconds(((day * 24 + hours) * 60 + minutes) * 60 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_moment_in_each_form() {
        // 13 October 1993, 12:45:00: the example of ETSI EN 300 468.
        let moment = 750_516_300 * SECOND;
        assert_eq!(of_dvb([0xc0, 0x79, 0x12, 0x45, 0x00]), Some(moment));
        assert_eq!(since_1904(750_516_300 + 2_082_844_800), Some(moment));
        assert_eq!(since_2001(moment - 978_307_200 * SECOND), Some(moment));
    }

    #[test]
    fn what_is_no_date_states_nothing() {
        assert_eq!(since_1904(0), None);
        assert_eq!(since_1904(u64::MAX), None);
        assert_eq!(since_2001(i64::MIN), None);
        assert_eq!(since_2001(i64::MAX), None);
        for digits in [[0x24, 0, 0], [0, 0x60, 0], [0, 0, 0x0a], [0xff, 0xff, 0xff]] {
            assert_eq!(of_dvb([0xc0, 0x79, digits[0], digits[1], digits[2]]), None);
        }
        assert_eq!(of_dvb([0; 5]), None);
    }
}
