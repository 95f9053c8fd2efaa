//! DASH manifests (ISO/IEC 23009-1) of stored films: one period, segments by template.

use std::str::FromStr;

use roxmltree::{Document, Node, ParsingOptions};

use super::client::join;
use super::playlist::{MOST_SEGMENTS, Rendition, Segment, TOLERANCE};

/// Maximum number of elements in a manifest.
const MOST_NODES: u32 = 1_000_000;

/// Parses a manifest from the URL `base`. Returns the rendition with the highest bandwidth of the
/// first video and of the first audio AdaptationSet.
///
/// # Errors
/// A description of why the text is not a manifest, or is one that is not supported.
pub(super) fn parse(text: &str, base: &str) -> Result<Vec<Rendition>, String> {
    let options = ParsingOptions {
        nodes_limit: MOST_NODES,
        ..ParsingOptions::default()
    };
    let document =
        Document::parse_with_options(text, options).map_err(|why| format!("no manifest: {why}"))?;
    let mpd = document.root_element();
    if mpd.tag_name().name() != "MPD" {
        return Err(format!(
            "no manifest: <{}> in place of <MPD>",
            mpd.tag_name().name()
        ));
    }
    if mpd.attribute("type") == Some("dynamic") {
        return Err("a live stream (type=\"dynamic\"): only stored films are judged".into());
    }
    let length = mpd.attribute("mediaPresentationDuration").map(duration);
    let length = match length {
        Some(None) => return Err("mediaPresentationDuration is no length of time".into()),
        Some(length) => length,
        None => None,
    };
    let periods: Vec<Node<'_, '_>> = children(mpd, "Period").collect();
    let [period] = periods[..] else {
        return Err(format!(
            "{} periods: films of one are played",
            periods.len()
        ));
    };
    let mut renditions: Vec<Rendition> = Vec::new();
    for kind in ["video", "audio"] {
        let set = children(period, "AdaptationSet").find(|set| is(*set, kind));
        let Some(set) = set else {
            continue;
        };
        let bandwidth = |node: &Node<'_, '_>| {
            let number = node
                .attribute("bandwidth")
                .and_then(|text| text.parse().ok());
            number.unwrap_or(0_u64)
        };
        let best = children(set, "Representation")
            .max_by_key(bandwidth)
            .ok_or_else(|| format!("an AdaptationSet of {kind} without a Representation"))?;
        let base = [mpd, period, set, best]
            .into_iter()
            .filter_map(|node| children(node, "BaseURL").next()?.text())
            .fold(base.to_owned(), |base, url| join(&base, url.trim()));
        renditions.push(by_template(period, set, best, &base, length)?);
    }
    if renditions.is_empty() {
        return Err("a manifest without picture and sound".into());
    }
    Ok(renditions)
}

fn children<'a, 'i>(
    node: Node<'a, 'i>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'i>> + use<'a, 'i> {
    node.children()
        .filter(move |child| child.tag_name().name() == name)
}

/// Reads a number of an `<S>` element.
fn number_of<N: FromStr>(entry: Node<'_, '_>, name: &str) -> Result<Option<N>, String> {
    let text = entry.attribute(name);
    text.map(str::parse)
        .transpose()
        .map_err(|_| format!("<S {name}={:?}> is no number", text.unwrap_or_default()))
}

fn is(set: Node<'_, '_>, kind: &str) -> bool {
    let says = |node: Node<'_, '_>| {
        node.attribute("contentType") == Some(kind)
            || node
                .attribute("mimeType")
                .is_some_and(|mime| mime.starts_with(kind))
    };
    says(set) || children(set, "Representation").any(says)
}

fn by_template(
    period: Node<'_, '_>,
    set: Node<'_, '_>,
    representation: Node<'_, '_>,
    base: &str,
    length: Option<f64>,
) -> Result<Rendition, String> {
    let templates: Vec<Node<'_, '_>> = [representation, set, period]
        .into_iter()
        .filter_map(|node| children(node, "SegmentTemplate").next())
        .collect();
    if templates.is_empty() {
        return Err(
            "segments are not described by SegmentTemplate, the only form that is supported".into(),
        );
    }
    // An inner SegmentTemplate inherits attributes from outer ones.
    let attribute = |name: &str| templates.iter().find_map(|node| node.attribute(name));
    let number = |name: &str, default: u64| match attribute(name) {
        None => Ok(default),
        Some(text) => text
            .parse::<u64>()
            .map_err(|_| format!("SegmentTemplate {name}={text:?} is no number")),
    };
    let media = attribute("media").ok_or("a SegmentTemplate without media")?;
    let (scale, first) = (number("timescale", 1)?.max(1), number("startNumber", 1)?);
    let nanos = |ticks: u64| {
        i64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(scale))
            .map_err(|_| "a time beyond all films".to_owned())
    };
    let mut rendition = Rendition {
        init: attribute("initialization")
            .map(|text| (join(base, &fill(text, representation, 0, 0)), None)),
        segments: Vec::new(),
        tolerance: TOLERANCE,
    };
    let mut add = |time: u64, ticks: u64| -> Result<(), String> {
        let count = rendition.segments.len();
        if count >= MOST_SEGMENTS {
            return Err(format!("more than {MOST_SEGMENTS} segments"));
        }
        let url = fill(media, representation, first + count as u64, time);
        rendition.segments.push(Segment {
            url: join(base, &url),
            range: None,
            duration: nanos(ticks)?,
            start: nanos(time)?,
        });
        Ok(())
    };
    let timeline = templates
        .iter()
        .find_map(|node| children(*node, "SegmentTimeline").next());
    if let Some(timeline) = timeline {
        let entries: Vec<_> = children(timeline, "S").collect();
        let end = length.map(|length| (length * scale as f64 - 1e-6).ceil() as u64);
        let mut time = 0_u64;
        for (nth, entry) in entries.iter().enumerate() {
            time = number_of(*entry, "t")?.unwrap_or(time);
            let ticks: u64 = number_of(*entry, "d")?.ok_or("<S> without d")?;
            let repeated = match number_of::<i64>(*entry, "r")?.unwrap_or(0) {
                times @ 0.. => times as u64,
                _ if ticks == 0 => {
                    return Err("an <S> that repeats a segment without length".into());
                }
                // To the next entry, or to the end (ISO/IEC 23009-1 section 5.3.9.6).
                _ => {
                    let next = entries.get(nth + 1).map(|next| number_of(*next, "t"));
                    let until = next.transpose()?.flatten().or(end);
                    let until = until.ok_or("an <S> that repeats to an end that is not given")?;
                    let segments = until.saturating_sub(time).div_ceil(ticks);
                    segments.saturating_sub(1)
                }
            };
            for _ in 0..=repeated {
                add(time, ticks)?;
                time = time.saturating_add(ticks);
            }
        }
    } else {
        let ticks = number("duration", 0)?;
        let length = length.ok_or("segments of one length, and no mediaPresentationDuration")?;
        if ticks == 0 {
            return Err("a SegmentTemplate with neither SegmentTimeline nor duration".into());
        }
        let count = (length * scale as f64 / ticks as f64 - 1e-6)
            .ceil()
            .max(1.0);
        if count > MOST_SEGMENTS as f64 {
            return Err(format!("more than {MOST_SEGMENTS} segments"));
        }
        for number in 0..count as u64 {
            add(number * ticks, ticks)?;
        }
        // This duration is an average, as pictures do not end exactly where segments should.
        rendition.tolerance = i64::MAX;
    }
    if rendition.segments.is_empty() {
        return Err("a manifest without segments".into());
    }
    Ok(rendition)
}

/// Fills in a template's identifiers (section 5.3.9.4.4).
fn fill(template: &str, representation: Node<'_, '_>, number: u64, time: u64) -> String {
    let mut out = String::new();
    let mut parts = template.split('$');
    out.push_str(parts.next().unwrap_or_default());
    while let Some(name) = parts.next() {
        let (name, width) = match name.split_once("%0") {
            Some((name, width)) => (name, width.trim_end_matches('d').parse().unwrap_or(1)),
            None => (name, 1),
        };
        let width: usize = width.clamp(1, 32);
        match name {
            "" => out.push('$'),
            "Number" => out.push_str(&format!("{number:0width$}")),
            "Time" => out.push_str(&format!("{time:0width$}")),
            "RepresentationID" => out.push_str(representation.attribute("id").unwrap_or_default()),
            "Bandwidth" => {
                out.push_str(representation.attribute("bandwidth").unwrap_or_default());
            }
            other => out.push_str(&format!("${other}$")),
        }
        out.push_str(parts.next().unwrap_or_default());
    }
    out
}

/// Parses an xs:duration such as `PT1H2M3.5S`, in seconds.
fn duration(text: &str) -> Option<f64> {
    let rest = text.trim().strip_prefix('P')?;
    let (days, time) = rest.split_once('T').unwrap_or((rest, ""));
    let mut seconds = 0.0;
    for (text, units) in [
        (days, [("D", 86_400.0), ("", 0.0), ("", 0.0)]),
        (time, [("H", 3600.0), ("M", 60.0), ("S", 1.0)]),
    ] {
        let mut rest = text;
        for (unit, each) in units {
            if !unit.is_empty()
                && let Some((number, after)) = rest.split_once(unit)
            {
                seconds += number.parse::<f64>().ok()? * each;
                rest = after;
            }
        }
        if !rest.is_empty() {
            return None;
        }
    }
    (0.0..=1e8).contains(&seconds).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(template: &str) -> String {
        format!(
            r#"<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT5S"><Period>
            <AdaptationSet contentType="video">{template}<Representation id="low" bandwidth="1"/><Representation id="v" bandwidth="9"/></AdaptationSet>
            </Period></MPD>"#
        )
    }

    #[test]
    fn a_timeline_names_every_segment() {
        let text = manifest(
            r#"<SegmentTemplate timescale="1000" startNumber="3" initialization="$RepresentationID$/i.mp4" media="$RepresentationID$/$Number%03d$-$Time$.m4s"><SegmentTimeline><S t="0" d="2000" r="1"/><S d="1000"/></SegmentTimeline></SegmentTemplate>"#,
        );
        let renditions = parse(&text, "http://h/a/main.mpd").unwrap();
        let urls: Vec<_> = renditions[0]
            .segments
            .iter()
            .map(|segment| segment.url.as_str())
            .collect();
        assert_eq!(
            urls,
            [
                "http://h/a/v/003-0.m4s",
                "http://h/a/v/004-2000.m4s",
                "http://h/a/v/005-4000.m4s"
            ]
        );
        assert_eq!(renditions[0].segments[2].duration, 1_000_000_000);
        assert_eq!(renditions[0].init.as_ref().unwrap().0, "http://h/a/v/i.mp4");
    }

    #[test]
    fn segments_repeat_to_the_next_time_or_to_the_end() {
        // The film lasts 5 s.
        let timeline = |entries: &str| {
            let text = format!(
                r#"<SegmentTemplate timescale="10" media="$Time$"><SegmentTimeline>{entries}</SegmentTimeline></SegmentTemplate>"#
            );
            parse(&manifest(&text), "http://h/").map(|renditions| {
                let segments = renditions[0].segments.iter();
                let names = segments.map(|segment| segment.url.replace("http://h/", ""));
                names.collect::<Vec<_>>().join(" ")
            })
        };
        let times = |entries| timeline(entries).unwrap();
        assert_eq!(times(r#"<S t="0" d="20" r="-1"/>"#), "0 20 40");
        assert_eq!(times(r#"<S d="25" r="-1"/>"#), "0 25");
        assert_eq!(
            times(r#"<S d="10" r="-1"/><S t="30" d="30"/>"#),
            "0 10 20 30"
        );
        assert_eq!(times(r#"<S t="90" d="10" r="-1"/>"#), "90");
        assert!(timeline(r#"<S d="0" r="-1"/>"#).is_err());
    }

    #[test]
    fn segments_of_one_length_are_counted() {
        let text =
            manifest(r#"<SegmentTemplate timescale="10" duration="20" media="$Number$.m4s"/>"#);
        let renditions = parse(&text, "http://h/").unwrap();
        assert_eq!(renditions[0].segments.len(), 3);
        assert_eq!(renditions[0].segments[2].url, "http://h/3.m4s");
    }

    #[test]
    fn what_is_no_stored_film_is_told() {
        for (text, words) in [
            ("#EXTM3U".to_owned(), "no manifest"),
            ("<html/>".to_owned(), "<html>"),
            (r#"<MPD type="dynamic"/>"#.to_owned(), "live"),
            ("<MPD/>".to_owned(), "0 periods"),
            (manifest(""), "SegmentTemplate"),
            (manifest(r#"<SegmentTemplate media="x"/>"#), "neither"),
            (
                manifest(
                    r#"<SegmentTemplate media="x"><SegmentTimeline><S d="1" r="99999999"/></SegmentTimeline></SegmentTemplate>"#,
                ),
                "more than",
            ),
        ] {
            let told = parse(&text, "http://h/").unwrap_err();
            assert!(told.contains(words), "{text:?}: {told}");
        }
    }

    #[test]
    fn lengths_of_time() {
        assert_eq!(duration("PT1H2M3.5S"), Some(3723.5));
        assert_eq!(duration("P1DT1S"), Some(86_401.0));
        assert_eq!(duration("five"), None);
    }
}
