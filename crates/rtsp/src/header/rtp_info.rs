//! `RTP-Info` (RFC 2326 section 12.33).

/// The entry of one track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The track's URL as the client knows it.
    pub url: String,
    /// Sequence number of the first packet.
    pub seq: u16,
    /// RTP timestamp of the range's start.
    pub rtp_time: u32,
}

/// Formats the header's value. Entries follow the order of the description, because live555's
/// clients rely on it rather than on the URL. There are no spaces, for clients that do not trim.
pub fn format(entries: &[Entry]) -> String {
    let entries = entries
        .iter()
        .map(|Entry { url, seq, rtp_time }| format!("url={url};seq={seq};rtptime={rtp_time}"));
    entries.collect::<Vec<_>>().join(",")
}

/// Returns whether the header can contain a URL unchanged: it must not contain separators of
/// entries.
pub fn can_carry(url: &str) -> bool {
    url.bytes()
        .all(|byte| (b'!'..=b'~').contains(&byte) && !b",;\"".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_entry_a_track_without_spaces() {
        let entry = |url: &str, seq, rtp_time| Entry {
            url: url.to_owned(),
            seq,
            rtp_time,
        };
        let value = format(&[
            entry("rtsp://h/x/track=1", 65535, 0),
            entry("rtsp://h/x/track=2", 0, 4_294_967_295),
        ]);
        assert_eq!(
            value,
            "url=rtsp://h/x/track=1;seq=65535;rtptime=0,url=rtsp://h/x/track=2;seq=0;rtptime=4294967295"
        );
    }

    #[test]
    fn separators_cannot_be_carried() {
        assert!(can_carry("rtsp://h/x/track=1"));
        assert!(!can_carry("rtsp://h/a,b/track=1"));
        assert!(!can_carry("rtsp://h/a b"));
        assert!(!can_carry("rtsp://h/ü"));
    }
}
