//! The DASH manifest (ISO/IEC 23009-1): `isoff-live` profile, one adaptation set per track; static,
//! or dynamic while a recording is in progress. Its address is `TITLE/dash/main.mpd`; addresses in
//! it are relative.

use std::fmt::Write;

use reelway_media::{Codec, Kind, Nanos, SECOND, bcp47};

use crate::links::{Links, Recording, Rendition, Subtitles};
use crate::package::{Package, PackagedTrack};

/// Writes the media presentation description.
pub fn mpd(package: &Package, links: Links<'_>) -> String {
    let buffer = package
        .tracks()
        .iter()
        .map(|track| track.rate.buffer)
        .max()
        .unwrap_or(0);
    let mut out = String::with_capacity(4096);
    let _ = write!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" profiles=\"urn:mpeg:dash:profile:isoff-live:2011\" \
         {} minBufferTime=\"{}\" maxSegmentDuration=\"{}\">\n",
        presentation(package, links.recording),
        duration(buffer),
        duration(buffer),
    );
    if let Some(name) = &package.title().name {
        let _ = writeln!(
            out,
            "  <ProgramInformation><Title>{}</Title></ProgramInformation>",
            xml_escape(name)
        );
    }
    // Players use the first server, and another if that fails (section 5.6.5). For that, dash.js
    // needs names and absolute addresses.
    for (name, film) in (1..).zip(links.servers) {
        let film = xml_escape(film);
        let _ = writeln!(
            out,
            "  <BaseURL serviceLocation=\"{name}\">{film}/dash/</BaseURL>"
        );
    }
    out.push_str("  <Period id=\"0\" start=\"PT0S\">\n");
    let main_sound = main_sound(package);
    for track in package.tracks() {
        let main = match track.kind {
            Kind::Video => package.picture().is_some_and(|main| main.id == track.id),
            Kind::Audio => main_sound == Some(track.id),
        };
        // Players switch within a set during playback: renditions with the same codec.
        let (beside, mut apart): (Vec<_>, Vec<_>) = match main && track.kind == Kind::Video {
            true => pictures(links.renditions)
                .partition(|other| family(other.of, other.track) == family(package, track)),
            false => Default::default(),
        };
        apart.sort_by_key(|other| family(other.of, other.track));
        let own = Representation {
            of: package,
            track,
            place: None,
            path: "..",
            segments: links.segments,
        };
        let role = if main { "main" } else { "alternate" };
        adaptation_set(&mut out, (&own, &beside), role, links);
        let alike =
            |a: &Representation, b: &Representation| family(a.of, a.track) == family(b.of, b.track);
        for set in apart.chunk_by(alike) {
            adaptation_set(&mut out, (&set[0], &set[1..]), "alternate", links);
        }
    }
    for subtitles in links.subtitles {
        subtitle_set(&mut out, subtitles);
    }
    out.push_str("  </Period>\n");
    if let Some(Recording { now, .. }) = links.recording {
        // Availability is measured with the server's clock, not the player's (section 5.8.4.11).
        let _ = writeln!(
            out,
            "  <UTCTiming schemeIdUri=\"urn:mpeg:dash:utc:direct:2014\" value=\"{now}\"/>"
        );
    }
    out.push_str("</MPD>\n");
    out
}

const MILLISECOND: Nanos = SECOND / 1000;

/// Returns the attributes with the film's duration, or those of its growth. The stated duration
/// exceeds the film's by up to a millisecond: dash.js (5.2) checks five times a second whether the
/// stated end has been reached. If it notices that before the browser has reported the end of
/// playback, it goes back half a second and pauses there.
fn presentation(package: &Package, recording: Option<Recording>) -> String {
    let Some(Recording { began, now }) = recording else {
        let whole = duration((package.duration() / MILLISECOND + 1) * MILLISECOND);
        return format!("type=\"static\" mediaPresentationDuration=\"{whole}\"");
    };
    let target = package
        .tracks()
        .first()
        .map_or(SECOND, |track| track.target);
    format!(
        "type=\"dynamic\" availabilityStartTime=\"{began}\" publishTime=\"{now}\" minimumUpdatePeriod=\"{}\" \
         suggestedPresentationDelay=\"{}\"",
        duration(target),
        duration(3 * target)
    )
}

/// Writes subtitles as a single file (section 5.3.9.1), whose size is small compared with the
/// stated bit rate. Its address has no query, because ffmpeg does not accept `&` there.
fn subtitle_set(out: &mut String, subtitles: &Subtitles<'_>) {
    let number = subtitles.number;
    out.push_str("    <AdaptationSet contentType=\"text\" mimeType=\"text/vtt\"");
    if let Some(language) = subtitles.language {
        let _ = write!(out, " lang=\"{}\"", xml_escape(language));
    }
    let role = match (subtitles.forced, subtitles.sdh) {
        (true, _) => "forced-subtitle",
        (_, true) => "caption",
        _ => "subtitle",
    };
    let main = match subtitles.default {
        true => "      <Role schemeIdUri=\"urn:mpeg:dash:role:2011\" value=\"main\"/>\n",
        false => "",
    };
    let _ = writeln!(
        out,
        ">\n      <Label>{}</Label>\n{main}      <Role schemeIdUri=\"urn:mpeg:dash:role:2011\" value=\"{role}\"/>\n      \
         <Representation id=\"subtitles-{number}\" bandwidth=\"1000\">\n        \
         <BaseURL>../subtitles/{number}.vtt</BaseURL>\n      </Representation>\n    </AdaptationSet>",
        xml_escape(subtitles.label),
    );
}

fn main_sound(package: &Package) -> Option<u32> {
    let sound: Vec<_> = package.sound().collect();
    package.main_of(&sound).map(|track| track.id)
}

/// A track of the film, or of another rendition of it.
struct Representation<'a> {
    of: &'a Package,
    track: &'a PackagedTrack,
    /// The rendition's number. `None`: the film itself.
    place: Option<usize>,
    /// The rendition's path, relative to the manifest.
    path: &'a str,
    /// Query of its segments' addresses.
    segments: Option<&'a str>,
}

/// Returns the pictures of other renditions.
fn pictures<'a>(renditions: &[Rendition<'a>]) -> impl Iterator<Item = Representation<'a>> {
    let pictures = renditions.iter().zip(1..);
    pictures.filter_map(|(rendition, place)| {
        let track = rendition.package.picture()?;
        Some(Representation {
            of: rendition.package,
            track,
            place: Some(place),
            path: rendition.path,
            segments: rendition.segments,
        })
    })
}

/// Returns the codec without its profile and level.
fn family(package: &Package, track: &PackagedTrack) -> String {
    let codec = package.media(track).codec.rfc6381();
    codec.split('.').next().unwrap_or_default().to_owned()
}

/// Writes one or several renditions of a track.
fn adaptation_set(
    out: &mut String,
    (first, others): (&Representation<'_>, &[Representation<'_>]),
    role: &str,
    links: Links<'_>,
) {
    let Representation {
        of: package, track, ..
    } = *first;
    let media = package.media(track);
    let id = match first.place {
        None => format!(" id=\"{}\"", track.id),
        Some(_) => String::new(),
    };
    let kind = if track.kind == Kind::Video {
        "video"
    } else {
        "audio"
    };
    let _ = write!(
        out,
        "    <AdaptationSet{id} contentType=\"{kind}\" mimeType=\"{kind}/mp4\" \
         segmentAlignment=\"true\""
    );
    if track.independent() {
        out.push_str(" startWithSAP=\"1\"");
    }
    if let Some(language) = media.language.as_deref().and_then(bcp47) {
        let _ = write!(out, " lang=\"{}\"", xml_escape(&language));
    }
    if let Some(picture) = &media.picture {
        let (across, up) = package.aspect(picture);
        let _ = write!(out, " par=\"{across}:{up}\"");
    }
    out.push_str(">\n");
    // The schema requires Label before Role.
    if let Some(name) = &media.name {
        let _ = writeln!(out, "      <Label>{}</Label>", xml_escape(name));
    }
    let _ = writeln!(
        out,
        "      <Role schemeIdUri=\"urn:mpeg:dash:role:2011\" value=\"{role}\"/>"
    );
    representation(out, first, links);
    for other in others {
        representation(out, other, links);
    }
    out.push_str("    </AdaptationSet>\n");
}

fn representation(out: &mut String, representation: &Representation<'_>, links: Links<'_>) {
    let Representation {
        of: package, track, ..
    } = *representation;
    let media = package.media(track);
    let place = representation
        .place
        .map_or(String::new(), |place| format!("r{place}-"));
    let _ = write!(
        out,
        "      <Representation id=\"{place}{}\" codecs=\"{}\" bandwidth=\"{}\"",
        track.id,
        xml_escape(&media.codec.rfc6381()),
        track.rate.sustained
    );
    if let Some(picture) = &media.picture {
        let (across, up) = picture.pixel_aspect;
        let _ = write!(
            out,
            " width=\"{}\" height=\"{}\" sar=\"{across}:{up}\"",
            picture.width, picture.height
        );
        if let Some(rate) = package.frame_rate(track) {
            let _ = write!(out, " frameRate=\"{rate}\"");
        }
    }
    if let Some(sound) = &media.sound {
        let _ = write!(out, " audioSamplingRate=\"{}\"", sound.rate);
    }
    out.push_str(">\n");
    if let Some(sound) = &media.sound {
        let (scheme, value) = channel_configuration(&media.codec, sound.channels);
        let _ = writeln!(
            out,
            "        <AudioChannelConfiguration schemeIdUri=\"{scheme}\" value=\"{value}\"/>"
        );
    }
    segment_template(out, representation, links);
    out.push_str("      </Representation>\n");
}

fn segment_template(out: &mut String, representation: &Representation<'_>, links: Links<'_>) {
    let Representation { track, path, .. } = *representation;
    let query = representation
        .segments
        .map(|query| format!("?{}", xml_escape(query)))
        .unwrap_or_default();
    let _ = write!(
        out,
        "        <SegmentTemplate timescale=\"{}\" startNumber=\"1\" \
         initialization=\"{path}/seg/{}/init.mp4{query}\" media=\"{path}/seg/{}/$Number$.m4s{query}\">\n          \
         <SegmentTimeline>\n",
        track.timescale, track.id, track.id
    );
    let last = match links.recording {
        Some(_) => track.settled(),
        None => *track.numbers().end(),
    };
    let mut segments = (1..=last)
        .filter_map(|number| track.decode_times(number))
        .peekable();
    let mut expected = None;
    while let Some((start, length)) = segments.next() {
        let mut repeats = 0;
        let mut end = start + length;
        while segments.next_if(|next| *next == (end, length)).is_some() {
            repeats += 1;
            end += length;
        }
        out.push_str("            <S");
        if expected != Some(start) {
            let _ = write!(out, " t=\"{start}\"");
        }
        let _ = write!(out, " d=\"{}\"", length.max(1));
        if repeats > 0 {
            let _ = write!(out, " r=\"{repeats}\"");
        }
        out.push_str("/>\n");
        expected = Some(end);
    }
    out.push_str("          </SegmentTimeline>\n        </SegmentTemplate>\n");
}

/// Returns `AudioChannelConfiguration` (ISO/IEC 23009-1 5.8.5.4): the number of the speaker layout
/// in ISO/IEC 23091-3, which up to 5.1 is the number of channels.
fn channel_configuration(codec: &Codec, channels: u16) -> (&'static str, u16) {
    let value = match (channels, codec) {
        (8, Codec::Aac(_)) => 7, // 7.1 with front centre sides, as AAC's configuration 7
        (8, _) => 12,            // 7.1 with back speakers
        (7, _) => 11,            // 6.1
        (other, _) => other,
    };
    (
        "urn:mpeg:dash:23003:3:audio_channel_configuration:2011",
        value,
    )
}

/// Formats an xs:duration, exact to the nanosecond.
fn duration(nanos: Nanos) -> String {
    let digits = format!("{:09}", nanos % SECOND);
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("PT{}{point}{digits}S", nanos / SECOND)
}

/// Escapes markup for an attribute or element, and removes characters that XML 1.0 (2.2) forbids.
pub fn xml_escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() && !matches!(c, '\t' | '\n' | '\r') => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact() {
        assert_eq!(duration(0), "PT0S");
        assert_eq!(duration(7_200_040_000_000), "PT7200.04S");
    }

    #[test]
    fn markup_and_controls_do_not_survive() {
        assert_eq!(
            xml_escape("<a&\"b\"'\u{1}>"),
            "&lt;a&amp;&quot;b&quot;&apos;&gt;"
        );
    }

    #[test]
    fn white_space_stays_and_what_xml_forbids_goes() {
        assert_eq!(xml_escape("a\tb\nc\rd"), "a\tb\nc\rd");
        assert_eq!(xml_escape("a\u{0}\u{b}\u{7f}\u{85}\u{fffe}\u{ffff}b"), "ab");
        assert_eq!(xml_escape("ä🧀\u{fffd}"), "ä🧀\u{fffd}");
    }

    #[test]
    fn speaker_layouts_are_those_of_iso_23091_3() {
        let aac = Codec::Aac(reelway_media::AacConfig {
            config: Vec::new(),
            object_type: 2,
            rate: 48_000,
            channels: 8,
            frame_length: 1024,
        });
        for (channels, of_aac, of_eac3) in
            [(1, 1, 1), (2, 2, 2), (6, 6, 6), (7, 11, 11), (8, 7, 12)]
        {
            assert_eq!(channel_configuration(&aac, channels).1, of_aac);
            assert_eq!(channel_configuration(&Codec::Eac3, channels).1, of_eac3);
        }
    }
}
