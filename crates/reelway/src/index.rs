//! `reelway index`: what is in a film.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reelway_catalogue::{Protocols, Summary, index_path};
use reelway_media::{Index, Kind, Nanos, Title, Track, ticks_to_nanos};
use reelway_sys::extents::Layout;
use serde_json::{Value, json};

/// Flags of `reelway index`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Film files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON document instead of tables
    #[arg(long)]
    json: bool,
    /// With --json: include every sample with its position and times
    #[arg(long, requires = "json")]
    samples: bool,
}

/// Indexes each file and prints what was found; fails if any could not be indexed.
pub fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    let mut failed = false;
    let mut documents = Vec::new();
    for path in &flags.files {
        match index_path(path) {
            Ok((identity, index)) if flags.json => {
                documents.push(document(path, identity.size, &index, flags.samples));
            }
            Ok((identity, index)) => print_table(path, identity.size, &index.title),
            Err(error) => {
                failed = true;
                eprintln!("reelway: {error}");
                documents.push(json!({"file": path.to_string_lossy(), "error": error.reason()}));
            }
        }
    }
    if flags.json {
        println!("{}", serde_json::to_string_pretty(&documents)?);
    }
    Ok(if failed {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

/// Bytes that the server reads at once by default (`pool.block`).
const BLOCK: u64 = 256 << 10;

/// How a film lies on its disk, where the file system tells.
fn layout(path: &Path) -> Option<Layout> {
    let file = std::fs::File::open(path).ok()?;
    Layout::of(&file, BLOCK).ok()
}

/// What GOPs a picture track has: seconds and bytes from one sync group to the next.
struct Gops {
    seconds: Vec<f64>,
    bytes: Vec<u64>,
}

impl Gops {
    fn of(track: &Track) -> Gops {
        let mut gops = Gops {
            seconds: Vec::new(),
            bytes: Vec::new(),
        };
        let mut starts = Vec::new();
        for group in &track.groups {
            if group.sync || starts.is_empty() {
                starts.push(group.dts);
                gops.bytes.push(0);
            }
            if let Some(bytes) = gops.bytes.last_mut() {
                *bytes += u64::from(group.bytes);
            }
        }
        let first = track.groups.first().map_or(0, |group| group.dts);
        starts.push(first + track.duration as i64);
        gops.seconds = starts
            .windows(2)
            .map(|pair| seconds(ticks_to_nanos(pair[1] - pair[0], track.timescale)))
            .collect();
        gops
    }
}

fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

fn bitrate(track: &Track) -> u64 {
    let seconds = seconds(ticks_to_nanos(track.duration as i64, track.timescale));
    if seconds > 0.0 {
        (track.bytes as f64 * 8.0 / seconds) as u64
    } else {
        0
    }
}

fn spread(values: impl Iterator<Item = f64> + Clone) -> Value {
    let count = values.clone().count().max(1) as f64;
    json!({
        "min": values.clone().fold(f64::INFINITY, f64::min),
        "mean": values.clone().sum::<f64>() / count,
        "max": values.fold(0.0, f64::max),
    })
}

fn document(path: &Path, size: u64, index: &Index, with_samples: bool) -> Value {
    let title = &index.title;
    let protocols = Protocols::of(title);
    let tracks: Vec<Value> = title
        .tracks
        .iter()
        .enumerate()
        .map(|(number, track)| {
            let mut document = json!({
                "id": track.id,
                "kind": if track.kind == Kind::Video { "video" } else { "audio" },
                "codec": track.codec.rfc6381(),
                "name": track.codec.name(),
                "language": track.language,
                "timescale": track.timescale,
                "shift": track.shift,
                "samples": track.samples,
                "bytes": track.bytes,
                "bitrate": bitrate(track),
                "duration": seconds(ticks_to_nanos(track.duration as i64, track.timescale)),
                "groups": track.groups.len(),
            });
            if let Some(picture) = &track.picture {
                let gops = Gops::of(track);
                document["width"] = picture.width.into();
                document["height"] = picture.height.into();
                document["pixel_aspect"] = json!([picture.pixel_aspect.0, picture.pixel_aspect.1]);
                document["gops"] = json!({
                    "count": gops.bytes.len(),
                    "seconds": spread(gops.seconds.iter().copied()),
                    "bytes": spread(gops.bytes.iter().map(|bytes| *bytes as f64)),
                });
            }
            if let Some(sound) = &track.sound {
                document["rate"] = sound.rate.into();
                document["channels"] = sound.channels.into();
            }
            if with_samples {
                let mut dts = track.groups.first().map_or(0, |group| group.dts);
                let samples = index.tables[number].iter().map(|sample| {
                    let pts = dts + i64::from(sample.cts);
                    let row = json!([sample.offset, sample.size, dts, pts, sample.sync]);
                    dts += i64::from(sample.duration);
                    row
                });
                document["sample_columns"] = json!(["offset", "size", "dts", "pts", "sync"]);
                document["sample_rows"] = Value::Array(samples.collect());
            }
            document
        })
        .collect();
    let layout = layout(path).map(|layout| {
        json!({"pieces": layout.pieces, "block": BLOCK, "blocks": layout.blocks, "split": layout.split})
    });
    json!({
        "file": path.to_string_lossy(),
        "size": size,
        "layout": layout,
        "container": format!("{:?}", title.container),
        "title": title.name,
        "duration": seconds(title.duration),
        "bitrate": Summary::of(title).bitrate(),
        "protocols": {"rtsp": protocols.rtsp, "hls": protocols.hls, "dash": protocols.dash},
        "notes": title.notes,
        "tracks": tracks,
    })
}

fn print_table(path: &Path, size: u64, title: &Title) {
    let summary = Summary::of(title);
    println!("{}", path.display());
    if let Some(name) = &title.name {
        println!("  title     {name}");
    }
    println!(
        "  film      {}, {}, {}, {}",
        clock(title.duration),
        bytesize::ByteSize(size).display().iec(),
        rate(summary.bitrate()),
        match title.container {
            reelway_media::Container::Mp4 => "MP4",
            reelway_media::Container::FragmentedMp4 => "fragmented MP4",
            reelway_media::Container::Matroska => "Matroska",
            reelway_media::Container::TransportStream => "MPEG transport stream",
            reelway_media::Container::ProgramStream => "MPEG program stream",
        }
    );
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
    for track in &title.tracks {
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
            (_, Some(sound)) => format!(", {} channels, {} Hz", sound.channels, sound.rate),
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
            let gops = Gops::of(track);
            let longest = gops.seconds.iter().copied().fold(0.0, f64::max);
            let shortest = gops.seconds.iter().copied().fold(f64::INFINITY, f64::min);
            let largest = gops.bytes.iter().copied().max().unwrap_or(0);
            println!(
                "            {} GOPs of {shortest:.2} to {longest:.2} s, the largest {}",
                gops.bytes.len(),
                bytesize::ByteSize(largest).display().iec()
            );
            if longest > 10.0 {
                println!(
                    "            seeking is coarse: a player can start at a sync sample only, and these lie up to {longest:.0} s apart"
                );
            }
        }
    }
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
