//! Conversion of RTP timestamps, which wrap, to the film's time. With 90,000 ticks per second they
//! wrap after thirteen hours (RFC 3550 section 5.1).

/// A stream's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MediaClock {
    /// Ticks per second.
    rate: u32,
    /// RTP timestamp of the place `from`; that of the first packet if the server did not announce
    /// one.
    rtp_from: Option<u32>,
    /// Start of the play in the film, in nanoseconds.
    from: i64,
    /// The newest packet's ticks since `rtp_from`; timestamps are assumed to be near it.
    newest: i64,
}

impl MediaClock {
    /// Creates a clock of `rate` ticks per second.
    pub fn new(rate: u32) -> MediaClock {
        MediaClock {
            rate: rate.max(1),
            rtp_from: None,
            from: 0,
            newest: 0,
        }
    }

    /// Begins a play at the film's time `from` (ns), with this timestamp if the server announced
    /// one.
    pub fn begin(&mut self, rtp_from: Option<u32>, from: i64) {
        (self.rtp_from, self.from, self.newest) = (rtp_from, from, 0);
    }

    /// Returns the start of the play in the film, in nanoseconds.
    pub fn from(&self) -> i64 {
        self.from
    }

    /// Returns the film's time of the newest packet in nanoseconds.
    pub fn newest(&self) -> i64 {
        self.time(self.newest)
    }

    /// Converts a timestamp to the film's time in nanoseconds.
    pub fn media(&self, rtp_time: u32) -> i64 {
        self.time(self.ticks(rtp_time))
    }

    /// Records the arrival of a packet with this timestamp.
    pub fn came(&mut self, rtp_time: u32) {
        self.rtp_from.get_or_insert(rtp_time);
        self.newest = self.ticks(rtp_time);
    }

    fn ticks(&self, rtp_time: u32) -> i64 {
        let newest = self.rtp_from.unwrap_or(0).wrapping_add(self.newest as u32);
        self.newest + i64::from(rtp_time.wrapping_sub(newest) as i32)
    }

    fn time(&self, ticks: i64) -> i64 {
        const SECOND: i64 = 1_000_000_000;
        let rate = i64::from(self.rate);
        let (seconds, rest) = (ticks.div_euclid(rate), ticks.rem_euclid(rate));
        self.from + seconds * SECOND + rest * SECOND / rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    #[test]
    fn the_films_time_goes_on_where_timestamps_wrap() {
        let mut clock = MediaClock::new(90_000);
        clock.begin(Some(4_000_000_000), HOUR);
        for second in 0..100_000_i64 {
            let rtp_time = (4_000_000_000 + second * 90_000) as u32;
            assert_eq!(clock.media(rtp_time), HOUR + second * 1_000_000_000);
            clock.came(rtp_time);
            assert_eq!(clock.media(rtp_time), clock.newest());
            let before = rtp_time.wrapping_sub(45_000);
            assert_eq!(clock.media(before), clock.newest() - 500_000_000);
        }
    }

    #[test]
    fn a_play_begins_with_its_first_packet_where_the_server_does_not_tell() {
        let mut clock = MediaClock::new(1000);
        clock.begin(None, HOUR);
        clock.came(77);
        assert_eq!(clock.newest(), HOUR);
        assert_eq!(clock.media(78), HOUR + 1_000_000);
    }
}
