//! Limits the bytes written per day, so that flash storage lasts. They are counted by the hour and
//! saved across restarts.

/// Hours that count: the last 24 and the current one.
pub const HOURS: usize = 25;

/// Hours since 1970, each with the bytes written in it.
pub type Hours = [(u64, u64); HOURS];

/// The bytes written in the last hours.
#[derive(Clone, Debug)]
pub struct Budget {
    hours: Hours,
    daily: u64,
}

impl Budget {
    /// Creates a budget of `daily` bytes in any 24 hours, with what was written in earlier `hours`.
    pub fn new(daily: u64, hours: Hours) -> Budget {
        Budget { hours, daily }
    }

    /// Spends `bytes` in this hour, if they are available. Returns whether they are.
    pub fn take(&mut self, hour: u64, bytes: u64) -> bool {
        let first = (hour + 1).saturating_sub(HOURS as u64);
        let mut spent = 0u64;
        for (of, written) in &mut self.hours {
            // If the clock was set back, later hours count as the current one.
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

    /// Returns the hours, to be saved.
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
