//! The contents of a film, as JSON.

use std::path::Path;

use reelway_catalogue::{Protocols, SubtitleTrack, Summary};
use reelway_media::{Index, Kind, ticks_to_nanos};
use serde_json::{Value, json};

use super::figures::{
    BLOCK, Gops, Rates, RtpPackets, Spread, bitrate, date, layout, overhead, seconds,
};

fn spread(spread: Spread) -> Value {
    json!({"min": spread.min, "mean": spread.mean, "max": spread.max})
}

pub fn document(path: &Path, size: u64, index: &Index, with_samples: bool) -> Value {
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
                let gops = Gops::of(track, &index.tables[number]);
                document["width"] = picture.width.into();
                document["height"] = picture.height.into();
                document["pixel_aspect"] = json!([picture.pixel_aspect.0, picture.pixel_aspect.1]);
                document["gops"] = json!({
                    "count": gops.count,
                    "seconds": spread(gops.seconds),
                    "bytes": spread(gops.bytes),
                    "key_bytes": spread(gops.key_bytes),
                });
            }
            if let Some(packets) = RtpPackets::of(track) {
                document["packets"] = json!({
                    "payload": track.packets.payload,
                    "count": packets.count,
                    "bytes": packets.bytes,
                    "groups": spread(packets.groups),
                    "keys": spread(packets.keys),
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
    let chapters = title.chapters.iter();
    let chapters: Vec<Value> = chapters
        .map(|chapter| json!({"start": seconds(chapter.start), "name": chapter.name}))
        .collect();
    let subtitles: Vec<Value> = SubtitleTrack::all(&[], title)
        .into_iter()
        .map(|found| {
            let named = found.named;
            json!({
                "label": found.label, "language": named.language,
                "forced": named.forced, "default": named.default, "sdh": named.sdh,
            })
        })
        .collect();
    let rates = Rates::of(title, &index.tables);
    json!({
        "file": path.to_string_lossy(),
        "size": size,
        "layout": layout,
        "container": format!("{:?}", title.container),
        "title": title.name,
        "duration": seconds(title.duration),
        "recorded_at": title.recorded_at.map(date),
        "bitrate": Summary::of(title).bitrate(),
        "overhead": overhead(size, title),
        "rates": {"seconds": rates.step, "bits": rates.columns, "peak": rates.peak},
        "protocols": {"rtsp": protocols.rtsp, "hls": protocols.hls, "dash": protocols.dash},
        "chapters": chapters,
        "subtitles": subtitles,
        "notes": title.notes,
        "tracks": tracks,
    })
}
