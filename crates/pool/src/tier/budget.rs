//! Bytes that may be written in a day, so that a disk of flash lasts: counted by hours, remembered over restarts.

/// Hours that count: the last 24 and the one that is not over.
pub const HOURS: usize = 25;

/// An hour since 1970, and bytes written in it.
pub type Hours = [(u64, u64); HOURS];

/// What was written in the last hours.
#[derive(Clone, Debug)]
pub struct Budget {
    hours: Hours,
    daily: u64,
}

impl Budget {
    /// At most `daily` bytes in any 24 hours, of which these were written already.
    pub fn new(daily: u64, hours: Hours) -> Budget {
        Budget { hours, daily }
    }

    /// Takes `bytes` in this hour, if they are left.
    pub fn take(&mut self, hour: u64, bytes: u64) -> bool {
        let first = (hour + 1).saturating_sub(HOURS as u64);
        let mut spent = 0u64;
        for (of, written) in &mut self.hours {
            // A clock that was set back: what was written then counts as of now.
            *of = (*of).min(hour);
            if *of >= first {
                spent = spent.saturating_add(*written);
            }
        }
        if spent.saturating_add(bytes) > self.daily {
            return false;
        }
        let place = self.hours.iter().position(|(of, _)| *of == hour);
        let oldest = || (0..HOURS).min_by_key(|place| self.hours[*place].0);
        if let Some(place) = place.or_else(oldest) {
            let (of, written) = &mut self.hours[place];
            if *of != hour {
                (*of, *written) = (hour, 0);
            }
            *written = written.saturating_add(bytes);
        }
        true
    }

    /// To be remembered.
    pub fn hours(&self) -> &Hours {
        &self.hours
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_no_twenty_four_hours_more_is_written_than_a_day_s_bytes() {
        let mut budget = Budget::new(100, [(0, 0); HOURS]);
        let mut written = Vec::new();
        for hour in 1000..1200 {
            while budget.take(hour, 7) {
                written.push((hour, 7));
            }
        }
        for first in 1000..1200 {
            let day = written
                .iter()
                .filter(|(hour, _)| (first..first + 24).contains(hour));
            let sum: u64 = day.map(|(_, bytes)| bytes).sum();
            assert!(sum <= 100, "{sum} in the day from {first} on");
        }
        assert!(
            written.iter().map(|(_, bytes)| bytes).sum::<u64>() > 700,
            "and it goes on"
        );
    }

    #[test]
    fn a_restart_or_a_clock_set_back_gives_no_second_budget() {
        let mut budget = Budget::new(100, [(0, 0); HOURS]);
        assert!(budget.take(1000, 60));
        let mut again = Budget::new(100, *budget.hours());
        assert!(!again.take(1001, 60) && !again.take(900, 60));
        assert!(again.take(900, 40));
        assert!(again.take(926, 100), "a day later");
    }
}
