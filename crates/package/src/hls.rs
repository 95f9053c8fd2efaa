//! HLS playlists (RFC 8216). Addresses are relative: the multivariant playlist is
//! `TITLE/hls/main.m3u8`, media playlists are beside it, and segments are at `TITLE/seg/ID/`.

use std::collections::BTreeSet;
use std::fmt::Write;

use reelway_media::{Nanos, SECOND, bcp47};

use crate::links::{Links, Rendition, Subtitles};
use crate::package::{Package, PackagedTrack};
use crate::rate::target_duration;

/// Required for fMP4 segments and `EXT-X-MAP` outside I-frame playlists (RFC 8216 7).
const VERSION: u32 = 7;

/// Every segment can be decoded by itself (RFC 8216 4.3.5.1).
pub(crate) const INDEPENDENT: &str = "#EXT-X-INDEPENDENT-SEGMENTS\n";

/// Name of the group of subtitles.
const SUBTITLES: &str = "subtitles";

/// Characteristics of subtitles for viewers who are deaf or hard of hearing (RFC 8216 4.3.4.1).
const SDH: &str =
    "public.accessibility.transcribes-spoken-dialog,public.accessibility.describes-music-and-sound";

/// Sound tracks of one codec, between which a player may switch during playback.
struct AudioGroup<'a> {
    id: String,
    tracks: Vec<&'a PackagedTrack>,
}

/// Writes the multivariant playlist: the pictures with each group of sound, or sound only.
pub fn multivariant_playlist(package: &Package, links: Links<'_>) -> String {
    let mut out = format!("#EXTM3U\n#EXT-X-VERSION:{VERSION}\n");
    if package.tracks().iter().all(PackagedTrack::independent) {
        out.push_str(INDEPENDENT);
    }
    if let Some(steering) = links.steering {
        // "." is the pathway of all variants that name none (draft-pantos-hls-rfc8216bis, section
        // 4.4.6.6).
        let _ = writeln!(
            out,
            "#EXT-X-CONTENT-STEERING:SERVER-URI=\"{}\",PATHWAY-ID=\".\"",
            quoted(steering)
        );
    }
    let groups = audio_groups(package);
    let picture = package.picture();
    // A single sound track without pictures is completely described by its variant.
    if picture.is_some() || package.sound().count() > 1 {
        let names = names(package);
        for group in &groups {
            renditions(&mut out, package, group, &names, links);
        }
    }
    // A group has only one default (RFC 8216 4.3.4.1.1), whatever the files state.
    let default = links.subtitles.iter().position(|track| track.default);
    for (number, subtitles) in links.subtitles.iter().enumerate() {
        subtitle_rendition(&mut out, subtitles, Some(number) == default, links);
    }
    for variant in variants(package, links.renditions, &groups) {
        let Variant {
            of, main, group, ..
        } = variant;
        let others = || {
            group
                .into_iter()
                .flat_map(|g| &g.tracks)
                .filter(|t| t.id != main.id)
        };
        let alone = picture.is_none(); // the variant's own playlist is one of the group's
        let beside = |rate: fn(&PackagedTrack) -> u64| others().map(|t| rate(t)).max().unwrap_or(0);
        let (peak, average) = if alone {
            (
                main.rate.peak.max(beside(|t| t.rate.peak)),
                main.rate.average.max(beside(|t| t.rate.average)),
            )
        } else {
            (
                main.rate.peak + beside(|t| t.rate.peak),
                main.rate.average + beside(|t| t.rate.average),
            )
        };
        let mut codecs = vec![of.media(main).codec.rfc6381()];
        for track in others() {
            let codec = package.media(track).codec.rfc6381();
            if !codecs.contains(&codec) {
                codecs.push(codec);
            }
        }
        let _ = write!(
            out,
            "#EXT-X-STREAM-INF:BANDWIDTH={peak},AVERAGE-BANDWIDTH={average},CODECS=\"{}\"",
            quoted(&codecs.join(","))
        );
        if let Some((width, height)) = of.display_size(main) {
            let _ = write!(out, ",RESOLUTION={width}x{height}");
        }
        if let Some(rate) = of.frame_rate(main) {
            let _ = write!(out, ",FRAME-RATE={:.3}", rate.per_second());
        }
        if let Some(group) = group.filter(|_| !alone || package.sound().count() > 1) {
            let _ = write!(out, ",AUDIO=\"{}\"", group.id);
        }
        if !links.subtitles.is_empty() {
            let _ = write!(out, ",SUBTITLES=\"{SUBTITLES}\"");
        }
        if links.steering.is_some() {
            let _ = write!(out, ",STABLE-VARIANT-ID=\"{}\"", variant.stable_id());
        }
        let _ = writeln!(out, "\n{}", with_query(&variant.address(), links.playlists));
    }
    out
}

/// The names of the multivariant playlist's variants and renditions in content steering, each with
/// the address of its playlist, relative to the multivariant playlist.
#[derive(Debug, PartialEq, Eq)]
pub struct StableIds {
    /// `STABLE-VARIANT-ID`.
    pub variants: Vec<(String, String)>,
    /// `STABLE-RENDITION-ID`.
    pub renditions: Vec<(String, String)>,
}

/// Returns the names of a film's variants and renditions in content steering.
pub fn stable_ids(package: &Package, renditions: &[Rendition<'_>]) -> StableIds {
    let groups = audio_groups(package);
    let variants = variants(package, renditions, &groups).into_iter();
    StableIds {
        variants: variants
            .map(|variant| (variant.stable_id(), variant.address()))
            .collect(),
        renditions: package
            .sound()
            .map(|track| (track.id.to_string(), format!("{}.m3u8", track.id)))
            .collect(),
    }
}

/// A rendition beside the film, with its number.
#[derive(Clone, Copy)]
struct Beside<'a> {
    place: usize,
    path: &'a str,
}

/// A variant that players can select.
struct Variant<'a, 'b> {
    /// The film, or another rendition of it.
    of: &'a Package,
    beside: Option<Beside<'a>>,
    /// The track that determines the variant, picture or sound.
    main: &'a PackagedTrack,
    /// The accompanying sound.
    group: Option<&'b AudioGroup<'a>>,
}

impl Variant<'_, '_> {
    /// Returns the address of its playlist, relative to the multivariant playlist.
    fn address(&self) -> String {
        let name = format!("{}.m3u8", self.main.id);
        match self.beside {
            Some(Beside { path, .. }) => format!("{path}/hls/{name}"),
            None => name,
        }
    }

    fn stable_id(&self) -> String {
        let rendition = (self.beside).map_or(String::new(), |beside| format!("r{}-", beside.place));
        let group = (self.group).map_or(String::new(), |group| format!("-{}", group.id));
        format!("{rendition}{}{group}", self.main.id)
    }
}

/// Returns each picture combined with each group of sound, the film's own first; or each group if
/// the film has sound only.
fn variants<'a, 'b>(
    package: &'a Package,
    renditions: &[Rendition<'a>],
    groups: &'b [AudioGroup<'a>],
) -> Vec<Variant<'a, 'b>> {
    let Some(picture) = package.picture() else {
        let alone = |group: &'b AudioGroup<'a>| {
            package.main_of(&group.tracks).map(|main| Variant {
                of: package,
                beside: None,
                main,
                group: Some(group),
            })
        };
        return groups.iter().filter_map(alone).collect();
    };
    let others = renditions.iter().zip(1..).filter_map(|(rendition, place)| {
        let path = rendition.path;
        let picture = rendition.package.picture()?;
        Some((rendition.package, Some(Beside { place, path }), picture))
    });
    let mut variants = Vec::new();
    for (of, beside, main) in [(package, None, picture)].into_iter().chain(others) {
        let with = |group| Variant {
            of,
            beside,
            main,
            group,
        };
        match groups {
            [] => variants.push(with(None)),
            groups => variants.extend(groups.iter().map(|group| with(Some(group)))),
        }
    }
    variants
}

/// Writes the playlist of subtitles, with the whole file as its only segment.
pub fn subtitle_playlist(package: &Package, number: u32) -> String {
    let duration = package.duration();
    format!(
        "#EXTM3U\n#EXT-X-VERSION:{VERSION}\n#EXT-X-TARGETDURATION:{}\n#EXT-X-MEDIA-SEQUENCE:1\n\
         #EXT-X-PLAYLIST-TYPE:VOD\n#EXTINF:{},\n../subtitles/{number}.vtt\n#EXT-X-ENDLIST\n",
        target_duration(duration),
        seconds(duration),
    )
}

/// Writes the playlist of one track's segments; for a recording in progress, only of those that are
/// final.
pub fn media_playlist(track: &PackagedTrack, links: Links<'_>) -> String {
    let mut out = String::with_capacity(256 + 40 * *track.numbers().end() as usize);
    let address = |name: &str| with_query(&format!("../seg/{}/{name}", track.id), links.segments);
    let (kind, longest, last) = match links.recording {
        // The target duration must not change (RFC 8216 6.2.1). Longer segments than this occur
        // only if there is no key frame for that time.
        Some(_) => {
            let longest = track.longest().max(track.target * 3 / 2);
            ("EVENT", longest, track.settled())
        }
        None => ("VOD", track.longest(), *track.numbers().end()),
    };
    let _ = write!(
        out,
        "#EXTM3U\n#EXT-X-VERSION:{VERSION}\n#EXT-X-TARGETDURATION:{}\n#EXT-X-MEDIA-SEQUENCE:1\n\
         #EXT-X-PLAYLIST-TYPE:{kind}\n{}#EXT-X-MAP:URI=\"{}\"\n",
        target_duration(longest),
        if track.independent() { INDEPENDENT } else { "" },
        address("init.mp4"),
    );
    for number in 1..=last {
        let duration = track.duration(number).unwrap_or(0);
        let name = format!("{number}.m4s");
        let _ = writeln!(out, "#EXTINF:{},\n{}", seconds(duration), address(&name));
    }
    if links.recording.is_none() {
        out.push_str("#EXT-X-ENDLIST\n");
    }
    out
}

/// Formats seconds to the nanosecond, without trailing zeros.
pub(crate) fn seconds(nanos: Nanos) -> String {
    let (whole, part) = (nanos / SECOND, nanos % SECOND);
    let digits = format!("{part:09}");
    let digits = digits.trim_end_matches('0');
    format!("{whole}.{}", if digits.is_empty() { "0" } else { digits })
}

fn audio_groups(package: &Package) -> Vec<AudioGroup<'_>> {
    let mut groups: Vec<AudioGroup> = Vec::new();
    for track in package.sound() {
        // By codec family: players switch between AAC-LC and HE-AAC, but not from AAC to AC-3.
        let codec = package.media(track).codec.rfc6381();
        let family = codec.split('.').next().unwrap_or_default();
        let id = format!("sound-{}", family.to_ascii_lowercase());
        match groups.iter_mut().find(|group| group.id == id) {
            Some(group) => group.tracks.push(track),
            None => groups.push(AudioGroup {
                id,
                tracks: vec![track],
            }),
        }
    }
    groups
}

/// Returns a unique name for each sound track, by track_ID.
fn names(package: &Package) -> Vec<(u32, String)> {
    let mut taken = BTreeSet::new();
    let mut names = Vec::new();
    for (place, track) in package.sound().enumerate() {
        let media = package.media(track);
        let name = media
            .name
            .clone()
            .map(|name| quoted(&name))
            .filter(|name| !name.is_empty());
        let language = || media.language.as_deref().and_then(bcp47);
        let base = name
            .or_else(language)
            .unwrap_or_else(|| format!("Sound {}", place + 1));
        let mut unique = base.clone();
        let mut number = 1;
        while !taken.insert(unique.clone()) {
            number += 1;
            unique = format!("{base} ({number})");
        }
        names.push((track.id, unique));
    }
    names
}

fn renditions(
    out: &mut String,
    package: &Package,
    group: &AudioGroup<'_>,
    names: &[(u32, String)],
    links: Links<'_>,
) {
    let default = package.main_of(&group.tracks).map(|track| track.id);
    let mut languages = BTreeSet::new();
    for track in &group.tracks {
        let media = package.media(track);
        let language = media.language.as_deref().and_then(bcp47);
        let name = names
            .iter()
            .find(|(id, _)| *id == track.id)
            .map_or("", |(_, name)| name);
        let _ = write!(
            out,
            "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"{}\",NAME=\"{name}\"",
            group.id
        );
        if let Some(language) = &language {
            let _ = write!(out, ",LANGUAGE=\"{language}\"");
        }
        // A player may select by language. Of several tracks in one language, only the first is
        // offered for that (RFC 8216 4.3.4.1.1), as nothing else distinguishes them.
        let first = languages.insert(language);
        let is_default = Some(track.id) == default;
        let auto = if is_default || first { "YES" } else { "NO" };
        let default = if is_default { "YES" } else { "NO" };
        let _ = write!(out, ",DEFAULT={default},AUTOSELECT={auto}");
        if let Some(sound) = &media.sound {
            let _ = write!(out, ",CHANNELS=\"{}\"", sound.channels);
        }
        if links.steering.is_some() {
            let _ = write!(out, ",STABLE-RENDITION-ID=\"{}\"", track.id);
        }
        let uri = with_query(&format!("{}.m3u8", track.id), links.playlists);
        let _ = writeln!(out, ",URI=\"{uri}\"");
    }
}

fn subtitle_rendition(
    out: &mut String,
    subtitles: &Subtitles<'_>,
    is_default: bool,
    links: Links<'_>,
) {
    let word = |is: bool| if is { "YES" } else { "NO" };
    let _ = write!(
        out,
        "#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"{SUBTITLES}\",NAME=\"{}\"",
        quoted(subtitles.label)
    );
    if let Some(language) = subtitles.language {
        let _ = write!(out, ",LANGUAGE=\"{}\"", quoted(language));
    }
    // Players that show forced subtitles automatically select them by language (RFC 8216 4.3.4.1).
    let _ = write!(
        out,
        ",DEFAULT={},AUTOSELECT=YES,FORCED={}",
        word(is_default),
        word(subtitles.forced)
    );
    if subtitles.sdh {
        let _ = write!(out, ",CHARACTERISTICS=\"{SDH}\"");
    }
    let path = format!("subtitles-{}.m3u8", subtitles.number);
    let _ = writeln!(out, ",URI=\"{}\"", with_query(&path, links.playlists));
}

pub(crate) fn with_query(path: &str, query: Option<&str>) -> String {
    match query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    }
}

/// Removes what a quoted-string must not contain (RFC 8216 4.2): line ends and double quotes.
pub(crate) fn quoted(text: &str) -> String {
    text.chars()
        .map(|c| if c == '"' { '\'' } else { c })
        .filter(|c| !c.is_control())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact_and_short() {
        assert_eq!(seconds(6 * SECOND), "6.0");
        assert_eq!(seconds(6_006_000_000), "6.006");
        assert_eq!(seconds(5_968_253_968), "5.968253968");
    }

    #[test]
    fn a_name_cannot_break_out_of_its_quotes() {
        assert_eq!(
            quoted("Director's \"cut\"\n#EXT-X-ENDLIST"),
            "Director's 'cut'#EXT-X-ENDLIST"
        );
    }
}
