//! HLS playlists (RFC 8216).

use super::client::join;

/// Maximum number of segments in a playlist: a week of ten seconds each.
pub(super) const MOST_SEGMENTS: usize = 100_000;

/// Tolerance of a segment's duration in nanoseconds: an audio frame (85 ms of HE-AAC at 24 kHz),
/// which an encoder's delay may put on either side of the film's beginning, and digits that
/// packagers leave out.
pub(super) const TOLERANCE: i64 = 100_000_000;

/// A media segment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Segment {
    /// Its URL.
    pub url: String,
    /// Its byte range, first byte and count; `None`: the whole resource.
    pub range: Option<(u64, u64)>,
    /// Its duration according to the playlist or manifest, in nanoseconds.
    pub duration: i64,
    /// Its start, in nanoseconds from the first segment, by the sum of durations or the manifest.
    pub start: i64,
}

/// A track's segments in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rendition {
    /// The initialisation segment of fragmented MP4.
    pub init: Option<(String, Option<(u64, u64)>)>,
    /// All segments; only stored films are supported.
    pub segments: Vec<Segment>,
    /// Tolerance of the segments' durations in nanoseconds.
    pub tolerance: i64,
}

/// A parsed playlist.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Playlist {
    /// A multivariant playlist: the URLs of the best rendition, and of its audio if that is
    /// separate.
    Multivariant(String, Option<String>),
    /// A media playlist with one rendition.
    Media(Rendition),
}

/// Returns an attribute from a tag's list (section 4.2).
fn attribute<'a>(list: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = list;
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=')?;
        let (value, next) = if let Some(quoted) = after.strip_prefix('"') {
            let (value, next) = quoted.split_once('"')?;
            (value, next.strip_prefix(',').unwrap_or(next))
        } else {
            after.split_once(',').unwrap_or((after, ""))
        };
        if key.trim() == name {
            return Some(value);
        }
        rest = next;
    }
    None
}

/// Parses `COUNT[@FIRST]`; without `FIRST` the range begins at `next`.
fn byte_range(text: &str, next: u64) -> Option<(u64, u64)> {
    let (count, first) = match text.split_once('@') {
        Some((count, first)) => (count, first.trim().parse().ok()?),
        None => (text, next),
    };
    Some((first, count.trim().parse().ok()?))
}

/// Parses decimal seconds, in nanoseconds.
pub(super) fn nanos(seconds: &str) -> Option<i64> {
    let seconds: f64 = seconds.trim().parse().ok()?;
    (0.0..=1e6)
        .contains(&seconds)
        .then(|| (seconds * 1e9).round() as i64)
}

/// Parses a playlist from the URL `base`.
///
/// # Errors
/// A description of why the text is not a playlist, or is one that is not supported.
pub(super) fn parse(text: &str, base: &str) -> Result<Playlist, String> {
    let text = text.trim_start_matches('\u{feff}');
    if !text.starts_with("#EXTM3U") {
        return Err("no playlist: it does not begin with #EXTM3U".into());
    }
    if text.contains("#EXT-X-STREAM-INF:") {
        return multivariant(text, base);
    }
    media(text, base).map(Playlist::Media)
}

fn multivariant(text: &str, base: &str) -> Result<Playlist, String> {
    let mut best: Option<(u64, String, Option<String>)> = None;
    let mut sounds: Vec<(String, bool, String)> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(list) = line.strip_prefix("#EXT-X-MEDIA:")
            && attribute(list, "TYPE") == Some("AUDIO")
            && let (Some(group), Some(uri)) = (attribute(list, "GROUP-ID"), attribute(list, "URI"))
        {
            let default = attribute(list, "DEFAULT") == Some("YES");
            sounds.push((group.to_owned(), default, join(base, uri)));
        }
        let Some(list) = line.strip_prefix("#EXT-X-STREAM-INF:") else {
            continue;
        };
        let uri = lines
            .by_ref()
            .find(|line| !line.trim().is_empty() && !line.starts_with('#'))
            .ok_or("a variant without an address")?;
        let bandwidth = attribute(list, "BANDWIDTH")
            .and_then(|bandwidth| bandwidth.parse().ok())
            .ok_or("a variant without BANDWIDTH")?;
        let group = attribute(list, "AUDIO").map(str::to_owned);
        if best.as_ref().is_none_or(|best| best.0 < bandwidth) {
            best = Some((bandwidth, join(base, uri.trim()), group));
        }
    }
    let (_, picture, group) = best.ok_or("a playlist without variants")?;
    let of_group = || {
        sounds
            .iter()
            .filter(|sound| Some(&sound.0) == group.as_ref())
    };
    let sound = of_group()
        .find(|sound| sound.1)
        .or_else(|| of_group().next())
        .map(|sound| sound.2.clone());
    Ok(Playlist::Multivariant(picture, sound))
}

fn media(text: &str, base: &str) -> Result<Rendition, String> {
    let mut rendition = Rendition {
        tolerance: TOLERANCE,
        ..Rendition::default()
    };
    let (mut duration, mut range, mut next, mut start) = (None, None, 0, 0);
    for line in text.lines().map(str::trim) {
        if let Some(info) = line.strip_prefix("#EXTINF:") {
            let seconds = info.split(',').next().unwrap_or_default();
            duration = Some(nanos(seconds).ok_or_else(|| format!("{line:?}: no length"))?);
        } else if let Some(text) = line.strip_prefix("#EXT-X-BYTERANGE:") {
            range =
                Some(byte_range(text, next).ok_or_else(|| format!("{line:?}: no range of bytes"))?);
        } else if let Some(list) = line.strip_prefix("#EXT-X-MAP:") {
            let uri = attribute(list, "URI").ok_or_else(|| format!("{line:?}: no address"))?;
            let range = attribute(list, "BYTERANGE").and_then(|text| byte_range(text, 0));
            if rendition.init.is_some() {
                return Err("more than one initialisation segment".into());
            }
            rendition.init = Some((join(base, uri), range));
        } else if let Some(list) = line.strip_prefix("#EXT-X-KEY:") {
            if attribute(list, "METHOD") != Some("NONE") {
                return Err("it is encrypted".into());
            }
        } else if !line.is_empty() && !line.starts_with('#') {
            let duration = duration
                .take()
                .ok_or_else(|| format!("{line:?}: a segment without #EXTINF"))?;
            let range = range.take();
            next = range.map_or(0, |(first, count): (u64, u64)| first.saturating_add(count));
            if rendition.segments.len() >= MOST_SEGMENTS {
                return Err(format!("more than {MOST_SEGMENTS} segments"));
            }
            rendition.segments.push(Segment {
                url: join(base, line),
                range,
                duration,
                start,
            });
            start += duration;
        }
    }
    if rendition.segments.is_empty() {
        return Err("a playlist without segments".into());
    }
    if !text.lines().any(|line| line.trim() == "#EXT-X-ENDLIST") {
        return Err("a live stream (no #EXT-X-ENDLIST): only stored films are judged".into());
    }
    Ok(rendition)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "http://h/a/main.m3u8";

    #[test]
    fn the_best_variant_and_its_sound_are_taken() {
        let text = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"s\",NAME=\"a, b\",DEFAULT=NO,URI=\"2.m3u8\"\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"s\",NAME=\"c\",DEFAULT=YES,URI=\"3.m3u8\"\n#EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO=\"s\"\nlow.m3u8\n#EXT-X-STREAM-INF:CODECS=\"avc1,mp4a\",BANDWIDTH=9,AUDIO=\"s\"\n\nhigh.m3u8\n";
        assert_eq!(
            parse(text, BASE).unwrap(),
            Playlist::Multivariant(
                "http://h/a/high.m3u8".into(),
                Some("http://h/a/3.m3u8".into())
            )
        );
    }

    #[test]
    fn ranges_follow_each_other() {
        let text = "#EXTM3U\n#EXT-X-MAP:URI=\"f.mp4\",BYTERANGE=\"100@0\"\n#EXTINF:2.5,\n#EXT-X-BYTERANGE:50@100\nf.mp4\n#EXTINF:1,\n#EXT-X-BYTERANGE:25\nf.mp4\n#EXT-X-ENDLIST\n";
        let Playlist::Media(rendition) = parse(text, BASE).unwrap() else {
            panic!("a media playlist")
        };
        assert_eq!(rendition.init.unwrap().1, Some((0, 100)));
        let ranges: Vec<_> = rendition
            .segments
            .iter()
            .map(|segment| segment.range)
            .collect();
        assert_eq!(ranges, [Some((100, 50)), Some((150, 25))]);
        assert_eq!(rendition.segments[1].start, 2_500_000_000);
    }

    #[test]
    fn what_is_no_stored_film_is_told() {
        for (text, words) in [
            ("<html>", "#EXTM3U"),
            ("#EXTM3U\n#EXTINF:1,\na.ts\n", "live"),
            ("#EXTM3U\na.ts\n#EXT-X-ENDLIST", "#EXTINF"),
            ("#EXTM3U\n#EXT-X-ENDLIST", "without segments"),
            (
                "#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI=\"k\"\n",
                "encrypted",
            ),
            ("#EXTM3U\n#EXTINF:-1,\na.ts\n#EXT-X-ENDLIST", "no length"),
        ] {
            let told = parse(text, BASE).unwrap_err();
            assert!(told.contains(words), "{text:?}: {told}");
        }
    }
}
