//! HLS playlists of an unchanged transport stream. All its files are in `TITLE/ts/`: the
//! multivariant playlist `main.m3u8`, the media playlist `segments.m3u8`, PAT and PMT
//! `tables-N.ts`, and the segments `N.ts`.

use std::fmt::Write;

use crate::hls::{INDEPENDENT, quoted, seconds, with_query};
use crate::links::Links;
use crate::package::Package;
use crate::rate::target_duration;
use crate::stream::SlicedStream;

/// Required for `EXT-X-MAP` outside I-frame playlists (RFC 8216 7).
const VERSION: u32 = 6;

/// Writes the multivariant playlist with one variant, which contains all streams. `package` is the
/// film's.
pub fn stream_multivariant_playlist(
    package: &Package,
    stream: &SlicedStream,
    links: Links<'_>,
) -> String {
    let mut out = format!("#EXTM3U\n#EXT-X-VERSION:{VERSION}\n");
    if stream.independent {
        out.push_str(INDEPENDENT);
    }
    let _ = write!(
        out,
        "#EXT-X-STREAM-INF:BANDWIDTH={},AVERAGE-BANDWIDTH={},CODECS=\"{}\"",
        stream.rate.peak,
        stream.rate.average,
        quoted(&stream.codecs)
    );
    if let Some(picture) = package.picture() {
        if let Some((width, height)) = package.display_size(picture) {
            let _ = write!(out, ",RESOLUTION={width}x{height}");
        }
        if let Some(rate) = package.frame_rate(picture) {
            let _ = write!(out, ",FRAME-RATE={:.3}", rate.per_second());
        }
    }
    let address = with_query("segments.m3u8", links.playlists);
    let _ = writeln!(out, "\n{address}");
    out
}

/// Writes the playlist of the segments; for a recording in progress, only of those that are final.
pub fn stream_playlist(stream: &SlicedStream, links: Links<'_>) -> String {
    let mut out = String::with_capacity(256 + 64 * *stream.numbers().end() as usize);
    let (kind, longest, last) = match links.recording {
        // See `hls::media_playlist`.
        Some(_) => {
            let longest = stream.longest().max(stream.target * 3 / 2);
            ("EVENT", longest, stream.settled())
        }
        None => ("VOD", stream.longest(), *stream.numbers().end()),
    };
    let _ = write!(
        out,
        "#EXTM3U\n#EXT-X-VERSION:{VERSION}\n#EXT-X-TARGETDURATION:{}\n#EXT-X-MEDIA-SEQUENCE:1\n\
         #EXT-X-PLAYLIST-TYPE:{kind}\n{}",
        target_duration(longest),
        if stream.independent { INDEPENDENT } else { "" },
    );
    let mut mapped = None;
    for number in 1..=last {
        let Some((tables, anew)) = stream.beginning(number) else {
            break;
        };
        if anew {
            out.push_str("#EXT-X-DISCONTINUITY\n");
        }
        // After a discontinuity, players that reset everything get the tables again.
        if anew || mapped != Some(tables) {
            let address = with_query(&format!("tables-{tables}.ts"), links.segments);
            let _ = writeln!(out, "#EXT-X-MAP:URI=\"{address}\"");
            mapped = Some(tables);
        }
        let duration = stream.duration(number).unwrap_or(0);
        let address = with_query(&format!("{number}.ts"), links.segments);
        let _ = writeln!(out, "#EXTINF:{},\n{address}", seconds(duration));
    }
    if links.recording.is_none() {
        out.push_str("#EXT-X-ENDLIST\n");
    }
    out
}
