//! The server's descriptions of a film: SDP (RFC 4566), `Range`, `RTP-Info`, `Transport` (RFC
//! 2326).

use crate::depacketise::Format;
use crate::trouble::Trouble;

/// One `m=` section.
#[derive(Debug)]
pub struct Media {
    pub is_video: bool,
    /// Absolute URL of the track.
    pub control: String,
    pub clock_rate: u32,
    pub format: Format,
    /// Its encoding name, in capitals.
    pub encoding: String,
    /// Its format parameters (`a=fmtp`) by name.
    pub parameters: Vec<(String, String)>,
    /// The payload type of retransmissions (RFC 4588), if the server offers them.
    pub rtx: Option<u8>,
}

impl Media {
    /// Returns a parameter's value.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut all = self.parameters.iter();
        let found = all.find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }
}

/// Parses the media sections of a session description; relative control URLs are resolved against
/// `base`.
pub fn parse(sdp: &str, base: &str) -> Result<Vec<Media>, Trouble> {
    let mut all: Vec<Media> = Vec::new();
    // The section's own payload type, the first one; others may be described with it.
    let mut own = "";
    for line in sdp.lines() {
        if let Some(media) = line.strip_prefix("m=") {
            let is_video = media.starts_with("video");
            own = media.split_whitespace().nth(3).unwrap_or_default();
            all.push(Media {
                is_video,
                control: base.to_owned(),
                clock_rate: 90_000,
                format: Format::Whole,
                encoding: String::new(),
                parameters: Vec::new(),
                rtx: None,
            });
        }
        let Some(media) = all.last_mut() else {
            continue;
        };
        if let Some(control) = line.strip_prefix("a=control:") {
            media.control = absolute(base, control);
        } else if let Some((payload_type, parameters)) = line
            .strip_prefix("a=fmtp:")
            .and_then(|line| line.split_once(' '))
        {
            let parameters = parameters.split(';').filter_map(|part| {
                let (name, value) = part.trim().split_once('=')?;
                Some((name.to_owned(), value.to_owned()))
            });
            let parameters: Vec<(String, String)> = parameters.collect();
            if payload_type == own {
                media.parameters = parameters;
            } else if parameters
                .iter()
                .any(|(name, value)| name == "apt" && value == own)
            {
                media.rtx = payload_type.parse().ok();
            }
        } else if let Some((_, encoding)) = line
            .strip_prefix("a=rtpmap:")
            .and_then(|map| map.split_once(' '))
            .filter(|(payload_type, _)| *payload_type == own)
        {
            let mut parts = encoding.split('/');
            let name = parts.next().unwrap_or_default().to_ascii_uppercase();
            media.clock_rate = parts
                .next()
                .and_then(|rate| rate.parse().ok())
                .unwrap_or(90_000);
            media.encoding.clone_from(&name);
            media.format = match name.as_str() {
                "H264" => Format::H264,
                "H265" => Format::H265,
                "MPEG4-GENERIC" => Format::AacHbr { unit_ticks: 1024 },
                _ => Format::Whole,
            };
        }
    }
    if all.is_empty() {
        return Err(Trouble::Protocol(
            "a session description without media".into(),
        ));
    }
    Ok(all)
}

fn absolute(base: &str, control: &str) -> String {
    if control.contains("://") || control == "*" {
        return if control == "*" {
            base.to_owned()
        } else {
            control.to_owned()
        };
    }
    format!("{}/{control}", base.trim_end_matches('/'))
}

/// Returns the start of an answer's `Range: npt=` in nanoseconds.
pub fn npt_start(range: &str) -> Option<i64> {
    let start = range.strip_prefix("npt=")?.split('-').next()?;
    let seconds = start.split(':').try_fold(0.0, |sum, part| {
        Some(sum * 60.0 + part.parse::<f64>().ok()?)
    })?;
    Some((seconds * 1e9).round() as i64)
}

/// Returns the end of a session description's `a=range:npt=` in nanoseconds.
pub fn end(sdp: &str) -> Option<i64> {
    let range = sdp.lines().find_map(|line| line.strip_prefix("a=range:"))?;
    let end = range.trim().strip_prefix("npt=")?.split_once('-')?.1;
    npt_start(&format!("npt={end}")).filter(|end| *end > 0)
}

/// Returns the sequence number and timestamp of a track in `RTP-Info`.
pub fn rtp_info(info: &str, control: &str) -> (Option<u16>, Option<u32>) {
    let field = |entry: &str, name: &str| {
        let value = entry
            .split(';')
            .find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
        value.map(str::to_owned)
    };
    let tail = |url: &str| {
        url.trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let entry = info
        .split(',')
        .find(|entry| field(entry, "url").is_some_and(|url| tail(&url) == tail(control)));
    let number = |name| entry.and_then(|entry| field(entry, name));
    (
        number("seq").and_then(|seq| seq.parse().ok()),
        number("rtptime").and_then(|time| time.parse().ok()),
    )
}

/// Returns a parameter of an answer's `Transport`.
pub fn transport_field<'a>(transport: &'a str, name: &str) -> Option<&'a str> {
    let mut parts = transport.split(';');
    parts.find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_the_rfc_has_them() {
        assert_eq!(npt_start("npt=12.500-60.000"), Some(12_500_000_000));
        assert_eq!(npt_start("npt=0:01:02.5-"), Some(62_500_000_000));
        let info =
            "url=rtsp://h/a/track=1;seq=7;rtptime=9, url=rtsp://h/a/track=2;seq=8;rtptime=10";
        assert_eq!(rtp_info(info, "rtsp://h/a/track=2"), (Some(8), Some(10)));
        assert_eq!(rtp_info(info, "rtsp://h/a/track=3"), (None, None));
        assert_eq!(
            transport_field(
                "RTP/AVP;unicast;client_port=4-5;server_port=8000-8001",
                "server_port"
            ),
            Some("8000-8001")
        );
        assert_eq!(end("v=0\r\na=range:npt=0-12.5\r\n"), Some(12_500_000_000));
        assert_eq!(end("a=range:npt=0-\r\n"), None);
    }

    #[test]
    fn a_section_is_what_its_first_payload_type_is() {
        let sdp = "m=video 0 RTP/AVP 96 112\r\na=rtpmap:112 rtx/1000\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1; sprop-parameter-sets=Zw==,aA==\r\na=rtpmap:112 rtx/1000\r\na=fmtp:112 apt=96;rtx-time=2000\r\n";
        let media = parse(sdp, "rtsp://h/a/").unwrap();
        assert_eq!(
            (media[0].clock_rate, media[0].format),
            (90_000, Format::H264)
        );
        let sets = media[0].parameter("sprop-parameter-sets");
        assert_eq!((media[0].rtx, sets), (Some(112), Some("Zw==,aA==")));
    }

    #[test]
    fn relative_controls_are_relative_to_the_base() {
        let sdp = "v=0\r\na=control:*\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:track=1\r\n";
        let media = parse(sdp, "rtsp://h/a/").unwrap();
        assert_eq!(media[0].control, "rtsp://h/a/track=1");
        assert_eq!(
            (media[0].clock_rate, media[0].format),
            (90_000, Format::H264)
        );
        assert!(parse("v=0\r\n", "rtsp://h/a").is_err());
    }
}
