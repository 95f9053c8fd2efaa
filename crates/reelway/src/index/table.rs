//! The contents of a film, for users: the figures of the VODCA paper's table of films, and the bit
//! rate over time.

use std::path::Path;

use reelway_catalogue::{SubtitleTrack, Summary};
use reelway_media::{Index, Kind, Nanos, SampleTable, Track};

use super::figures::{
    BLOCK, Gops, Rates, RtpPackets, Spread, bitrate, date, layout, overhead, seconds,
};

/// Prints a summary for users.
pub fn print(path: &Path, size: u64, index: &Index) {
    let title = &index.title;
    let summary = Summary::of(title);
    println!("{}", path.display());
    if let Some(name) = &title.name {
        println!("  title     {name}");
    }
    println!(
        "  film      {}, {}, {}, {}",
        clock(title.duration),
        bytes(size as f64),
        rate(summary.bitrate()),
        match title.container {
            reelway_media::Container::Mp4 => "MP4",
            reelway_media::Container::FragmentedMp4 => "fragmented MP4",
            reelway_media::Container::Matroska => "Matroska",
            reelway_media::Container::TransportStream => "MPEG transport stream",
            reelway_media::Container::ProgramStream => "MPEG program stream",
            reelway_media::Container::ElementaryStream => "elementary stream",
        }
    );
    if let Some(recorded_at) = title.recorded_at {
        println!("  recorded  {}", date(recorded_at));
    }
    if let Some(layout) = layout(path) {
        println!(
            "  on disk   {} {}; {} of {} blocks of {} KiB lie in several{}",
            layout.pieces,
            if layout.pieces == 1 {
                "piece"
            } else {
                "pieces"
            },
            layout.split,
            layout.blocks,
            BLOCK >> 10,
            match layout.is_fragmented() {
                true => ": a new copy (cp, then mv) may lie better",
                false => "",
            }
        );
    }
    for (track, table) in title.tracks.iter().zip(&index.tables) {
        let kind = if track.kind == Kind::Video {
            "picture"
        } else {
            "sound"
        };
        let language = track
            .language
            .as_deref()
            .map(|language| format!(", {language}"))
            .unwrap_or_default();
        let shape = match (&track.picture, &track.sound) {
            (Some(picture), _) => format!(", {}×{}", picture.width, picture.height),
            (_, Some(sound)) => {
                let plural = if sound.channels == 1 { "" } else { "s" };
                format!(", {} channel{plural}, {} Hz", sound.channels, sound.rate)
            }
            _ => String::new(),
        };
        println!(
            "  track {:<3} {kind}: {} ({}){shape}{language}, {} samples, {}",
            track.id,
            track.codec.name(),
            track.codec.rfc6381(),
            track.samples,
            rate(bitrate(track)),
        );
        if track.kind == Kind::Video {
            print_gops(track, table);
        }
        if let Some(packets) = RtpPackets::of(track) {
            print_packets(track.kind, &packets);
        }
    }
    for subtitles in SubtitleTrack::all(&[], title) {
        println!("  subtitles {}", subtitles.label);
    }
    for chapter in &title.chapters {
        let name = chapter.name.as_deref().unwrap_or("without a name");
        println!("  chapter   {} {name}", clock(chapter.start));
    }
    print_rates(&Rates::of(title, &index.tables));
    println!(
        "  beside    {} of the file are no media ({:.1} %)",
        bytes(overhead(size, title) as f64),
        100.0 * overhead(size, title) as f64 / size.max(1) as f64
    );
    let protocols = &summary.protocols;
    for (name, reason) in [
        ("RTSP", &protocols.rtsp),
        ("HLS", &protocols.hls),
        ("DASH", &protocols.dash),
    ] {
        if let Some(reason) = reason {
            println!("  not over {name}: {reason}");
        }
    }
    for note in &title.notes {
        println!("  note      {note}");
    }
}

fn print_gops(track: &Track, table: &SampleTable) {
    let gops = Gops::of(track, table);
    let spread = |what: &str, values: Spread| {
        println!(
            "            {what}: {} on average, {} at most, {} at least",
            bytes(values.mean),
            bytes(values.max),
            bytes(values.min)
        );
    };
    let whole = seconds(reelway_media::ticks_to_nanos(
        track.duration as i64,
        track.timescale,
    ));
    let frame = whole / f64::from(track.samples.max(1));
    println!(
        "            {:.2} ms a picture; {} GOPs of {:.2} to {:.2} s",
        frame * 1e3,
        gops.count,
        gops.seconds.min,
        gops.seconds.max
    );
    spread("GOPs", gops.bytes);
    spread("pictures that begin them", gops.key_bytes);
    if gops.seconds.max > 10.0 {
        println!(
            "            seeking is coarse: a player can start at a sync sample only, and these lie up to {:.0} s apart",
            gops.seconds.max
        );
    }
}

fn print_packets(kind: Kind, packets: &RtpPackets) {
    println!(
        "            {} RTP packets, of {:.0} bytes on average",
        packets.count,
        packets.bytes as f64 / packets.count.max(1) as f64
    );
    let spread = |what: &str, values: Spread| {
        println!(
            "            packets of {what}: {:.1} on average, {} at most, {} at least",
            values.mean, values.max, values.min
        );
    };
    if kind == Kind::Video {
        spread("GOPs", packets.groups);
        spread("pictures that begin them", packets.keys);
    }
}

fn print_rates(rates: &Rates) {
    println!("  bit rate  {}", rates.line());
    println!(
        "            a column is {} s; at most {} in a second",
        rates.step,
        rate(rates.peak as u64)
    );
}

fn bytes(bytes: f64) -> String {
    bytesize::ByteSize(bytes as u64).display().iec().to_string()
}

fn clock(nanos: Nanos) -> String {
    let tenths = nanos / 100_000_000;
    let (hours, minutes, seconds) = (tenths / 36_000, tenths / 600 % 60, tenths / 10 % 60);
    format!("{hours}:{minutes:02}:{seconds:02}.{}", tenths % 10)
}

fn rate(bits: u64) -> String {
    match bits {
        0..1_000_000 => format!("{:.0} kb/s", bits as f64 / 1e3),
        _ => format!("{:.2} Mb/s", bits as f64 / 1e6),
    }
}
