//! The session description of a film (RFC 4566/8866, and RFC 2326 appendix C for RTSP).

use std::fmt::Write;
use std::net::IpAddr;

use reelway_media::{Nanos, SECOND, Track};

/// How long after its due time a packet can be retransmitted (`rtx-time`, RFC 4588 section 8.6):
/// the most that players buffer.
pub const RTX_TIME: Nanos = 2 * SECOND;

/// A track's part of the session description.
#[derive(Clone, Debug, PartialEq)]
pub struct SdpMedia {
    /// `video` or `audio`.
    pub media: &'static str,
    /// Encoding name, clock rate and channels, as after the payload type in `a=rtpmap`, such as
    /// `H264/90000`.
    pub encoding: String,
    /// Format parameters, as after the payload type in `a=fmtp`; empty if there are none.
    pub fmtp: String,
    /// Rate of the track's busiest second in kbit/s, including headers of RTP, UDP and IP (`b=AS`).
    pub bandwidth_kbps: u32,
    /// Language (`a=lang`).
    pub language: Option<String>,
    /// Width and height of the coded picture in pixels (`a=framesize`).
    pub frame_size: Option<(u16, u16)>,
}

/// RTP profiles, as negotiated between server and client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Without feedback between reports (RFC 3551). Every player supports it, and some ignore
    /// sections with any other profile.
    #[default]
    Avp,
    /// With immediate feedback about losses (RFC 4585).
    Avpf,
}

impl Profile {
    /// Returns the name used in `m=` and `Transport`.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Avp => "RTP/AVP",
            Profile::Avpf => "RTP/AVPF",
        }
    }
}

/// One `m=` section: a track and its parameters in this description.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// The track, from [`crate::Payload::sdp`].
    pub media: &'a SdpMedia,
    /// Payload type that it is sent with: 96 to 127, or the static one of the format.
    pub payload_type: u8,
    /// Its URL relative to the film's, such as `track=1`.
    pub control: &'a str,
    /// Payload type of retransmissions, 96 to 127 (RFC 4588); `None` if there are none.
    pub rtx: Option<u8>,
}

/// The session description of a film.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    /// Identifies the description together with `version` (`o=`).
    pub id: u64,
    /// Increases when the film changes.
    pub version: u64,
    /// The server's address, as the client sees it.
    pub server: IpAddr,
    /// Display name of the film.
    pub name: &'a str,
    /// Name of the software, such as `Reelway 0.1`.
    pub tool: &'a str,
    /// The film's length.
    pub duration: Nanos,
    /// The profile in which its sections are offered.
    pub profile: Profile,
    /// Its tracks.
    pub sections: &'a [Section<'a>],
}

impl Description<'_> {
    /// Returns the description as text with CR LF line ends.
    pub fn to_text(&self) -> String {
        let (family, anywhere) = match self.server {
            IpAddr::V4(_) => ("IP4", "0.0.0.0"),
            IpAddr::V6(_) => ("IP6", "::"),
        };
        let name = one_line(self.name);
        // An empty session name is not allowed (RFC 8866 section 5.3).
        let name = if name.is_empty() { "-" } else { &name };
        let mut out = String::with_capacity(512 + 512 * self.sections.len());
        // Writing to a String does not fail.
        let _ = write!(
            out,
            "v=0\r\no=- {} {} IN {family} {}\r\ns={name}\r\nc=IN {family} {anywhere}\r\nt=0 0\r\n\
             a=tool:{}\r\na=control:*\r\na=range:npt=0-{}\r\n",
            self.id,
            self.version,
            self.server,
            one_line(self.tool),
            npt(self.duration),
        );
        for Section {
            media,
            payload_type,
            control,
            rtx,
        } in self.sections
        {
            let _ = write!(
                out,
                "m={} 0 {} {payload_type}",
                media.media,
                self.profile.name()
            );
            if let Some(rtx) = rtx {
                let _ = write!(out, " {rtx}");
            }
            let _ = write!(
                out,
                "\r\nb=AS:{}\r\na=rtpmap:{payload_type} {}\r\n",
                media.bandwidth_kbps, media.encoding
            );
            if !media.fmtp.is_empty() {
                let _ = write!(out, "a=fmtp:{payload_type} {}\r\n", media.fmtp);
            }
            if let Some((width, height)) = media.frame_size {
                let _ = write!(out, "a=framesize:{payload_type} {width}-{height}\r\n");
            }
            if let Some(language) = &media.language {
                let _ = write!(out, "a=lang:{}\r\n", one_line(language));
            }
            if let Some(rtx) = rtx {
                let clock_rate = media.encoding.split('/').nth(1).unwrap_or("90000");
                let time = RTX_TIME / 1_000_000;
                let _ = write!(
                    out,
                    "a=rtcp-fb:{payload_type} nack\r\na=rtpmap:{rtx} rtx/{clock_rate}\r\n\
                     a=fmtp:{rtx} apt={payload_type};rtx-time={time}\r\n"
                );
            }
            let _ = write!(out, "a=control:{control}\r\n");
        }
        out
    }
}

/// Formats a time as RTSP's `npt-sec`: seconds with as many decimals as needed, rounded to the
/// nearest microsecond.
pub fn npt(at: Nanos) -> String {
    let micros = (at.max(0).saturating_add(500)) / 1000;
    let mut text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    text
}

/// Replaces control characters by spaces, so that text cannot end its line.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect::<String>()
        .trim()
        .to_owned()
}

impl SdpMedia {
    pub(crate) fn of(
        track: &Track,
        media: &'static str,
        encoding: String,
        fmtp: String,
        max_payload: usize,
    ) -> SdpMedia {
        SdpMedia {
            media,
            encoding,
            fmtp,
            bandwidth_kbps: bandwidth_kbps(track, max_payload),
            language: track.language.clone(),
            frame_size: track
                .picture
                .as_ref()
                .map(|picture| (picture.width, picture.height)),
        }
    }
}

/// Size of a packet's headers in bytes: RTP, UDP, IPv6 (RFC 3550 section 6.2 includes them).
const HEADERS: u64 = 12 + 8 + 40;

/// Returns the rate of the track's busiest second, as far as its groups show, in kbit/s.
fn bandwidth_kbps(track: &Track, max_payload: usize) -> u32 {
    let wire = |bytes: u64, samples: u64| {
        let packets = samples + bytes / max_payload as u64;
        bytes + packets * HEADERS
    };
    let kbps = |bytes: u64, nanos: Nanos| {
        let bits = u128::from(bytes) * 8 * SECOND as u128;
        u32::try_from(bits.div_ceil(nanos.max(1) as u128 * 1000)).unwrap_or(u32::MAX)
    };
    let all = reelway_media::ticks_to_nanos(
        i64::try_from(track.duration).unwrap_or(i64::MAX),
        track.timescale,
    );
    let mut most = kbps(wire(track.bytes, u64::from(track.samples)), all.max(SECOND));
    // Windows of whole groups, each as short as possible but at least one second.
    let (mut bytes, mut samples) = (0, 0);
    let mut behind = track.groups.iter().peekable();
    for first in &track.groups {
        let begin = track.decode(first.dts);
        let end = loop {
            match behind.peek() {
                Some(group) if track.decode(group.dts).saturating_sub(begin) >= SECOND => {
                    break track.decode(group.dts);
                }
                Some(group) => {
                    bytes += u64::from(group.bytes);
                    samples += u64::from(group.count);
                    behind.next();
                }
                // The rest is shorter than a second.
                None => return most,
            }
        };
        most = most.max(kbps(wire(bytes, samples), end.saturating_sub(begin)));
        bytes -= u64::from(first.bytes);
        samples -= u64::from(first.count);
    }
    most
}
