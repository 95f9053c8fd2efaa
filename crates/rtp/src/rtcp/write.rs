//! Writes RTCP of senders.

use super::numbers::{CNAME, kind};

/// A sender report without reception reports (RFC 3550 section 6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderReport {
    /// The sender's SSRC.
    pub ssrc: u32,
    /// Wall clock as an NTP timestamp: seconds since 1900 in the upper half, fractions in the lower
    /// half.
    pub ntp: u64,
    /// The same moment in the RTP timestamps of this SSRC.
    pub rtp_time: u32,
    /// RTP packets sent, wrapping.
    pub packets: u32,
    /// Payload bytes sent, without RTP headers, wrapping.
    pub bytes: u32,
}

/// Appends a compound packet to `out`: the report, SDES with `cname`, and BYE if the stream ends
/// here. `bye` is the reason (RFC 3550 section 6.6), or empty for none. Both texts are cut to 255
/// bytes.
pub fn write(report: &SenderReport, cname: &str, bye: Option<&str>, out: &mut Vec<u8>) {
    let SenderReport {
        ssrc,
        ntp,
        rtp_time,
        packets,
        bytes,
    } = *report;
    header(out, 0, kind::SR, 6);
    out.extend_from_slice(&ssrc.to_be_bytes());
    out.extend_from_slice(&ntp.to_be_bytes());
    for word in [rtp_time, packets, bytes] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    let cname = short(cname);
    // SSRC, item type, length and text, then at least one zero, padded to whole words.
    let words = (4 + 2 + cname.len()) / 4 + 1;
    header(out, 1, kind::SDES, words as u16);
    let begin = out.len();
    out.extend_from_slice(&ssrc.to_be_bytes());
    out.extend_from_slice(&[CNAME, cname.len() as u8]);
    out.extend_from_slice(cname);
    out.resize(begin + words * 4, 0);
    let Some(reason) = bye.map(short) else {
        return;
    };
    // Length and text, padded to whole words.
    let words = match reason.len() {
        0 => 0,
        len => (1 + len).div_ceil(4),
    };
    header(out, 1, kind::BYE, 1 + words as u16);
    out.extend_from_slice(&ssrc.to_be_bytes());
    let begin = out.len();
    if !reason.is_empty() {
        out.push(reason.len() as u8);
        out.extend_from_slice(reason);
    }
    out.resize(begin + words * 4, 0);
}

/// Returns as many whole characters of a text as fit in the 255 bytes of a one-byte length.
fn short(text: &str) -> &[u8] {
    let mut end = text.len().min(255);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text.as_bytes()[..end]
}

/// Writes the common header; `words` is the number of 32-bit words that follow it.
fn header(out: &mut Vec<u8>, count: u8, kind: u8, words: u16) {
    out.extend_from_slice(&[(2 << 6) | count, kind]);
    out.extend_from_slice(&words.to_be_bytes());
}
